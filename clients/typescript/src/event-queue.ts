/** Events between the connection, which pushes them, and one consumer, which awaits them. */

import { type Deferred, deferred } from "./deferred.js";

export class EventQueue<T> implements AsyncIterableIterator<T> {
  #waiting: T[] = [];
  #taken = 0;
  #ended = false;
  #error: Error | undefined;
  #wakeUp: Deferred<void> | undefined;
  readonly #onReturn: () => void;

  /** `onReturn` is called when the consumer leaves its loop. */
  constructor(onReturn: () => void = () => {}) {
    this.#onReturn = onReturn;
  }

  push(value: T): void {
    if (this.#ended) return;
    this.#waiting.push(value);
    this.#wake();
  }

  /** No event follows. The consumer first gets what is waiting, then the error if there is one. */
  end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    for (;;) {
      if (this.#taken < this.#waiting.length) return { done: false, value: this.#take() };
      if (this.#ended) {
        const error = this.#error;
        this.#error = undefined;
        if (error !== undefined) throw error;
        return { done: true, value: undefined };
      }
      this.#wakeUp ??= deferred();
      await this.#wakeUp.promise;
    }
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#waiting = [];
    this.#taken = 0;
    this.end();
    this.#error = undefined;
    this.#onReturn();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
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

  #wake(): void {
    this.#wakeUp?.resolve();
    this.#wakeUp = undefined;
  }
}
