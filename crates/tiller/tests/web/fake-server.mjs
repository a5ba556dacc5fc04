// Stands in for `tiller serve --web`: the page, the token and the wire of many sessions.
//
// Each session is a process of `tiller --mode rpc`, so all records of sessions are real; what is
// written here is only what serve.md adds: handles, attaching, numbers, replay, and the list.
//
//   node fake-server.mjs --tiller PATH [--port N] [--token T] -- OPTIONS OF TILLER

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { accept } from "./websocket-server.mjs";

const split = process.argv.indexOf("--");
const sessionOptions = split < 0 ? [] : process.argv.slice(split + 1);
const { values: options } = parseArgs({
  args: process.argv.slice(2, split < 0 ? undefined : split),
  options: { tiller: { type: "string" }, port: { type: "string", default: "0" }, token: { type: "string", default: "secret" } },
});

const ASSETS = join(dirname(fileURLToPath(import.meta.url)), "../../assets/web");
const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8" };
const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
  "Cache-Control": "no-store",
};

const server = createServer(async (request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  if (path === "/health") {
    if (request.headers.authorization !== `Bearer ${options.token}`) return response.writeHead(401, HEADERS).end();
    return response.writeHead(200, { ...HEADERS, "Content-Type": "application/json" }).end('{"status":"ok"}');
  }
  const name = path === "/" ? "index.html" : /^\/web\/([a-z-]+\.(?:css|js))$/.exec(path)?.[1];
  try {
    if (!name) throw new Error("There is no such page");
    const body = await readFile(join(ASSETS, name));
    response.writeHead(200, { ...HEADERS, "Content-Type": TYPES[name.split(".").pop()] }).end(body);
  } catch {
    response.writeHead(404, HEADERS).end();
  }
});

server.on("upgrade", (request, socket) => {
  const protocols = (request.headers["sec-websocket-protocol"] ?? "").split(/,\s*/);
  if (!protocols.includes(`token.${options.token}`)) return socket.end("HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n");
  new Client(accept(request, socket, "tiller"));
});

// ---- Sessions

const sessions = new Map();
let lastHandle = 0;
let lastInnerId = 0;

class Session {
  handle = `s${++lastHandle}-${randomUUID().slice(0, 4)}`;
  attachments = new Set();
  /** Streams of clients that are gone, to be continued. */
  left = [];
  running = false;
  lastActive = Date.now();
  dialogs = new Map();
  #answers = new Map();
  #rest = "";
  #open = [];
  #tools = new Map();
  #queue = null;
  #child;
  #errors = "";

