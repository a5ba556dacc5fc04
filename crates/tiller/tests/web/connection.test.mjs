// The connection and the attachment, with sockets and timers that the tests move.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Attachment, CONTINUED, RELOAD } from "../../assets/web/attachment.js";
import { Connection, ConnectionLost, delayBefore, RequestError } from "../../assets/web/connection.js";

function world() {
  const sockets = [];
  const timers = [];
  const states = [];
  const records = [];
  const connection = new Connection({
    open: () => {
      const socket = { sent: [], send: (text) => socket.sent.push(JSON.parse(text)), close: () => { socket.closed = true } };
      sockets.push(socket);
      return socket;
    },
    onState: (state, facts) => states.push([state, facts]),
    onRecord: (record) => records.push(record),
    timers: { setTimeout: (work, delay) => timers.push({ work, delay }), clearTimeout: (number) => { timers[number - 1].work = null } },
    random: () => 1,
    prefix: "t-",
  });
  const receive = (record) => sockets.at(-1).onmessage({ data: JSON.stringify(record) });
  return { connection, sockets, timers, states, records, receive, last: () => sockets.at(-1) };
}

function open(world) {
  world.connection.connect();
  world.last().onopen();
}

test("delays_grow_to_five_seconds", () => {
  const delays = [0, 1, 2, 3, 4, 5, 50].map((attempt) => delayBefore(attempt, () => 1));
  assert.deepEqual(delays, [250, 500, 1000, 2000, 4000, 5000, 5000]);
  assert.ok(delayBefore(50, () => 0) >= 3000);
});

test("response_resolves_its_request", async () => {
  const w = world();
  open(w);
  const one = w.connection.request({ type: "a" });
  const two = w.connection.request({ type: "b" });
  const [first, second] = w.last().sent;
  w.receive({ type: "response", id: second.id, success: true, data: 2 });
  w.receive({ type: "response", id: first.id, success: true, data: 1 });
  assert.deepEqual(await Promise.all([one, two]), [1, 2]);
});

test("refusal_rejects_with_code_and_data", async () => {
  const w = world();
  open(w);
  const request = w.connection.request({ type: "open_session" });
  w.receive({ type: "response", id: w.last().sent[0].id, success: false, error: "in use", code: "session_in_use", data: { sessionId: "s1" } });
  await assert.rejects(request, (error) => error instanceof RequestError && error.code === "session_in_use" && error.data.sessionId === "s1");
});

test("lost_connection_rejects_what_waits", async () => {
  const w = world();
  open(w);
  const request = w.connection.request({ type: "a" });
  w.last().onclose();
  await assert.rejects(request, ConnectionLost);
  await assert.rejects(w.connection.request({ type: "b" }), ConnectionLost);
});

test("connection_is_tried_again_with_growing_delays", () => {
  const w = world();
  w.connection.connect();
  for (let attempt = 0; attempt < 3; attempt += 1) {
    w.last().onclose();
    w.timers.at(-1).work();
  }
  assert.deepEqual(w.timers.map(({ delay }) => delay), [250, 500, 1000]);
  w.last().onopen();
  w.last().onclose();
  assert.equal(w.timers.at(-1).delay, 250, "an open connection starts the delays again");
});

test("refused_connection_is_told_from_a_lost_one", () => {
  const w = world();
  w.connection.connect();
  w.last().onclose();
  assert.equal(w.states.at(-1)[1].refused, true);
  w.timers.at(-1).work();
  w.last().onopen();
  w.last().onclose();
  assert.equal(w.states.at(-1)[1].refused, false);
});

test("old_socket_has_no_effect", () => {
  const w = world();
  open(w);
  const old = w.last();
  w.connection.reset();
  w.timers.at(-1).work();
  w.last().onopen();
  old.onclose();
  old.onmessage({ data: '{"type":"agent_start"}' });
  assert.equal(w.connection.state, "open");
  assert.deepEqual(w.records, []);
});

test("invalid_lines_are_ignored", () => {
  const w = world();
  open(w);
  for (const data of ["", "{", "null", "3"]) w.last().onmessage({ data });
  assert.deepEqual(w.records, []);
});

