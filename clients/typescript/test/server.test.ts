/** Many sessions on one connection, against the fake server and `tiller serve`. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ClientClosed,
  CommandRefused,
  ConnectFailed,
  ConnectionLost,
  defineTool,
  type Dialog,
  type Event,
  EventsLost,
  ProtocolError,
  Server,
  SessionClosed,
  SessionDetached,
  Timeout,
  type Transport,
  type TransportHandlers,
} from "tiller-client";

import { MAX_EARLY_EVENTS } from "#dist/server.js";
import { eventually, hasServe, KINDS, ServerPlace } from "./server-support.js";
import { all, firstText, Gate, kinds, MS, until, WAIT } from "./support.js";

const GATE = "chunk words\nsay one two\ncall gate {}\n\nsay three four\n";

function gateTool(gate?: Gate) {
  const run = async (): Promise<string> => {
    await gate?.pass();
    return "open";
  };
  const parameters = { type: "object" } as const;
  return defineTool({ name: "gate", description: "Waits.", parameters, run });
}

type Make = (script?: string) => Promise<ServerPlace>;

/** Runs a scenario with each server on each socket. */
function scenario(name: string, run: (make: Make) => Promise<void>): void {
  for (const [server, socket] of KINDS) {
    const skip = server === "real" && !hasServe ? "this tiller has no `serve`" : false;
    test(`${name} (${server}, ${socket})`, { skip }, () =>
      run((script) => ServerPlace.make(server, socket, script)),
    );
  }
}

function refusedWith(code: string, handle?: string) {
  return (error: unknown): boolean => {
    assert(error instanceof CommandRefused, String(error));
    assert.equal(error.code, code, error.message);
    if (handle !== undefined) assert.equal(error.handle, handle);
    return true;
  };
}

function numbersOf(events: readonly Event[]): number[] {
  const numbers = events.map((event) => event.seq ?? 0);
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].sort((a, b) => a - b),
  );
  return numbers;
}

scenario("sessions run side by side", async (make) => {
  await using place = await make(GATE);
  const server = await place.connect();
  const gate = new Gate();
  const one = await place.session(server, { tools: [gateTool(gate)] });
  const turn = one.prompt("First");
  await gate.entered;
  {
    await using two = await place.session(server, { tools: [gateTool()] });
    assert.notEqual(one.handle, two.handle);
    const other = two.prompt("Second");
    assert.equal((await all(other.textStream())).join(""), "one twothree four");
    assert.equal((await other.result(WAIT)).check().text, "three four");
    assert.equal((await two.getState()).isStreaming, false);
    assert.equal((await one.getState()).isStreaming, true);
  }
  gate.open();
  const events = await all(turn);
  assert.equal(kinds(events)[0], "agent_start");
  assert.equal(kinds(events).at(-1), "prompt_result");
  assert.equal((await turn.result(WAIT)).check().text, "three four");
  numbersOf(events);
  await one.close();
  assert.deepEqual(await server.listOpenSessions(), []);
});

scenario("each session has its own tools", async (make) => {
  await using place = await make("call where {}\n\nsay Done.\n");
  const server = await place.connect();
  const where = (answer: string) =>
    defineTool({
      name: "where",
      description: "Where the boat is.",
      parameters: { type: "object" },
      run: () => answer,
    });
  const kiel = await place.session(server, { tools: [where("Kiel")] });
  const cork = await place.session(server);
  await cork.addTool(where("Cork"));
  await Promise.all([kiel, cork].map(async (one) => (await one.prompt("Go").result(WAIT)).check()));
  assert.match(JSON.stringify(await kiel.getMessages()), /Kiel/);
  assert.match(JSON.stringify(await cork.getMessages()), /Cork/);
});

scenario("dialogs are answered per session", async (make) => {
  await using place = await make();
  const server = await place.connect();
  for (const answer of ["red", "green"]) {
    const notices: string[] = [];
    const session = await place.session(server, {
      onDialog: () => answer,
      onNotify: ({ message }) => notices.push(message),
    });
    assert.equal((await session.prompt("/ask").result(WAIT)).status, "handled");
    await session.getState();
    assert.deepEqual(notices, [`"${answer}"`]);
  }
});