  constructor(args, cwd) {
    this.cwd = cwd;
    this.#child = spawn(options.tiller, ["--mode", "rpc", "--wire", "pi-delta", ...args, ...sessionOptions], { cwd, stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop();
      for (const line of lines) if (line.trim()) this.#receive(JSON.parse(line));
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text) => { this.#errors += text });
    this.#child.stdin.on("error", () => {});
    this.exit = new Promise((resolve) => this.#child.on("close", () => {
      for (const { reject } of this.#answers.values()) reject?.(new Error(this.#errors.trim() || "The session has ended"));
      sessions.delete(this.handle);
      resolve();
    }));
  }

  /** Sends a command of the server itself. */
  ask(command) {
    return new Promise((resolve, reject) => this.#send(command, { resolve, reject }));
  }

  /** Sends a command of a client. */
  forward(client, command) {
    this.lastActive = Date.now();
    if (command.type === "extension_ui_response") {
      if (!this.dialogs.delete(command.id)) return;
      this.#child.stdin.write(JSON.stringify(command) + "\n");
      for (const attachment of this.attachments) attachment.client.write({ type: "extension_ui_closed", sessionId: this.handle, id: command.id });
      return;
    }
    this.#send(command, { client, id: command.id });
  }

  #send(command, answer) {
    const id = `inner-${++lastInnerId}`;
    this.#answers.set(id, answer);
    const { sessionId, ...rest } = command;
    this.#child.stdin.write(JSON.stringify({ ...rest, id }) + "\n");
  }

  #receive(record) {
    if (record.type === "response") {
      const answer = this.#answers.get(record.id);
      this.#answers.delete(record.id);
      if (!answer) return;
      if (answer.resolve) return record.success ? answer.resolve(record.data) : answer.reject(new Error(record.error));
      const attachment = [...this.attachments].find(({ client }) => client === answer.client);
      return attachment?.write({ ...record, id: answer.id });
    }
    if (record.type === "bash_execution_update") record.id = this.#answers.get(record.id)?.id;
    this.#remember(record);
    for (const attachment of [...this.attachments, ...this.left]) attachment.write(record);
  }

  #remember(record) {
    const { type } = record;
    if (type === "agent_start") this.running = true;
    if (type === "agent_settled") this.running = false;
    if (type === "agent_settled" || type === "agent_end") this.#tools.clear();
    if (type === "message_start") this.#open = [record];
    if (type === "message_update") this.#open.push(record);
    if (type === "message_end") this.#open = [];
    if (type === "tool_execution_start") this.#tools.set(record.toolCallId, [record]);
    if (type === "tool_execution_update") this.#tools.get(record.toolCallId)?.push(record);
    if (type === "tool_execution_end") this.#tools.delete(record.toolCallId);
    if (type === "queue_update") this.#queue = record.steering.length + record.followUp.length ? record : null;
    if (type === "extension_ui_request" && ["select", "confirm", "input", "editor"].includes(record.method)) this.dialogs.set(record.id, record);
  }

  /** The records that opened what is open. */
  openRecords() {
    const started = this.running ? [{ type: "agent_start" }, { type: "turn_start" }] : [];
    return [...started, ...this.#open, ...[...this.#tools.values()].flat(), ...(this.#queue ? [this.#queue] : []), ...this.dialogs.values()];
  }

  async end() {
    this.#child.stdin.end();
    await this.exit;
  }
}

/** A client's place in a session, with the records that it may ask for again. */
class Attachment {
  epoch = randomUUID();
  seq = 0;
  kept = [];

  constructor(client, session) {
    this.client = client;
    this.session = session;
  }

  write(record) {
    const line = { ...record, sessionId: this.session.handle };
    if (this.client.sequence) {
      line.seq = ++this.seq;
      line.epoch = this.epoch;
      this.kept.push(line);
      if (this.kept.length > 5000) this.kept.shift();
    }
    this.client.write(line);
  }
}

// ---- Clients

class Client {
  sequence = false;
  #peer;
  #open = true;

  constructor(peer) {
    this.#peer = peer;
    peer.onMessage = (text) => this.#handle(JSON.parse(text));
    peer.onClose = () => {
      this.#open = false;
      for (const session of sessions.values()) this.#leave(session, { keep: true });
    };
  }

  write(record) {
    if (this.#open) this.#peer.send(JSON.stringify(record));
  }

  #attachment(session) {
    return session && [...session.attachments].find(({ client }) => client === this);
  }

