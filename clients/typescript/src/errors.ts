/** The errors that this package throws. All of them extend {@link TillerError}. */

import type { Result } from "./result.js";

/** Any failure that this package reports. */
export class TillerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The program cannot be started: it does not exist or is not executable. */
export class ServerNotFound extends TillerError {}

/** tiller has ended although the client was not closed. Everything that is pending fails. */
export class ServerExited extends TillerError {
  /** The exit code; `null` if a signal ended the process. */
  readonly exitCode: number | null;
  /** The signal that ended the process, such as `SIGKILL`, or `null`. */
  readonly signal: string | null;
  /** The end of what tiller wrote to stderr. */
  readonly stderrTail: string;

  constructor(exitCode: number | null, signal: string | null, stderrTail: string) {
    const how = signal === null ? `exited with ${exitCode}` : `was ended by ${signal}`;
    const said = stderrTail.trim();
    super(`tiller ${how}${said === "" ? "" : `: ${said}`}`);
    this.exitCode = exitCode;
    this.signal = signal;
    this.stderrTail = stderrTail;
  }
}

/** There is no connection to a server of sessions: no server, a wrong address or a wrong token. */
export class ConnectFailed extends TillerError {
  /** The HTTP status with which the server has refused a WebSocket; 401 if the token is wrong. */
  readonly status: number | undefined;

  constructor(message: string, options?: ErrorOptions & { status?: number }) {
    super(message, options);
    this.status = options?.status;
  }
}

/**
 * The connection to a server of sessions has ended although it was not closed. Its sessions go on in
 * the server: connect again, and continue them with `attach`.
 */
export class ConnectionLost extends TillerError {}

/** A session of a server has ended, but not by `close` of this client. */
export class SessionClosed extends TillerError {
  /** The handle of the session, such as `s1-5f0c`. */
  readonly handle: string;
  /** `closed` (by another client), `ended` (by itself), `crashed` or `server_stopping`. */
  readonly reason: string;
  /** The error of a session that has crashed. */
  readonly error: string | undefined;

  constructor(handle: string, reason: string, error?: string) {
    super(`the session ${handle} has ended: ${reason}${error === undefined ? "" : `: ${error}`}`);
    this.handle = handle;
    this.reason = reason;
    this.error = error;
  }
}

/** This client gets no more records of a session, which goes on in the server. */
export class SessionDetached extends TillerError {
  /** The handle of the session, such as `s1-5f0c`. */
  readonly handle: string;
  /** `taken_over` by another client, or `too_slow`. */
  readonly reason: string;

  constructor(handle: string, reason: string) {
    super(`this client was detached from the session ${handle}: ${reason}`);
    this.handle = handle;
    this.reason = reason;
  }
}

/** The client was closed. */
export class ClientClosed extends TillerError {
  constructor() {
    super("the client is closed");
  }
}

/** tiller has refused a command. A refused command changes nothing. */
export class CommandRefused extends TillerError {
  /** The name of the command, such as `prompt`. */
  readonly command: string;
  /** tiller's reason, a sentence for people. */
  readonly error: string;
  /** A stable name of the reason, such as `unknown_session`. Only servers of sessions send it. */
  readonly code: string | undefined;
  /** With the code `session_in_use`, the handle of the session if the same server has it open. */
  readonly handle: string | undefined;
  /** With the code `session_in_use`, the process that has the session, if it is another one. */
  readonly owner: SessionOwner | undefined;

  constructor(command: string, error: string, code?: string, handle?: string, owner?: SessionOwner) {
    super(`${command}: ${error}`);
    this.command = command;
    this.error = error;
    this.code = code;
    this.handle = handle;
    this.owner = owner;
  }
}

/** A process that writes a session. */
export interface SessionOwner {
  /** Its program and version. */
  readonly program: string;
  readonly pid: number;
  /** The name of its machine. */
  readonly host: string;
  /** When it was started, as ISO time. */
  readonly started: string;
  /** Where clients reach it, if it is a server. */
  readonly address?: string;
}

/** tiller has written something that this client does not understand, or lacks a feature. */
export class ProtocolError extends TillerError {}

/** The time that the caller allowed is over. */
export class Timeout extends TillerError {}

/** A replay would have a gap: tiller no longer has all of the requested events. */
export class EventsLost extends TillerError {}

/** A prompt did not end well. Thrown by {@link Result.check}. */
export class RunFailed extends TillerError {
  /** The result with its status and reason. */
  readonly result: Result;

  constructor(result: Result) {
    const why = result.error ?? result.reason;
    super(`the prompt ended with status ${result.status}${why === undefined ? "" : `: ${why}`}`);
    this.result = result;
  }
}

/** Makes an `Error` of anything that can be thrown. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
