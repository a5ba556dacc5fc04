/** A client of one tiller server. */

import { Commands } from "./commands.js";
import { type AnyCommand, Connection } from "./connection.js";
import { type DialogHandlers, Dialogs } from "./dialogs.js";
import { ClientClosed, EventsLost, ProtocolError, type TillerError } from "./errors.js";
import { EventQueue } from "./event-queue.js";
import { EventStream } from "./event-stream.js";
import type { HelloData } from "./generated.js";
import { HostTools, type Tool } from "./host-tools.js";
import { ProcessTransport } from "./process-transport.js";
import type { Command, DataOf, Event, Response } from "./protocol.js";
import { ReadGate, SharedSource } from "./read-gate.js";
import type { ReplayedRequests } from "./replayed-requests.js";
import type { Transport } from "./transport.js";
import { type MessageCommand, type MessageOptions, type MessageSender, Turn } from "./turn.js";
import type { WaitOptions } from "./waiting.js";

/** Options of a client, whatever carries its lines. */
export interface ConnectOptions extends DialogHandlers {
  /** Functions that the model can call. */
  tools?: readonly Tool[] | undefined;
  /** Limits the wait for each response, in milliseconds. By default there is no limit. */
  timeoutMs?: number | undefined;
  /** How long tiller may take to answer the first command. Default: 30,000. */
  startTimeoutMs?: number | undefined;
}

export interface StartOptions extends ConnectOptions {
  /** The program, or the program and its first arguments. Default: `tiller`. */
  command?: string | readonly [string, ...string[]] | undefined;
  /** Such as `anthropic/claude-sonnet-4-5`. Default: the user's. */
  model?: string | undefined;
  /** Further arguments. */
  args?: readonly string[] | undefined;
  /** The folder in which the agent works. Default: that of this process. */
  cwd?: string | undefined;
  /** The environment, as in `child_process`. Default: that of this process. */
  env?: NodeJS.ProcessEnv | undefined;
  /** How long `close` waits for tiller to end by itself before SIGTERM. Default: 5,000. */
  closeMs?: number | undefined;
  /** How long tiller may take after SIGTERM before SIGKILL. Default: 5,000. */
  terminateMs?: number | undefined;
}

export interface PromptOptions extends MessageOptions {
  /** The queue to use while tiller is busy. Without it the prompt is then refused. */
  whenBusy?: "steer" | "followUp" | undefined;
}

export interface ReplayOptions extends WaitOptions {
  /** The `epoch` of the event that `since` numbers. */
  epoch?: string | undefined;
}

/** How a session of a server differs from a process of its own. */
export interface SessionParts {
  /** What the server has said about itself. */
  readonly hello: HelloData;
  readonly idPrefix: string;
  readonly gate: ReadGate;
  /** Whether questions are answered, and not left to other clients. */
  readonly answersDialogs: boolean;
  /** How many events are kept until `events` is called; `undefined`: none. */
  readonly earlyEvents: number | undefined;
  /** Where numbered events are continued. */
  readonly position: { since: number; epoch: string } | undefined;
  readonly replayed: ReplayedRequests | undefined;
}

/** A tiller process. `start` starts it, `close` ends it, and `await using` does both. */
export class Client extends Commands implements MessageSender, AsyncDisposable {
  readonly #transport: Transport;
  readonly #connection: Connection;
  readonly #gate: ReadGate;
  readonly #hostTools: HostTools;
  readonly #dialogs: Dialogs;
  readonly #queues = new Set<EventQueue<Event>>();
  readonly #turns = new Set<Turn>();
  readonly #timeoutMs: number | undefined;
  readonly #replayed: ReplayedRequests | undefined;
  /** The events since an attachment, until `events` is called. */
  #early: EventQueue<Event> | undefined;
  #hello: HelloData | undefined;

  /** Starts `tiller --mode rpc` and returns a client for it. */
  static start(options: StartOptions = {}): Promise<Client> {
    const { command = "tiller", model, args = [], cwd, env, closeMs, terminateMs } = options;
    const [program, ...first] = typeof command === "string" ? [command] : command;
    const chosen = model === undefined ? [] : ["--model", model];
    const transport = new ProcessTransport({
      command: [program, ...first, "--mode", "rpc", "--wire", "pi-delta", ...chosen, ...args],
      cwd,
      env,
      closeMs,
      terminateMs,
    });
    return Client.connect(transport, options);
  }

