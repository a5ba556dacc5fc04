// One WebSocket to the server: requests with their responses, records, and reconnecting.
//
// The connection knows no session and no document, so it runs in tests too: `open` makes a socket,
// `timers` has setTimeout and clearTimeout.

/** A response with `success: false`. */
export class RequestError extends Error {
  constructor({ error, code, data }) {
    super(error || "The server refused the request");
    this.code = code;
    this.data = data;
  }
}

/** The connection ended before the response came: the request may have been handled or not. */
export class ConnectionLost extends Error {
  constructor() {
    super("The connection was lost before the server answered");
    this.code = "connection_lost";
  }
}

const FIRST_DELAY = 250;
const LONGEST_DELAY = 5000;

/** How long to wait before the attempt with this number, the first being 0. */
export function delayBefore(attempt, random = Math.random) {
  const delay = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(attempt, 10));
  // Several tabs do not come back in the same moment.
  return Math.round(delay * (0.75 + 0.25 * random()));
}

export class Connection {
  #open;
  #timers;
  #random;
  #socket = null;
  #pending = new Map();
  #prefix;
  #lastId = 0;
  #attempt = 0;
  #timer = null;
  #wasOpen = false;

  /** `idle`, `connecting`, `open` or `waiting` for the next attempt. */
  state = "idle";

  /**
   * `onState(state, facts)` is called with each change. For `waiting`, the facts have `delay`, and
   * `refused: true` if the server did not accept the connection at all.
   * `onRecord(record)` gets everything that is not a response to a request of this connection.
   */
  constructor({ open, onState, onRecord, timers = globalThis, random = Math.random, prefix = "" }) {
    this.#open = open;
    this.#timers = timers;
    this.#random = random;
    this.#prefix = prefix;
    this.onState = onState;
    this.onRecord = onRecord;
  }

  connect() {
    this.#clearTimer();
    this.#abandon();
    this.#change("connecting");
    this.#wasOpen = false;
    const socket = this.#open();
    this.#socket = socket;
    socket.onopen = () => {
      if (this.#socket !== socket) return;
      this.#attempt = 0;
      this.#wasOpen = true;
      this.#change("open");
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket === socket) this.#receive(data);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#lose();
    };
  }

  /** Ends the connection for good. */
  disconnect() {
    this.#clearTimer();
    this.#abandon();
    this.#change("idle");
  }

  /** Ends the connection and makes another, because the server does not answer. */
  reset() {
    if (this.state !== "open") return;
    this.#abandon();
    this.#wait();
  }

  /** Makes the next attempt at once. */
  retryNow() {
    if (this.state === "waiting") this.connect();
  }

  /** Sends a command and returns the `data` of its response. */
  request(command) {
    if (this.state !== "open") return Promise.reject(new ConnectionLost());
    const id = command.id ?? this.newId();
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ ...command, id }));
    });
  }

  /** Sends a line that gets no response. */
  send(line) {
    if (this.state !== "open") return false;
    this.#socket.send(JSON.stringify(line));
    return true;
  }

  /** An id that no other request has, in no other tab either. */
  newId() {
    this.#lastId += 1;
    return this.#prefix + this.#lastId;
  }

  #receive(data) {
    let record;
    try {
      record = JSON.parse(data);
    } catch {
      return;
    }
    if (record === null || typeof record !== "object") return;
    if (record.type !== "response") return this.onRecord?.(record);
    const request = this.#pending.get(record.id);
    // The number of a response counts, even if nothing waits for the response.
    if (record.seq !== undefined) this.onRecord?.(record);
    if (!request) return;
    this.#pending.delete(record.id);
    if (record.success) request.resolve(record.data);
    else request.reject(new RequestError(record));
  }

  #lose() {
    this.#abandon();
    this.#wait();
  }

  #wait() {
    const delay = delayBefore(this.#attempt, this.#random);
    this.#attempt += 1;
    this.#timer = this.#timers.setTimeout(() => this.connect(), delay);
    this.#change("waiting", { delay, refused: !this.#wasOpen });
  }

  #abandon() {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      try {
        socket.close();
      } catch {
        // A socket that was never open cannot be closed; it is not used again either way.
      }
    }
    const lost = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of lost) reject(new ConnectionLost());
  }

  #clearTimer() {
    if (this.#timer !== null) this.#timers.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #change(state, facts = {}) {
    this.state = state;
    this.onState?.(state, facts);
  }
}
