/** Requests and responses over a transport. Knows nothing of what the commands do. */

import {
  ClientClosed,
  CommandRefused,
  ProtocolError,
  type SessionOwner,
  type TillerError,
  toError,
} from "./errors.js";
import type { Command, Event, Response } from "./protocol.js";
import type { Transport } from "./transport.js";
import { type Deferred, deferred, waitFor, type WaitOptions } from "./waiting.js";

export interface ConnectionHandlers {
  onEvent(event: Event): void;
  /** A line without a response of its own (such as `host_tool_result`) was refused. */
  onRefusedLine(id: string, command: string, reason: string): void;
  onClosed(error: TillerError): void;
}

/** A command, of this version of the protocol or of a later one. */
export type AnyCommand = Command | { type: string; [field: string]: unknown };

export interface RequestExtras extends WaitOptions {
  id?: string | undefined;
  /** Called with the data before the next record is handled. */
  onAccepted?: ((data: unknown) => void) | undefined;
}

interface PendingRequest {
  readonly command: string;
  readonly response: Deferred<unknown>;
  readonly onAccepted: ((data: unknown) => void) | undefined;
}

/** What tiller reads at most, as long as it has not said so itself. */
const DEFAULT_LINE_BYTES = 64 * 1024 * 1024;

export class Connection {
  readonly #transport: Transport;
  readonly #handlers: ConnectionHandlers;
  readonly #idPrefix: string;
  readonly #pending = new Map<string, PendingRequest>();
  #requests = 0;
  #maxLineBytes = DEFAULT_LINE_BYTES;
  #isClosing = false;
  #error: TillerError | undefined;
  #epoch: string | undefined;
  #lastSeq = 0;

  /** The ids of requests begin with the prefix. */
  constructor(transport: Transport, handlers: ConnectionHandlers, idPrefix = "c") {
    this.#transport = transport;
    this.#handlers = handlers;
    this.#idPrefix = idPrefix;
  }

  /** Names the process that numbers the records; `undefined` before the first number. */
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

  /** The numbers continue after this one. */
  continueFrom(epoch: string, seq: number): void {
    this.#epoch = epoch;
    this.#lastSeq = seq;
  }

  open(): void {
    this.#transport.open({
      onLine: (line) => this.#receive(() => parseRecord(line)),
      onRecord: (record) => this.#receive(() => record),
      onClosed: (reason) => this.#fail(reason),
    });
  }

  /** Ends the connection, in bounded time. Records still arrive until then. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#transport.close();
    this.#fail(new ClientClosed());
  }

  setMaxLineBytes(bytes: number): void {
    this.#maxLineBytes = bytes;
  }

  /** A new id for a request. */
  nextId(): string {
    this.#requests += 1;
    return `${this.#idPrefix}${this.#requests}`;
  }

  /** Sends a command and waits for its response. Rejects if it is refused. */
  async request(command: AnyCommand, extras: RequestExtras = {}): Promise<unknown> {
    extras.signal?.throwIfAborted();
    if (this.#error !== undefined) throw this.#error;
    const id = extras.id ?? this.nextId();
    const line = this.#encode({ ...command, id });
    const response = deferred<unknown>();
    this.#pending.set(id, { command: command.type, response, onAccepted: extras.onAccepted });
    void this.#transport.send(line);
    try {
      return await waitFor(response.promise, `response to ${command.type}`, extras);
    } finally {
      // If the caller has given up, a response that still comes is ignored.
      this.#pending.delete(id);
    }
  }

  /**
   * Sends a line that has no response. Throws if it is not JSON or too long for tiller; the promise
   * resolves when the transport can take more.
   */
  send(command: Command): Promise<void> {
    const line = this.#encode(command);
    return this.#error === undefined ? this.#transport.send(line) : Promise.resolve();
  }

  #encode(command: AnyCommand): string {
    const line = JSON.stringify(command);
    const bytes = Buffer.byteLength(line);
    if (bytes <= this.#maxLineBytes) return line;
    // tiller would refuse the line without its id, and the request would wait for ever.
    const why = `the line has ${bytes} bytes, and tiller reads at most ${this.#maxLineBytes}`;
    throw new CommandRefused(command.type, why);
  }

  #receive(read: () => Response | Event): void {
    if (this.#error !== undefined) return;
    try {
      this.#handle(read());
    } catch (thrown) {
      // Nothing that the server writes may break the program that uses this client.
      this.#abandon(
        thrown instanceof ProtocolError
          ? thrown
          : new ProtocolError(`cannot handle a record of tiller: ${toError(thrown).message}`, {
              cause: thrown,
            }),
      );
    }
  }

  #handle(record: Response | Event): void {
    if (record.seq !== undefined) this.#lastSeq = record.seq;
    if (record.epoch !== undefined) this.#epoch = record.epoch;
    if (record.type === "response") this.#respond(record);
    else this.#handlers.onEvent(record);
  }

  #respond(record: Response): void {
    const { id } = record;
    if (typeof id !== "string") {
      // Every line of this package has an id, so tiller could not read one of them.
      const reason = record.success ? "a response without an id" : record.error;
      throw new ProtocolError(`tiller could not read a command: ${reason}`);
    }
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (!record.success) {
      const reason = record.error ?? "refused without a reason";
      if (pending === undefined) this.#handlers.onRefusedLine(id, record.command, reason);
      else pending.response.reject(refusal(pending.command, reason, record));
      return;
    }
    const data: unknown = "data" in record ? record.data : undefined;
    pending?.onAccepted?.(data);
    pending?.response.resolve(data);
  }

  /** The server does not speak the protocol: ends it. */
  #abandon(error: ProtocolError): void {
    this.#fail(error);
    void this.#transport.close();
  }

  /** Ends the connection for every request that waits. Only the first reason counts. */
  #fail(reason: TillerError): void {
    if (this.#error !== undefined) return;
    this.#error = this.#isClosing ? new ClientClosed() : reason;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const request of pending) request.response.reject(this.#error);
    this.#handlers.onClosed(this.#error);
  }
}

/** The error of a response that refuses its command. */
export function refusal(command: string, reason: string, record: object): CommandRefused {
  const { code, data } = record as {
    code?: string;
    data?: { sessionId?: string; owner?: SessionOwner };
  };
  return new CommandRefused(command, reason, code, data?.sessionId, data?.owner);
}

export function parseRecord(line: string): Response | Event {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new ProtocolError(`tiller wrote a line that is not JSON: ${shorten(line)}`);
  }
  if (typeof value === "object" && value !== null && "type" in value) {
    if (typeof value.type === "string") return value as Response | Event;
  }
  throw new ProtocolError(`tiller wrote a line that is not a record: ${shorten(line)}`);
}

function shorten(line: string): string {
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}
