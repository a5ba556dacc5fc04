/** Calls of tools and questions in a replay: only those that are still open are handled. */

import type { Event } from "./protocol.js";

export class ReplayedRequests {
  readonly #lastSeq: number;
  #open: Event[] = [];
  #isOver = false;

  /** The replay ends with this number. */
  constructor(lastSeq: number) {
    this.#lastSeq = lastSeq;
  }

  /** The events that are to be handled now. */
  filter(event: Event): Event[] {
    if (this.#isOver) return [event];
    const { seq = 0 } = event;
    if (seq > this.#lastSeq) return [...this.#finish(), event];
    const isShown = this.#collect(event);
    const ready = isShown ? [event] : [];
    return seq === this.#lastSeq ? [...ready, ...this.#finish()] : ready;
  }

  /** Notes what an event opens or ends. Returns whether it needs no answer. */
  #collect(event: Event): boolean {
    switch (event.type) {
      case "host_tool_call":
        this.#open.push(event);
        return false;
      case "extension_ui_request": {
        const isQuestion = ["select", "confirm", "input", "editor"].includes(event.method);
        if (isQuestion) this.#open.push(event);
        return !isQuestion;
      }
      case "host_tool_cancel":
        this.#drop((open) => open.type === "host_tool_call" && open.id === event.targetId);
        return false;
      case "tool_execution_end":
        this.#drop(
          (open) => open.type === "host_tool_call" && open.toolCallId === event.toolCallId,
        );
        return false;
      case "extension_ui_closed":
        this.#drop((open) => open.type === "extension_ui_request" && open.id === event.id);
        return false;
      default:
        return false;
    }
  }

  #drop(isEnded: (open: Event) => boolean): void {
    this.#open = this.#open.filter((open) => !isEnded(open));
  }

  #finish(): Event[] {
    this.#isOver = true;
    return this.#open;
  }
}
