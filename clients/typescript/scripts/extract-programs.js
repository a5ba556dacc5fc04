/**
 * Writes the TypeScript programs of Markdown pages to a folder, so that they can be checked and run.
 *
 *     node extract-programs.js FOLDER PAGE…
 *
 * The first program of `README.md` becomes `readme-1.ts`, and so on. A program that begins with
 * "ts server" needs a server of sessions, and becomes `readme-server-1.ts`.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const [folder, ...pages] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: extract-programs.js FOLDER PAGE…");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const page of pages) {
  const text = readFileSync(page, "utf8");
  for (const [fence, kind] of [
    ["```ts\n", ""],
    ["```ts server\n", "server-"],
  ]) {
    for (const [index, program] of text.split(fence).slice(1).entries()) {
      const name = `${basename(page, ".md").toLowerCase()}-${kind}${index + 1}.ts`;
      const end = program.indexOf("```");
      writeFileSync(join(folder, name), program.slice(0, end));
    }
  }
}
