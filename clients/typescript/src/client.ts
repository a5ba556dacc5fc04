/** A client of one tiller server. */

import { Commands, type CommandResults, type FieldsAndOptions } from "./commands.js";
import { Connection, type RequestOptions } from "./connection.js";
import { type DialogHandlers, Dialogs } from "./dialogs.js";
import { EventsLostError, ProtocolError, type TillerError } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import { HostTools, type Tool } from "./host-tools.js";
import { ProcessTransport } from "./process-transport.js";
import { type PromptCommand, type PromptOptions, PromptRun } from "./prompt-run.js";
import type { Command, CommandName, HelloData, Response, TillerEvent } from "./protocol.js";
import type { Transport } from "./transport.js";

/** Options of a client, whatever carries its lines. */
export interface ConnectOptions extends DialogHandlers {
  /** The name of your program, for logs. */
  client?: string | undefined;
  /** How long the server may take to answer the first command, in milliseconds. Default: 30,000. */
  startTimeoutMs?: number | undefined;
}

export interface StartOptions extends ConnectOptions {
  /** The program. Default: `tiller`. */
  command?: string | undefined;
  /** Arguments such as `["--model", "anthropic/claude-sonnet-4-5"]`. */
  args?: readonly string[] | undefined;
  /** The folder in which the agent works. Default: that of this process. */
  cwd?: string | undefined;
  /** Variables in addition to those of this process; `undefined` removes one. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** How long `close` waits for the server to end by itself, in milliseconds. Default: 5,000. */
  closeGraceMs?: number | undefined;
}

/** Where a consumer continues. */
export interface EventsFrom {
  /** The `seq` of the last event that the consumer has. */
  since: number;
  /** The `epoch` of that event. Without it, that of the current server. */
  epoch?: string | undefined;
}

/** How many stored records are read at once. */
const REPLAY_PAGE = 500;

