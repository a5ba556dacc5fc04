/** What extensions ask the user and show to the user. */

import type { Connection } from "./connection.js";
import { toError } from "./errors.js";
import type { EventOf } from "./protocol.js";

type UiRequest = EventOf<"extension_ui_request">;

/** A question of an extension to the user. */
export type Dialog = Extract<UiRequest, { method: "select" | "confirm" | "input" | "editor" }>;
/** A message of an extension to the user. */
export type Notice = Extract<UiRequest, { method: "notify" }>;
/** Something else that an extension shows: a status, a widget, a title, a text to edit. */
export type Display = Exclude<UiRequest, Dialog | Notice>;
/** A text for `select`, `input` and `editor`, a boolean for `confirm`; anything else cancels. */
export type Answer = string | boolean | undefined | void;

export interface DialogContext {
  /** Aborts when the question is no longer open, because another client has answered it. */
  readonly signal: AbortSignal;
}

export interface DialogHandlers {
  /** Answers a question. Without this handler every question is cancelled. */
  onDialog?: ((dialog: Dialog, context: DialogContext) => Answer | Promise<Answer>) | undefined;
  onNotify?: ((notice: Notice) => void) | undefined;
  onDisplay?: ((display: Display) => void) | undefined;
  /** Gets the errors that the other handlers throw. By default they are process warnings. */
  onHandlerError?: ((error: Error) => void) | undefined;
}

export class Dialogs {
  readonly #connection: Connection;
  readonly #handlers: DialogHandlers;
  readonly #answers: boolean;
  readonly #open = new Map<string, AbortController>();

  /** `answers`: whether questions are answered, and not left to other clients. */
  constructor(connection: Connection, handlers: DialogHandlers, answers: boolean) {
    this.#connection = connection;
    this.#handlers = handlers;
    this.#answers = answers;
  }

  /** Shows a request and, if it is a question, answers it. Never rejects. */
  async show(request: UiRequest): Promise<void> {
    const { onDialog, onNotify, onDisplay } = this.#handlers;
    switch (request.method) {
      case "select":
      case "confirm":
      case "input":
      case "editor": {
        if (!this.#answers) break;
        const controller = new AbortController();
        const { signal } = controller;
        this.#open.set(request.id, controller);
        const answer = await this.#guard(() => onDialog?.(request, { signal }));
        const isOpen = this.#open.delete(request.id);
        if (isOpen) await this.#connection.send(answerLine(request, answer));
        break;
      }
      case "notify":
        await this.#guard(() => onNotify?.(request));
        break;
      default:
        await this.#guard(() => onDisplay?.(request));
    }
  }

  /** A question is no longer open. */
  close(id: string): void {
    const controller = this.#open.get(id);
    this.#open.delete(id);
    controller?.abort(new Error("the question is no longer open"));
  }

  /** The connection is over. */
  closeAll(): void {
    for (const id of [...this.#open.keys()]) this.close(id);
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

/** The line that answers a dialog. An answer of the wrong type cancels it. */
export function answerLine({ id, method }: Pick<Dialog, "id" | "method">, answer: Answer) {
  const line = { type: "extension_ui_response" as const, id };
  if (method === "confirm" && typeof answer === "boolean") return { ...line, confirmed: answer };
  if (method !== "confirm" && typeof answer === "string") return { ...line, value: answer };
  return { ...line, cancelled: true };
}