scenario("the first answer to a dialog counts", async (make) => {
  await using place = await make();
  const [first, second] = [await place.connect(), await place.connect()];
  const asked = new Gate();
  const closed = new Gate();
  const notices: string[] = [];
  const opened = await place.session(first, {
    onDialog: async (_: Dialog, { signal }) => {
      signal.addEventListener("abort", () => closed.open());
      void asked.pass();
      await closed.pass();
      return "too late";
    },
    onNotify: ({ message }) => notices.push(message),
  });
  // A client without `onDialog` does not cancel a dialog for the others.
  await using _bystander = await (await place.connect()).attach(opened.handle);
  const turn = opened.prompt("/ask");
  await asked.entered;
  // A dialog that is open is sent to a client that joins.
  await using _answering = await second.attach(opened.handle, {
    onDialog: (dialog) => (dialog.method === "select" ? dialog.options[1] : undefined),
  });
  assert.equal((await turn.result(WAIT)).status, "handled");
  await closed.pass();
  await opened.getState();
  assert.deepEqual(notices, ['"green"']);
});

scenario("limits apply to one session", async (make) => {
  await using place = await make("call gate {}\n\nsay Done.\n");
  const server = await place.connect();
  const one = await place.session(server, { tools: [gateTool()] });
  const two = await place.session(server, { tools: [gateTool()] });
  assert.equal((await one.setLimits({ maxTurns: 1 })).limits.maxTurns, 1);
  assert.equal((await two.getLimits()).limits.maxTurns, undefined);
  const [limited, whole] = [one.prompt("Go"), two.prompt("Go")];
  const { status, reason } = await limited.result(WAIT);
  assert.deepEqual([status, reason], ["limit", "maxTurns"]);
  assert.equal((await whole.result(WAIT)).check().text, "Done.");
});

scenario("an abort stops one session", async (make) => {
  await using place = await make("say I could go on\nhang\n");
  const server = await place.connect();
  const [one, two] = [await place.session(server), await place.session(server)];
  const [first, second] = [one.prompt("Go"), two.prompt("Go")];
  await firstText(first.textStream());
  await firstText(second.textStream());
  await first.abort();
  assert.equal((await first.result(WAIT)).status, "aborted");
  assert.equal((await two.getState()).isStreaming, true);
  await two.close();
  assert.equal((await second.result(WAIT)).status, "aborted");
});

scenario("a watcher sees everything and changes nothing", async (make) => {
  await using place = await make(GATE);
  const gate = new Gate();
  const opened = await place.session(await place.connect(), { tools: [gateTool(gate)] });
  const turn = opened.prompt("Go");
  await gate.entered;
  const watched = await (await place.connect()).attach(opened.handle, { mode: "watch" });
  const stream = watched.events(WAIT);
  // The beginning of what is still open comes first.
  assert.equal((await stream.next()).value?.type, "agent_start");
  await assert.rejects(watched.prompt("Me too").result(WAIT), refusedWith("watching"));
  assert.equal((await watched.getState()).isStreaming, true);
  gate.open();
  let text = "";
  for await (const event of stream) {
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") {
      text += event.assistantMessageEvent.delta;
    }
    if (event.type === "agent_settled") break;
  }
  assert.match(text, /three four$/);
  (await turn.result(WAIT)).check();
  await watched.detach();
  assert.equal((await opened.getState()).isStreaming, false);
});

scenario("a watcher cannot close the session", async (make) => {
  await using place = await make();
  const opened = await place.session(await place.connect());
  await using watched = await (await place.connect()).attach(opened.handle, { mode: "watch" });
  await assert.rejects(watched.close(), refusedWith("watching"));
  assert.equal((await opened.getState()).isStreaming, false);
});

