/** The errors that this package throws. All of them extend {@link TillerError}. */

/** Any failure that this package reports. */
export class TillerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** tiller has answered a command with `success: false`. The session is unchanged. */
export class CommandRefusedError extends TillerError {
  /** The name of the command. */
  readonly command: string;

  constructor(command: string, reason: string) {
    super(reason);
    this.command = command;
  }
}

/** How a server ended. */
export interface ServerExit {
  /** The exit code; `null` if a signal ended the process or if it never started. */
  readonly exitCode: number | null;
  /** The signal that ended the process, or `null`. */
  readonly signal: string | null;
  /** The end of what the server wrote to stderr. */
  readonly stderr: string;
}

/** The server could not be started, or has ended. */
export class ServerExitedError extends TillerError implements ServerExit {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stderr: string;

  constructor(summary: string, exit: ServerExit, options?: ErrorOptions) {
    const stderr = exit.stderr.trim();
    super(stderr === "" ? summary : `${summary}\n${stderr}`, options);
    this.exitCode = exit.exitCode;
    this.signal = exit.signal;
    this.stderr = exit.stderr;
  }
}

/** The server has written something that is not the protocol, or lacks a feature. */
export class ProtocolError extends TillerError {}

/** A response has not come in time. */
export class TimeoutError extends TillerError {}

/** Events that were asked for are no longer stored. Read the state again instead. */
export class EventsLostError extends TillerError {}

/** Makes an `Error` of anything that can be thrown. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
