/** One session of a server. */

import { Client, type ConnectOptions, type SessionParts } from "./client.js";
import { ClientClosed, CommandRefused, ConnectionLost } from "./errors.js";
import type { StateData } from "./generated.js";
import type { AttachMode, OpenSessionData } from "./server-types.js";
import type { Leave, SessionLink } from "./session-router.js";

/** The codes of a refusal to leave a session that has ended, or is about to. */
const ENDED_CODES: readonly (string | undefined)[] = ["unknown_session", "session_closing"];

/** How a session reaches its server. */
export type RequestServer = (command: { type: Leave; sessionId: string }) => Promise<unknown>;

/**
 * One session of a server, with the methods of a {@link Client}. `await using` closes a session that
 * was opened, and detaches the client from one that was attached.
 */
export class Session extends Client {
  /** The name of the open session in this server, such as `s1-5f0c`. `attach` takes it. */
  readonly handle: string;
  /** The state when the session was opened or attached. `state.sessionId` is its durable id. */
  readonly state: StateData;
  readonly #link: SessionLink;
  readonly #requestServer: RequestServer;
  readonly #mode: AttachMode | undefined;

  /** @internal `mode` is that of an attached session. */
  static async make(
    link: SessionLink,
    data: OpenSessionData,
    mode: AttachMode | undefined,
    requestServer: RequestServer,
    options: ConnectOptions,
    parts: SessionParts,
  ): Promise<Session> {
    const session = new Session(link, data, mode, requestServer, options, parts);
    try {
      if (options.tools !== undefined) await session.setTools(options.tools);
      return session;
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(
    link: SessionLink,
    data: OpenSessionData,
    mode: AttachMode | undefined,
    requestServer: RequestServer,
    options: ConnectOptions,
    parts: SessionParts,
  ) {
    super(link, options, parts);
    this.handle = data.sessionId;
    this.state = data.state;
    this.#link = link;
    this.#mode = mode;
    this.#requestServer = requestServer;
  }

  /**
   * Ends the session in the server. A run in progress is aborted, and its events and its result
   * still arrive. Closing twice is not an error.
   */
  override close(): Promise<void> {
    return this.#leave("close_session");
  }

  /** Leaves the session, which goes on in the server. */
  detach(): Promise<void> {
    return this.#leave("detach");
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await (this.#mode === undefined ? this.close() : this.detach());
  }

  async #leave(type: Leave): Promise<void> {
    if (this.end === undefined) {
      this.#link.isLeaving = true;
      try {
        await this.#requestServer({ type, sessionId: this.handle });
      } catch (error) {
        const isGone = error instanceof ConnectionLost || error instanceof ClientClosed;
        // The session may have ended meanwhile, or be about to.
        const isOver = error instanceof CommandRefused && ENDED_CODES.includes(error.code);
        if (!isGone && !isOver) {
          this.#link.isLeaving = false;
          throw error;
        }
      }
      this.#link.drop();
    }
    await super.close();
  }
}
