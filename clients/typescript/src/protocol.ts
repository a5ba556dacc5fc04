/** The wire types as this package uses them. `generated.ts` has them all; this file selects. */

import type * as wire from "./generated.js";
import type { ExtensionUiClosedEvent, ServerStoppingEvent } from "./server-types.js";

/** Any line of a client. */
export type Command = wire.ClientLine;
export type CommandName = Command["type"];
export type CommandOf<K extends CommandName> = Extract<Command, { type: K }>;
/** The fields of a command beside its `type` and `id`. */
export type Fields<K extends CommandName> = Omit<CommandOf<K>, "type" | "id">;

/** A response, whether the command has succeeded or not. */
export type Response = Extract<wire.ServerLine, { type: "response" }>;
/** Anything that tiller writes except responses. Ignore types that you do not know. */
export type Event =
  | Exclude<wire.ServerLine, { type: "response" }>
  | ExtensionUiClosedEvent
  | ServerStoppingEvent;
export type EventName = Event["type"];
export type EventOf<K extends EventName> = Extract<Event, { type: K }>;

type ResponseTo<K extends CommandName> = Extract<Response, { command: K; success: true }>;
/** The `data` of the response to a command; `undefined` if it has none. */
export type DataOf<K extends CommandName> = ResponseTo<K> extends { data: infer D } ? D : undefined;

/** The commands that send a user message. */
export type PromptCommandName = "prompt" | "steer" | "follow_up" | "abort_and_prompt";
/** What tiller does with a message: starts a run, queues it, or leaves it to an extension. */
export type Disposition = wire.Disposition;
