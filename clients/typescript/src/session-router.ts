/**
 * Many sessions on one connection: passes each record to the session that it is from, or to the
 * server object. A session is a client whose transport is a {@link SessionLink}.
 */

import { parseRecord } from "./connection.js";
import {
  ClientClosed,
  ConnectionLost,
  ProtocolError,
  SessionClosed,
  SessionDetached,
  type TillerError,
} from "./errors.js";
import type { Event, Response } from "./protocol.js";
import type { OpenSessionData, SessionClosedRecord, SessionDetachedRecord } from "./server-types.js";
import type { Transport, TransportHandlers } from "./transport.js";

/** The commands by which a client can leave a session. */
export type Leave = "close_session" | "detach";

type ServerRecord = Response | Event | SessionClosedRecord | SessionDetachedRecord;

/**
 * The sessions of one connection, by their handles and by the prefixes of their requests. The
 * prefixes differ between connections: a replay has the responses that an earlier connection got.
 */
export class SessionRouter {
  readonly #transport: Transport;
  readonly #name = crypto.randomUUID().slice(0, 8);
  readonly #byPrefix = new Map<string, SessionLink>();
  readonly #byHandle = new Map<string, SessionLink>();
  #links = 0;
  #isStopping = false;
  #server: TransportHandlers | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** The prefix of the requests that belong to no session. */
  get serverPrefix(): string {
    return `${this.#name}-0.`;
  }

  /** The transport of the server object, which gets the records that belong to no session. */
  serverTransport(): Transport {
    return {
      open: (handlers) => this.#open(handlers),
      send: (line) => this.#transport.send(line),
      pause: () => this.#transport.pause(),
      resume: () => this.#transport.resume(),
      close: () => this.#transport.close(),
    };
  }

  /** The transport of a session that is about to be opened or attached. */
  link(leave: Leave): SessionLink {
    this.#links += 1;
    const link = new SessionLink(this, `${this.#name}-${this.#links}.`, leave);
    this.#byPrefix.set(link.prefix, link);
    return link;
  }

  has(handle: string): boolean {
    return this.#byHandle.has(handle);
  }

  /** The server has answered: the records with this handle belong to the link. */
  bind(link: SessionLink, handle: string): void {
    this.#byHandle.set(handle, link);
  }

  /** Records of this session are no longer passed on. False if that was so before. */
  drop(link: SessionLink): boolean {
    const { handle } = link;
    if (handle !== undefined && this.#byHandle.get(handle) === link) this.#byHandle.delete(handle);
    return this.#byPrefix.delete(link.prefix);
  }

  send(line: string): Promise<void> {
    return this.#transport.send(line);
  }

  /** The connection is over, and so is every session of it. */
  end(error: TillerError): void {
    const links = [...this.#byPrefix.values()];
    this.#byPrefix.clear();
    this.#byHandle.clear();
    for (const link of links) {
      const { handle } = link;
      const isStopped = this.#isStopping && error instanceof ConnectionLost;
      if (isStopped && handle !== undefined) link.end(new SessionClosed(handle, "server_stopping"));
      else link.end(error);
    }
  }

  #open(server: TransportHandlers): void {
    this.#server = server;
    this.#transport.open({
      onLine: (line) => this.#receiveLine(line),
      onRecord: (record) => this.#route(record),
      onClosed: (reason) => server.onClosed(this.#explain(reason)),
    });
  }

  #explain(reason: TillerError): TillerError {
    if (!this.#isStopping || !(reason instanceof ConnectionLost)) return reason;
    return new ConnectionLost(`the server has stopped: ${reason.message}`);
  }

