/** One prompt, from its command to its result. */

import type { Connection } from "./connection.js";
import { CommandRefused, toError } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import type { Image } from "./generated.js";
import type { CommandOf, Disposition, Event, PromptCommandName } from "./protocol.js";
import type { ReadGate } from "./read-gate.js";
import { Result } from "./result.js";
import { type Deferred, deferred, waitFor, type WaitOptions } from "./waiting.js";

export interface MessageOptions {
  images?: readonly Image[] | undefined;
  /** Your own name for the message, at most 256 bytes. By default a new one is made. */
  clientMessageId?: string | undefined;
  /** Aborts the prompt, as {@link Turn.abort} does. */
  signal?: AbortSignal | undefined;
}

/** How a turn sends further messages. */
export interface MessageSender {
  prompt(message: string, options?: MessageOptions & { whenBusy?: "steer" | "followUp" }): Turn;
}

/** What a turn needs of its client. */
export interface TurnContext {
  readonly connection: Connection;
  readonly gate: ReadGate;
  readonly sender: MessageSender;
  readonly timeoutMs: number | undefined;
}

type Phase = "sent" | "queued" | "running" | "over";
export type MessageCommand = CommandOf<PromptCommandName>;

/**
 * A prompt and what becomes of it. `for await` gives its events, the last of which is its
 * `prompt_result`; a loop that was left can be continued by another. A prompt that starts a run gets
 * all events from then on, a queued one those from its own user message on.
 */
export class Turn implements AsyncIterable<Event> {
  /** The id of the message: the caller's, or one that the client has made. */
  readonly clientMessageId: string;
  /** What tiller does with the message. Rejects if it is refused. */
  readonly accepted: Promise<Disposition>;

  readonly #context: TurnContext;
  readonly #id: string;
  readonly #events: EventQueue<Event>;
  readonly #result: Deferred<Result> = deferred();
  #phase: Phase = "sent";
  #text = "";

  /** @internal */
  constructor(context: TurnContext, command: MessageCommand, options: MessageOptions) {
    this.#context = context;
    this.#id = context.connection.nextId();
    this.#events = new EventQueue(() => context.gate.update());
    context.gate.add(this.#events);
    this.clientMessageId = options.clientMessageId ?? crypto.randomUUID();
    this.accepted = this.#send(command, options);
    // A program may use only one of the two; the other must not count as unhandled.
    this.accepted.catch(() => {});
    this.#result.promise.catch(() => {});
    this.#abortOn(options.signal);
  }

  /** The text of the newest answer, as far as it has arrived. */
  get text(): string {
    return this.#text;
  }

  /** Whether there is a result, or an error in place of it. */
  get done(): boolean {
    return this.#phase === "over";
  }

  [Symbol.asyncIterator](): AsyncIterator<Event, undefined> {
    const events = this.#events;
    return {
      next: () => events.next(),
      return: async () => {
        events.stopReading();
        return { done: true, value: undefined };
      },
    };
  }

  /** The pieces of the answers' text as they arrive, in place of the events. */
  async *textStream(): AsyncGenerator<string, void> {
    for await (const event of this) {
      if (event.type !== "message_update") continue;
      const step = event.assistantMessageEvent;
      if (step.type === "text_delta") yield step.delta;
    }
  }

  /** Waits for the end of the prompt. Rejects if the message is refused or tiller ends. */
  result(options?: WaitOptions): Promise<Result> {
    return this.#context.gate.during(waitFor(this.#result.promise, "result", options));
  }

  /** Stops this prompt: takes it out of its queue, or aborts its run. */
  async abort(): Promise<void> {
    try {
      await this.accepted;
    } catch {
      return;
    }
    const { connection, timeoutMs } = this.#context;
    if (this.#phase === "queued") {
      const { clientMessageId } = this;
      try {
        await connection.request({ type: "remove_queued", clientMessageId }, { timeoutMs });
        return;
      } catch (error) {
        // The message has left its queue meanwhile.
        if (!(error instanceof CommandRefused)) throw error;
      }
    }
    if (!this.done) await connection.request({ type: "abort" }, { timeoutMs });
  }

  /**
   * Sends a message that the model gets after the tools of the current turn. If the run has ended
   * meanwhile, the message starts another one.
   */
  steer(message: string, options?: MessageOptions): Turn {
    return this.#context.sender.prompt(message, { ...options, whenBusy: "steer" });
  }

  /**
   * Sends a message that the model gets when the run would otherwise end. If the run has ended
   * meanwhile, the message starts another one.
   */
  followUp(message: string, options?: MessageOptions): Turn {
    return this.#context.sender.prompt(message, { ...options, whenBusy: "followUp" });
  }

  /** @internal Takes an event of the connection. */
  receive(event: Event): void {
    if (this.#phase === "queued" && event.type === "message_start") {
      if (event.clientMessageId === this.clientMessageId) this.#phase = "running";
    }
    if (event.type === "prompt_result" && event.id === this.#id) {
      this.#events.push(event);
      this.#result.resolve(new Result(event, this.#text));
      this.#end();
    } else if (this.#phase === "running") {
      this.#readText(event);
      this.#events.push(event);
    }
  }

  /** @internal There will be no result. */
  fail(error: Error): void {
    if (this.#phase === "over") return;
    this.#result.reject(error);
    this.#end(error);
  }

  async #send(command: MessageCommand, options: MessageOptions): Promise<Disposition> {
    const { connection, timeoutMs } = this.#context;
    const images = options.images === undefined ? {} : { images: [...options.images] };
    const { clientMessageId } = this;
    let disposition: Disposition = "started";
    const onAccepted = (data: unknown): void => {
      // `abort_and_prompt` has no data: its run starts.
      disposition = (data as { disposition?: Disposition } | undefined)?.disposition ?? "started";
      if (this.#phase === "sent") this.#phase = disposition === "queued" ? "queued" : "running";
    };
    try {
      options.signal?.throwIfAborted();
      const whole = { ...command, ...images, clientMessageId };
      await connection.request(whole, { id: this.#id, onAccepted, timeoutMs });
      return disposition;
    } catch (thrown) {
      this.fail(toError(thrown));
      throw thrown;
    }
  }

  #abortOn(signal: AbortSignal | undefined): void {
    if (signal === undefined) return;
    const onAbort = (): void => void this.abort().catch(() => {});
    signal.addEventListener("abort", onAbort, { once: true });
    const stopListening = (): void => signal.removeEventListener("abort", onAbort);
    this.#result.promise.then(stopListening, stopListening);
  }

  #readText(event: Event): void {
    if (event.type === "message_update") {
      const step = event.assistantMessageEvent;
      if (step.type === "text_delta") this.#text += step.delta;
    } else if (event.type === "message_start" || event.type === "message_end") {
      const { message } = event;
      if (message.role !== "assistant") return;
      this.#text = message.content
        .map((block) => (block.type === "text" ? block.text : ""))
        .join("");
    }
  }

  #end(error?: Error): void {
    this.#phase = "over";
    this.#events.end(error);
    this.#context.gate.remove(this.#events);
  }
}