scenario("a second client takes over", async (make) => {
  await using place = await make("say First.\nhang\n\nsay Second.\n");
  const [first, second] = [await place.connect(), await place.connect()];
  const opened = await place.session(first);
  const turn = opened.prompt("Go");
  await firstText(turn.textStream());
  const stream = opened.events();
  const taken = await second.attach(opened.handle, { mode: "takeover" });
  for (const fails of [() => all(stream), () => turn.result(WAIT), () => opened.getState()]) {
    await assert.rejects(fails, (error) => {
      assert(error instanceof SessionDetached, String(error));
      assert.deepEqual([error.reason, error.handle], ["taken_over", opened.handle]);
      return true;
    });
  }
  await opened.close();
  await taken.abort();
  assert.equal((await taken.prompt("Again").result(WAIT)).check().text, "Second.");
  // The connection of the first client still works.
  const [listed] = await first.listOpenSessions();
  assert.deepEqual([listed?.attached, listed?.clients], [false, 1]);
});

scenario("a detached session goes on", async (make) => {
  await using place = await make("say Hello.\n");
  const server = await place.connect();
  const session = await place.session(server, { name: "harbour" });
  const stream = session.events();
  (await session.prompt("Go").result(WAIT)).check();
  await session.detach();
  assert.equal((await all(stream)).at(-1)?.type, "agent_settled");
  await assert.rejects(session.getState(), ClientClosed);
  await eventually(async () => (await server.listOpenSessions())[0]?.clients === 0);
  const [listed] = await server.listOpenSessions();
  assert.deepEqual([listed?.sessionId, listed?.name], [session.handle, "harbour"]);
  assert.deepEqual([listed?.attached, listed?.clients, listed?.status], [false, 0, "idle"]);
  {
    await using again = await server.attach(session.handle);
    assert.equal(again.state.messageCount, 2);
    await assert.rejects(server.attach(session.handle), /has the session .* already/);
  }
  assert.equal((await server.listOpenSessions()).length, 1);
});

scenario("a lost connection fails what waits and is continued", async (make) => {
  await using place = await make(GATE);
  const relay = await place.relay();
  const gate = new Gate();
  const lost = await place.connect({}, relay.address);
  const session = await place.session(lost, { tools: [gateTool(gate)] });
  const stream = session.events();
  const turn = session.prompt("Go");
  await gate.entered;
  relay.cut();
  const seen: Event[] = [];
  const collect = async (): Promise<void> => {
    for await (const event of stream) seen.push(event);
  };
  await assert.rejects(collect, ConnectionLost);
  for (const fails of [
    () => turn.result(WAIT),
    () => session.getState(),
    () => lost.listOpenSessions(),
  ]) {
    await assert.rejects(fails, ConnectionLost);
  }
  await session.close();
  gate.open();

  const server = await place.connect();
  await eventually(async () => (await server.listOpenSessions())[0]?.clients === 0);
  const position = { since: session.lastSeq, epoch: session.epoch };
  const again = await server.attach(session.handle, position);
  await again.abort();
  for await (const event of again.events(WAIT)) {
    seen.push(event);
    if (event.type === "agent_settled") break;
  }
  numbersOf(seen);
  assert.equal(kinds(seen).filter((type) => type === "agent_start").length, 1);
  const results = seen.filter((event) => event.type === "prompt_result");
  assert.deepEqual(
    results.map((result) => result.clientMessageId),
    [turn.clientMessageId],
  );
  assert.equal(again.epoch, session.epoch);
  assert.equal((await again.getState()).isStreaming, false);
});

scenario("events of another numbering are lost", async (make) => {
  await using place = await make("say Hello.\n");
  const opened = await place.session(await place.connect());
  (await opened.prompt("Hi").result(WAIT)).check();
  const other = await place.connect();
  await assert.rejects(other.attach(opened.handle, { since: 1, epoch: "another" }), EventsLost);
  await assert.rejects(other.attach(opened.handle, { since: 1 }), TypeError);
  const attached = await other.attach(opened.handle);
  assert.equal((await attached.getMessages()).messages.length, 2);
});

scenario("a session replays its own events", async (make) => {
  await using place = await make("say Hello.\n");
  const server = await place.connect();
  (await (await place.session(server)).prompt("Hi").result(WAIT)).check();
  const session = await place.session(server);
  const turn = session.prompt("Hi");
  (await turn.result(WAIT)).check();
  const events = await session.replay(0, { epoch: session.epoch, ...WAIT });
  const result = await until(events, "prompt_result");
  assert.equal(result.clientMessageId, turn.clientMessageId);
});

