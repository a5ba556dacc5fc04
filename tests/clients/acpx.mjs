// Drives `tiller acp` with acpx, a command line client of the Agent Client Protocol, unmodified.
//
//     node acpx.mjs TILLER PACKAGES
//
// PACKAGES is the folder in which npm has installed acpx.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [tiller, packages] = process.argv.slice(2);
const home = realpathSync(mkdtempSync(join(tmpdir(), "tiller-acpx-")));
const cwd = join(home, "project");
mkdirSync(cwd);
writeFileSync(join(cwd, "notes.md"), "hello\n");
const gate = join(import.meta.dirname, "gate.ts");
const agent = `${tiller} acp --model tiller/demo --extension ${gate}`;

function acpx(...words) {
    const cli = join(packages, "node_modules/acpx/dist/cli.js");
    const all = [cli, "--agent", agent, "--cwd", cwd, "--ttl", "2", ...words];
    const env = { PATH: process.env.PATH, HOME: home };
    return spawnSync(process.execPath, all, { cwd, env, encoding: "utf8", timeout: 60_000 });
}

/// The messages of a run with `--format json`.
function messages(result) {
    return result.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

try {
    // initialize, new, and a prompt with a tool.
    const exec = acpx("--format", "json", "--approve-all", "exec", "What is in this folder?");
    assert.equal(exec.status, 0, exec.stderr);
    const kinds = messages(exec).map((one) => one.params?.update?.sessionUpdate);
    assert.ok(kinds.includes("tool_call") && kinds.includes("tool_call_update"), exec.stdout);
    assert.equal(messages(exec).find((one) => one.result?.stopReason).result.stopReason, "end_turn");

    // Permissions.
    const allowed = acpx("--format", "text", "--approve-all", "exec", "Run `echo gate`");
    assert.equal(allowed.status, 0, allowed.stderr);
    assert.match(allowed.stdout, /`echo gate` \(completed\)/);
    const denied = acpx("--format", "text", "--deny-all", "exec", "Run `echo gate`");
    assert.match(denied.stdout, /The user has denied this command/);

    // A limit of time cancels the prompt in its tool.
    const slow = acpx("--format", "text", "--approve-all", "--timeout", "1", "exec", "Run `sleep 300`");
    assert.match(slow.stdout, /\[done\] cancelled/, slow.stderr);

    // A session that is kept: two prompts, an option, a second session, the list, the end.
    assert.equal(acpx("sessions", "new").status, 0);
    assert.match(acpx("--format", "quiet", "prompt", "What is 2 + 3?").stdout, /5/);
    assert.equal(acpx("set", "thinking_level", "low").status, 0);
    assert.equal(acpx("sessions", "new", "--name", "other").status, 0);
    assert.match(acpx("--format", "quiet", "prompt", "-s", "other", "What is 20 + 30?").stdout, /50/);
    assert.match(acpx("--format", "quiet", "prompt", "What is 3 + 4?").stdout, /7/);
    const listed = acpx("sessions", "list");
    assert.equal(listed.status, 0, listed.stderr);
    assert.match(listed.stdout, /What is 2 \+ 3\?/);
    assert.match(listed.stdout, /What is 20 \+ 30\?/);
    assert.equal(acpx("sessions", "close").status, 0);
    assert.equal(acpx("sessions", "close", "other").status, 0);
} finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}
