/** Images for prompts and tool results. */

import { readFile } from "node:fs/promises";
import { extname } from "node:path";

import type { Image } from "./generated.js";

const TYPES: Readonly<Record<string, string>> = {
  ".gif": "image/gif",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".png": "image/png",
  ".webp": "image/webp",
};

/** An image from its bytes. */
export function image(bytes: Uint8Array, mimeType: string): Image {
  return { type: "image", data: Buffer.from(bytes).toString("base64"), mimeType };
}

/** An image from a file. Its type follows from its name. */
export async function imageFromFile(path: string): Promise<Image> {
  const mimeType = TYPES[extname(path).toLowerCase()];
  if (mimeType === undefined) throw new TypeError(`${path} does not have the name of an image`);
  return image(await readFile(path), mimeType);
}
