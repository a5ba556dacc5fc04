// `stream/consumers`: read a whole stream.

import { Buffer } from "node:buffer";

export async function buffer(stream) {
	const parts = [];
	for await (const part of stream) parts.push(Buffer.from(part));
	return Buffer.concat(parts);
}
export const text = async (stream) => (await buffer(stream)).toString();
export const json = async (stream) => JSON.parse(await text(stream));
export const arrayBuffer = async (stream) => Uint8Array.from(await buffer(stream)).buffer;
export const blob = async (stream) => new Blob([await buffer(stream)]);
