/** Tools that this program runs for the model. */

import { toError } from "./errors.js";
import type { Connection } from "./connection.js";
import type { EventOf, HostTool, ToolOutput } from "./protocol.js";
import type { FromSchema, JsonSchema } from "./schema-types.js";

/** A block of a tool's result. */
export type ToolContent =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mimeType: string };

/** What a tool may return: a text, blocks, or blocks with details that only clients see. */
export type ToolReturn =
  | string
  | readonly ToolContent[]
  | { content: readonly ToolContent[]; details?: unknown; isError?: boolean };

/** What a call knows about itself. */
export interface ToolContext {
  readonly toolName: string;
  /** The model's id of the call, as in `tool_execution_start`. */
  readonly toolCallId: string;
  /** Aborts when the result is no longer needed: after an abort, a time limit or the end. */
  readonly signal: AbortSignal;
  /** Shows a partial result, which replaces the one before. */
  update(partial: ToolReturn): Promise<void>;
}

/** A tool with its function. Made by {@link defineTool}. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonSchema;
  /** The name is reserved, but the model is not offered the tool. */
  readonly hidden?: boolean;
  /** tiller gives up after so many milliseconds, and the signal aborts. */
  readonly timeoutMs?: number;
  run(args: never, context: ToolContext): ToolReturn | void | Promise<ToolReturn | void>;
}

export interface ToolDefinition<S extends JsonSchema> extends Omit<Tool, "parameters" | "run"> {
  readonly parameters: S;
  /** Runs a call. An error that it throws is the call's result, for the model to read. */
  run(
    args: FromSchema<S>,
    context: ToolContext,
  ): ToolReturn | void | Promise<ToolReturn | void>;
}

/** Defines a tool. The type of `args` follows from the JSON Schema in `parameters`. */
export function defineTool<const S extends JsonSchema>(definition: ToolDefinition<S>): Tool {
  return definition;
}

/** The tools that are offered now, and the calls that are running. */
export class HostTools {
  readonly #connection: Connection;
  #tools = new Map<string, Tool>();
  readonly #calls = new Map<string, AbortController>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Replaces the tools. Running calls continue. Returns the names. */
  async set(tools: readonly Tool[]): Promise<string[]> {
    const offered = new Map(tools.map((tool) => [tool.name.trim(), tool]));
    const data = await this.#connection.request(
      { type: "set_host_tools", tools: tools.map(toHostTool) },
      { onAccepted: () => (this.#tools = offered) },
    );
    return (data as { toolNames: string[] }).toolNames;
  }

  /** Runs a call and sends its result. Never rejects. */
  async call({ id, toolCallId, toolName, ...call }: EventOf<"host_tool_call">): Promise<void> {
    const controller = new AbortController();
    this.#calls.set(id, controller);
    const { signal } = controller;
    const update = async (partial: ToolReturn): Promise<void> => {
      if (signal.aborted || !this.#calls.has(id)) return;
      const { output } = toOutput(partial);
      await this.#connection.send({ type: "host_tool_update", id, partialResult: output });
    };
    try {
      const tool = this.#tools.get(toolName);
      if (tool === undefined) throw new Error(`The client has no tool "${toolName}"`);
      const context = { toolName, toolCallId, signal, update };
      const { output, isError } = toOutput(await tool.run(call.arguments as never, context));
      this.#finish(id, output, isError);
    } catch (thrown) {
      this.#finish(id, textOutput(toError(thrown).message), true);
    }
  }

  /** tiller no longer waits for the result of a call. */
  cancel({ targetId }: EventOf<"host_tool_cancel">): void {
    this.#calls.get(targetId)?.abort(new Error("tiller has cancelled the call"));
    this.#calls.delete(targetId);
  }

  /** The connection is over. */
  cancelAll(reason: Error): void {
    for (const controller of this.#calls.values()) controller.abort(reason);
    this.#calls.clear();
  }

  /** tiller has refused a result, such as an image that is not base64, and waits for another. */
  replaceRefusedResult(id: string, reason: string): void {
    const result = textOutput(`The tool returned an invalid result: ${reason}`);
    void this.#connection.send({ type: "host_tool_result", id, result, isError: true });
  }

  #finish(id: string, result: ToolOutput, isError: boolean): void {
    if (!this.#calls.delete(id)) return;
    const failed = isError ? { isError } : {};
    void this.#connection.send({ type: "host_tool_result", id, result, ...failed });
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

function toOutput(returned: ToolReturn | void): { output: ToolOutput; isError: boolean } {
  if (returned === undefined) return { output: { content: [] }, isError: false };
  if (typeof returned === "string") return { output: textOutput(returned), isError: false };
  if (isContent(returned)) return { output: { content: [...returned] }, isError: false };
  const { content, details, isError = false } = returned;
  const output = { content: [...content], ...(details === undefined ? {} : { details }) };
  return { output, isError };
}

function isContent(returned: object): returned is readonly ToolContent[] {
  return Array.isArray(returned);
}

function textOutput(text: string): ToolOutput {
  return { content: [{ type: "text", text }] };
}
