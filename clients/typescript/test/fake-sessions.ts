/**
 * A server of many sessions, on a Unix socket and a WebSocket. It speaks the protocol of
 * `tiller serve` as far as the tests need it. Its model plays the steps `say`, `repeat`, `call` and
 * `hang` of a script. The prompt `/ask` opens a dialog.
 */

import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { once } from "node:events";
import { createServer, type Server as NetServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";

// eslint-disable-next-line -- The fake server handles lines of any shape.
type Line = Record<string, any>;

const READING = ["get_state", "get_messages", "get_events", "get_limits"];
const COMMANDS = ["open_session", "close_session", "list_open_sessions", "attach", "detach"];
const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, reasoning: 0 };
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

class Refused extends Error {
  readonly code: string | undefined;
  readonly handle: string | undefined;

  constructor(message: string, code?: string, handle?: string) {
    super(message);
    this.code = code;
    this.handle = handle;
  }
}

class Aborted extends Error {}

/** One client. */
abstract class Connection {
  readonly socket: Socket;
  protected buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay();
    socket.on("error", () => {});
  }

  /** Takes bytes of the client. Returns the lines that they complete. */
  abstract read(data: Buffer): string[];
  protected abstract writeText(text: string): void;

  write(record: Line): void {
    if (this.socket.writable) this.writeText(JSON.stringify(record));
  }
}

class UnixConnection extends Connection {
  read(data: Buffer): string[] {
    this.buffer = Buffer.concat([this.buffer, data]);
    const lines: string[] = [];
    for (let end = this.buffer.indexOf(10); end !== -1; end = this.buffer.indexOf(10)) {
      lines.push(this.buffer.subarray(0, end).toString());
      this.buffer = this.buffer.subarray(end + 1);
    }
    return lines;
  }

  protected writeText(text: string): void {
    this.socket.write(`${text}\n`);
  }
}

/** Long messages are sent in fragments with a ping between them. */
class WebSocketConnection extends Connection {
  #message: Buffer[] = [];

  read(data: Buffer): string[] {
    this.buffer = Buffer.concat([this.buffer, data]);
    const lines: string[] = [];
    for (;;) {
      const { buffer } = this;
      if (buffer.length < 2) return lines;
      let length = buffer.readUInt8(1) & 0x7f;
      let start = 2;
      if (length === 126) {
        if (buffer.length < 4) return lines;
        length = buffer.readUInt16BE(2);
        start = 4;
      } else if (length === 127) {
        if (buffer.length < 10) return lines;
        length = Number(buffer.readBigUInt64BE(2));
        start = 10;
      }
      if (buffer.length < start + 4 + length) return lines;
      const mask = buffer.subarray(start, start + 4);
      const payload = Buffer.from(buffer.subarray(start + 4, start + 4 + length));
      for (let at = 0; at < length; at += 1) payload[at]! ^= mask[at % 4]!;
      this.buffer = buffer.subarray(start + 4 + length);
      const opcode = buffer.readUInt8(0) & 0x0f;
      if (opcode === 8) {
        this.#frame(0x88, payload);
        this.socket.end();
        return lines;
      }
      if (opcode === 10) assert.equal(payload.toString(), "still there?");
      if (opcode > 1) continue;
      this.#message.push(payload);
      if ((buffer.readUInt8(0) & 0x80) === 0) continue;
      lines.push(Buffer.concat(this.#message).toString());
      this.#message = [];
    }
  }

  protected writeText(text: string): void {
    const bytes = Buffer.from(text);
    if (bytes.length < 1000) {
      this.#frame(0x81, bytes);
      return;
    }
    this.#frame(0x01, bytes.subarray(0, 300));
    this.#frame(0x89, Buffer.from("still there?"));
    this.#frame(0x00, bytes.subarray(300, 999));
    this.#frame(0x80, bytes.subarray(999));
  }

  #frame(first: number, payload: Buffer): void {
    const { length } = payload;
    let head = Buffer.from([first, length]);
    if (length > 0xffff) {
      head = Buffer.alloc(10);
      head.writeUInt16BE((first << 8) | 127);
      head.writeBigUInt64BE(BigInt(length), 2);
    } else if (length > 125) {
      head = Buffer.alloc(4);
      head.writeUInt16BE((first << 8) | 126);
      head.writeUInt16BE(length, 2);
    }
    this.socket.write(Buffer.concat([head, payload]));
  }
}

/** The numbered records of one client of one session. Without `connection` the client is gone. */
interface Stream {
  connection: Connection | undefined;
  mode: string;
  readonly epoch: string;
  kept: Line[];
}

class FakeSession {
  readonly server: FakeServer;
  readonly handle: string;
  readonly durableId: string;
  readonly cwd: string;
  name: string | undefined;
  readonly messages: Line[];
  readonly streams: Stream[] = [];
  readonly openCalls = new Map<string, (line: Line) => void>();
  tools = new Map<string, Stream>();
  limits: Line = {};
  run: Promise<void> | undefined;
  stop: (() => void) | undefined;
  /** The records that opened what is still open, for clients that join. */
  openRecords: Line[] = [];
  readonly #answers: string[];
  #calls = 0;