  #leave(session, { keep = false } = {}) {
    const attachment = this.#attachment(session);
    if (!attachment) return;
    session.attachments.delete(attachment);
    if (keep && this.sequence) session.left = [...session.left, attachment].slice(-4);
  }

  async #handle(command) {
    const respond = (data) => this.write({ id: command.id, type: "response", command: command.type, success: true, ...(data === undefined ? {} : { data }) });
    const refuse = (code, error, data) => this.write({ id: command.id, type: "response", command: command.type, success: false, error, code, ...(data ? { data } : {}) });
    const handler = HANDLERS[command.type];
    try {
      if (handler && (command.sessionId === undefined || handler.takesSession)) return await handler.call(this, command, respond, refuse);
      if (command.sessionId === undefined) return refuse("missing_session_id", `${command.type} needs a sessionId`);
      const session = sessions.get(command.sessionId);
      if (!this.#attachment(session)) return refuse("unknown_session", `There is no session ${command.sessionId}`);
      session.forward(this, command);
    } catch (error) {
      refuse("cannot_open", error.message);
    }
  }

  /** Attaches to a session and answers with its state. */
  async join(session, respond, { since, epoch } = {}) {
    const state = await session.ask({ type: "get_state" });
    this.#leave(session);
    const left = session.left.find((attachment) => attachment.epoch === epoch);
    const attachment = left && left.kept.length && left.kept[0].seq <= since + 1 ? left : new Attachment(this, session);
    session.left = session.left.filter((other) => other !== attachment);
    attachment.client = this;
    session.attachments.add(attachment);
    const missed = attachment === left ? left.kept.filter(({ seq }) => seq > since) : [];
    const replay = since === undefined ? {} : { replay: { records: missed.length, truncated: attachment !== left } };
    respond({ sessionId: session.handle, state, ...replay });
    if (attachment === left) for (const record of missed) this.write(record);
    else for (const record of session.openRecords()) attachment.write(record);
  }

  static handlers = {
    async hello(command, respond) {
      this.sequence = !!command.sequence;
      respond({ server: "fake", wire: command.wire, commands: ["open_session"], toolUpdates: command.toolUpdates });
    },

    async open_session(command, respond, refuse) {
      const { sessionPath, sessionId, provider, modelId, thinkingLevel, name, inMemory } = command;
      const wanted = sessionPath ?? sessionId;
      const open = wanted && [...sessions.values()].find(({ state }) => state?.sessionId === wanted || state?.sessionFile === wanted);
      if (open) return refuse("session_in_use", "This session is open", { sessionId: open.handle });
      const args = [];
      if (wanted) args.push("--session", wanted);
      if (provider) args.push("--model", `${provider}/${modelId}`);
      if (thinkingLevel) args.push("--thinking", thinkingLevel);
      if (inMemory) args.push("--no-session");
      if (wanted && !command.cwd) command.cwd = (await stored()).find(({ id, path }) => id === wanted || path === wanted)?.cwd;
      const session = new Session(args, command.cwd ?? process.cwd());
      sessions.set(session.handle, session);
      await session.ask({ type: "hello", toolUpdates: "deltas" });
      if (name) await session.ask({ type: "set_session_name", name });
      session.state = await session.ask({ type: "get_state" });
      await this.join(session, respond);
    },

    async close_session(command, respond, refuse) {
      const session = sessions.get(command.sessionId);
      if (!session) return refuse("unknown_session", "There is no such session");
      await session.end();
      for (const { client } of session.attachments) if (client !== this) client.write({ type: "session_closed", sessionId: session.handle, reason: "closed" });
      respond();
    },

    async attach(command, respond, refuse) {
      const session = sessions.get(command.sessionId);
      if (!session) return refuse("unknown_session", `There is no session ${command.sessionId}`);
      await this.join(session, respond, command);
    },

    async detach(command, respond) {
      this.#leave(sessions.get(command.sessionId));
      respond();
    },

    async list_open_sessions(_, respond) {
      const list = await Promise.all([...sessions.values()].map(async (session) => {
        const state = await session.ask({ type: "get_state" }).catch(() => null);
        if (!state) return null;
        session.state = state;
        return {
          sessionId: session.handle, durableId: state.sessionId, sessionFile: state.sessionFile, cwd: session.cwd, name: state.sessionName,
          status: session.running ? "running" : "idle", attached: !!this.#attachment(session), clients: session.attachments.size, messageCount: state.messageCount,
          queuedMessageCount: state.queuedMessageCount, model: state.model && `${state.model.provider}/${state.model.id}`, lastActive: session.lastActive,
        };
      }));
      respond({ sessions: list.filter(Boolean) });
    },

    async list_sessions(command, respond) {
      respond(await helper().ask({ ...command, all: !command.cwd }));
    },
  };
}
const HANDLERS = Client.handlers;
for (const name of ["close_session", "attach", "detach", "open_session"]) HANDLERS[name].takesSession = true;

// A session of its own answers what needs none.
let theHelper = null;
function helper() {
  theHelper ??= new Session(["--no-session", "--no-extensions"], process.cwd());
  return theHelper;
}
const stored = async () => (await helper().ask({ type: "list_sessions", all: true, limit: 1000 })).sessions;

server.listen(Number(options.port), "127.0.0.1", () => {
  console.log(JSON.stringify({ type: "listening", address: `ws://127.0.0.1:${server.address().port}` }));
});