test("numbered_response_is_a_record_too", async () => {
  const w = world();
  open(w);
  const request = w.connection.request({ type: "a" });
  w.receive({ type: "response", id: w.last().sent[0].id, success: true, seq: 4, epoch: "e", sessionId: "s1" });
  await request;
  assert.equal(w.records.length, 1);
});

// ---- The attachment

/** A server of answers by type of command: values, errors with a code, or functions. */
function attachment(answers) {
  const sent = [];
  const request = async (command) => {
    sent.push(command);
    const list = answers[command.type];
    const answer = Array.isArray(list) ? list.shift() : list;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return { sent, attachment: new Attachment(request, async () => {}) };
}
const refusal = (code, data) => Object.assign(new Error(code), { code, data });
const opened = (sessionId, more = {}) => ({ sessionId, state: { sessionId: "durable", messageCount: 2 }, ...more });

test("session_that_is_open_already_is_attached", async () => {
  const { sent, attachment: a } = attachment({ open_session: refusal("session_in_use", { sessionId: "s7" }), attach: opened("s7") });
  await a.open({ sessionId: "durable" });
  assert.equal(a.handle, "s7");
  assert.deepEqual(sent.map(({ type }) => type), ["open_session", "attach"]);
});

test("session_of_another_process_is_an_error", async () => {
  const { attachment: a } = attachment({ open_session: refusal("session_in_use") });
  await assert.rejects(a.open({ sessionId: "durable" }), { code: "session_in_use" });
});

test("stream_is_continued_after_its_last_number", async () => {
  const { sent, attachment: a } = attachment({ open_session: opened("s1"), attach: opened("s1", { replay: { records: 2, truncated: false } }) });
  await a.open({});
  a.accepts({ type: "agent_start", sessionId: "s1", seq: 5, epoch: "e" });
  assert.equal(await a.resume(), CONTINUED);
  assert.deepEqual(sent.at(-1), { type: "attach", sessionId: "s1", since: 5, epoch: "e" });
  assert.equal(a.accepts({ sessionId: "s1", seq: 5, epoch: "e" }), false, "handled before");
  assert.equal(a.accepts({ sessionId: "s1", seq: 6, epoch: "e" }), true);
});

test("truncated_stream_is_read_again", async () => {
  const { attachment: a } = attachment({ open_session: opened("s1"), attach: opened("s1", { replay: { records: 0, truncated: true } }) });
  await a.open({});
  a.accepts({ sessionId: "s1", seq: 5, epoch: "e" });
  assert.equal(await a.resume(), RELOAD);
  assert.equal(a.accepts({ sessionId: "s1", seq: 1, epoch: "f" }), true);
});

test("unknown_handle_is_opened_by_its_durable_id", async () => {
  const { sent, attachment: a } = attachment({ open_session: [opened("s1"), opened("s9")], attach: refusal("unknown_session") });
  await a.open({});
  a.accepts({ sessionId: "s1", seq: 5, epoch: "e" });
  assert.equal(await a.resume(), RELOAD);
  assert.equal(a.handle, "s9");
  assert.deepEqual(sent.at(-1), { type: "open_session", sessionId: "durable" });
  assert.equal(a.accepts({ sessionId: "s1", seq: 6, epoch: "e" }), false, "the old handle is another session");
});

test("file_that_is_still_held_is_tried_again", async () => {
  const { attachment: a } = attachment({ open_session: [opened("s1"), refusal("session_in_use"), refusal("session_in_use"), opened("s9")], attach: refusal("unknown_session") });
  await a.open({});
  assert.equal(await a.resume(), RELOAD);
  assert.equal(a.handle, "s9");
});

test("session_without_messages_is_replaced_by_a_new_one", async () => {
  const empty = { sessionId: "s1", state: { sessionId: "durable", messageCount: 0 } };
  const { sent, attachment: a } = attachment({ open_session: [empty, refusal("cannot_open"), opened("s9")], attach: refusal("unknown_session") });
  await a.open({ cwd: "/p" });
  assert.equal(await a.resume(), RELOAD);
  assert.deepEqual(sent.at(-1), { type: "open_session", cwd: "/p" });
});

test("session_that_is_gone_is_an_error", async () => {
  const { attachment: a } = attachment({ open_session: [opened("s1"), refusal("cannot_open")], attach: refusal("unknown_session") });
  await a.open({});
  await assert.rejects(a.resume(), { code: "cannot_open" });
});