  /** Connects over a transport, for servers that {@link Client.start} cannot start. */
  static async connect(transport: Transport, options: ConnectOptions = {}): Promise<Client> {
    const client = new Client(transport, options);
    try {
      await client.#greet(options.startTimeoutMs ?? 30_000);
      if (options.tools !== undefined) await client.setTools(options.tools);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  protected constructor(transport: Transport, options: ConnectOptions, parts?: SessionParts) {
    super();
    this.#transport = transport;
    this.#timeoutMs = options.timeoutMs;
    this.#hello = parts?.hello;
    this.#replayed = parts?.replayed;
    this.#gate = parts?.gate ?? new ReadGate(new SharedSource(transport));
    const handlers = {
      onEvent: (event: Event) => this.#dispatch(event),
      onRefusedLine: (id: string, command: string, reason: string) => {
        if (command === "host_tool_result") this.#hostTools.replaceRefusedResult(id, reason);
      },
      onClosed: (error: TillerError) => this.#end(error),
    };
    this.#connection = new Connection(transport, handlers, parts?.idPrefix);
    this.#hostTools = new HostTools(this.#connection);
    this.#dialogs = new Dialogs(this.#connection, options, parts?.answersDialogs ?? true);
    if (parts?.position !== undefined) {
      this.#connection.continueFrom(parts.position.epoch, parts.position.since);
    }
    if (parts?.earlyEvents !== undefined) {
      this.#hostTools.prepare(options.tools ?? []);
      this.#early = this.#subscribe();
      this.#early.limit = parts.earlyEvents;
    }
    this.#connection.open();
  }

  /** Why the connection is over, or `undefined`. */
  protected get end(): TillerError | undefined {
    return this.#connection.error;
  }

  /** What tiller said about itself at the start: version, commands, events, limits. */
  get server(): HelloData {
    if (this.#hello === undefined) throw new ProtocolError("tiller has not answered yet");
    return this.#hello;
  }

  /** The process id of tiller; `undefined` if the client did not start it. */
  get pid(): number | undefined {
    return this.#transport instanceof ProcessTransport ? this.#transport.pid : undefined;
  }

  /** The end of what tiller wrote to stderr. */
  get stderrTail(): string {
    return this.#transport instanceof ProcessTransport ? this.#transport.stderrTail : "";
  }

  /** The name of this process's numbering. Numbers of another epoch mean nothing here. */
  get epoch(): string | undefined {
    return this.#connection.epoch;
  }

  /** The `seq` of the newest record. */
  get lastSeq(): number {
    return this.#connection.lastSeq;
  }

  override request<const C extends Command>(
    command: C,
    options?: WaitOptions,
  ): Promise<DataOf<C["type"]>>;
  override request(command: AnyCommand, options?: WaitOptions): Promise<unknown>;
  override request(command: AnyCommand, options: WaitOptions = {}): Promise<unknown> {
    const limits = { timeoutMs: this.#timeoutMs, ...options };
    return this.#gate.during(this.#connection.request(command, limits));
  }

  /** Sends a user message. While tiller is busy it is refused, unless `whenBusy` names a queue. */
  prompt(message: string, { whenBusy, ...options }: PromptOptions = {}): Turn {
    const busy = whenBusy === undefined ? {} : { streamingBehavior: whenBusy };
    return this.#turn({ type: "prompt", message, ...busy }, options);
  }

  /** Queues a message that is sent after the tools of the current turn. */
  steer(message: string, options: MessageOptions = {}): Turn {
    return this.#turn({ type: "steer", message }, options);
  }

  /** Queues a message that is sent when the run would otherwise end. */
  followUp(message: string, options: MessageOptions = {}): Turn {
    return this.#turn({ type: "follow_up", message }, options);
  }

  /** Stops the current run and starts a new one with this message. */
  abortAndPrompt(message: string, options: MessageOptions = {}): Turn {
    return this.#turn({ type: "abort_and_prompt", message }, options);
  }

  /** Offers these tools to the model, in place of those offered before. */
  setTools(tools: readonly Tool[]): Promise<void> {
    return this.#gate.during(this.#hostTools.change(() => tools));
  }

  /** Offers one more tool from the next request on. */
  addTool(tool: Tool): Promise<void> {
    return this.#gate.during(this.#hostTools.change((tools) => [...tools, tool]));
  }

  /** Withdraws a tool from the next request on. */
  removeTool(name: string): Promise<void> {
    const others = (tools: readonly Tool[]): Tool[] => tools.filter((tool) => tool.name !== name);
    return this.#gate.during(this.#hostTools.change(others));
  }

  /** All events from now on. The options limit the wait for each of them. */
  events(options: WaitOptions = {}): EventStream {
    const queue = this.#early ?? this.#subscribe();
    this.#early = undefined;
    queue.limit = undefined;
    return this.#stream(queue, options);
  }

  /**
   * All events after number `since`: first those of the past, then the live ones, without a gap or
   * a duplicate. Rejects with {@link EventsLost} if tiller no longer has all of them.
   */
  async replay(since: number, { epoch, ...options }: ReplayOptions = {}): Promise<EventStream> {
    const queue = this.#subscribe();
    const stream = this.#stream(queue, options);
    try {
      const { past, position } = await this.#past(since, epoch);
      queue.prepend(past, (event) => event.seq !== undefined && event.seq <= position);
      return stream;
    } catch (error) {
      stream.close();
      throw error;
    }
  }

  /**
   * Ends tiller: closes its stdin, waits, terminates, kills. A run in progress is aborted, and its
   * events and its result still arrive. Closing twice is not an error.
   */
  async close(): Promise<void> {
    await this.#connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #greet(timeoutMs: number): Promise<void> {
    const wanted = { client: "tiller-client (TypeScript)", promptResults: true, sequence: true };
    const hello = await this.request({ type: "hello", ...wanted }, { timeoutMs });
    const missing = (["promptResults", "sequence"] as const).filter((name) => !hello?.[name]);
    if (missing.length > 0) {
      const found = `${hello?.server} ${hello?.version}`;
      const lacks = missing.join(" and no ");
      throw new ProtocolError(`this client needs a newer tiller: ${found} has no ${lacks}`);
    }
    if (hello.limits?.lineBytes) this.#connection.setMaxLineBytes(hello.limits.lineBytes);
    this.#hello = hello;
  }

  #turn(command: MessageCommand, options: MessageOptions): Turn {
    const context = {
      connection: this.#connection,
      gate: this.#gate,
      sender: this,
      timeoutMs: this.#timeoutMs,
    };
    const turn = new Turn(context, command, options);
    this.#turns.add(turn);
    return turn;
  }

  #subscribe(): EventQueue<Event> {
    const queue = new EventQueue<Event>(() => this.#gate.update());
    const { error } = this.#connection;
    if (error !== undefined) {
      queue.end(error instanceof ClientClosed ? undefined : error);
      return queue;
    }
    this.#queues.add(queue);
    this.#gate.add(queue);
    return queue;
  }

  #stream(queue: EventQueue<Event>, options: WaitOptions): EventStream {
    return new EventStream(queue, options, () => {
      this.#queues.delete(queue);
      this.#gate.remove(queue);
    });
  }

  /** The stored events after `since`, and the number of the newest record among them. */
  async #past(since: number, epoch: string | undefined) {
    const named = epoch === undefined ? {} : { epoch };
    const past: Event[] = [];
    let position = since;
    for (;;) {
      const page = await this.request({ type: "get_events", since: position, ...named });
      if (page.truncated) throw new EventsLost(`tiller no longer has all events after ${since}`);
      for (const record of page.events as (Event | Response)[]) {
        position = Math.max(position, record.seq ?? 0);
        if (record.type !== "response") past.push(record);
      }
      if (!page.more || page.events.length === 0) return { past, position };
    }
  }

  #dispatch(event: Event): void {
    for (const turn of this.#turns) {
      turn.receive(event);
      if (turn.done) this.#turns.delete(turn);
    }
    for (const queue of this.#queues) queue.push(event);
    this.#gate.update();
    const ready = this.#replayed === undefined ? [event] : this.#replayed.filter(event);
    for (const one of ready) this.#handle(one);
  }

  /** Does what an event asks the client for. */
  #handle(event: Event): void {
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
      case "extension_ui_closed":
        this.#dialogs.close(event.id);
        break;
    }
  }

  #end(error: TillerError): void {
    const reason = error instanceof ClientClosed ? undefined : error;
    for (const queue of this.#queues) {
      queue.end(reason);
      this.#gate.remove(queue);
    }
    this.#queues.clear();
    for (const turn of this.#turns) turn.fail(error);
    this.#turns.clear();
    this.#hostTools.cancelAll(error);
    this.#dialogs.closeAll();
  }
}