scenario("a closed session ends for every client", async (make) => {
  await using place = await make("say I could go on\nhang\n");
  const [first, second] = [await place.connect(), await place.connect()];
  const opened = await place.session(first);
  const attached = await second.attach(opened.handle);
  const stream = attached.events();
  const turn = opened.prompt("Go");
  await firstText(turn.textStream());
  await opened.close();
  await opened.close();
  assert.equal((await turn.result(WAIT)).status, "aborted");
  await assert.rejects(all(stream), (error) => {
    assert(error instanceof SessionClosed, String(error));
    assert.deepEqual([error.reason, error.handle], ["closed", opened.handle]);
    return true;
  });
  await assert.rejects(attached.getState(), SessionClosed);
  await attached.close();
  await assert.rejects(second.attach(opened.handle), refusedWith("unknown_session"));
});

scenario("a stored session is opened again", async (make) => {
  await using place = await make("say Hello.\n");
  const server = await place.connect();
  const session = await place.session(server);
  (await session.prompt("Hi").result(WAIT)).check();
  const { sessionId } = session.state;
  const inUse = refusedWith("session_in_use", session.handle);
  await assert.rejects(server.openSession({ sessionId }), inUse);
  await session.close();
  const { sessions } = await server.listSessions();
  assert(sessions.some(({ id }) => id === sessionId));
  const again = await server.openSession({ sessionId });
  assert.equal((await again.getMessages()).messages.length, 2);
});

scenario("a session that cannot be opened is explained", async (make) => {
  await using place = await make();
  const server = await place.connect();
  const cwd = `${place.place.folder}/nowhere`;
  await assert.rejects(server.openSession({ cwd }), refusedWith("cannot_open"));
  await assert.rejects(server.openSession({ cwd }), /nowhere/);
  await assert.rejects(server.request({ type: "get_state" }), refusedWith("missing_session_id"));
});

scenario("a stopping server ends its sessions", async (make) => {
  await using place = await make();
  const seconds: number[] = [];
  const server = await place.connect({ onStopping: (number) => seconds.push(number) });
  const session = await place.session(server);
  const stream = session.events(WAIT);
  await place.running.stop();
  const collect = async (): Promise<void> => {
    for await (const event of stream) assert.equal(event.type, "server_stopping");
  };
  await assert.rejects(collect, { name: "SessionClosed", reason: "server_stopping" });
  assert.deepEqual(seconds, [30]);
  await assert.rejects(session.prompt("Hi").result(), SessionClosed);
  const ask = async (): Promise<void> => {
    for (;;) await server.listOpenSessions();
  };
  await assert.rejects(ask, /ConnectionLost: the server has stopped/);
});

scenario("events that are not taken hold nothing back", async (make) => {
  await using place = await make("repeat 20000 x\n");
  const server = await place.connect();
  const [flooded, quiet] = [await place.session(server), await place.session(server)];
  const stream = flooded.events();
  const turn = flooded.prompt("Go");
  // A consumer that stays far behind.
  await stream.next();
  while (!turn.done) await quiet.getState();
  assert.equal((await all(turn.textStream())).join("").length, 20000);
  await stream.return();
});

scenario("long lines pass in both directions", async (make) => {
  await using place = await make("say Hello.\n\nsay Hello.\n");
  const session = await place.session(await place.connect());
  for (const text of ["ä🚢\u2028".repeat(50), "ä🚢\u2028\n".repeat(300_000)]) {
    (await session.prompt(text).result(WAIT)).check();
    const { messages } = await session.getMessages();
    const message = messages.at(-2);
    assert(message?.role === "user");
    assert.deepEqual(message.content, [{ type: "text", text }]);
  }
});

scenario("closing the connection ends streams quietly", async (make) => {
  await using place = await make();
  const server = await place.connect();
  const session = await place.session(server);
  const stream = session.events();
  await Promise.all([server.close(), server.close()]);
  assert.deepEqual(await all(stream), []);
  await assert.rejects(session.getState(), ClientClosed);
  await assert.rejects(server.listOpenSessions(), ClientClosed);
  assert.equal((await (await place.connect()).listOpenSessions()).length, 1);
});

