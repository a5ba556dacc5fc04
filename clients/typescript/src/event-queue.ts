/** Events between the connection, which pushes them, and one consumer, which awaits them. */

import { EventsLost } from "./errors.js";
import type { Backlog } from "./read-gate.js";
import { type Deferred, deferred, waitFor, type WaitOptions } from "./waiting.js";

export class EventQueue<T> implements Backlog {
  #waiting: T[] = [];
  #taken = 0;
  #ended = false;
  #error: Error | undefined;
  #wakeUp: Deferred<void> | undefined;
  #waiters = 0;
  #isRead = false;
  readonly #onRead: () => void;
  /** With more events than this the queue ends with {@link EventsLost}. */
  limit: number | undefined;

  /** `onRead` is called when the consumer takes an event, waits for one, or stops reading. */
  constructor(onRead: () => void) {
    this.#onRead = onRead;
  }

  /**
   * How many events a consumer that is reading has still to take. 0 if there is no such consumer:
   * waiting for one that never comes would stop the connection.
   */
  get backlog(): number {
    return this.#isRead ? this.#waiting.length - this.#taken : 0;
  }

  /** Whether the consumer waits for the next event. */
  get isAwaited(): boolean {
    return this.#waiters > 0;
  }

  push(value: T): void {
    if (this.#ended) return;
    if (this.limit !== undefined && this.#waiting.length - this.#taken >= this.limit) {
      const what = `more than ${this.limit} events have come before events() was called`;
      this.end(new EventsLost(what));
      return;
    }
    this.#waiting.push(value);
    this.#wake();
  }

  /** Puts events before those that are waiting, and removes those of them that `isKnown` names. */
  prepend(values: readonly T[], isKnown: (value: T) => boolean): void {
    const later = this.#waiting.slice(this.#taken).filter((value) => !isKnown(value));
    this.#waiting = [...values, ...later];
    this.#taken = 0;
    this.#wake();
  }

  /** No event follows. The consumer first gets what is waiting, then the error if there is one. */
  end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /**
   * The next event; `done` at the end. Throws the error of the end each time, and `Timeout` if no
   * event comes in time, which loses none.
   */
  async next(wait: WaitOptions = {}): Promise<IteratorResult<T, undefined>> {
    this.#isRead = true;
    while (this.#taken >= this.#waiting.length) {
      if (this.#error !== undefined) throw this.#error;
      if (this.#ended) return { done: true, value: undefined };
      await this.#change(wait);
    }
    const value = this.#take();
    this.#onRead();
    return { done: false, value };
  }

  /** The consumer has left its loop. It may come back. */
  stopReading(): void {
    this.#isRead = false;
    this.#onRead();
  }

  /** Drops what is waiting. */
  clear(): void {
    this.#waiting = [];
    this.#taken = 0;
  }

  /**
   * Takes the oldest event. The array is shortened only when half of it is taken, because that
   * copies the rest.
   */
  #take(): T {
    const value = this.#waiting[this.#taken] as T;
    this.#taken += 1;
    if (this.#taken * 2 >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#taken);
      this.#taken = 0;
    }
    return value;
  }

  /** Waits until an event or the end comes. */
  async #change(wait: WaitOptions): Promise<void> {
    this.#wakeUp ??= deferred();
    const { promise } = this.#wakeUp;
    this.#waiters += 1;
    this.#onRead();
    try {
      await waitFor(promise, "event", wait);
    } finally {
      this.#waiters -= 1;
      this.#onRead();
    }
  }

  #wake(): void {
    this.#wakeUp?.resolve();
    this.#wakeUp = undefined;
  }
}
