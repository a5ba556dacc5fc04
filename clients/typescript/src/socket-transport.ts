/** Lines over a Unix socket. */

import { createConnection, type Socket } from "node:net";

import { ConnectFailed, ConnectionLost, toError } from "./errors.js";
import { LineSplitter } from "./line-splitter.js";
import type { Transport, TransportHandlers } from "./transport.js";
import { deferred, settlesWithin, waitFor } from "./waiting.js";

/** How long the server may take to end a connection that the client has ended. */
const CLOSE_MS = 5000;

export class SocketTransport implements Transport {
  readonly #socket: Socket;
  readonly #name: string;
  readonly #ended = deferred<void>();
  #error: Error | undefined;
  #handlers: TransportHandlers | undefined;
  #closing: Promise<void> | undefined;

  /** Rejects with {@link ConnectFailed} if there is no server. */
  static async connect(path: string, name: string, timeoutMs: number): Promise<SocketTransport> {
    const socket = createConnection(path);
    const connected = deferred<void>();
    socket.once("connect", () => connected.resolve());
    socket.once("error", (error) => connected.reject(error));
    try {
      await waitFor(connected.promise, "connection", { timeoutMs });
    } catch (thrown) {
      socket.destroy();
      const { message } = toError(thrown);
      throw new ConnectFailed(`cannot connect to ${name}: ${message}`, { cause: thrown });
    }
    return new SocketTransport(socket, name);
  }

  private constructor(socket: Socket, name: string) {
    this.#socket = socket;
    this.#name = name;
    // `close` follows, and reports it.
    socket.on("error", (error) => (this.#error = error));
    socket.once("close", () => {
      const why = this.#error === undefined ? "has ended" : `has failed: ${this.#error.message}`;
      this.#handlers?.onClosed(new ConnectionLost(`the connection to ${this.#name} ${why}`));
      this.#ended.resolve();
    });
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    const lines = new LineSplitter((line) => handlers.onLine(line));
    this.#socket.on("data", (chunk: Buffer) => lines.push(chunk));
    this.#socket.once("end", () => void this.close());
  }

  async send(line: string): Promise<void> {
    const socket = this.#socket;
    if (!socket.writable || socket.write(`${line}\n`)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off("drain", done);
        socket.off("close", done);
        resolve();
      };
      socket.on("drain", done);
      socket.on("close", done);
    });
  }

  pause(): void {
    if (this.#closing === undefined) this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#socket.end();
    // The server may have to write before it can end.
    this.#socket.resume();
    await settlesWithin(this.#ended.promise, CLOSE_MS);
    this.#socket.destroy();
    await this.#ended.promise;
  }
}
