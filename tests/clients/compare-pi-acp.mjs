// The same conversation with `tiller acp`, and with pi-acp, the adapter, which starts tiller as its
// `pi`. tiller must show at least what the adapter shows.
//
//     node compare-pi-acp.mjs TILLER PACKAGES
//
// PACKAGES is the folder in which npm has installed pi-acp. The last line is a report: the kinds of
// updates and the contents of tool calls on each side.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [tiller, packages] = process.argv.slice(2);

/// Thinking levels are modes in the adapter. tiller has an option for them, because version 2 of the
/// protocol has no modes.
const REPLACED = new Set(["current_mode_update"]);

/// What the adapter adds to tool calls and tiller leaves out: fields of its own, a terminal although the
/// client has offered none, and the state that a call has by default.
const LEFT_OUT = new Set(["_meta", "content terminal", "status pending"]);

class Agent {
    #child;
    #last = 0;
    #waiting = new Map();
    updates = [];

    constructor(command, words, env, cwd) {
        this.#child = spawn(command, words, { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
        createInterface({ input: this.#child.stdout }).on("line", (line) => this.#line(line));
    }

    #line(line) {
        const message = JSON.parse(line);
        if (message.method === "session/update") {
            this.updates.push(message.params.update);
        } else if (this.#waiting.has(message.id)) {
            const { resolve, reject } = this.#waiting.get(message.id);
            this.#waiting.delete(message.id);
            if (message.error) reject(new Error(message.error.message));
            else resolve(message.result);
        }
    }

    request(method, params) {
        const id = ++this.#last;
        const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
        this.#child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
        return answer;
    }

    async end() {
        const ended = new Promise((resolve) => this.#child.on("exit", resolve));
        this.#child.stdin.end();
        const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5000);
        await ended;
        clearTimeout(timer);
    }
}

async function converse(agent, cwd) {
    await agent.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
    for (const words of [
        "What is in this folder?",
        "Create a file hello.txt with the text hi",
        "Replace hi with hello in hello.txt",
        "Read notes.md",
    ]) {
        const prompt = [{ type: "text", text: words }];
        const { stopReason } = await agent.request("session/prompt", { sessionId, prompt });
        assert.equal(stopReason, "end_turn");
    }
    await agent.request("session/load", { sessionId, cwd, mcpServers: [] });
    // Some updates follow an answer.
    await new Promise((resolve) => setTimeout(resolve, 300));
    await agent.end();
}

function kinds(updates) {
    return new Set(updates.map((update) => update.sessionUpdate).filter((kind) => !REPLACED.has(kind)));
}

/// What tool calls carry: fields, kinds, states and types of content.
function callContents(updates) {
    const found = new Set();
    for (const update of updates.filter((one) => one.sessionUpdate.startsWith("tool_call"))) {
        for (const [name, value] of Object.entries(update)) {
            if (!["sessionUpdate", "toolCallId"].includes(name) && value != null) found.add(name);
        }
        for (const content of update.content ?? []) found.add(`content ${content.type}`);
        if (update.status) found.add(`status ${update.status}`);
    }
    return found;
}

const missing = (ours, theirs) => [...theirs].filter((one) => !ours.has(one) && !LEFT_OUT.has(one));

const home = realpathSync(mkdtempSync(join(tmpdir(), "tiller-compare-")));
try {
    const pi = join(home, "pi");
    writeFileSync(pi, `#!/bin/sh\nexec '${tiller}' "$@" --model tiller/demo\n`);
    chmodSync(pi, 0o755);
    const sides = {};
    for (const [name, command, words] of [
        ["tiller", tiller, ["acp", "--model", "tiller/demo"]],
        ["pi-acp", process.execPath, [join(packages, "node_modules/pi-acp/dist/index.js")]],
    ]) {
        const own = join(home, name);
        const cwd = join(own, "project");
        mkdirSync(cwd, { recursive: true });
        writeFileSync(join(cwd, "notes.md"), "hello\n");
        const env = { PATH: process.env.PATH, HOME: own, PI_ACP_PI_COMMAND: pi };
        const agent = new Agent(command, words, env, cwd);
        await converse(agent, cwd);
        sides[name] = { kinds: kinds(agent.updates), calls: callContents(agent.updates) };
    }
    const [ours, theirs] = [sides.tiller, sides["pi-acp"]];
    const report = (side) => ({ kinds: [...side.kinds].sort(), calls: [...side.calls].sort() });
    console.log(JSON.stringify({ tiller: report(ours), "pi-acp": report(theirs) }));
    assert.ok(theirs.kinds.size > 3, "the adapter shows nothing");
    assert.deepEqual(missing(ours.kinds, theirs.kinds), [], "kinds of updates");
    assert.deepEqual(missing(ours.calls, theirs.calls), [], "contents of tool calls");
} finally {
    rmSync(home, { recursive: true, force: true });
}