  #receiveLine(line: string): void {
    let record: Response | Event;
    try {
      record = parseRecord(line);
    } catch {
      // The server object refuses the line in the same way, and ends the connection.
      this.#server?.onLine(line);
      return;
    }
    this.#route(record);
  }

  #route(record: ServerRecord): void {
    const link = this.#linkOf(record);
    if (record.type === "session_closed" || record.type === "session_detached") {
      if (link !== undefined) this.#endSession(link, record);
    } else if (link !== undefined) {
      link.deliver(record);
    } else {
      if (record.type === "server_stopping") {
        this.#isStopping = true;
        for (const each of [...this.#byHandle.values()]) each.deliver(record);
      }
      // A record with an unknown handle is of a session that the client has just left.
      if (!("sessionId" in record) || isOf(record, this.serverPrefix)) {
        this.#server?.onRecord(record);
      }
    }
  }

  #linkOf(record: ServerRecord): SessionLink | undefined {
    if (record.type === "response" && typeof record.id === "string") {
      const { id } = record;
      const prefix = id.slice(0, id.lastIndexOf(".") + 1);
      if (prefix === this.serverPrefix) return undefined;
      const link = this.#byPrefix.get(prefix);
      if (link !== undefined) return link;
    }
    const { sessionId } = record as { sessionId?: unknown };
    return typeof sessionId === "string" ? this.#byHandle.get(sessionId) : undefined;
  }

  #endSession(link: SessionLink, record: SessionClosedRecord | SessionDetachedRecord): void {
    this.drop(link);
    const { sessionId, reason } = record;
    if (record.type === "session_detached") link.end(new SessionDetached(sessionId, reason));
    else link.end(new SessionClosed(sessionId, reason, record.error));
  }
}

function isOf(record: ServerRecord, prefix: string): boolean {
  return record.type === "response" && String(record.id).startsWith(prefix);
}

/**
 * The transport of one session: adds the `sessionId` to each line, and gets only the records of its
 * session. Keeps the records that come before it is opened.
 */
export class SessionLink implements Transport {
  /** The prefix of the session's requests. */
  readonly prefix: string;
  /** Whether the client has asked to leave the session. */
  isLeaving = false;
  readonly #router: SessionRouter;
  readonly #leave: Leave;
  #early: (Response | Event)[] = [];
  #earlyEnd: TillerError | undefined;
  #handlers: TransportHandlers | undefined;
  #handle: string | undefined;
  #isAbandoned = false;

  constructor(router: SessionRouter, prefix: string, leave: Leave) {
    this.#router = router;
    this.prefix = prefix;
    this.#leave = leave;
  }

  /** The handle, when the server has answered. */
  get handle(): string | undefined {
    return this.#handle;
  }

  /** The server has answered with this data. The next records may be of the session. */
  bind(data: unknown): void {
    const handle = (data as Partial<OpenSessionData> | undefined)?.sessionId;
    if (typeof handle !== "string") {
      throw new ProtocolError("the server has opened a session without a sessionId");
    }
    this.#handle = handle;
    if (this.#isAbandoned) this.#sendLeave(this.#leave);
    else this.#router.bind(this, handle);
  }

  /** The caller has given up before the session was ready: leaves it now or when it is open. */
  abandon(): void {
    this.#isAbandoned = true;
    if (this.#handle !== undefined) this.#sendLeave(this.#leave);
  }

  /** The client has left the session. */
  drop(): void {
    this.#router.drop(this);
  }

  // What the router does

  deliver(record: Response | Event): void {
    if (this.#handlers === undefined) this.#early.push(record);
    else this.#handlers.onRecord(record);
  }

  end(error: TillerError): void {
    const reason = this.isLeaving ? new ClientClosed() : error;
    if (this.#handlers === undefined) this.#earlyEnd = reason;
    else this.#handlers.onClosed(reason);
  }

  // What a client does

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    const early = this.#early;
    this.#early = [];
    for (const record of early) handlers.onRecord(record);
    if (this.#earlyEnd !== undefined) handlers.onClosed(this.#earlyEnd);
  }

  send(line: string): Promise<void> {
    const named = `${line.slice(0, -1)},"sessionId":${JSON.stringify(this.#handle)}}`;
    return this.#router.send(named);
  }

  /** The gates of all sessions decide together: see `SharedSource`. */
  pause(): void {}

  resume(): void {}

  /** Detaches the client, unless it has left the session. */
  async close(): Promise<void> {
    this.#sendLeave("detach");
  }

  #sendLeave(type: Leave): void {
    if (!this.#router.drop(this)) return;
    const id = `${this.prefix}leave`;
    void this.#router.send(JSON.stringify({ id, type, sessionId: this.#handle }));
  }
}
