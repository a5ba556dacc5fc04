/** Sessions, models and the rest of the commands. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { Client, CommandRefused } from "tiller-client";

import { Place, WAIT } from "./support.js";

/** Commands that a method of another name sends. */
const ELSEWHERE = ["hello", "set_host_tools", "host_tool_update", "host_tool_result"];

test("every command has a method", async () => {
  await using place = await Place.make();
  const { commands } = (await place.client("say hi\n")).server;
  const methodOf = (name: string): string =>
    name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  const missing = commands.filter(
    (name) => !ELSEWHERE.includes(name) && !(methodOf(name) in Client.prototype),
  );
  assert.deepEqual(missing, []);
});

test("a session is stored, listed and opened again", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say Hello.\n");
  await tiller.setSessionName("harbour");
  (await tiller.prompt("Hi").result(WAIT)).check();
  const { sessionFile } = await tiller.getState();
  assert(sessionFile);
  await tiller.close();

  const again = await place.client("say Again.\n");
  const { sessions } = await again.listSessions();
  assert.deepEqual(
    sessions.map(({ name }) => name),
    ["harbour"],
  );
  assert.equal((await again.switchSession(sessionFile)).cancelled, false);
  const { messages } = await again.getMessages();
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant"],
  );
  assert.equal(await again.getLastAssistantText(), "Hello.");
  const stats = await again.getSessionStats();
  assert.deepEqual([stats.userMessages, stats.assistantMessages], [1, 1]);
});

test("a session is forked and cloned", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say One.\n\nsay Two.\n");
  (await tiller.prompt("First").result(WAIT)).check();
  (await tiller.prompt("Second").result(WAIT)).check();
  const points = (await tiller.getForkMessages()).messages;
  assert.deepEqual(
    points.map(({ text }) => text),
    ["First", "Second"],
  );
  assert.equal((await tiller.clone()).cancelled, false);
  assert.equal((await tiller.fork(points[1]?.entryId ?? "")).text, "Second");
  assert.equal((await tiller.getMessages()).messages.length, 2);
  await assert.rejects(tiller.fork("nowhere"), /fork: Invalid entry ID for forking/);
});

test("entries form a tree", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say One.\n");
  (await tiller.prompt("First").result(WAIT)).check();
  const { entries, leafId } = await tiller.getEntries();
  assert(leafId);
  await tiller.setLabel(leafId, "here");
  assert.equal((await tiller.navigateTree(leafId)).cancelled, false);
  assert.equal((await tiller.getTree()).tree.length, 1);
  assert(entries.length >= 2);
  const outputPath = join(place.folder, "page.html");
  assert.equal((await tiller.exportHtml({ outputPath })).path, outputPath);
});

test("a new session aborts the run", async () => {
  await using place = await Place.make();
  const tiller = await place.client("hang\n");
  const turn = tiller.prompt("Go");
  assert.equal((await tiller.newSession()).cancelled, false);
  const { status, reason } = await turn.result(WAIT);
  assert.deepEqual([status, reason], ["aborted", "sessionChanged"]);
  assert.equal((await tiller.getState()).messageCount, 0);
});

test("models and modes are changed", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  assert.equal((await tiller.setModel("tiller", "demo")).id, "demo");
  assert((await tiller.getAvailableThinkingLevels()).levels.includes("low"));
  await tiller.setThinkingLevel("low");
  await tiller.setSteeringMode("all");
  await tiller.setFollowUpMode("all");
  await tiller.setInterruptMode("immediate");
  await tiller.setAutoRetry(false);
  await tiller.setAutoCompaction(false);
  const state = await tiller.getState();
  assert.deepEqual([state.thinkingLevel, state.steeringMode], ["low", "all"]);
  assert.equal(state.autoCompactionEnabled, false);
  assert.notEqual(await tiller.cycleThinkingLevel(), null);
});

test("tiller says what it is", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  assert.equal(tiller.server.server, "tiller");
  assert.equal((await tiller.getCapabilities()).wire, "pi-delta");
  assert.deepEqual((await tiller.getDiagnostics()).diagnostics, []);
  assert.equal((await tiller.reload()).skills, 0);
});

test("a shell command runs", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  const { output, exitCode } = await tiller.bash("echo out; exit 3");
  assert.deepEqual([output, exitCode], ["out\n", 3]);
});

test("any command can be requested", async () => {
  await using place = await Place.make();
  const tiller = await place.client("say hi\n");
  assert.equal((await tiller.request({ type: "get_state" })).messageCount, 0);
  const unknown = tiller.request({ type: "frob" });
  await assert.rejects(unknown, CommandRefused);
  await assert.rejects(unknown, /frob: Unknown command: frob/);
});