scenario("a wrong token is refused", async (make) => {
  await using place = await make();
  const { ws } = place.running;
  await assert.rejects(place.connect({ token: "wrong" }, ws), (error) => {
    assert(error instanceof ConnectFailed, String(error));
    assert.equal(error.status, 401);
    assert.match(error.message, /cannot connect to ws:.*refuses the token/);
    return true;
  });
});

// Situations that only the fake server can bring about

test("the token is read from a file", async () => {
  await using place = await ServerPlace.make("fake", "ws");
  const tokenFile = await place.place.file("token", `${place.running.token}\n`);
  await place.connect({ token: undefined, tokenFile });
  assert.equal(place.fake.headers.get("origin"), undefined);
  const missing = place.connect({ token: undefined, tokenFile: `${tokenFile}-none` });
  await assert.rejects(missing, /cannot read the token of the server: .*token-none/);
});

test("the default address is in the agent folder", async () => {
  await using place = await ServerPlace.make("fake", "unix");
  const { PI_CODING_AGENT_DIR: before } = process.env;
  process.env["PI_CODING_AGENT_DIR"] = place.place.folder;
  try {
    const server = await Server.connect(undefined, { timeoutMs: MS });
    assert.deepEqual(await server.listOpenSessions(), []);
    await server.close();
    process.env["PI_CODING_AGENT_DIR"] = "/no/such";
    await assert.rejects(Server.connect(), /cannot connect to unix:\/no\/such\/tiller.sock/);
  } finally {
    if (before === undefined) delete process.env["PI_CODING_AGENT_DIR"];
    else process.env["PI_CODING_AGENT_DIR"] = before;
  }
});

test("other addresses are refused", async () => {
  const table = ["", "unix:", "ws:", "ws://", "http://localhost:1", "wss://a", "ws://a:x", "ws://a/?b"];
  for (const address of table) {
    await assert.rejects(Server.connect(address, { token: "t" }), /is not an address/, address);
  }
});

test("without a server the connection fails", async () => {
  const failed = Server.connect("ws://127.0.0.1:1", { token: "t", startTimeoutMs: MS });
  await assert.rejects(failed, /ConnectFailed: cannot connect to ws:.*there is no server/);
});

test("without a WebSocket class the error says what to do", async () => {
  const scope = globalThis as { WebSocket?: unknown };
  const { WebSocket } = scope;
  scope.WebSocket = undefined;
  try {
    const failed = Server.connect("ws://127.0.0.1:1", { token: "t" });
    await assert.rejects(failed, /use node 22 or later, bun, or a Unix socket/);
  } finally {
    scope.WebSocket = WebSocket;
  }
});

test("a process of one session is refused", async () => {
  await using place = await ServerPlace.make("fake", "unix");
  place.fake.commands = [];
  await assert.rejects(place.connect(), /ProtocolError: fake 9 does not serve many sessions/);
});

test("models are named with their provider", async () => {
  await using place = await ServerPlace.make("fake", "unix");
  const server = await place.connect();
  await assert.rejects(server.openSession({ model: "demo" }), /not of the form provider\/id/);
  const both = server.openSession({ model: "tiller/demo", provider: "tiller" });
  await assert.rejects(both, /either model, or provider/);
});

test("a session that opens too late is closed", async () => {
  await using place = await ServerPlace.make("fake", "unix");
  const held: (() => void)[] = [];
  place.fake.held.set("open_session", held);
  const server = await place.connect({ timeoutMs: 20 });
  await assert.rejects(place.session(server), Timeout);
  for (const answer of held) answer();
  const other = await place.connect();
  await eventually(async () => (await other.listOpenSessions()).length === 0);
});

test("events are kept for a while after attach", async () => {
  const count = MAX_EARLY_EVENTS + 10;
  await using place = await ServerPlace.make("fake", "unix", `repeat ${count} x\n\nsay Hello.\n`);
  const session = await place.session(await place.connect());
  const attached = await (await place.connect()).attach(session.handle);
  (await session.prompt("Go").result(WAIT)).check();
  await attached.getState();
  await assert.rejects(all(attached.events(WAIT)), EventsLost);
  const later = attached.events(WAIT);
  (await session.prompt("Go").result(WAIT)).check();
  assert.equal((await later.next()).value?.type, "agent_start");
});

