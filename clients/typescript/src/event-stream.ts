/** All events of a client from a point on. */

import { EventQueue } from "./event-queue.js";
import type { Event } from "./protocol.js";
import type { WaitOptions } from "./waiting.js";

/**
 * A stream of events, for one `for await`. It ends when the client is closed, and throws if tiller
 * ends by itself. It collects events until the loop is left or `close` is called.
 */
export class EventStream implements AsyncIterableIterator<Event> {
  readonly #queue: EventQueue<Event>;
  readonly #onClosed: () => void;
  readonly #wait: WaitOptions;

  /** @internal */
  constructor(queue: EventQueue<Event>, wait: WaitOptions, onClosed: () => void) {
    this.#queue = queue;
    this.#wait = wait;
    this.#onClosed = onClosed;
  }

  /** The next event. Throws `Timeout` if none comes in time. */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#queue.next(this.#wait);
  }

  /** Called by `for await` when the loop is left. */
  async return(): Promise<IteratorResult<Event, undefined>> {
    this.#queue.clear();
    this.close();
    return { done: true, value: undefined };
  }

  /** Ends the stream after the events that have already arrived. */
  close(): void {
    this.#queue.end();
    this.#onClosed();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
