/** Requests and responses over a transport. Knows nothing of what the commands do. */

import { type Deferred, deferred } from "./deferred.js";
import { CommandRefusedError, ProtocolError, TillerError, TimeoutError } from "./errors.js";
import type { Command, Response, TillerEvent } from "./protocol.js";
import type { Transport } from "./transport.js";

export interface RequestOptions {
  /** Stops waiting for the response. The command itself is not undone. */
  signal?: AbortSignal | undefined;
  /** Rejects with a {@link TimeoutError} if the response takes longer, in milliseconds. */
  timeoutMs?: number | undefined;
}

export interface ConnectionHandlers {
  onEvent(event: TillerEvent): void;
  /** A line without a response of its own (such as `host_tool_result`) was refused. */
  onRefusedLine(id: string, command: string, reason: string): void;
  onClosed(error: TillerError): void;
}

interface PendingRequest {
  readonly command: string;
  readonly response: Deferred<unknown>;
  /** Runs before the next record is handled. */
  readonly onAccepted: ((data: unknown) => void) | undefined;
}

/** Longer lines are refused by tiller without an id, so they are not sent. */
const DEFAULT_LINE_BYTES = 64 * 1024 * 1024;

export class Connection {
  readonly #transport: Transport;
  readonly #handlers: ConnectionHandlers;
  readonly #pending = new Map<string, PendingRequest>();
  #requests = 0;
  #maxLineBytes = DEFAULT_LINE_BYTES;
  #error: TillerError | undefined;
  #epoch: string | undefined;
  #lastSeq = 0;

  constructor(transport: Transport, handlers: ConnectionHandlers) {
    this.#transport = transport;
    this.#handlers = handlers;
    transport.open({
      onLine: (line) => this.#receive(line),
      onClosed: (reason) => this.#fail(reason),
    });
  }

  /** Names the server process that numbers the records; `undefined` before the first number. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /** The number of the newest record; 0 before the first. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Why the connection is over, or `undefined`. */
  get error(): TillerError | undefined {
    return this.#error;
  }

  setMaxLineBytes(bytes: number): void {
    this.#maxLineBytes = bytes;
  }

  /** A new id for a request. */
  nextId(): string {
    this.#requests += 1;
    return `c${this.#requests}`;
  }

  /** Sends a command and waits for its response. Rejects if it is refused. */
  async request(
    command: Command,
    options: RequestOptions & { id?: string; onAccepted?: (data: unknown) => void } = {},
  ): Promise<unknown> {
    options.signal?.throwIfAborted();
    if (this.#error !== undefined) throw this.#error;
    const id = options.id ?? this.nextId();
    const line = JSON.stringify({ id, ...command });
    const bytes = Buffer.byteLength(line);
    if (bytes > this.#maxLineBytes) {
      const why = `the command has ${bytes} bytes, and tiller reads at most ${this.#maxLineBytes}`;
      throw new CommandRefusedError(command.type, why);
    }
    const response = deferred<unknown>();
    this.#pending.set(id, { command: command.type, response, onAccepted: options.onAccepted });
    void this.#transport.send(line);
    const stopTimer = this.#startTimer(id, command.type, options.timeoutMs);
    const onAbort = (): void => this.#abandon(id, toReason(options.signal));
    options.signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await response.promise;
    } finally {
      stopTimer();
      options.signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Sends a line that has no response. Resolves when the transport can take more. */
  async send(command: Command): Promise<void> {
    if (this.#error === undefined) await this.#transport.send(JSON.stringify(command));
  }

  #startTimer(id: string, command: string, ms: number | undefined): () => void {
    if (ms === undefined) return () => {};
    const late = new TimeoutError(`no response to ${command} within ${ms} ms`);
    const timer = setTimeout(() => this.#abandon(id, late), ms);
    return () => clearTimeout(timer);
  }

  /** Stops waiting for a response. If it still comes, it is ignored. */
  #abandon(id: string, error: Error): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.response.reject(error);
  }

  #receive(line: string): void {
    if (this.#error !== undefined) return;
    const record = parseRecord(line);
    if (record === undefined) {
      this.#fail(new ProtocolError(`the server wrote a line that is no record: ${shorten(line)}`));
      void this.#transport.close();
      return;
    }
    if (record.seq !== undefined) this.#lastSeq = record.seq;
    if (record.epoch !== undefined) this.#epoch = record.epoch;
    if (isResponse(record)) this.#respond(record);
    else this.#handlers.onEvent(record);
  }

  #respond(record: Response): void {
    const reason = record.error ?? "refused without a reason";
    if (typeof record.id !== "string") {
      // Every command of this package has an id, so the server could not read a line of ours.
      this.#fail(new ProtocolError(`the server could not read a command: ${reason}`));
      void this.#transport.close();
      return;
    }
    const pending = this.#pending.get(record.id);
    if (pending === undefined) {
      if (!record.success) this.#handlers.onRefusedLine(record.id, record.command, reason);
      return;
    }
    this.#pending.delete(record.id);
    if (record.success) {
      pending.onAccepted?.(record.data);
      pending.response.resolve(record.data);
    } else {
      pending.response.reject(new CommandRefusedError(pending.command, reason));
    }
  }

  /** Ends the connection for every request that waits. Only the first reason counts. */
  #fail(error: TillerError): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const request of pending) request.response.reject(error);
    this.#handlers.onClosed(error);
  }
}

function parseRecord(line: string): Response | TillerEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  const isRecord = typeof value === "object" && value !== null && "type" in value;
  return isRecord ? (value as Response | TillerEvent) : undefined;
}

function isResponse(record: Response | TillerEvent): record is Response {
  return record.type === "response";
}

function shorten(line: string): string {
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function toReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new TillerError("the request was aborted");
}
