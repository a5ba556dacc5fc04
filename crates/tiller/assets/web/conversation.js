// Shows the conversation of one session: messages in pages, and live records one by one.
//
// A record costs work in proportion to itself. Records only note what changed; the changes are
// drawn once per frame.

import { ShellCard, ToolCard } from "./cards.js";
import { announce, perFrame } from "./dom.js";
import { Answer, lonelyResult, note, otherMessage, userMessage } from "./messages.js";
import { oneLine, seconds, short, textOf } from "./text.js";

/** How near to its end the conversation must be to follow new messages, in pixels. */
const NEAR = 80;

export class Conversation {
  #entries;
  #scroller;
  #onFork;
  #answer = null;
  #cards = new Map();
  /** Results whose call is on an earlier page. */
  #lonely = new Map();
  #shells = new Map();
  #dirty = new Set();
  /** Cards of calls without a result. */
  #unfinished = new Set();
  #atEnd = true;
  #top = 0;
  #size = "";
  #draw = perFrame(() => this.drawNow());
  /** Called when the view leaves or reaches the end. */
  onEnd = () => {};
  /** Called with the texts of user messages as they appear, and the client's own name for them. */
  onUserMessage = () => {};

  constructor({ entries, scroller, onFork }) {
    this.#entries = entries;
    this.#scroller = scroller;
    this.#onFork = onFork;
    scroller.addEventListener("scroll", () => this.#noteScroll(), { passive: true });
    // Fonts, pictures, folds and the message box change heights after they were drawn.
    const resized = new ResizeObserver(() => { if (this.#atEnd) this.#toEnd() });
    resized.observe(entries);
    resized.observe(scroller);
  }

  /** Only a reader who scrolls up leaves the end; text that grows below does not count. */
  #noteScroll() {
    const { scrollTop, scrollHeight, clientHeight, clientWidth } = this.#scroller;
    const size = `${clientWidth} ${clientHeight}`;
    const resized = size !== this.#size;
    this.#size = size;
    if (resized && this.#atEnd) return this.#toEnd();
    const isNear = scrollHeight - scrollTop - clientHeight < NEAR;
    const left = this.#atEnd && !isNear && scrollTop < this.#top;
    this.#top = scrollTop;
    if (left || (isNear && !this.#atEnd)) {
      this.#atEnd = isNear;
      this.onEnd(isNear);
    }
  }

  clear() {
    this.#entries.replaceChildren();
    this.#answer = null;
    this.#cards.clear();
    this.#lonely.clear();
    this.#shells.clear();
    this.#dirty.clear();
    this.#unfinished.clear();
    this.#atEnd = true;
    this.onEnd(true);
  }

  /** Adds stored messages at the end. */
  append(messages) {
    this.#entries.append(...this.#build(messages));
    this.scrollToEnd();
  }

  /** Adds earlier messages at the beginning; what the reader sees stays in its place. */
  prepend(messages) {
    const first = this.#entries.firstElementChild;
    const place = first?.getBoundingClientRect().top;
    // The browser must not correct the place a second time.
    this.#scroller.style.overflowAnchor = "none";
    this.#atEnd = false;
    const newer = [...this.#cards];
    this.#entries.prepend(...this.#build(messages));
    // Live records mean the newest call with an id.
    for (const [id, card] of newer) this.#cards.set(id, card);
    if (first) this.#scroller.scrollTop += first.getBoundingClientRect().top - place;
    requestAnimationFrame(() => { this.#scroller.style.overflowAnchor = "" });
  }

  scrollToEnd() {
    this.#atEnd = true;
    this.#toEnd();
    this.onEnd(true);
  }

  /** Moves the keyboard to the next message, or the one before. */
  step(by) {
    const messages = [...this.#entries.querySelectorAll("article.e")];
    const current = messages.indexOf(document.activeElement?.closest?.("article.e"));
    const next = current < 0 ? messages.at(by > 0 ? 0 : -1) : messages[current + by];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  /** Which user message an element is, counted from the newest, which is 0. */
  userMessageFromEnd(element) {
    const all = [...this.#entries.querySelectorAll("article.user")];
    return all.length - 1 - all.indexOf(element);
  }

  #build(messages) {
    const built = [];
    for (const message of messages) {
      const { role } = message;
      if (role === "assistant") {
        const answer = new Answer(message, (id, name) => this.#newCard(id, name));
        answer.finish(message);
        built.push(answer.element);
      } else if (role === "toolResult") {
        const card = this.#cards.get(message.toolCallId);
        if (card && !card.done) card.finish(message);
        else if (!card) {
          const element = lonelyResult(message);
          this.#lonely.set(message.toolCallId, { element, message });
          built.push(element);
        }
      } else if (role === "user") {
        built.push(userMessage(message, this.#onFork));
      } else {
        const element = otherMessage(message);
        if (element) built.push(element);
      }
    }
    return built;
  }

  /**
   * A card for a call in an answer. Some providers use an id again in a later answer: that is
   * another call. A result that was shown alone moves into the card.
   */
  #newCard(id, name) {
    const card = new ToolCard(name);
    this.#cards.set(id, card);
    this.#unfinished.add(card);
    const lonely = this.#lonely.get(id);
    if (lonely) {
      this.#lonely.delete(id);
      lonely.element.remove();
      queueMicrotask(() => card.finish(lonely.message));
    }
    return card;
  }

  /** The card of the newest call with this id. A call that no answer shows has a card of its own. */
  #card(id, name) {
    const known = this.#cards.get(id);
    if (known) return known;
    const card = this.#newCard(id, name);
    card.element.classList.add("e");
    this.#add(card.element);
    return card;
  }

  // ---- Live records

  /** Applies a record. Records that show nothing are ignored. */
  handle(record) {
    LIVE[record.type]?.(this, record);
  }

  startMessage(message, clientMessageId) {
    const { role } = message;
    if (role === "assistant") {
      this.#answer = new Answer(message, (id, name) => this.#newCard(id, name));
      this.#add(this.#answer.element);
    } else if (role === "user") {
      this.#add(userMessage(message, this.#onFork));
      this.onUserMessage(textOf(message.content), clientMessageId);
    } else if (role === "toolResult") {
      // The card shows it.
    } else {
      const element = otherMessage(message);
      if (element) this.#add(element);
    }
  }

  updateMessage(event) {
    if (!this.#answer || !event) return;
    this.#answer.step(event);
    this.#touch(this.#answer);
  }

  endMessage(message) {
    if (message.role === "assistant") {
      if (!this.#answer) this.startMessage(message);
      this.#answer.finish(message);
      this.#dirty.delete(this.#answer);
      this.#answer = null;
      if (message.stopReason === "error") announce(`Error: ${oneLine(message.errorMessage, 200)}`);
      this.#draw();
    } else if (message.role === "toolResult") {
      const card = this.#cards.get(message.toolCallId);
      if (!card) this.#add(lonelyResult(message));
      else if (!card.done) card.finish(message);
    }
  }

  startTool({ toolCallId, toolName, args }) {
    const card = this.#card(toolCallId, toolName);
    if (args) card.setCall(toolName, args);
    card.start();
  }

  updateTool({ toolCallId, toolName, args, delta, partialResult }) {
    if (!this.#cards.has(toolCallId)) this.startTool({ toolCallId, toolName, args });
    const card = this.#cards.get(toolCallId);
    if (card.done) return;
    if (delta !== undefined) card.push(delta);
    else card.replaceOutput(partialResult);
    this.#touch(card);
  }

  endTool({ toolCallId, toolName, result, isError, durationMs }) {
    const card = this.#card(toolCallId, toolName);
    this.#dirty.delete(card);
    this.#unfinished.delete(card);
    card.finish({ ...result, isError, durationMs });
    if (isError) announce(`${oneLine(toolName, 40)} failed`);
    this.#draw();
  }

  /** A shell command of this client, or of another one, whose command is not known. */
  shell(id, command, hidden) {
    const card = new ShellCard(command, hidden);
    this.#shells.set(id, card);
    this.#add(card.element);
    return card;
  }

  updateShell({ id, delta }) {
    const card = this.#shells.get(id) ?? this.shell(id, null);
    card.push(delta ?? "");
    this.#touch(card);
  }

  note(text, kind, extra) {
    const element = note(text, kind, extra);
    this.#add(element);
    return element;
  }

  /** The run is over. */
  settle() {
    for (const card of this.#unfinished) card.giveUp();
    this.#unfinished.clear();
    this.#answer = null;
  }

  #add(element) {
    this.#entries.append(element);
    this.#draw();
  }

  #touch(view) {
    this.#dirty.add(view);
    this.#draw();
  }

  /** Draws what has changed. */
  drawNow() {
    for (const view of this.#dirty) view.draw();
    this.#dirty.clear();
    if (this.#atEnd) this.#toEnd();
  }

  #toEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#top = this.#scroller.scrollTop;
  }
}

const LIVE = {
  message_start: (view, { message, clientMessageId }) => view.startMessage(message, clientMessageId),
  message_update: (view, { assistantMessageEvent }) => view.updateMessage(assistantMessageEvent),
  message_end: (view, { message }) => view.endMessage(message),
  tool_execution_start: (view, record) => view.startTool(record),
  tool_execution_update: (view, record) => view.updateTool(record),
  tool_execution_end: (view, record) => view.endTool(record),
  bash_execution_update: (view, record) => view.updateShell(record),
  agent_settled: (view) => view.settle(),
  auto_retry_start: (view, { attempt, maxAttempts, delayMs, errorMessage }) =>
    view.note(`Retry ${attempt} of ${maxAttempts} in ${seconds(delayMs)}: ${oneLine(errorMessage, 300)}`, "warning"),
  auto_retry_end: (view, { success, finalError }) => {
    if (!success) view.note(`No further retry: ${oneLine(finalError, 300)}`, "warning");
  },
  compaction_start: (view, { reason }) => view.note(`Summarizing earlier messages (${COMPACTION[reason] ?? oneLine(reason, 40)})…`),
  compaction_end: (view, { result, aborted, errorMessage }) => {
    if (result) view.note(`Earlier messages were summarized: ${short(result.tokensBefore)} tokens became ${short(result.estimatedTokensAfter)}`);
    else view.note(aborted ? "The summary was stopped" : `The summary failed: ${oneLine(errorMessage, 300)}`, "warning");
  },
  summarization_retry_scheduled: (view, { delayMs, errorMessage }) => view.note(`The summary is tried again in ${seconds(delayMs)}: ${oneLine(errorMessage, 300)}`, "warning"),
  limit_reached: (view, { limit, max, used }) => view.note(`The limit ${oneLine(limit, 40)} has ended the run: ${used} of ${max}`, "warning"),
  ttsr_triggered: (view, { rules }) => view.note(`Stopped by a rule: ${(rules ?? []).map((rule) => oneLine(rule.name, 60)).join(", ")}`, "warning"),
  todo_reminder: (view, { attempt, maxAttempts }) => view.note(`Reminder of open tasks, ${attempt} of ${maxAttempts}`),
  session_error: (view, { error }) => view.note(`Error of the session: ${oneLine(error, 600)}`, "error"),
  extension_error: (view, { extensionPath, event, error }) => view.note(`Error of the extension ${oneLine(extensionPath, 120)} (${oneLine(event, 40)}): ${oneLine(error, 600)}`, "error"),
};

const COMPACTION = { manual: "as asked", threshold: "the context window is nearly full", overflow: "the request was too long" };
