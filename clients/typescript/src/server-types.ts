/**
 * The data and the records of a server of sessions (`tiller serve`).
 *
 * Written by hand. When tiller's schema has them, `generated.ts` has them too, and can replace this
 * file.
 */

import type { StateData } from "./generated.js";

/** How a client takes part in an open session. */
export type AttachMode = "control" | "watch" | "takeover";

/** The data of `open_session` and `attach`. */
export interface OpenSessionData {
  /** The handle of the session. */
  sessionId: string;
  state: StateData;
  /** If `attach` was sent with `since`. */
  replay?: ReplayData;
}

/** What `attach` sends again. */
export interface ReplayData {
  /** How many records follow the response as they were written before. */
  records: number;
  /** True if the server no longer has all of them. Then it sends none. */
  truncated: boolean;
}

/** An open session in `list_open_sessions`. */
export interface OpenSession {
  /** The handle, which `attach` takes. */
  sessionId: string;
  /** The id of the stored session, which `openSession` takes. */
  durableId: string;
  /** Absent if the session is only in memory. */
  sessionFile?: string;
  cwd: string;
  name?: string;
  /** `asleep`: dropped from memory; the next command reads it again. */
  status: "running" | "idle" | "asleep" | "closing";
  /** Whether this client is attached. */
  attached: boolean;
  /** How many clients are attached. */
  clients: number;
  messageCount: number;
  queuedMessageCount: number;
  /** The provider and the id of the model, such as `tiller/demo`. */
  model?: string;
  /** When the session last did something, in milliseconds since 1970. */
  lastActive: number;
}

interface SessionRecord {
  /** The handle of the session. */
  sessionId: string;
  seq?: number;
  epoch?: string;
}

/** A session has ended. */
export interface SessionClosedRecord extends SessionRecord {
  type: "session_closed";
  reason: "closed" | "ended" | "crashed" | "server_stopping";
  error?: string;
}

/** The client gets no more records of a session. */
export interface SessionDetachedRecord extends SessionRecord {
  type: "session_detached";
  reason: "taken_over" | "too_slow";
}

/** A dialog was answered by another client, or is no longer open. */
export interface ExtensionUiClosedEvent extends SessionRecord {
  type: "extension_ui_closed";
  id: string;
}

/** The server ends. Runs have this many seconds to finish. */
export interface ServerStoppingEvent {
  type: "server_stopping";
  seconds: number;
  seq?: number;
  epoch?: string;
}
