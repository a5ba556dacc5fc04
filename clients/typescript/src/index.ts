/** `tiller-client`: drive the coding agent tiller from TypeScript and JavaScript. */

export { Client } from "./client.js";
export type { ConnectOptions, EventsFrom, StartOptions } from "./client.js";
export { PromptRun } from "./prompt-run.js";
export type { PromptOptions } from "./prompt-run.js";
export { defineTool } from "./host-tools.js";
export type { Tool, ToolContent, ToolContext, ToolDefinition, ToolReturn } from "./host-tools.js";
export type { FromSchema, JsonSchema } from "./schema-types.js";
export type { Dialog, DialogAnswer, DialogHandlers, Notification } from "./dialogs.js";
export {
  CommandRefusedError,
  EventsLostError,
  ProtocolError,
  ServerExitedError,
  TillerError,
  TimeoutError,
} from "./errors.js";
export type { ServerExit } from "./errors.js";
export type { CommandResults, QueuedTarget } from "./commands.js";
export type { RequestOptions } from "./connection.js";
export type {
  Command,
  CommandName,
  CommandOf,
  EventName,
  EventOf,
  Fields,
  PromptResult,
  Response,
  TillerEvent,
} from "./protocol.js";
export type { Transport, TransportHandlers } from "./transport.js";
export { ProcessTransport } from "./process-transport.js";
export type { ProcessOptions } from "./process-transport.js";
/** The types of the wire, generated from tiller's own. */
export type * as wire from "./types.js";