  constructor(server: FakeServer, handle: string, command: Line) {
    this.server = server;
    this.handle = handle;
    this.durableId = (command["sessionId"] as string | undefined) ?? randomUUID();
    this.cwd = (command["cwd"] as string | undefined) ?? "/";
    this.name = command["name"] as string | undefined;
    this.messages = server.stored.get(this.durableId) ?? [];
    this.#answers = server.script.split("\n\n").filter((answer) => answer.trim() !== "");
  }

  emit(record: Line): void {
    for (const stream of this.streams) this.write(stream, record);
  }

  write(stream: Stream, record: Line): void {
    const whole: Line = { ...record, sessionId: this.handle, seq: stream.kept.length + 1 };
    whole["epoch"] = stream.epoch;
    stream.kept.push(whole);
    stream.connection?.write(whole);
  }

  join(connection: Connection, mode: string): Stream {
    const stream: Stream = { connection, mode, epoch: randomUUID(), kept: [] };
    this.streams.push(stream);
    return stream;
  }

  streamOf(connection: Connection): Stream | undefined {
    return this.streams.find((stream) => stream.connection === connection);
  }

  attached(): Stream[] {
    return this.streams.filter((stream) => stream.connection !== undefined);
  }

  leave(connection: Connection): void {
    const stream = this.streamOf(connection);
    if (stream === undefined) return;
    stream.connection = undefined;
    for (const [name, owner] of this.tools) if (owner === stream) this.tools.delete(name);
  }

  state(): Line {
    const isStreaming = this.run !== undefined;
    return { sessionId: this.durableId, isStreaming, messageCount: this.messages.length };
  }

  start(work: (stopped: Promise<never>) => Promise<void>): void {
    const stopped = new Promise<never>((_, reject) => (this.stop = () => reject(new Aborted())));
    stopped.catch(() => {});
    // The run begins after the response.
    this.run = Promise.resolve().then(() => work(stopped));
  }

  async abort(): Promise<void> {
    this.stop?.();
    await this.run;
  }

  close(reason: string): void {
    this.server.sessions.delete(this.handle);
    this.server.stored.set(this.durableId, this.messages);
    for (const { connection } of this.attached()) {
      connection?.write({ type: "session_closed", sessionId: this.handle, reason });
    }
  }

