// Shows single messages: what users wrote, answers with their blocks, summaries and notes.

import { folded, picture, ShellCard, ToolCard } from "./cards.js";
import { fill, h } from "./dom.js";
import { markdown, MarkdownStream } from "./markdown-view.js";
import { dollars, oneLine, seconds, short, textOf } from "./text.js";

const time = (timestamp) => (Number.isFinite(timestamp) ? new Date(timestamp) : null);

function clock(timestamp) {
  const date = time(timestamp);
  if (!date) return null;
  const today = new Date().toDateString() === date.toDateString();
  const text = today ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return h("time", { class: "at", datetime: date.toISOString() }, text);
}

/** A message of the user. `onFork` is called when the user wants to continue before it. */
export function userMessage(message, onFork) {
  const text = textOf(message.content);
  const images = Array.isArray(message.content) ? message.content.filter((block) => block?.type === "image").map(picture) : [];
  const element = h("article", { class: "e user", "aria-label": "You", tabindex: "-1" },
    h("header", {}, h("h3", {}, "You"),
      h("button", { type: "button", class: "quiet fork", title: "Go back to before this message, in a new session", on: { click: () => onFork(element, text) } }, "Fork from here"),
      clock(message.timestamp)),
    h("div", { class: "raw" }, text), images);
  return element;
}

