/** How a prompt ended. */

import { RunFailed } from "./errors.js";
import type { PromptReason, PromptResultEvent, PromptStatus, Usage } from "./generated.js";

/** How a prompt ended, and what it cost. */
export class Result {
  readonly status: PromptStatus;
  /** Which limit stopped it, or why it was aborted or dropped. */
  readonly reason: PromptReason | undefined;
  /** The text of the last answer. */
  readonly text: string;
  /** The error of the last answer, with status `error` only. */
  readonly error: string | undefined;
  /** The tokens of all answers. */
  readonly usage: Usage;
  /** Dollars. */
  readonly cost: number;
  readonly runs: number;
  readonly turns: number;
  readonly messages: number;
  readonly durationMs: number;
  /** The record as tiller wrote it. */
  readonly record: PromptResultEvent;

  constructor(record: PromptResultEvent, text: string) {
    this.status = record.status;
    this.reason = record.reason;
    this.text = text;
    this.error = record.error;
    this.usage = record.usage;
    this.cost = record.cost;
    this.runs = record.runs;
    this.turns = record.turns;
    this.messages = record.messages;
    this.durationMs = record.durationMs;
    this.record = record;
  }

  /** Whether the prompt was answered, or handled by an extension. */
  get ok(): boolean {
    return this.status === "done" || this.status === "handled";
  }

  /** Returns this result, or throws {@link RunFailed} if the prompt did not end well. */
  check(): this {
    if (!this.ok) throw new RunFailed(this);
    return this;
  }
}
