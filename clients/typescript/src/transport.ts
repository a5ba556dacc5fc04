/** What carries lines between a client and a server: a process, or for example a socket. */

import type { TillerError } from "./errors.js";
import type { Event, Response } from "./protocol.js";

export interface TransportHandlers {
  /** One line from the server, without its LF. */
  onLine(line: string): void;
  /** One record from the server, for a transport that has read the line already. */
  onRecord(record: Response | Event): void;
  /** The connection is over, and no line follows. Called once, also after `close`. */
  onClosed(reason: TillerError): void;
}

export interface Transport {
  /** Begins to deliver lines. Called once, before anything else. */
  open(handlers: TransportHandlers): void;
  /**
   * Writes one line, given without its LF. Lines keep the order of the calls. The promise resolves
   * when the transport can take more, or when it is closed; it never rejects, because `onClosed`
   * reports failures.
   */
  send(line: string): Promise<void>;
  /** Stops reading until `resume`. Lines that were already read may still come. */
  pause(): void;
  resume(): void;
  /** Ends the connection, in bounded time. May be called again. */
  close(): Promise<void>;
}