/** An answer of the model: finished, or growing by deltas. */
export class Answer {
  #blocks = [];
  #body = h("div", { class: "blocks" });
  #head = h("header", {});
  #foot = h("div", { class: "foot" });
  #dirty = new Set();
  #cardFor;
  element = h("article", { class: "e answer", "aria-label": "Assistant", tabindex: "-1" }, this.#head, this.#body, this.#foot);

  /** `cardFor(id, name)` returns the card of a tool call. */
  constructor(message, cardFor) {
    this.#cardFor = cardFor;
    this.#showHead(message);
  }

  #showHead(message) {
    const { usage = {}, durationMs } = message;
    const model = message.responseModel || message.model;
    const read = (usage.input ?? 0) + (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0);
    const facts = [model, read || usage.output ? `${short(read)} in, ${short(usage.output ?? 0)} out` : "",
      usage.cost?.total ? dollars(usage.cost.total) : "", durationMs >= 100 ? seconds(durationMs) : ""];
    fill(this.#head, h("h3", {}, "Assistant"), h("span", { class: "aside" }, facts.filter(Boolean).join(" · ")), clock(message.timestamp));
  }

  /** Applies one `assistantMessageEvent`. Returns the text it adds. */
  step(event) {
    const { type, contentIndex } = event;
    let block = this.#blocks[contentIndex];
    if (!block && type !== "toolcall_end") block = this.#addBlock(contentIndex, type.split("_")[0], event);
    if (type.endsWith("_delta")) {
      block.push(event.delta ?? "");
      this.#dirty.add(block);
    } else if (type === "text_end" || type === "thinking_end") {
      block.finish(event.content ?? "");
      this.#dirty.delete(block);
    } else if (type === "toolcall_end") {
      block ??= this.#addBlock(contentIndex, "toolcall", { id: event.toolCall.id, toolName: event.toolCall.name });
      block.finish(event.toolCall);
      this.#dirty.delete(block);
    }
  }

  draw() {
    for (const block of this.#dirty) block.draw();
    this.#dirty.clear();
  }

  /** Shows the whole message. Blocks that have grown to it stay as they are. */
  finish(message) {
    this.draw();
    const content = Array.isArray(message.content) ? message.content : message.content ? [{ type: "text", text: message.content }] : [];
    content.forEach((value, at) => {
      const kind = { text: "text", thinking: "thinking", toolCall: "toolcall", image: "image" }[value?.type];
      if (!kind) return;
      const block = this.#blocks[at] ?? this.#addBlock(at, kind, { id: value.id, toolName: value.name });
      block.finish(kind === "text" ? value.text ?? "" : kind === "thinking" ? (value.redacted ? null : value.thinking ?? "") : value);
    });
    this.#showHead(message);
    fill(this.#foot, ending(message));
    this.element.classList.toggle("empty", !content.length && !this.#foot.firstChild);
    this.element.classList.add("ended");
  }

  #addBlock(at, kind, event) {
    const block = kind === "toolcall" ? this.#toolBlock(event) : kind === "thinking" ? thinkingBlock() : kind === "image" ? imageBlock() : textBlock();
    this.#blocks[at] = block;
    const next = this.#blocks.slice(at + 1).find(Boolean);
    this.#body.insertBefore(block.element, next?.element ?? null);
    return block;
  }

  #toolBlock({ id, toolName }) {
    const card = this.#cardFor(id, toolName);
    return {
      element: card.element,
      push: (delta) => card.pushArguments(delta),
      draw: () => card.draw(),
      finish: (call) => card.setCall(call.name, call.arguments, call.argumentsError),
    };
  }
}

function textBlock() {
  const stream = new MarkdownStream();
  let ended = false;
  return {
    element: stream.element,
    push: (delta) => stream.push(delta),
    draw: () => stream.draw(),
    finish: (text) => {
      if (!ended || text.length !== stream.length) stream.finish(text);
      ended = true;
    },
  };
}

/** Thinking is drawn only once it is unfolded; its summary shows the last words. */
function thinkingBlock() {
  const first = h("span", { class: "first" });
  const element = h("details", { class: "think" }, h("summary", {}, "Thinking", first));
  let text = "";
  let stream = null;
  element.addEventListener("toggle", () => {
    if (!element.open || stream) return;
    stream = new MarkdownStream();
    stream.push(text);
    stream.draw();
    element.append(stream.element);
  });
  return {
    element,
    push: (delta) => {
      text += delta;
      stream?.push(delta);
    },
    draw: () => {
      first.textContent = oneLine(text.length > 300 ? text.slice(-160).replace(/^\S*\s/, "… ") : text, 160);
      stream?.draw();
    },
    finish: (whole) => {
      if (whole === null) {
        first.textContent = "hidden by the provider";
        return;
      }
      text = whole;
      stream?.finish(whole);
      first.textContent = oneLine(text, 160);
    },
  };
}

function imageBlock() {
  const element = h("div", {});
  return { element, push() {}, draw() {}, finish: (value) => fill(element, picture(value)) };
}

/** How an answer ended, if it did not end well. */
function ending({ stopReason, errorMessage, errorHint }) {
  if (stopReason === "error") {
    return h("div", { class: "error", role: "group", "aria-label": "Error" }, h("b", {}, "Error: "), errorMessage || "The request failed", errorHint ? h("p", {}, errorHint) : null);
  }
  if (stopReason === "aborted") return h("p", { class: "hint" }, "Stopped", errorMessage ? `: ${errorMessage}` : null);
  if (stopReason === "length") return h("p", { class: "error" }, h("b", {}, "Cut off: "), "the answer reached the model's output limit");
  return null;
}

/** A message that is neither a user's nor an answer, or null if it is not shown. */
export function otherMessage(message) {
  const { role } = message;
  if (role === "bashExecution") {
    const card = new ShellCard(String(message.command ?? ""), message.excludeFromContext);
    card.finish(message);
    return card.element;
  }
  if (role === "compactionSummary" || role === "branchSummary") {
    const title = role === "branchSummary" ? "Summary of another branch"
      : `Earlier messages were summarized${message.tokensBefore ? `, ${short(message.tokensBefore)} tokens` : ""}`;
    return h("article", { class: "e summary", tabindex: "-1", "aria-label": "Summary" }, folded(title, () => markdown(String(message.summary ?? ""))));
  }
  if (role === "custom") {
    if (message.display === false) return null;
    return h("article", { class: "e custom", tabindex: "-1", "aria-label": oneLine(message.customType, 60) },
      h("header", {}, h("h3", {}, oneLine(message.customType, 60)), clock(message.timestamp)), markdown(textOf(message.content)));
  }
  return h("article", { class: "e custom", tabindex: "-1", "aria-label": oneLine(role, 60) }, h("header", {}, h("h3", {}, oneLine(role, 60))), h("div", { class: "raw" }, textOf(message.content)));
}

/** A result whose call is not shown. */
export function lonelyResult(message) {
  const card = new ToolCard(message.toolName);
  card.finish(message);
  card.element.classList.add("e");
  return card.element;
}

/** A line between messages. */
export function note(text, kind = "", extra = null) {
  return h("div", { class: `e note ${kind}` }, h("p", {}, text), extra);
}