  async play(stream: Stream, command: Line, stopped: Promise<never>): Promise<void> {
    let turns = 0;
    let end: Line = { status: "done" };
    try {
      this.openRecords = [{ type: "agent_start" }];
      this.emit({ type: "agent_start" });
      this.emit({ type: "turn_start" });
      const { clientMessageId } = command;
      this.#add(
        { role: "user", content: [{ type: "text", text: command["message"] }] },
        { clientMessageId },
      );
      for (let calls = true; calls;) {
        turns += 1;
        if ((this.limits["maxTurns"] ?? turns) < turns) {
          turns -= 1;
          end = { status: "limit", reason: "maxTurns" };
          break;
        }
        calls = await this.#answer(stopped);
        this.emit({ type: "turn_end", toolResults: [] });
      }
    } catch (error) {
      assert(error instanceof Aborted, String(error));
      end = { status: "aborted", reason: "abort" };
      this.emit({ type: "turn_end", toolResults: [] });
    }
    this.emit({ type: "agent_end", messages: [], willRetry: false });
    this.#result(stream, command, end, turns);
    this.#endRun();
    this.emit({ type: "agent_settled", aborted: end["status"] === "aborted" });
  }

  async ask(stream: Stream, command: Line): Promise<void> {
    const response = { id: command["id"], type: "response", command: "prompt", success: true };
    const id = randomUUID();
    const ask = { type: "extension_ui_request", id, method: "select", title: "Which?" };
    const question = { ...ask, options: ["red", "green"] };
    this.openRecords = [question];
    const answered = new Promise<Line>((resolve) => this.openCalls.set(id, resolve));
    this.emit(question);
    const message = JSON.stringify((await answered)["value"] ?? null);
    this.write(stream, { ...response, data: { disposition: "handled" } });
    this.emit({ type: "extension_ui_closed", id });
    const notice = { type: "extension_ui_request", id: "n", method: "notify", notifyType: "info" };
    this.emit({ ...notice, message });
    this.#endRun();
    this.#result(stream, command, { status: "handled" }, 0);
  }

  #endRun(): void {
    this.run = undefined;
    this.stop = undefined;
    this.openRecords = [];
  }

  #result(stream: Stream, { id, clientMessageId }: Line, end: Line, turns: number): void {
    const counts = { runs: 1, turns, messages: 2, usage: { ...USAGE, cost: COST }, cost: 0 };
    const result = { type: "prompt_result", id, clientMessageId, command: "prompt" };
    this.write(stream, { ...result, ...end, ...counts, durationMs: 1 });
  }

  #add(message: Line, named: Line = {}): void {
    this.emit({ type: "message_start", message, ...named });
    this.emit({ type: "message_end", message });
    this.messages.push(message);
  }

  /** Plays one answer of the model. Returns whether it called tools. */
  async #answer(stopped: Promise<never>): Promise<boolean> {
    const start = { type: "message_start", message: { role: "assistant", content: [] } };
    this.emit(start);
    this.openRecords = [{ type: "agent_start" }, start];
    let text = "";
    const calls: [string, Line][] = [];
    for (const step of (this.#answers.shift() ?? "say script exhausted").split("\n")) {
      const [, kind, rest = ""] = /^(\S*) ?(.*)$/.exec(step) ?? [];
      const [, first = "", second = ""] = /^(\S*) ?(.*)$/.exec(rest) ?? [];
      let pieces: string[] = [];
      if (kind === "say") pieces = rest.split(/(?= )/);
      else if (kind === "repeat") pieces = Array<string>(Number(first)).fill(second);
      else if (kind === "call") calls.push([first, JSON.parse(second || "{}") as Line]);
      else if (kind === "hang") await stopped;
      for (const delta of pieces) {
        text += delta;
        const step = { type: "text_delta", contentIndex: 0, delta };
        const update = { type: "message_update", usage: USAGE, assistantMessageEvent: step };
        this.emit(update);
        this.openRecords.push(update);
      }
    }
    const content = [{ type: "text", text }];
    const message = { role: "assistant", content, stopReason: "stop" };
    this.emit({ type: "message_end", message });
    this.messages.push(message);
    this.openRecords = [{ type: "agent_start" }];
    for (const [name, args] of calls) await this.#call(name, args, stopped);
    return calls.length > 0;
  }

  async #call(toolName: string, args: Line, stopped: Promise<never>): Promise<void> {
    this.#calls += 1;
    const id = `host_${this.#calls}`;
    const toolCallId = `call_${this.#calls}`;
    const start = { type: "tool_execution_start", toolCallId, toolName, args };
    this.emit(start);
    this.openRecords.push(start);
    const owner = this.tools.get(toolName);
    assert(owner !== undefined, `no client has the tool ${toolName}`);
    const answered = new Promise<Line>((resolve) => this.openCalls.set(id, resolve));
    this.write(owner, { type: "host_tool_call", id, toolCallId, toolName, arguments: args });
    const { result, isError = false } = await Promise.race([answered, stopped]).catch((error) => {
      this.write(owner, { type: "host_tool_cancel", id: randomUUID(), targetId: id });
      throw error;
    });
    this.emit({ type: "tool_execution_end", toolCallId, toolName, result, isError });
    this.#add({ role: "toolResult", toolCallId, toolName, content: result.content });
  }
}

