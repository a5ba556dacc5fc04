/** `tiller-client`: drives tiller, a coding agent, from TypeScript and JavaScript. */

export { Client } from "./client.js";
export type { ConnectOptions, PromptOptions, ReplayOptions, StartOptions } from "./client.js";
export type { AnyCommand } from "./connection.js";
export type {
  Answer,
  Dialog,
  DialogContext,
  DialogHandlers,
  Display,
  Notice,
} from "./dialogs.js";
export {
  ClientClosed,
  CommandRefused,
  ConnectFailed,
  ConnectionLost,
  EventsLost,
  ProtocolError,
  RunFailed,
  ServerExited,
  ServerNotFound,
  SessionClosed,
  SessionDetached,
  type SessionOwner,
  TillerError,
  Timeout,
} from "./errors.js";
export { EventStream } from "./event-stream.js";
export { defineTool } from "./host-tools.js";
export type { Tool, ToolContent, ToolContext, ToolDefinition, ToolResult } from "./host-tools.js";
export { image, imageFromFile } from "./images.js";
export { ProcessTransport } from "./process-transport.js";
export type { ProcessOptions } from "./process-transport.js";
export type {
  Command,
  CommandName,
  CommandOf,
  DataOf,
  Disposition,
  Event,
  EventName,
  EventOf,
  Fields,
  Response,
} from "./protocol.js";
export { Result } from "./result.js";
export { Server } from "./server.js";
export type { AttachOptions, OpenOptions, ServerOptions, SessionOptions } from "./server.js";
export type {
  AttachMode,
  ExtensionUiClosedEvent,
  OpenSession,
  ServerStoppingEvent,
} from "./server-types.js";
export { Session } from "./session.js";
export type { FromSchema, JsonSchema } from "./tool-schema.js";
export type { Transport, TransportHandlers } from "./transport.js";
export { Turn } from "./turn.js";
export type { MessageOptions } from "./turn.js";
export type { WaitOptions } from "./waiting.js";
/** The types of all lines, generated from tiller's JSON Schema. */
export type * as wire from "./generated.js";
