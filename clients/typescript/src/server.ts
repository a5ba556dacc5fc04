/** A server of many sessions. */

import { parseAddress, readToken } from "./address.js";
import type { ConnectOptions } from "./client.js";
import { type AnyCommand, Connection } from "./connection.js";
import { CommandRefused, EventsLost, ProtocolError, type TillerError, toError } from "./errors.js";
import type { HelloData, SessionsData } from "./generated.js";
import type { Fields } from "./protocol.js";
import { ReadGate, SharedSource } from "./read-gate.js";
import { ReplayedRequests } from "./replayed-requests.js";
import type { AttachMode, OpenSession, OpenSessionData, ServerStoppingEvent } from "./server-types.js";
import { Session } from "./session.js";
import { type SessionLink, SessionRouter } from "./session-router.js";
import { SocketTransport } from "./socket-transport.js";
import type { Transport } from "./transport.js";
import { waitFor, type WaitOptions } from "./waiting.js";
import { WebSocketTransport } from "./websocket-transport.js";

export interface ServerOptions {
  /** The token of a WebSocket. Default: the text of `tokenFile`. */
  token?: string | undefined;
  /** Default: `serve-token` in the agent folder. */
  tokenFile?: string | undefined;
  /** Limits the wait for each response, in milliseconds. By default there is no limit. */
  timeoutMs?: number | undefined;
  /** How long the server may take to accept the connection, and to answer. Default: 30,000. */
  startTimeoutMs?: number | undefined;
  /** Called when the server is about to end, with the seconds that runs have to finish. */
  onStopping?: ((seconds: number) => void) | undefined;
}

/** Options of a session, beside those of a client. Start time limits do not apply. */
export interface SessionOptions extends Omit<ConnectOptions, "startTimeoutMs"> {}

export interface OpenOptions extends SessionOptions {
  /** The working directory of the agent, an absolute path. Default: that of the server. */
  cwd?: string | undefined;
  /** Such as `anthropic/claude-sonnet-4-5`; short for `provider` and `modelId`. */
  model?: string | undefined;
  provider?: string | undefined;
  modelId?: string | undefined;
  thinkingLevel?: Fields<"set_thinking_level">["level"] | undefined;
  name?: string | undefined;
  /** The names of the tools that the model may use. `tools` are functions of this program. */
  activeTools?: readonly string[] | undefined;
  /** The file of a stored session. */
  sessionPath?: string | undefined;
  /** The durable id of a stored session, or its beginning. */
  sessionId?: string | undefined;
  /** The session is not stored. */
  inMemory?: boolean | undefined;
}

export interface AttachOptions extends SessionOptions {
  /**
   * `control`, the default: like the client that has opened the session. `watch`: only reads.
   * `takeover`: all other clients are detached.
   */
  mode?: AttachMode | undefined;
  /** Continues the events after this number: the `lastSeq` of the session that was lost. */
  since?: number | undefined;
  /** The `epoch` that belongs to `since`. */
  epoch?: string | undefined;
}

/**
 * An attached session keeps at most so many events until `events` is called. A replay has up to
 * 10,000 of them.
 */
export const MAX_EARLY_EVENTS = 20_000;

/**
 * A connection to `tiller serve`, which holds many sessions. `connect` connects, `close` ends the
 * connection, and `await using` does both. The sessions go on in the server unless they are closed.
 */
export class Server implements AsyncDisposable {
  readonly #router: SessionRouter;
  readonly #connection: Connection;
  readonly #source: SharedSource;
  readonly #gate: ReadGate;
  readonly #options: ServerOptions;
  #hello: HelloData | undefined;
  #stoppingSeconds: number | undefined;