export class FakeServer implements AsyncDisposable {
  readonly script: string;
  readonly token = "the-token";
  readonly unix: string;
  ws = "";
  readonly sessions = new Map<string, FakeSession>();
  readonly stored = new Map<string, Line[]>();
  /** The commands that are not answered until the test says so. */
  readonly held = new Map<string, (() => void)[]>();
  commands: string[] = COMMANDS;
  /** The headers of the newest WebSocket. */
  headers = new Map<string, string>();
  readonly #connections = new Set<Connection>();
  readonly #servers: NetServer[] = [];
  #count = 0;

  private constructor(folder: string, script: string) {
    this.script = script;
    this.unix = `unix:${join(folder, "tiller.sock")}`;
  }

  static async start(folder: string, script: string): Promise<FakeServer> {
    const server = new FakeServer(folder, script);
    const unix = createServer((socket) => server.#serve(new UnixConnection(socket)));
    const tcp = createServer((socket) => void server.#upgrade(socket));
    server.#servers.push(unix, tcp);
    unix.listen(server.unix.slice("unix:".length));
    tcp.listen(0, "127.0.0.1");
    await Promise.all([once(unix, "listening"), once(tcp, "listening")]);
    server.ws = `ws://127.0.0.1:${(tcp.address() as AddressInfo).port}`;
    return server;
  }

  /** Ends the server as SIGTERM does. */
  async stop(): Promise<void> {
    for (const connection of this.#connections) {
      connection.write({ type: "server_stopping", seconds: 30 });
    }
    for (const session of [...this.sessions.values()]) {
      await session.abort();
      session.close("server_stopping");
    }
    for (const { socket } of this.#connections) socket.end();
    await Promise.all(
      this.#servers.map((server) => new Promise((resolve) => server.close(resolve))),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #upgrade(socket: Socket): Promise<void> {
    socket.on("error", () => {});
    const [data] = (await once(socket, "data")) as [Buffer];
    const [first, ...lines] = data.toString().split("\r\n");
    this.headers = new Map();
    for (const line of lines) {
      const [, name, value] = /^([^:]+): *(.*)$/.exec(line) ?? [];
      if (name !== undefined) this.headers.set(name.toLowerCase(), value ?? "");
    }
    const { headers } = this;
    const bearer = headers.get("authorization") ?? "";
    const offered = (headers.get("sec-websocket-protocol") ?? "").split(/, */);
    if (bearer !== `Bearer ${this.token}` && !offered.includes(`token.${this.token}`)) {
      const close = "Connection: close\r\nContent-Length: 0\r\n\r\n";
      socket.end(`HTTP/1.1 401 Unauthorized\r\n${close}`);
      return;
    }
    assert.match(first ?? "", /^GET \/ HTTP\/1.1$/);
    assert(offered.includes("tiller"));
    const key = headers.get("sec-websocket-key") ?? "";
    const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
    const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    const chosen = `Sec-WebSocket-Protocol: tiller\r\nSec-WebSocket-Accept: ${accept}`;
    socket.write(`${upgrade}\r\n${chosen}\r\n\r\n`);
    this.#serve(new WebSocketConnection(socket));
  }

  #serve(connection: Connection): void {
    this.#connections.add(connection);
    connection.socket.on("data", (data: Buffer) => {
      for (const line of connection.read(data)) this.#receive(connection, JSON.parse(line) as Line);
    });
    connection.socket.once("close", () => {
      this.#connections.delete(connection);
      for (const session of this.sessions.values()) session.leave(connection);
    });
  }

  #receive(connection: Connection, command: Line): void {
    const held = this.held.get(command["type"] as string);
    if (held === undefined) void this.#answer(connection, command);
    else held.push(() => void this.#answer(connection, command));
  }

  async #answer(connection: Connection, command: Line): Promise<void> {
    const { id, type, sessionId } = command as { id?: string; type: string; sessionId?: string };
    const response: Line = { id, type: "response", command: type };
    let stream: Stream | undefined;
    let session: FakeSession | undefined;
    let after: Line[] = [];
    try {
      let data: unknown;
      if (OWN.has(type)) {
        const answer = OWN.get(type)?.call(this, connection, command);
        data = answer instanceof Promise ? await answer : answer;
        after = ((data as Line | undefined)?.["after"] as Line[] | undefined) ?? [];
        if (data !== undefined) delete (data as Line)["after"];
      } else {
        if (sessionId === undefined) {
          throw new Refused(`${type} needs a sessionId`, "missing_session_id");
        }
        session = this.session(sessionId, connection);
        stream = session.streamOf(connection);
        assert(stream !== undefined);
        if (stream.mode === "watch" && !READING.includes(type)) {
          throw new Refused("this client only watches the session", "watching");
        }
        if (type === "host_tool_result" || type === "extension_ui_response") {
          session.openCalls.get(id ?? "")?.(command);
          session.openCalls.delete(id ?? "");
          return;
        }
        if (type === "abort") await session.abort();
        else data = commandOf(session, stream, command);
      }
      if (data === LATER) return;
      Object.assign(response, { success: true }, data === undefined ? {} : { data });
    } catch (error) {
      assert(error instanceof Refused, String(error));
      const { message, code, handle } = error;
      Object.assign(response, { success: false, error: message, code });
      if (handle !== undefined) response["data"] = { sessionId: handle };
    }
    if (session !== undefined && stream !== undefined) session.write(stream, response);
    else connection.write(response);
    for (const record of after) connection.write(record);
  }

  session(handle: string, connection?: Connection): FakeSession {
    const session = this.sessions.get(handle);
    const isAttached = connection === undefined || session?.streamOf(connection) !== undefined;
    if (session === undefined || !isAttached) {
      throw new Refused(`there is no open session ${handle}`, "unknown_session");
    }
    return session;
  }

  open(connection: Connection, command: Line): Line {
    const { sessionId, cwd } = command as { sessionId?: string; cwd?: string };
    if (cwd !== undefined && !existsSync(cwd)) {
      throw new Refused(`the folder ${cwd} does not exist`, "cannot_open");
    }
    for (const { durableId, handle } of this.sessions.values()) {
      if (durableId === sessionId) throw new Refused("it is open", "session_in_use", handle);
    }
    this.#count += 1;
    const handle = `s${this.#count}-${randomUUID().slice(0, 4)}`;
    const session = new FakeSession(this, handle, command);
    this.sessions.set(handle, session);
    session.join(connection, "control");
    return { sessionId: handle, state: session.state() };
  }

  async close(connection: Connection, { sessionId }: Line): Promise<undefined> {
    const session = this.session(sessionId as string);
    if (session.streamOf(connection)?.mode === "watch") {
      throw new Refused("this client only watches the session", "watching");
    }
    await session.abort();
    session.close("closed");
  }

  list(connection: Connection): Line {
    const sessions = [...this.sessions.values()].map((session) => ({
      sessionId: session.handle,
      durableId: session.durableId,
      cwd: session.cwd,
      name: session.name,
      status: session.run === undefined ? "idle" : "running",
      attached: session.streamOf(connection) !== undefined,
      clients: session.attached().length,
      messageCount: session.messages.length,
      queuedMessageCount: 0,
      lastActive: 1,
    }));
    return { sessions };
  }

  attach(connection: Connection, command: Line): Line {
    const { sessionId, mode = "control", since, epoch } = command;
    const session = this.session(sessionId as string);
    if (mode === "takeover") {
      for (const { connection: other } of session.attached()) {
        other?.write({ type: "session_detached", sessionId, reason: "taken_over" });
        if (other !== undefined) session.leave(other);
      }
    }
    const data = { sessionId, state: session.state() };
    if (since === undefined) {
      const stream = session.join(connection, mode as string);
      stream.kept = session.openRecords.map((record, index) => ({
        ...record,
        sessionId,
        seq: index + 1,
        epoch: stream.epoch,
      }));
      return { ...data, after: stream.kept };
    }
    const lost = session.streams.find((stream) => stream.epoch === epoch && !stream.connection);
    if (lost === undefined) {
      session.join(connection, mode as string);
      return { ...data, replay: { records: 0, truncated: true } };
    }
    Object.assign(lost, { connection, mode });
    const missed = lost.kept.slice(since as number);
    return { ...data, replay: { records: missed.length, truncated: false }, after: missed };
  }
}

/** The commands of the server. */
const OWN = new Map<
  string,
  (this: FakeServer, connection: Connection, command: Line) => Line | undefined | Promise<undefined>
>([
  [
    "hello",
    function (_, command) {
      assert(command["wire"] === "pi-delta" && command["promptResults"] && command["sequence"]);
      return { server: "fake", version: "9", commands: this.commands };
    },
  ],
  ["open_session", FakeServer.prototype.open],
  ["close_session", FakeServer.prototype.close],
  ["list_open_sessions", FakeServer.prototype.list],
  ["attach", FakeServer.prototype.attach],
  [
    "list_sessions",
    function () {
      return { sessions: [...this.stored.keys()].map((id) => ({ id, path: id })), next: null };
    },
  ],
  [
    "detach",
    function (connection, { sessionId }) {
      this.session(sessionId as string, connection).leave(connection);
      return undefined;
    },
  ],
]);

/** A prompt that is answered when its handler has ended. */
const LATER = {};

/** The commands of a session that are answered at once. */
function commandOf(session: FakeSession, stream: Stream, command: Line): unknown {
  switch (command["type"]) {
    case "prompt": {
      if (session.run !== undefined) throw new Refused("Agent is already processing");
      const isQuestion = command["message"] === "/ask";
      session.start((stopped) =>
        isQuestion ? session.ask(stream, command) : session.play(stream, command, stopped),
      );
      return isQuestion ? LATER : { disposition: "started" };
    }
    case "get_state":
      return session.state();
    case "get_messages":
      return { messages: session.messages };
    case "set_host_tools": {
      const names = (command["tools"] as { name: string }[]).map(({ name }) => name);
      for (const name of names) session.tools.set(name, stream);
      return { toolNames: names };
    }
    case "set_limits":
      session.limits = { maxTurns: command["maxTurns"] };
      return { limits: session.limits };
    case "get_limits":
      return { limits: session.limits };
    case "get_events":
      return { events: stream.kept.slice(command["since"]), truncated: false, more: false };
    default:
      throw new Refused(`Unknown command: ${command["type"]}`);
  }
}
