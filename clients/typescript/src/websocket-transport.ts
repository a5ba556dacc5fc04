/** Lines over a WebSocket, one in each text message. */

import { ConnectFailed, ConnectionLost, ProtocolError, type TillerError } from "./errors.js";
import type { Transport, TransportHandlers } from "./transport.js";
import { type Deferred, deferred, settlesWithin, waitFor } from "./waiting.js";

/** The part of the standard class that this file uses. Node.js has it from version 22 on. */
interface WebSocketLike {
  send(data: string): void;
  close(code?: number): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: (() => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
}
type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike;

/** How long the server may take to end a connection that the client has ended. */
const CLOSE_MS = 5000;
/** How long the server may take to say why it has refused a WebSocket. */
const EXPLAIN_MS = 5000;

export class WebSocketTransport implements Transport {
  readonly #socket: WebSocketLike;
  readonly #name: string;
  readonly #ended: Deferred<void> = deferred();
  #handlers: TransportHandlers | undefined;
  #isOver = false;

  /** Rejects with {@link ConnectFailed} if there is no server, or if it refuses the token. */
  static async connect(
    url: URL,
    name: string,
    token: string,
    timeoutMs: number,
  ): Promise<WebSocketTransport> {
    const { WebSocket } = globalThis as unknown as { WebSocket?: WebSocketClass };
    if (WebSocket === undefined) {
      const need = "use node 22 or later, bun, or a Unix socket";
      throw new ConnectFailed(`cannot connect to ${name}: there is no WebSocket here: ${need}`);
    }
    const connected = deferred<void>();
    let socket: WebSocketLike | undefined;
    try {
      socket = new WebSocket(url.href, ["tiller", `token.${token}`]);
      socket.onopen = () => connected.resolve();
      socket.onerror = () => connected.reject(new Error("the server refuses a WebSocket"));
      socket.onclose = socket.onerror;
      await waitFor(connected.promise, "connection", { timeoutMs });
    } catch (thrown) {
      socket?.close();
      throw await explain(url, name, token, thrown);
    }
    return new WebSocketTransport(socket, name);
  }

  private constructor(socket: WebSocketLike, name: string) {
    this.#socket = socket;
    this.#name = name;
    socket.onerror = null;
    socket.onclose = ({ code, reason }) => {
      const why = reason === "" ? `code ${code}` : `code ${code}: ${reason}`;
      this.#end(new ConnectionLost(`the connection to ${this.#name} has ended (${why})`));
    };
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    this.#socket.onmessage = ({ data }) => {
      if (this.#isOver) return;
      if (typeof data === "string") {
        handlers.onLine(data);
      } else {
        this.#end(new ProtocolError("the server has sent a binary message"));
        void this.close();
      }
    };
  }

  async send(line: string): Promise<void> {
    if (!this.#isOver) this.#socket.send(line);
  }

  /** A WebSocket cannot be paused: its messages wait in memory. */
  pause(): void {}

  resume(): void {}

  async close(): Promise<void> {
    this.#socket.close(1000);
    await settlesWithin(this.#ended.promise, CLOSE_MS);
    this.#end(new ConnectionLost(`the server does not end the connection to ${this.#name}`));
  }

  #end(reason: TillerError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended.resolve();
    this.#handlers?.onClosed(reason);
  }
}

/** Why there is no connection. A WebSocket does not say, but the same server answers HTTP. */
async function explain(
  url: URL,
  name: string,
  token: string,
  thrown: unknown,
): Promise<ConnectFailed> {
  const what = `cannot connect to ${name}`;
  const health = new URL("/health", url.href.replace(/^ws/, "http"));
  const headers = { authorization: `Bearer ${token}` };
  try {
    const signal = AbortSignal.timeout(EXPLAIN_MS);
    const { status } = await fetch(health, { headers, signal });
    if (status === 401) {
      return new ConnectFailed(`${what}: the server refuses the token: 401`, { status });
    }
    return new ConnectFailed(`${what}: the server refuses a WebSocket`, { cause: thrown });
  } catch (cause) {
    return new ConnectFailed(`${what}: there is no server`, { cause });
  }
}
