/** Questions and notices of extensions. */

import type { Connection } from "./connection.js";
import { toError } from "./errors.js";
import type { EventOf } from "./protocol.js";

type UiRequest = EventOf<"extension_ui_request">;

/** A question of an extension to the user. */
export type Dialog = Extract<UiRequest, { method: "select" | "confirm" | "input" | "editor" }>;
/** A message of an extension for the user. */
export type Notification = Extract<UiRequest, { method: "notify" }>;
/** The text for `select`, `input` and `editor`, a boolean for `confirm`; nothing cancels. */
export type DialogAnswer = string | boolean | undefined | void;

export interface DialogHandlers {
  /** Answers a question. Without this handler every question is cancelled. */
  onDialog?: ((dialog: Dialog) => DialogAnswer | Promise<DialogAnswer>) | undefined;
  /** Shows a notification. */
  onNotify?: ((notification: Notification) => void) | undefined;
  /** Gets the errors that the other handlers throw. By default they are process warnings. */
  onHandlerError?: ((error: Error) => void) | undefined;
}

export class Dialogs {
  readonly #connection: Connection;
  readonly #handlers: DialogHandlers;

  constructor(connection: Connection, handlers: DialogHandlers) {
    this.#connection = connection;
    this.#handlers = handlers;
  }

  /** Shows a request and, if it is a question, answers it. Never rejects. */
  async show(request: UiRequest): Promise<void> {
    const { onDialog, onNotify } = this.#handlers;
    if (isDialog(request)) {
      const answer = await this.#guard(() => onDialog?.(request));
      await this.#connection.send(toResponse(request.id, answer));
    } else if (request.method === "notify") {
      await this.#guard(() => onNotify?.(request));
    }
  }

  /** Calls a handler. An error counts as no answer and is reported. */
  async #guard<T>(handler: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await handler();
    } catch (thrown) {
      const report = this.#handlers.onHandlerError ?? ((error) => process.emitWarning(error));
      report(toError(thrown));
      return undefined;
    }
  }
}

function isDialog(request: UiRequest): request is Dialog {
  return ["select", "confirm", "input", "editor"].includes(request.method);
}

function toResponse(id: string, answer: DialogAnswer) {
  const type = "extension_ui_response" as const;
  switch (typeof answer) {
    case "string":
      return { type, id, value: answer };
    case "boolean":
      return { type, id, confirmed: answer };
    default:
      return { type, id, cancelled: true };
  }
}