test("a record that cannot be handled ends its session only", async () => {
  await using place = await ServerPlace.make("fake", "unix", "say Hello.\nhang\n");
  const server = await place.connect();
  const [broken, other] = [await place.session(server), await place.session(server)];
  const [turn, quiet] = [broken.prompt("Hi"), other.prompt("Hi")];
  await Promise.all([firstText(turn.textStream()), firstText(quiet.textStream())]);
  place.fake.session(broken.handle).emit({ type: "message_end" });
  await assert.rejects(turn.result(WAIT), ProtocolError);
  await quiet.abort();
  assert.equal((await quiet.result(WAIT)).status, "aborted");
  const [listed] = await server.listOpenSessions();
  assert.equal(listed?.attached, false);
});

test("a line that is no record ends the connection", async () => {
  await using place = await ServerPlace.make("fake", "unix");
  const server = await place.connect();
  const session = await place.session(server);
  place.fake.session(session.handle).streams[0]?.connection?.socket.write("this is not json\n");
  const ask = async (): Promise<void> => {
    for (;;) await session.getState();
  };
  await assert.rejects(ask, /ProtocolError: .*not JSON: this is not json/);
});

test("a call of a tool that is open in a replay is run", async () => {
  await using place = await ServerPlace.make("fake", "unix", GATE);
  const relay = await place.relay();
  const lost = await place.connect({}, relay.address);
  const gate = new Gate();
  const session = await place.session(lost, { tools: [gateTool(gate)] });
  const turn = session.prompt("Go");
  await gate.entered;
  relay.cut();
  await assert.rejects(turn.result(WAIT), ConnectionLost);
  gate.open();
  const server = await place.connect();
  await eventually(async () => (await server.listOpenSessions())[0]?.clients === 0);
  const position = { since: 1, epoch: session.epoch };
  const again = await server.attach(session.handle, { ...position, tools: [gateTool()] });
  await until(again.events(WAIT), "agent_settled");
});

test("sessions of one connection decide together whether it is read", async () => {
  const transport = new SessionsInMemory();
  const server = await Server.over(transport);
  const [one, two] = [await server.openSession(), await server.openSession()];
  const stream = one.events();
  transport.emit(one.handle, 3000);
  await new Promise(setImmediate);
  assert.equal(transport.isPaused, false, "a stream that is not read does not stop the reading");
  await stream.next();
  assert.equal(transport.isPaused, true);
  const other = two.events();
  const waiting = other.next();
  assert.equal(transport.isPaused, false, "another session waits for an event");
  transport.emit(two.handle, 1);
  assert.equal((await waiting).value?.type, "turn_start");
  assert.equal(transport.isPaused, true);
  const state = two.getState();
  assert.equal(transport.isPaused, false, "another session waits for a response");
  await state;
  assert.equal(transport.isPaused, true);
  const list = server.listOpenSessions();
  assert.equal(transport.isPaused, false, "the server object waits for a response");
  await list;
  await one.detach();
  assert.equal(transport.isPaused, false, "the session that was behind has ended");
  await server.close();
});

/** A server in memory, which counts pauses. */
class SessionsInMemory implements Transport {
  isPaused = false;
  #handlers: TransportHandlers | undefined;
  #sessions = 0;

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
  }

  async send(line: string): Promise<void> {
    const { id, type } = JSON.parse(line) as { id: string; type: string };
    if (type === "open_session") this.#sessions += 1;
    const hello = { server: "memory", version: "1", commands: ["open_session"] };
    const data = { ...hello, sessionId: `s${this.#sessions}`, state: {}, sessions: [] };
    this.#write({ id, type: "response", command: type, success: true, data });
  }

  emit(sessionId: string, count: number): void {
    for (let seq = 1; seq <= count; seq += 1) this.#write({ type: "turn_start", sessionId, seq });
  }

  #write(record: object): void {
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
