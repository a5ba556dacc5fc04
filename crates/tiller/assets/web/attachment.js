// The place of this client in one session: its handle, its durable id, and the number of the last
// record, from which the stream continues after the connection was lost.
//
// The decisions are here and the document is not, so that tests can go through all of them.

/** What the page must do after the session is attached again. */
export const CONTINUED = "continued";
export const RELOAD = "reload";

const BUSY_TRIES = 8;
const BUSY_DELAY = 500;

export class Attachment {
  #request;
  #wait;

  handle = null;
  durableId = null;
  file = null;
  cwd = null;
  epoch = null;
  seq = null;
  state = null;

  /** `request(command)` resolves to the data of the response; `wait(ms)` to nothing. */
  constructor(request, wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))) {
    this.#request = request;
    this.#wait = wait;
  }

  /** Opens a new or stored session; attaches if the server has it open already. */
  async open(options, { tries = 1 } = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return this.#accept(await this.#request({ type: "open_session", ...options }), options);
      } catch (error) {
        if (error.code !== "session_in_use") throw error;
        const handle = error.data?.sessionId;
        if (handle) return this.attach(handle);
        // After a server was killed, the file may still be held for a moment.
        if (attempt >= tries) throw error;
        await this.#wait(BUSY_DELAY);
      }
    }
  }

  async attach(handle) {
    return this.#accept(await this.#request({ type: "attach", sessionId: handle }));
  }

  /** Attaches again over a new connection. Returns CONTINUED or RELOAD. */
  async resume() {
    if (this.seq !== null && this.epoch !== null) {
      try {
        const { handle, seq: since, epoch } = this;
        const data = await this.#request({ type: "attach", sessionId: handle, since, epoch });
        const continues = data.replay && !data.replay.truncated;
        if (!continues) this.seq = this.epoch = null;
        this.#accept(data, null, continues);
        return continues ? CONTINUED : RELOAD;
      } catch (error) {
        if (error.code !== "unknown_session") throw error;
      }
    } else {
      try {
        await this.attach(this.handle);
        return RELOAD;
      } catch (error) {
        if (error.code !== "unknown_session") throw error;
      }
    }
    // The server was restarted, so the handle is gone.
    const isEmpty = !this.state?.messageCount;
    try {
      await this.open({ sessionId: this.durableId }, { tries: BUSY_TRIES });
    } catch (error) {
      // A session without messages was never stored. A new one takes its place.
      if (error.code !== "cannot_open" || !isEmpty || !this.cwd) throw error;
      await this.open({ cwd: this.cwd });
    }
    return RELOAD;
  }

  /**
   * Notes the number of a record. Returns false for a record of another session, and for one that
   * was handled before.
   */
  accepts(record) {
    if (record.sessionId !== this.handle) return false;
    if (typeof record.seq !== "number") return true;
    if (record.epoch === this.epoch && this.seq !== null && record.seq <= this.seq) return false;
    this.epoch = record.epoch;
    this.seq = record.seq;
    return true;
  }

  /** Applies a newer state, as of `get_state`. */
  update(state) {
    this.state = state;
    this.durableId = state.sessionId ?? this.durableId;
    this.file = state.sessionFile ?? null;
  }

  #accept(data, options = null, continues = false) {
    if (this.handle !== data.sessionId) this.seq = this.epoch = null;
    this.handle = data.sessionId;
    if (!continues) this.seq = this.epoch = null;
    if (options?.cwd) this.cwd = options.cwd;
    this.update(data.state ?? {});
    return data;
  }
}
