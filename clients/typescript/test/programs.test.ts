/** The programs of the documentation and of `examples`, as they are. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, readdir, symlink } from "node:fs/promises";
import { basename, delimiter, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { FakeServer } from "./fake-sessions.js";
import { hasServe, ServerPlace } from "./server-support.js";
import { MS, Place, tillerBin } from "./support.js";

const BUILD = fileURLToPath(new URL("../../../", import.meta.url));
const PROGRAMS = join(BUILD, "clients/typescript/build/programs");
const BOT = join(BUILD, "examples/bot.js");

/** Runs a compiled program with `tiller` in `PATH`. Returns what it printed. */
async function run(program: string, input = ""): Promise<string> {
  await using place = await Place.make();
  return await runIn(place, program, input);
}

async function runIn(place: Place, program: string, input = ""): Promise<string> {
  const bin = join(place.folder, "bin");
  await mkdir(bin);
  await symlink(tillerBin(), join(bin, "tiller"));
  const env = { ...place.env, PATH: [bin, place.env["PATH"]].join(delimiter) };
  const child = spawn(process.execPath, [program], { cwd: place.work, env, timeout: MS });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
  child.stdin.end(input);
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, `${basename(program)}: ${output.stdout}${output.stderr}`);
  return output.stdout;
}

const all = (await readdir(PROGRAMS)).filter((name) => name.endsWith(".js")).sort();
const programs = all.filter((name) => !name.includes("-server-"));
const serverPrograms = all.filter((name) => name.includes("-server-"));

test("the pages have programs", () => {
  const pages = programs.map((name) => name.replace(/-\d+\.js$/, ""));
  assert.deepEqual([...new Set(pages)], ["readme", "typescript"]);
  assert.equal(pages.filter((page) => page === "readme").length, 3);
  assert(pages.length >= 10);
  assert.equal(serverPrograms.length, 4);
});

for (const name of programs) {
  test(`${name} runs`, async () => {
    assert.notEqual((await run(join(PROGRAMS, name))).trim(), "");
  });
}

for (const name of serverPrograms) {
  test(`${name} runs with the fake server`, async () => {
    await using place = await Place.make();
    const agent = join(place.folder, ".pi", "agent");
    await mkdir(agent, { recursive: true });
    await using _server = await FakeServer.start(agent, "say One.\n\nsay Two.\n");
    assert.notEqual((await runIn(place, join(PROGRAMS, name))).trim(), "");
  });

  const skip = hasServe ? false : "this tiller has no `serve`";
  test(`${name} runs with tiller serve`, { skip }, async () => {
    await using server = await ServerPlace.make("real", "unix");
    assert.notEqual((await runIn(server.place, join(PROGRAMS, name))).trim(), "");
  });
}

test("the bot answers, calls its tools and keeps to its limits", async () => {
  const output = await run(BOT, `hello\ncall tide {"harbour": "Kiel"}\n\nbye\n`);
  assert.match(output, /demo model/);
  assert.match(output, /\[tide \{"harbour":"Kiel"\}\]/);
  assert.match(output, /06:12/);
  assert.match(output, /\$0\.00/);
});
