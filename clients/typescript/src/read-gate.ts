/**
 * Stops reading from the server while consumers are far behind.
 *
 * tiller then merges deltas and, if its reader stays behind, starts no further turn. Reading goes
 * on as long as anything in this program waits for a line, however long the other queues are: a
 * loop over events may send commands and await their responses. The sessions of one connection have
 * a gate each, so that none of them holds back what another waits for.
 */

/** A queue of one consumer. */
export interface Backlog {
  /** How many events its consumer has still to take. */
  readonly backlog: number;
  /** Whether its consumer waits for the next event. */
  readonly isAwaited: boolean;
}

export interface Pausable {
  pause(): void;
  resume(): void;
}

/** Reading stops above this number of events in one queue. */
export const PAUSE_ABOVE = 2048;
/** And goes on when no queue has more than this. */
export const RESUME_AT = 1024;

/** Whether to read, given the longest queue. */
export function shouldPause(isPaused: boolean, isAwaited: boolean, longest: number): boolean {
  if (isAwaited) return false;
  return longest > (isPaused ? RESUME_AT : PAUSE_ABOVE);
}

/** What the consumers of a gate want: a line, nothing in particular, or no further line. */
type Demand = "awaited" | "open" | "paused";

/** A connection whose reading one or more gates decide. */
export class SharedSource {
  readonly #source: Pausable;
  /** The number of gates with each demand, as far as they have changed it. */
  readonly #gates: Record<Demand, number> = { awaited: 0, open: 0, paused: 0 };
  #isPaused = false;

  constructor(source: Pausable) {
    this.#source = source;
  }

  /** The demand of a gate has changed. */
  change(before: Demand, after: Demand): void {
    this.#gates[before] -= 1;
    this.#gates[after] += 1;
    const isPaused = this.#gates.paused > 0 && this.#gates.awaited === 0;
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    if (isPaused) this.#source.pause();
    else this.#source.resume();
  }
}

export class ReadGate {
  readonly #source: SharedSource;
  readonly #queues = new Set<Backlog>();
  #waits = 0;
  #isPaused = false;
  #demand: Demand = "open";

  constructor(source: SharedSource) {
    this.#source = source;
  }

  add(queue: Backlog): void {
    this.#queues.add(queue);
  }

  remove(queue: Backlog): void {
    this.#queues.delete(queue);
    this.update();
  }

  /** Reads at least until the promise has settled. */
  async during<T>(promise: Promise<T>): Promise<T> {
    this.#waits += 1;
    this.update();
    try {
      return await promise;
    } finally {
      this.#waits -= 1;
      this.update();
    }
  }

  /** A queue has changed. */
  update(): void {
    let isAwaited = this.#waits > 0;
    let longest = 0;
    for (const queue of this.#queues) {
      isAwaited ||= queue.isAwaited;
      longest = Math.max(longest, queue.backlog);
    }
    this.#isPaused = shouldPause(this.#isPaused, isAwaited, longest);
    const demand = isAwaited ? "awaited" : this.#isPaused ? "paused" : "open";
    if (demand === this.#demand) return;
    const before = this.#demand;
    this.#demand = demand;
    this.#source.change(before, demand);
  }
}
