/** One message to the agent, from its command to its result. */

import type { Connection } from "./connection.js";
import { type Deferred, deferred } from "./deferred.js";
import { CommandRefusedError, toError } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import type { CommandOf, Disposition, Image, PromptResult, TillerEvent } from "./protocol.js";

export interface PromptOptions {
  images?: readonly Image[] | undefined;
  /** Your own name for the message, at most 256 bytes. By default a new one is made. */
  clientMessageId?: string | undefined;
  /** Aborts the run. The result then has the status `aborted` or `dropped`. */
  signal?: AbortSignal | undefined;
}

/** The commands that send a message. */
export type PromptCommand = CommandOf<"prompt" | "steer" | "follow_up" | "abort_and_prompt">;

/** How a run sends further messages. */
export interface PromptSender {
  steer(text: string, options?: PromptOptions): PromptRun;
  followUp(text: string, options?: PromptOptions): PromptRun;
}

/**
 * A message that was sent. Iterate it once to get every event from its command to its
 * `prompt_result`, which is the last one; or only await {@link PromptRun.result}.
 */
export class PromptRun implements AsyncIterable<TillerEvent> {
  /** Your name for the message, or the one that was made for it. */
  readonly clientMessageId: string;
  /** Whether the message starts a run, waits in a queue, or was handled by an extension. */
  readonly accepted: Promise<Disposition>;
  /** What became of the message. Rejects only if it is refused or the server ends. */
  readonly result: Promise<PromptResult>;
  /** The text of the last answer. Settles with {@link PromptRun.result}. */
  readonly text: Promise<string>;

  readonly #id: string;
  readonly #connection: Connection;
  readonly #sender: PromptSender;
  readonly #events = new EventQueue<TillerEvent>();
  readonly #result: Deferred<PromptResult> = deferred();
  #answer = "";
  #isOver = false;

  /** @internal */
  constructor(
    connection: Connection,
    sender: PromptSender,
    command: PromptCommand,
    options: PromptOptions,
  ) {
    this.#connection = connection;
    this.#sender = sender;
    this.#id = connection.nextId();
    this.clientMessageId = options.clientMessageId ?? crypto.randomUUID();
    this.result = this.#result.promise;
    this.text = this.result.then(() => this.#answer);
    this.accepted = this.#send(command, options);
    // A program may use only one of them; the others must not count as unhandled.
    for (const promise of [this.accepted, this.result, this.text]) promise.catch(() => {});
    const { signal } = options;
    if (signal === undefined) return;
    const onAbort = (): void => void this.abort().catch(() => {});
    signal.addEventListener("abort", onAbort, { once: true });
    const stopListening = (): void => signal.removeEventListener("abort", onAbort);
    this.result.then(stopListening, stopListening);
  }

  /** Every event until the result. A loop that is left early does not stop the run. */
  [Symbol.asyncIterator](): AsyncIterator<TillerEvent> {
    return this.#events;
  }

  /** The text of the answers as it grows, in place of the events. */
  async *textDeltas(): AsyncGenerator<string, void> {
    for await (const event of this) {
      if (event.type !== "message_update") continue;
      const step = event.assistantMessageEvent;
      if (step.type === "text_delta") yield step.delta;
    }
  }

  /** Stops the run, or removes the message from its queue. Does nothing after the result. */
  async abort(): Promise<void> {
    if (this.#isOver) return;
    const { clientMessageId } = this;
    if ((await this.accepted) === "queued") {
      try {
        await this.#connection.request({ type: "remove_queued", clientMessageId });
        return;
      } catch (error) {
        // The message has left its queue meanwhile.
        if (!(error instanceof CommandRefusedError)) throw error;
      }
    }
    if (!this.#isOver) await this.#connection.request({ type: "abort" });
  }

  /** Sends a message that the model gets after the tools of the current turn. */
  steer(text: string, options?: PromptOptions): PromptRun {
    return this.#sender.steer(text, options);
  }

  /** Sends a message that the model gets when this run would otherwise end. */
  followUp(text: string, options?: PromptOptions): PromptRun {
    return this.#sender.followUp(text, options);
  }

  /** @internal Takes an event. Returns whether it was the result. */
  take(event: TillerEvent): boolean {
    if (this.#isOver) return true;
    this.#events.push(event);
    if (event.type === "message_end" && event.message.role === "assistant") {
      const { content } = event.message;
      this.#answer = content.map((block) => (block.type === "text" ? block.text : "")).join("");
    }
    if (event.type !== "prompt_result" || event.id !== this.#id) return false;
    this.#isOver = true;
    this.#events.end();
    this.#result.resolve(event);
    return true;
  }

  /** @internal There will be no result. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.end(error);
    this.#result.reject(error);
  }

  async #send(command: PromptCommand, options: PromptOptions): Promise<Disposition> {
    const { clientMessageId } = this;
    const images = options.images === undefined ? {} : { images: [...options.images] };
    try {
      options.signal?.throwIfAborted();
      const data = await this.#connection.request(
        { ...command, ...images, clientMessageId },
        { id: this.#id },
      );
      // `abort_and_prompt` has no data: it always starts a run.
      return (data as { disposition?: Disposition } | undefined)?.disposition ?? "started";
    } catch (thrown) {
      this.fail(toError(thrown));
      throw thrown;
    }
  }
}