export class Client extends Commands implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #connection: Connection;
  readonly #hostTools: HostTools;
  readonly #dialogs: Dialogs;
  readonly #streams = new Set<EventQueue<TillerEvent>>();
  readonly #runs = new Set<PromptRun>();
  #hello: HelloData | undefined;
  #isClosing = false;

  /** Starts `tiller --mode rpc` as a child process. */
  static start(options: StartOptions = {}): Promise<Client> {
    const transport = new ProcessTransport({
      command: options.command ?? "tiller",
      args: ["--mode", "rpc", "--wire", "pi-delta", ...(options.args ?? [])],
      cwd: options.cwd,
      env: options.env,
      closeGraceMs: options.closeGraceMs ?? 5000,
    });
    return Client.connect(transport, options);
  }

  /** Uses a connection to a server that something else has started. */
  static async connect(transport: Transport, options: ConnectOptions = {}): Promise<Client> {
    const client = new Client(transport, options);
    try {
      await client.#greet(options);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  private constructor(transport: Transport, options: ConnectOptions) {
    super();
    this.#transport = transport;
    this.#connection = new Connection(transport, {
      onEvent: (event) => this.#dispatch(event),
      onRefusedLine: (id, command, reason) => {
        if (command === "host_tool_result") this.#hostTools.replaceRefusedResult(id, reason);
      },
      onClosed: (error) => this.#end(error),
    });
    this.#hostTools = new HostTools(this.#connection);
    this.#dialogs = new Dialogs(this.#connection, options);
  }

  /** What the server supports, as it said at the start. */
  get server(): HelloData {
    if (this.#hello === undefined) throw new ProtocolError("the server has not answered yet");
    return this.#hello;
  }

  /** The id of the server's process; `undefined` if the client did not start it. */
  get pid(): number | undefined {
    return this.#transport instanceof ProcessTransport ? this.#transport.pid : undefined;
  }

  /** Names the server process that numbers the events. */
  get epoch(): string | undefined {
    return this.#connection.epoch;
  }

  /** The `seq` of the newest record that has arrived. */
  get lastSeq(): number {
    return this.#connection.lastSeq;
  }

  /** Sends any command and returns the data of its response. */
  async request<K extends CommandName>(
    type: K,
    ...[fields, options]: FieldsAndOptions<K>
  ): Promise<CommandResults[K]> {
    const command = { type, ...fields } as Command;
    return (await this.#connection.request(command, options)) as CommandResults[K];
  }

  /** Sends a message. If the agent is busy, it is refused. */
  prompt(text: string, options: PromptOptions = {}): PromptRun {
    return this.#run({ type: "prompt", message: text }, options);
  }

  /** Sends a message that the model gets after the tools of the current turn. */
  steer(text: string, options: PromptOptions = {}): PromptRun {
    return this.#run({ type: "steer", message: text }, options);
  }

  /** Sends a message that the model gets when the run would otherwise end. */
  followUp(text: string, options: PromptOptions = {}): PromptRun {
    return this.#run({ type: "follow_up", message: text }, options);
  }

  /** Stops the current run and sends a message in its place. */
  abortAndPrompt(text: string, options: PromptOptions = {}): PromptRun {
    return this.#run({ type: "abort_and_prompt", message: text }, options);
  }

  /** Offers these tools to the model, in place of those offered before. Returns their names. */
  setTools(tools: readonly Tool[]): Promise<string[]> {
    return this.#hostTools.set(tools);
  }

  /**
   * All events from now on; with `since`, all after that one. Ends when the client is closed, and
   * throws if the server ends by itself, or if events after `since` are no longer stored.
   */
  events(from?: EventsFrom): AsyncIterableIterator<TillerEvent> {
    const live = this.#subscribe();
    return from === undefined ? live : this.#continue(from, live);
  }

  /** The stored events after `since`, up to now. Throws if some are no longer stored. */
  async *replay(since: number, epoch?: string): AsyncGenerator<TillerEvent, void> {
    let next = since;
    const until = this.lastSeq;
    for (let more = true; more && next < until; ) {
      const named = epoch === undefined ? {} : { epoch };
      const page = await this.request("get_events", { since: next, limit: REPLAY_PAGE, ...named });
      if (page.truncated) {
        throw new EventsLostError(`events after ${since} are no longer stored`);
      }
      for (const record of page.events as (TillerEvent | Response)[]) {
        next = record.seq ?? next;
        if (next > until) return;
        if (record.type !== "response") yield record;
      }
      more = page.more;
    }
  }

  /** Ends the server, in bounded time. A current run is aborted, and its result still comes. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #greet(options: ConnectOptions): Promise<void> {
    const hello = await this.request(
      "hello",
      { client: options.client ?? "tiller-client", promptResults: true, sequence: true },
      { timeoutMs: options.startTimeoutMs ?? 30_000 },
    );
    if (hello.promptResults !== true || hello.sequence === undefined) {
      const server = `${hello.server} ${hello.version}`;
      throw new ProtocolError(`${server} is too old: it has no prompt results or event numbers`);
    }
    this.#connection.setMaxLineBytes(hello.limits.lineBytes);
    this.#hello = hello;
  }

  #run(command: PromptCommand, options: PromptOptions): PromptRun {
    const run = new PromptRun(this.#connection, this, command, options);
    this.#runs.add(run);
    const forget = (): boolean => this.#runs.delete(run);
    run.result.then(forget, forget);
    return run;
  }

  #subscribe(): EventQueue<TillerEvent> {
    const stream = new EventQueue<TillerEvent>(() => this.#streams.delete(stream));
    const { error } = this.#connection;
    if (error === undefined) this.#streams.add(stream);
    else stream.end(this.#isClosing ? undefined : error);
    return stream;
  }

  /** The stored events, then the live ones, of which some may be stored too. */
  async *#continue(
    { since, epoch }: EventsFrom,
    live: EventQueue<TillerEvent>,
  ): AsyncGenerator<TillerEvent, undefined> {
    try {
      let last = since;
      if (epoch !== undefined && epoch !== this.epoch) {
        throw new EventsLostError(`the server that wrote event ${since} has ended`);
      }
      for await (const event of this.replay(since, epoch)) {
        last = event.seq ?? last;
        yield event;
      }
      for await (const event of live) {
        if (event.seq === undefined || event.seq > last) yield event;
      }
      return undefined;
    } finally {
      await live.return();
    }
  }

  #dispatch(event: TillerEvent): void {
    for (const stream of this.#streams) stream.push(event);
    for (const run of this.#runs) {
      if (run.take(event)) this.#runs.delete(run);
    }
    switch (event.type) {
      case "host_tool_call":
        void this.#hostTools.call(event);
        break;
      case "host_tool_cancel":
        this.#hostTools.cancel(event);
        break;
      case "extension_ui_request":
        void this.#dialogs.show(event);
        break;
    }
  }

  #end(error: TillerError): void {
    for (const stream of this.#streams) stream.end(this.#isClosing ? undefined : error);
    this.#streams.clear();
    for (const run of this.#runs) run.fail(error);
    this.#runs.clear();
    this.#hostTools.cancelAll(error);
  }
}

export type { RequestOptions };
