/** The parts that need no server, by tables. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, Timeout, type Transport, type TransportHandlers } from "tiller-client";

import { refusal } from "#dist/connection.js";
import { answerLine } from "#dist/dialogs.js";
import { toOutput } from "#dist/host-tools.js";
import { LineSplitter } from "#dist/line-splitter.js";
import { PAUSE_ABOVE, RESUME_AT, shouldPause } from "#dist/read-gate.js";
import { all } from "./support.js";

test("lines end at LF only, however the bytes are divided", () => {
  const bytes = Buffer.from('{"a":"\u2028é😀"}\n\r\n \n{"b":1}\r\n{"c":2}');
  for (let size = 1; size <= bytes.length; size += 1) {
    const lines: string[] = [];
    const splitter = new LineSplitter((line) => lines.push(line));
    for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size));
    splitter.end();
    assert.deepEqual(lines, ['{"a":"\u2028é😀"}', '{"b":1}\r', '{"c":2}']);
  }
});

test("reading stops for a long queue unless something waits", () => {
  const table: readonly (readonly [boolean, boolean, number, boolean])[] = [
    [false, false, 0, false],
    [false, false, PAUSE_ABOVE, false],
    [false, false, PAUSE_ABOVE + 1, true],
    [false, true, PAUSE_ABOVE + 1, false],
    [true, false, PAUSE_ABOVE, true],
    [true, false, RESUME_AT + 1, true],
    [true, false, RESUME_AT, false],
    [true, true, PAUSE_ABOVE + 1, false],
  ];
  for (const [isPaused, isAwaited, longest, expected] of table) {
    const what = `${isPaused} ${isAwaited} ${longest}`;
    assert.equal(shouldPause(isPaused, isAwaited, longest), expected, what);
  }
});

test("return values become results", () => {
  const text = (text: string) => ({
    output: { content: [{ type: "text", text }] },
    isError: false,
  });
  const block = { type: "image", data: "cG5n", mimeType: "image/png" };
  assert.deepEqual(toOutput("words"), text("words"));
  assert.deepEqual(toOutput(undefined), text("done"));
  assert.deepEqual(toOutput(3), text("3"));
  assert.deepEqual(toOutput({ a: [1, "ü"] }), text('{"a":[1,"ü"]}'));
  assert.deepEqual(toOutput({ content: [block], details: { n: 1 }, isError: true }), {
    output: { content: [block], details: { n: 1 } },
    isError: true,
  });
  assert.throws(() => toOutput(() => {}), /The tool returned a function/);
});

test("answers fit their dialogs", () => {
  const line = { type: "extension_ui_response", id: "d" };
  const table = [
    ["confirm", false, { confirmed: false }],
    ["confirm", "yes", { cancelled: true }],
    ["select", "red", { value: "red" }],
    ["input", "", { value: "" }],
    ["editor", true, { cancelled: true }],
    ["input", undefined, { cancelled: true }],
  ] as const;
  for (const [method, answer, expected] of table) {
    assert.deepEqual(answerLine({ id: "d", method }, answer), { ...line, ...expected });
  }
});

/** A server in memory, which counts pauses. */
class MemoryTransport implements Transport {
  isPaused = false;
  #handlers: TransportHandlers | undefined;

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
  }

  async send(line: string): Promise<void> {
    const { id, type } = JSON.parse(line) as { id: string; type: string };
    const data = { server: "memory", version: "1", promptResults: true, sequence: { epoch: "e" } };
    this.write({ id, type: "response", command: type, success: true, data });
  }

  write(record: object): void {
    queueMicrotask(() => this.#handlers?.onLine(JSON.stringify(record)));
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  async close(): Promise<void> {}
}

test("a wait that times out loses no event", async () => {
  const transport = new MemoryTransport();
  const client = await Client.connect(transport);
  const stream = client.events({ timeoutMs: 1 });
  await assert.rejects(stream.next(), Timeout);
  transport.write({ type: "turn_start", seq: 1 });
  transport.write({ type: "agent_start", seq: 2 });
  await new Promise(setImmediate);
  assert.equal((await stream.next()).value?.type, "turn_start");
  assert.equal((await stream.next()).value?.type, "agent_start");
  await client.close();
});

test("a consumer that is far behind stops the reading", async () => {
  const transport = new MemoryTransport();
  const client = await Client.connect(transport);
  const stream = client.events();
  const count = PAUSE_ABOVE + 10;
  const writeAll = (): void => {
    for (let seq = 1; seq <= count; seq += 1) transport.write({ type: "turn_start", seq });
  };

  writeAll();
  await new Promise(setImmediate);
  assert.equal(transport.isPaused, false, "a stream that is not read does not stop the reading");

  await stream.next();
  assert.equal(transport.isPaused, true);
  const state = client.getState();
  assert.equal(transport.isPaused, false, "a response is awaited");
  await state;
  assert.equal(transport.isPaused, true);
  for (let taken = 1; taken < count - RESUME_AT; taken += 1) await stream.next();
  assert.equal(transport.isPaused, false);

  writeAll();
  await new Promise(setImmediate);
  assert.equal(transport.isPaused, true);
  await stream.return();
  assert.equal(transport.isPaused, false, "the consumer has left");
  await client.close();
  assert.deepEqual(await all(client.events()), []);
});

test("a session that another process has names that process", () => {
  const owner = { program: "tiller 0.1.0", pid: 7, host: "quay", started: "2026-11-19T02:00:00Z" };
  const record = { code: "session_in_use", data: { owner } };
  const error = refusal("open_session", "in use", record);
  assert.deepEqual([error.code, error.handle, error.owner], ["session_in_use", undefined, owner]);
  const plain = refusal("prompt", "no model", {});
  assert.deepEqual([plain.code, plain.handle, plain.owner], [undefined, undefined, undefined]);
});
