/** Tools that this program runs for the model. */

import type { Connection } from "./connection.js";
import { toError } from "./errors.js";
import type { HostTool, ToolOutput } from "./generated.js";
import type { EventOf } from "./protocol.js";
import type { FromSchema, JsonSchema } from "./tool-schema.js";

/** A block of a tool's result. */
export type ToolContent =
  { type: "text"; text: string } | { type: "image"; data: string; mimeType: string };

/** A result with more than a text. */
export interface ToolResult {
  content: readonly ToolContent[];
  /** For clients and the session file; the model does not see it. */
  details?: unknown;
  /** The call has failed, and the texts say why. */
  isError?: boolean;
}

/** What a call knows about itself. */
export interface ToolContext {
  readonly toolName: string;
  /** The model's id of the call, as in `tool_execution_start`. */
  readonly toolCallId: string;
  /** Aborts when the result is no longer needed: after an abort, a time limit or the end. */
  readonly signal: AbortSignal;
  /** Shows a partial result, which replaces the one before. */
  update(partial: unknown): Promise<void>;
}

/** A tool with its function. Made by {@link defineTool}. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** The JSON Schema of the arguments. tiller checks them before a call. */
  readonly parameters: JsonSchema;
  /** The name is reserved, but the model is not offered the tool. */
  readonly hidden?: boolean;
  /** tiller gives up after so many milliseconds, and the signal aborts. */
  readonly timeoutMs?: number;
  run(args: never, context: ToolContext): unknown;
}

export interface ToolDefinition<S extends JsonSchema> extends Omit<Tool, "parameters" | "run"> {
  readonly parameters: S;
  /**
   * Runs a call. Returns a text, a {@link ToolResult}, or anything else that JSON can express, of
   * which the model gets the JSON. An error that it throws is an error that the model can read.
   */
  run(args: FromSchema<S>, context: ToolContext): unknown;
}

/** Defines a tool. The type of `args` follows from the JSON Schema in `parameters`. */
export function defineTool<const S extends JsonSchema>(definition: ToolDefinition<S>): Tool {
  return definition;
}

/** The tools that are offered now, and the calls that are running. */
export class HostTools {
  readonly #connection: Connection;
  readonly #calls = new Map<string, AbortController>();
  #tools: ReadonlyMap<string, Tool> = new Map();
  /** Changes are made one after the other, because each replaces the whole list. */
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Changes the list. If tiller refuses it, nothing changes. Running calls continue. */
  change(edit: (tools: readonly Tool[]) => readonly Tool[]): Promise<void> {
    const change = this.#lastChange.then(async () => {
      const tools = edit([...this.#tools.values()]);
      const offered = new Map(tools.map((tool) => [tool.name.trim(), tool]));
      await this.#connection.request(
        { type: "set_host_tools", tools: tools.map(toHostTool) },
        { onAccepted: () => (this.#tools = offered) },
      );
    });
    this.#lastChange = change.catch(() => {});
    return change;
  }

  /** Calls may come before tiller has accepted these tools: an attached session has had them. */
  prepare(tools: readonly Tool[]): void {
    this.#tools = new Map(tools.map((tool) => [tool.name.trim(), tool]));
  }

  /** Runs a call and sends its result. Never rejects. */
  async call(call: EventOf<"host_tool_call">): Promise<void> {
    const { id, toolCallId, toolName } = call;
    const controller = new AbortController();
    this.#calls.set(id, controller);
    const { signal } = controller;
    const update = async (partial: unknown): Promise<void> => {
      if (!this.#calls.has(id)) return;
      const { output } = toOutput(partial);
      await this.#connection.send({ type: "host_tool_update", id, partialResult: output });
    };
    try {
      const tool = this.#tools.get(toolName);
      if (tool === undefined) throw new Error(`The tool ${toolName} is no longer available`);
      const context = { toolName, toolCallId, signal, update };
      this.#finish(id, await tool.run(call.arguments as never, context));
    } catch (thrown) {
      this.#finish(id, failure(describe(thrown)));
    }
    this.#calls.delete(id);
  }

  /** tiller no longer waits for the result of a call. */
  cancel({ targetId }: EventOf<"host_tool_cancel">): void {
    const controller = this.#calls.get(targetId);
    this.#calls.delete(targetId);
    controller?.abort(new Error("tiller has cancelled the call"));
  }

  /** The connection is over. */
  cancelAll(reason: Error): void {
    const controllers = [...this.#calls.values()];
    this.#calls.clear();
    for (const controller of controllers) controller.abort(reason);
  }

  /** tiller has refused a result, such as an image that is not base64, and waits for another. */
  replaceRefusedResult(id: string, reason: string): void {
    this.#send(id, failure(`The tool returned an invalid result: ${reason}`));
  }

  /** Sends the result, unless the call was cancelled. Throws if it cannot be sent. */
  #finish(id: string, returned: unknown): void {
    if (this.#calls.has(id)) this.#send(id, returned);
  }

  #send(id: string, returned: unknown): void {
    const { output, isError } = toOutput(returned);
    const failed = isError ? { isError } : {};
    void this.#connection.send({ type: "host_tool_result", id, result: output, ...failed });
  }
}

function toHostTool({ name, description, parameters, hidden, timeoutMs }: Tool): HostTool {
  return {
    name,
    description,
    parameters,
    ...(hidden === undefined ? {} : { hidden }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
}

/** The result on the wire of what a tool has returned. */
export function toOutput(returned: unknown): { output: ToolOutput; isError: boolean } {
  if (isToolResult(returned)) {
    const { content, details, isError = false } = returned;
    return {
      output: { content: [...content], ...(details === undefined ? {} : { details }) },
      isError,
    };
  }
  return { output: { content: [{ type: "text", text: toText(returned) }] }, isError: false };
}

function toText(returned: unknown): string {
  if (typeof returned === "string") return returned;
  if (returned === undefined || returned === null) return "done";
  const json = JSON.stringify(returned) as string | undefined;
  if (json === undefined) throw new TypeError(`The tool returned a ${typeof returned}`);
  return json;
}

function isToolResult(returned: unknown): returned is ToolResult {
  if (typeof returned !== "object" || returned === null) return false;
  return "content" in returned && Array.isArray(returned.content);
}

function failure(text: string): ToolResult {
  return { content: [{ type: "text", text }], isError: true };
}

function describe(thrown: unknown): string {
  const { message, name } = toError(thrown);
  return message === "" ? name : message;
}
