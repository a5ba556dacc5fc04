/** The wire types as this package uses them. `types.ts` is generated; this file gives it shape. */

import type * as wire from "./types.js";

/** Any command, as it is written, without its `id`. */
export type Command = wire.Command;
export type CommandName = Command["type"];
export type CommandOf<K extends CommandName> = Extract<Command, { type: K }>;
/** The fields of a command beside its `type`. */
export type Fields<K extends CommandName> = Omit<CommandOf<K>, "type" | "id">;

/** What a record carries beside its own fields. */
export interface Stamp {
  /** The number of the record: one more than that of the record before. */
  readonly seq?: number;
  /** Names the process that counts. */
  readonly epoch?: string;
}

/** Anything the server writes that is not a response. Ignore types that you do not know. */
export type TillerEvent = wire.Event & Stamp;
export type EventName = TillerEvent["type"];
export type EventOf<K extends EventName> = Extract<TillerEvent, { type: K }>;
export type Response = wire.Response & Stamp;

/** What became of a message that the client has sent. */
export type PromptResult = EventOf<"prompt_result">;

export type HostTool = wire.HostTool;
export type ToolOutput = wire.ToolOutput;
export type Image = wire.Image;
export type Disposition = wire.Disposition;
export type HelloData = wire.HelloData;
