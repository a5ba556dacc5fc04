// Shows tool calls and shell commands: one card for a call, its live output and its result.

import { codeBlock } from "./markdown-view.js";
import { countRows, plannedRows, rowsOf } from "./diff.js";
import { diffView } from "./diff-view.js";
import { appendText, fill, h, setText } from "./dom.js";
import { imageAddress, oneLine, seconds, textOf, visible } from "./text.js";

/** Output with more lines than this is folded. */
const LINES = 14;

/** Output that grows at its end, or is replaced. */
class Output {
  #pre = h("pre", { class: "out", tabindex: "0", "aria-label": "Output" });
  #fold = h("button", { type: "button", class: "more", hidden: true, "aria-expanded": "false", on: { click: () => this.#toggle() } });
  #text = "";
  #lines = 1;
  element = h("div", { class: "output", hidden: true }, this.#pre, this.#fold);

  get text() {
    return this.#text;
  }

  append(delta) {
    this.#text += delta;
    this.#lines += countBreaks(delta);
    appendText(this.#pre, delta);
    this.#show();
  }

  replace(text) {
    if (text === this.#text) return;
    this.#text = text;
    this.#lines = 1 + countBreaks(text);
    this.#pre.textContent = visible(text);
    this.#show();
  }

  #show() {
    this.element.hidden = !this.#text;
    const long = this.#lines > LINES + 2;
    this.#fold.hidden = !long;
    if (!long) return;
    const open = this.#fold.getAttribute("aria-expanded") === "true";
    this.#pre.classList.toggle("folded", !open);
    setText(this.#fold, open ? "Show less" : `Show all ${this.#lines} lines`);
    // Folded output shows its end, where the newest lines are.
    if (!open) this.#pre.scrollTop = this.#pre.scrollHeight;
  }

  #toggle() {
    this.#fold.setAttribute("aria-expanded", String(this.#fold.getAttribute("aria-expanded") !== "true"));
    this.#show();
  }
}

function countBreaks(text) {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** A call of the model, from the first part of its arguments to its result. */
export class ToolCard {
  #name = h("b", {});
  #subject = h("code", {});
  #state = h("span", { class: "state" });
  #call = h("div", { class: "arguments" });
  #result = h("div", { class: "result" });
  #output = new Output();
  #pending = "";
  #partial = "";
  /** The arguments while they are written. */
  #draft = null;
  #tool;
  done = false;
  element = h("section", { class: "tool" }, h("header", {}, this.#name, this.#subject, this.#state), this.#call, this.#output.element, this.#result);

  constructor(name) {
    this.#setName(name ?? "tool");
    this.#setState("writing", "Writing");
  }

  /** A part of the arguments' JSON text. */
  pushArguments(delta) {
    this.#partial += delta;
  }

  /** Draws what was pushed. */
  draw() {
    if (this.#partial) {
      // Incomplete JSON is shown as it is, until the whole call comes.
      if (!this.#draft) fill(this.#call, this.#draft = h("pre", { class: "out folded" }));
      appendText(this.#draft, this.#partial);
      this.#draft.scrollTop = this.#draft.scrollHeight;
      this.#partial = "";
    }
    if (this.#pending) {
      this.#output.append(this.#pending);
      this.#pending = "";
    }
  }

  /** The whole call. */
  setCall(name, args, argumentsError) {
    this.#partial = "";
    this.#draft = null;
    this.#setName(name);
    const given = args && typeof args === "object" ? args : {};
    setText(this.#subject, oneLine(subjectOf(name, given), 200));
    fill(this.#call, ...argumentsOf(name, given), argumentsError ? h("p", { class: "error" }, "The arguments cannot be read: ", argumentsError) : null);
    if (!this.done && this.element.dataset.state === "writing") this.#setState("waiting", "Waiting");
  }

  start() {
    if (!this.done) this.#setState("running", "Running");
  }

  push(delta) {
    this.#pending += delta;
  }

  replaceOutput(result) {
    this.#pending = "";
    this.#output.replace(textOf(result?.content));
  }

  finish({ content, details, isError, durationMs }) {
    this.done = true;
    this.#pending = "";
    const rows = isError ? null : rowsOf(details);
    const text = textOf(content).replace(/\n$/, "");
    const images = Array.isArray(content) ? content.filter((block) => block?.type === "image").map(picture) : [];
    if (rows) {
      // The diff of the result replaces the planned one.
      fill(this.#call);
      this.#output.replace("");
      const count = countRows(rows);
      fill(this.#result, diffView(rows));
      this.#setState("done", [count.short, duration(durationMs)].filter(Boolean).join(" · "), count.words);
    } else if (this.#tool === "todo_write" && Array.isArray(details?.phases)) {
      // The list itself is beside the conversation.
      this.#output.replace("");
      const tasks = details.phases.flatMap((phase) => phase?.tasks ?? []);
      fill(this.#result, folded("List", () => h("pre", { class: "out" }, text)));
      this.#setState("done", `${tasks.filter(({ status }) => status === "completed").length} of ${tasks.length} tasks done`);
    } else {
      this.#output.replace(text);
      const cut = details?.truncation?.truncated ? cutNote(details) : null;
      fill(this.#result, images, cut ? h("p", { class: "hint" }, cut) : null);
      if (isError) this.#setState("failed", ["Failed", duration(durationMs)].filter(Boolean).join(" · "));
      else this.#setState("done", ["Done", duration(durationMs)].filter(Boolean).join(" · "));
    }
    this.element.classList.toggle("err", !!isError);
  }

  /** The run is over, and no result will come. */
  giveUp() {
    if (!this.done) this.#setState("none", "No result");
  }

  #setName(name) {
    if (this.#tool === name) return;
    this.#tool = name;
    setText(this.#name, oneLine(name, 60));
    this.element.setAttribute("aria-label", `Tool ${oneLine(name, 60)}`);
  }

  #setState(state, text, label) {
    this.element.dataset.state = state;
    setText(this.#state, text);
    if (label) this.#state.setAttribute("aria-label", label);
  }
}

const duration = (milliseconds) => (Number.isFinite(milliseconds) && milliseconds >= 100 ? seconds(milliseconds) : "");

function cutNote({ truncation, fullOutputPath }) {
  const shown = `${truncation.outputLines ?? "?"} of ${truncation.totalLines ?? "?"} lines are shown.`;
  return fullOutputPath ? `${shown} All of the output is in ${fullOutputPath}` : shown;
}

/** What a call is about, in a few words. */
function subjectOf(name, args) {
  if (name === "bash") return "";
  if (name === "read" && (args.offset || args.limit)) {
    const from = args.offset ?? 1;
    return `${args.path}:${from}${args.limit ? `–${from + args.limit - 1}` : ""}`;
  }
  if (name === "grep" || name === "find") return [args.pattern, args.path].filter(Boolean).join(" in ");
  const value = args.path ?? Object.values(args).find((value) => typeof value === "string");
  return value ?? "";
}

/** The arguments that the header does not show. */
function argumentsOf(name, args) {
  if (name === "bash" && typeof args.command === "string") {
    return [h("pre", { class: "out cmd" }, h("code", {}, args.command)), args.timeout ? h("p", { class: "hint" }, `Time limit: ${args.timeout} s`) : null];
  }
  if (name === "edit") return [diffView(plannedRows(args.edits))];
  if (name === "write" && typeof args.content === "string") {
    const lines = 1 + countBreaks(args.content);
    return [folded(`${lines} ${lines === 1 ? "line" : "lines"}`, () => codeBlock("", args.content))];
  }
  if (name === "todo_write") return [];
  const rest = Object.entries(args).filter(([key]) => key !== "path" || name !== "read");
  const plain = ["read", "ls", "grep", "find"].includes(name) || (rest.length <= 1 && typeof rest[0]?.[1] === "string" && rest[0][1].length < 200 && !rest[0][1].includes("\n"));
  if (!rest.length || plain) return [];
  return [folded("Arguments", () => codeBlock("json", JSON.stringify(args, null, 2)))];
}

/** A fold whose content is built when it is opened. */
export function folded(title, build) {
  const fold = h("details", { class: "fold" }, h("summary", {}, title));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.children.length === 1) fold.append(build());
  });
  return fold;
}

/** An image block, or words in its place. */
export function picture(block) {
  const address = imageAddress(block);
  if (!address) return h("p", { class: "hint" }, "A picture that cannot be shown");
  return h("button", { type: "button", class: "picture", title: "Enlarge", on: { click: () => {
    const dialog = document.getElementById("picture-dialog");
    dialog.querySelector("img").src = address;
    dialog.showModal();
  } } }, h("img", { src: address, alt: "Picture", loading: "lazy" }));
}

/** A shell command of a client. */
export class ShellCard {
  #output = new Output();
  #state;
  #pending = "";
  element;

  /** Without a command, it is one of another client, whose end is not known here. */
  constructor(command, hidden = false) {
    this.#state = h("span", { class: "state" }, command === null ? "Of another client" : "Running");
    this.element = h("section", { class: "e tool shell", "aria-label": "Shell command" },
      h("header", {}, h("b", {}, "Shell"), hidden ? h("span", { class: "aside" }, "hidden from the model") : null, this.#state),
      command === null ? null : h("pre", { class: "out cmd" }, h("code", {}, command)), this.#output.element);
    this.element.dataset.state = command === null ? "foreign" : "running";
  }

  push(delta) {
    this.#pending += delta;
  }

  draw() {
    if (this.#pending) this.#output.append(this.#pending);
    this.#pending = "";
  }

  finish({ output, exitCode, cancelled, truncated, fullOutputPath }) {
    this.#pending = "";
    this.#output.replace(String(output ?? "").replace(/\n$/, ""));
    const failed = cancelled || (exitCode ?? 0) !== 0;
    this.element.dataset.state = failed ? "failed" : "done";
    this.element.classList.toggle("err", failed);
    setText(this.#state, cancelled ? "Cancelled" : failed ? `Failed with ${exitCode}` : "Done");
    if (truncated) this.element.append(h("p", { class: "hint" }, fullOutputPath ? `Cut. All of the output is in ${fullOutputPath}` : "The output was cut."));
  }

  fail(error) {
    this.element.dataset.state = "failed";
    this.element.classList.add("err");
    setText(this.#state, "Failed");
    this.element.append(h("p", { class: "error" }, error));
  }
}
