/**
 * Writes the TypeScript programs of Markdown pages to a folder, so that they can be checked and run.
 *
 *     node extract-programs.js FOLDER PAGE…
 *
 * The first program of `README.md` becomes `readme-1.ts`, and so on.
 */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const [folder, ...pages] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: extract-programs.js FOLDER PAGE…");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const page of pages) {
  const programs = readFileSync(page, "utf8").split("```ts\n").slice(1);
  for (const [index, program] of programs.entries()) {
    const name = `${basename(page, ".md").toLowerCase()}-${index + 1}.ts`;
    const end = program.indexOf("```");
    writeFileSync(join(folder, name), program.slice(0, end));
  }
}
