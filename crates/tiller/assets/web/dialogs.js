// Dialogs of extensions: questions, notices, status texts, widgets and titles.

import { $, fill, h, notice, setText } from "./dom.js";
import { oneLine, visible } from "./text.js";

/** Keys that were meant for the message box do not answer a question that has just appeared. */
const SETTLE = 350;

export class ExtensionDialogs {
  #answer;
  #setEditorText;
  #setTitle;
  #waiting = [];
  #current = null;
  #statuses = new Map();
  #widgets = new Map();

  /** `answer(line)` sends an `extension_ui_response`, or returns false if it cannot. */
  constructor({ answer, setEditorText, setTitle }) {
    this.#answer = answer;
    this.#setEditorText = setEditorText;
    this.#setTitle = setTitle;
  }

  /** Handles an `extension_ui_request`. */
  handle(request) {
    switch (request.method) {
      case "select":
      case "confirm":
      case "input":
      case "editor":
        if (this.#current?.request.id === request.id || this.#waiting.some(({ id }) => id === request.id)) return;
        this.#waiting.push(request);
        return this.#next();
      case "notify":
        return notice(String(request.message ?? ""), request.notifyType);
      case "setStatus":
        if (request.statusText === undefined) this.#statuses.delete(request.statusKey);
        else this.#statuses.set(request.statusKey, request.statusText);
        return fill($("statuses"), [...this.#statuses.values()].map((text) => h("span", {}, oneLine(text, 300))));
      case "setWidget":
        if (!Array.isArray(request.widgetLines)) this.#widgets.delete(request.widgetKey);
        else this.#widgets.set(request.widgetKey, request);
        return this.#drawWidgets();
      case "setTitle":
        return this.#setTitle(oneLine(request.title, 120));
      case "set_editor_text":
        return this.#setEditorText(String(request.text ?? ""));
    }
  }

  /** A question was answered elsewhere, or ended. */
  close(id) {
    this.#waiting = this.#waiting.filter((request) => request.id !== id);
    if (this.#current?.request.id === id) this.#finish(null);
  }

  /** Another session is shown, or the session is read again. */
  clear() {
    this.#waiting = [];
    if (this.#current) this.#finish(null);
    this.#statuses.clear();
    this.#widgets.clear();
    fill($("statuses"));
    this.#drawWidgets();
  }

  #drawWidgets() {
    for (const [id, placement] of [["widgets-above", false], ["widgets-below", true]]) {
      const shown = [...this.#widgets.values()].filter((widget) => (widget.widgetPlacement === "belowEditor") === placement);
      fill($(id), shown.map((widget) => h("pre", {}, widget.widgetLines.slice(0, 40).map(String).join("\n"))));
    }
  }

  #next() {
    if (this.#current || !this.#waiting.length) return;
    const request = this.#waiting.shift();
    const dialog = this.#build(request);
    const before = document.activeElement;
    const opened = performance.now();
    this.#current = { request, dialog, before, opened, timer: null };
    document.body.append(dialog);
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.#finish({ cancelled: true });
    });
    dialog.showModal();
    (dialog.querySelector("[data-first]") ?? dialog.querySelector("h2")).focus();
    if (request.timeout > 0) this.#countDown(request.timeout);
  }

  #countDown(timeout) {
    const current = this.#current;
    const place = current.dialog.querySelector(".timeout");
    const tick = () => {
      const left = timeout - (performance.now() - current.opened);
      if (left <= 0) return this.#finish(null);
      setText(place, `Ends in ${Math.ceil(left / 1000)} s`);
      current.timer = setTimeout(tick, 250);
    };
    tick();
  }

  #build(request) {
    const { method } = request;
    const title = h("h2", { tabindex: "-1", id: "question-title" }, visible(request.title || "Question"));
    const form = h("form", { method: "dialog" }, title);
    const dialog = h("dialog", { class: `question ${method}`, "aria-labelledby": "question-title" }, form);
    const cancel = h("button", { type: "button", on: { click: () => this.#finish({ cancelled: true }) } }, "Cancel");
    let field = null;
    if (method === "select") {
      const options = (Array.isArray(request.options) ? request.options : []).map(String);
      form.append(h("div", { class: "options", role: "group", "aria-label": "Options" }, options.map((value) =>
        h("button", { type: "button", on: { click: () => this.#submit({ value }) } }, value))));
      form.append(h("div", { class: "row" }, h("span", { class: "timeout" }), cancel));
      form.addEventListener("keydown", moveFocus);
    } else if (method === "confirm") {
      form.append(h("p", { class: "raw message", id: "question-text" }, String(request.message ?? "")));
      dialog.setAttribute("aria-describedby", "question-text");
      form.append(h("div", { class: "row" }, h("span", { class: "timeout" }),
        h("button", { type: "button", on: { click: () => this.#submit({ confirmed: false }) } }, "No"),
        h("button", { type: "button", class: "primary", on: { click: () => this.#submit({ confirmed: true }) } }, "Yes")));
    } else {
      field = method === "editor" ? h("textarea", { rows: "10" }) : h("input", { autocomplete: "off" });
      field.setAttribute("aria-labelledby", "question-title");
      field.dataset.first = "";
      if (request.placeholder) field.placeholder = visible(request.placeholder);
      if (method === "editor") field.value = String(request.prefill ?? "");
      form.append(field, h("div", { class: "row" }, h("span", { class: "timeout" }), cancel, h("button", { type: "submit", class: "primary" }, "OK")));
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field) this.#submit({ value: field.value });
    });
    return dialog;
  }

  #submit(answer) {
    if (!this.#current || performance.now() - this.#current.opened < SETTLE) return;
    this.#finish(answer);
  }

  #finish(answer) {
    const { request, dialog, before, timer } = this.#current;
    if (answer && this.#answer({ type: "extension_ui_response", id: request.id, ...answer }) === false) {
      return notice("Not connected. The question stays open.", "warning");
    }
    clearTimeout(timer);
    this.#current = null;
    dialog.close();
    dialog.remove();
    if (before?.isConnected) before.focus?.({ preventScroll: true });
    this.#next();
  }
}

/** Arrow keys go through the options. */
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const options = [...event.currentTarget.querySelectorAll(".options button")];
  const at = options.indexOf(document.activeElement);
  options.at(at < 0 ? (step > 0 ? 0 : -1) : (at + step + options.length) % options.length)?.focus();
}
