// Drives `tiller acp` with the TypeScript SDK of the Agent Client Protocol, unmodified.
//
//     node typescript-sdk.mjs TILLER PACKAGES
//
// PACKAGES is the folder in which npm has installed @agentclientprotocol/sdk.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [tiller, packages] = process.argv.slice(2);
const require = createRequire(join(packages, "package.json"));
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(
    pathToFileURL(require.resolve("@agentclientprotocol/sdk"))
);

const home = realpathSync(mkdtempSync(join(tmpdir(), "tiller-acp-")));
writeFileSync(join(home, "notes.md"), "hello\n");
const gate = join(import.meta.dirname, "gate.ts");
const child = spawn(tiller, ["acp", "--model", "tiller/demo", "--extension", gate], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home },
    stdio: ["pipe", "pipe", "inherit"],
});
const ended = new Promise((resolve) => child.on("exit", resolve));

// What the user answers: the kind of an option, or `cancelled`.
let decision = "allow_once";
const permissions = [];
const updates = [];

const app = client({ name: "tiller-test" })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
        permissions.push(params);
        const option = params.options.find((one) => one.kind === decision);
        if (!option) return { outcome: { outcome: "cancelled" } };
        return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => {
        updates.push(params);
    });

const of = (sessionId, kind) =>
    updates
        .filter((one) => one.sessionId === sessionId)
        .map((one) => one.update)
        .filter((update) => update.sessionUpdate === kind);
const text = (sessionId) =>
    of(sessionId, "agent_message_chunk").map((update) => update.content.text).join("");

async function until(what) {
    while (!what()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await app.connectWith(stream, async (agent) => {
    const { session } = methods.agent;
    const prompt = (sessionId, words) =>
        agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });

    const initialized = await agent.request(methods.agent.initialize, {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: { session: { compaction: {}, notices: {} } },
        clientInfo: { name: "tiller-test", version: "1" },
    });
    assert.equal(initialized.protocolVersion, 1);
    assert.equal(initialized.agentInfo.name, "tiller");
    assert.equal(initialized.agentCapabilities.loadSession, true);
    await agent.request(methods.agent.authenticate, { methodId: initialized.authMethods[0].id });

    // A prompt with a tool.
    const { sessionId, configOptions } = await agent.request(session.new, {
        cwd: home,
        mcpServers: [],
    });
    assert.deepEqual(configOptions.map((option) => option.id), ["model", "thinking_level", "approvals"]);
    const first = await prompt(sessionId, "What is in this folder?");
    assert.equal(first.stopReason, "end_turn");
    assert.match(text(sessionId), /notes\.md/);
    const [call] = of(sessionId, "tool_call");
    assert.equal(call.kind, "execute");
    const ends = of(sessionId, "tool_call_update").filter((one) => one.toolCallId === call.toolCallId);
    assert.equal(ends.at(-1).status, "completed");

    // Cancelled in a tool.
    const slept = prompt(sessionId, "Run `sleep 300`");
    await until(() => of(sessionId, "tool_call").length === 2);
    await agent.notify(session.cancel, { sessionId });
    assert.equal((await slept).stopReason, "cancelled");

    // Permissions: allowed, denied, closed.
    for (const [answer, status] of [
        ["allow_once", "completed"],
        ["reject_once", "failed"],
        ["cancelled", "failed"],
    ]) {
        decision = answer;
        const asked = permissions.length;
        assert.equal((await prompt(sessionId, "Run `echo gate`")).stopReason, "end_turn");
        assert.equal(permissions.length, asked + 1);
        const { toolCallId } = permissions.at(-1).toolCall;
        const end = of(sessionId, "tool_call_update").findLast((one) => one.toolCallId === toolCallId);
        assert.equal(end.status, status, answer);
    }

    // An option.
    const set = await agent.request(session.setConfigOption, {
        sessionId,
        configId: "thinking_level",
        value: "off",
    });
    assert.equal(set.configOptions.find((one) => one.id === "thinking_level").currentValue, "off");

    // Two sessions.
    const other = await agent.request(session.new, { cwd: home, mcpServers: [] });
    const both = await Promise.all([
        prompt(sessionId, "What is 2 + 3?"),
        prompt(other.sessionId, "What is 20 + 30?"),
    ]);
    assert.deepEqual(both.map((one) => one.stopReason), ["end_turn", "end_turn"]);
    assert.match(text(other.sessionId), /50/);

    // Listed, closed, loaded with its conversation, resumed without.
    const { sessions } = await agent.request(session.list, { cwd: home });
    assert.deepEqual(
        sessions.map((one) => one.sessionId).sort(),
        [sessionId, other.sessionId].sort(),
    );
    await agent.request(session.close, { sessionId: other.sessionId });
    updates.length = 0;
    await agent.request(session.load, { sessionId: other.sessionId, cwd: home, mcpServers: [] });
    assert.equal(of(other.sessionId, "user_message_chunk")[0].content.text, "What is 20 + 30?");
    assert.match(text(other.sessionId), /50/);
    await agent.request(session.close, { sessionId: other.sessionId });
    updates.length = 0;
    await agent.request(session.resume, { sessionId: other.sessionId, cwd: home });
    assert.equal(of(other.sessionId, "user_message_chunk").length, 0);
    await assert.rejects(agent.request(session.load, { sessionId: "none", cwd: home, mcpServers: [] }));
});
child.stdin.end();
await ended;
rmSync(home, { recursive: true });