  /**
   * Connects to `unix:PATH` or `ws://HOST:PORT`, by default to `tiller.sock` in the agent folder.
   * Rejects with `ConnectFailed` if that is impossible.
   */
  static async connect(address?: string, options: ServerOptions = {}): Promise<Server> {
    const where = parseAddress(address);
    const timeoutMs = options.startTimeoutMs ?? 30_000;
    if (where.kind === "unix") {
      const { path, name } = where;
      return Server.over(await SocketTransport.connect(path, name, timeoutMs), options);
    }
    const token = await readToken(options.token, options.tokenFile);
    const { url, name } = where;
    return Server.over(await WebSocketTransport.connect(url, name, token, timeoutMs), options);
  }

  /** Connects over a transport. {@link Server.connect} is the usual way. */
  static async over(transport: Transport, options: ServerOptions = {}): Promise<Server> {
    const server = new Server(transport, options);
    try {
      await server.#greet(options.startTimeoutMs ?? 30_000);
      return server;
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  private constructor(transport: Transport, options: ServerOptions) {
    this.#options = options;
    this.#source = new SharedSource(transport);
    this.#gate = new ReadGate(this.#source);
    this.#router = new SessionRouter(transport);
    const handlers = {
      onEvent: (event: { type: string }) => {
        if (event.type === "server_stopping") this.#stop(event as ServerStoppingEvent);
      },
      onRefusedLine: () => {},
      onClosed: (error: TillerError) => this.#router.end(error),
    };
    const { serverPrefix } = this.#router;
    this.#connection = new Connection(this.#router.serverTransport(), handlers, serverPrefix);
    this.#connection.open();
  }

  /** What the server said about itself at the start: version, commands, events, limits. */
  get hello(): HelloData {
    if (this.#hello === undefined) throw new ProtocolError("the server has not answered yet");
    return this.#hello;
  }

  /** How long runs have to finish, if the server has said that it is about to end. */
  get stoppingSeconds(): number | undefined {
    return this.#stoppingSeconds;
  }

  /** Opens a session: a new one, or the stored one of `sessionPath` or `sessionId`. */
  async openSession(options: OpenOptions = {}): Promise<Session> {
    const link = this.#router.link("close_session");
    const data = await this.#open(link, openCommand(options));
    return this.#session(link, data, options, undefined, undefined);
  }

  /**
   * Attaches this client to an open session. With `since` and `epoch` its events are continued; if
   * the server no longer has all of them, it rejects with {@link EventsLost}, and the client is not
   * attached. The first stream of `events()` begins with the first record that followed.
   *
   * Without `onDialog` the dialogs are left to the other clients of the session.
   */
  async attach(handle: string, options: AttachOptions = {}): Promise<Session> {
    const { mode = "control", since, epoch } = options;
    if (since !== undefined && epoch === undefined) {
      throw new TypeError("since needs the epoch of the event that it numbers");
    }
    if (this.#router.has(handle)) {
      throw new TypeError(`this connection has the session ${handle} already: detach it first`);
    }
    const place = since === undefined || epoch === undefined ? undefined : { since, epoch };
    const link = this.#router.link("detach");
    const data = await this.#open(link, { type: "attach", sessionId: handle, mode, ...place });
    if (place !== undefined && data.replay?.truncated !== false) {
      await link.close();
      throw new EventsLost(`the server no longer has all events of ${handle} after ${since}`);
    }
    return this.#session(link, data, options, mode, place);
  }

  /** The sessions that the server has open. */
  async listOpenSessions(options?: WaitOptions): Promise<OpenSession[]> {
    const data = await this.request({ type: "list_open_sessions" }, options);
    return (data as { sessions: OpenSession[] }).sessions;
  }

  /** The stored sessions of the folder `cwd`, by default those of all folders, newest first. */
  async listSessions(
    fields: Omit<Fields<"list_sessions">, "all"> = {},
    options?: WaitOptions,
  ): Promise<SessionsData> {
    return (await this.request({ type: "list_sessions", ...fields }, options)) as SessionsData;
  }

  /** Sends any command that is not for an attached session. Returns the data of its response. */
  request(command: AnyCommand, options: WaitOptions = {}): Promise<unknown> {
    const limits = { timeoutMs: this.#options.timeoutMs, ...options };
    return this.#gate.during(this.#connection.request(command, limits));
  }

  /** Ends the connection. The sessions go on in the server. Closing twice is not an error. */
  async close(): Promise<void> {
    await this.#connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #greet(timeoutMs: number): Promise<void> {
    const wanted = { wire: "pi-delta", promptResults: true, sequence: true };
    const client = "tiller-client (TypeScript)";
    const data = await this.request({ type: "hello", client, ...wanted }, { timeoutMs });
    const hello = data as HelloData;
    if (!hello?.commands?.includes("open_session" as never)) {
      const found = `${hello?.server} ${hello?.version}`;
      throw new ProtocolError(`${found} does not serve many sessions: it has no open_session`);
    }
    if (hello.limits?.lineBytes) this.#connection.setMaxLineBytes(hello.limits.lineBytes);
    this.#hello = hello;
  }

  /** Sends the command that binds a link to its session. */
  async #open(link: SessionLink, command: AnyCommand): Promise<OpenSessionData> {
    // The time limit is not that of the request: a response that comes later is still handled.
    const onAccepted = (data: unknown): void => link.bind(data);
    const accepted = this.#connection.request(command, { onAccepted });
    const { timeoutMs } = this.#options;
    const wait = waitFor(accepted, `response to ${command.type}`, { timeoutMs });
    try {
      return (await this.#gate.during(wait)) as OpenSessionData;
    } catch (error) {
      accepted.catch(() => {});
      if (error instanceof CommandRefused) link.drop();
      else link.abandon();
      throw error;
    }
  }

  #session(
    link: SessionLink,
    data: OpenSessionData,
    options: SessionOptions,
    mode: AttachMode | undefined,
    position: { since: number; epoch: string } | undefined,
  ): Promise<Session> {
    const lastSeq = (position?.since ?? 0) + (data.replay?.records ?? 0);
    const canAnswer = options.onDialog !== undefined && mode !== "watch";
    const parts = {
      hello: this.hello,
      idPrefix: link.prefix,
      gate: new ReadGate(this.#source),
      // The other clients have a dialog too. One that cannot answer must not cancel it for them.
      answersDialogs: mode === undefined || canAnswer,
      earlyEvents: mode === undefined ? undefined : MAX_EARLY_EVENTS,
      position,
      replayed: position === undefined ? undefined : new ReplayedRequests(lastSeq),
    };
    const { timeoutMs } = this.#options;
    const requestServer = (command: AnyCommand) => this.request(command);
    return Session.make(link, data, mode, requestServer, { timeoutMs, ...options }, parts);
  }

  #stop({ seconds }: ServerStoppingEvent): void {
    this.#stoppingSeconds = seconds;
    try {
      this.#options.onStopping?.(seconds);
    } catch (thrown) {
      process.emitWarning(toError(thrown));
    }
  }
}

function openCommand(options: OpenOptions): AnyCommand {
  const { cwd, model, thinkingLevel, name, activeTools, sessionPath, sessionId } = options;
  let { provider, modelId } = options;
  if (model !== undefined) {
    if (provider !== undefined || modelId !== undefined) {
      throw new TypeError("use either model, or provider and modelId");
    }
    const slash = model.indexOf("/");
    provider = model.slice(0, Math.max(slash, 0));
    modelId = model.slice(slash + 1);
    if (provider === "" || modelId === "") {
      throw new TypeError(`the model "${model}" is not of the form provider/id`);
    }
  }
  // Fields that are undefined are not written.
  return {
    type: "open_session",
    cwd,
    provider,
    modelId,
    thinkingLevel,
    name,
    tools: activeTools,
    sessionPath,
    sessionId,
    inMemory: options.inMemory,
  };
}
