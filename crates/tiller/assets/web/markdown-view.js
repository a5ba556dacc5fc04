// Shows Markdown: parsed blocks as elements, and a text that is still growing.

import { appendText, copyButton, h } from "./dom.js";
import { Chunks, parse } from "./markdown.js";

/** A whole text as elements. */
export function markdown(text) {
  return h("div", { class: "md" }, parse(text).map(block));
}

const BLOCKS = {
  paragraph: ({ inline }) => h("p", {}, inline.map(part)),
  // The page's own headings are h1 to h3.
  heading: ({ level, inline }) => h(`h${Math.min(level + 3, 6)}`, {}, inline.map(part)),
  code: ({ language, text }) => codeBlock(language, text),
  quote: ({ blocks }) => h("blockquote", {}, blocks.map(block)),
  rule: () => h("hr"),
  list: ({ ordered, start, loose, items }) =>
    h(ordered ? "ol" : "ul", { start: ordered && start !== 1 ? start : null },
      items.map(({ blocks, task }) => h("li", { class: task === null ? null : "task" },
        task === null ? null : h("span", { class: "box", role: "img", "aria-label": task ? "done" : "not done" }, task ? "☑ " : "☐ "),
        blocks.map((inner) => (inner.kind === "paragraph" && !loose ? inner.inline.map(part) : block(inner)))))),
  table: ({ align, head, rows }) => {
    const row = (cells, name) => h("tr", {}, cells.map((cell, at) => h(name, { class: align[at] || null }, cell.map(part))));
    return h("div", { class: "wide" }, h("table", {}, h("thead", {}, row(head, "th")), h("tbody", {}, rows.map((cells) => row(cells, "td")))));
  },
};
const block = (value) => BLOCKS[value.kind](value);

const PARTS = {
  code: ({ text }) => h("code", {}, text),
  strong: ({ inline }) => h("strong", {}, inline.map(part)),
  emphasis: ({ inline }) => h("em", {}, inline.map(part)),
  strike: ({ inline }) => h("s", {}, inline.map(part)),
  break: () => h("br"),
  link: ({ address, inline }) => h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, inline.map(part)),
  nolink: ({ inline, target }) => h("span", { class: "nolink" }, inline.map(part), target ? ` (${target})` : null),
};
const part = (value) => (typeof value === "string" ? value : PARTS[value.kind](value));

/** A block of code with its language and a copy button. */
export function codeBlock(language, text) {
  const code = h("code", {}, text);
  return h("div", { class: "code" }, language ? h("span", { class: "language" }, language) : null,
    copyButton(() => code.textContent), h("pre", {}, code));
}

/** The browser lays out a block as a whole, so a long text that grows consists of blocks this long. */
const PIECE = 4096;

/** A text that grows in pieces, each of which ends with `separator`. */
class Pieces {
  #parent;
  #separator;
  #last = null;
  #length = 0;

  constructor(parent, separator) {
    this.#parent = parent;
    this.#separator = separator;
  }

  append(text) {
    let at = 0;
    while (at < text.length) {
      // A full piece goes on until its separator comes.
      const end = text.indexOf(this.#separator, Math.max(at, at + PIECE - this.#length));
      const to = end < 0 ? text.length : end + this.#separator.length;
      if (!this.#last) {
        this.#last = h("span", { class: "piece" });
        this.#parent.append(this.#last);
      }
      appendText(this.#last, text.slice(at, to));
      this.#length += to - at;
      if (end >= 0) {
        this.#last = null;
        this.#length = 0;
      }
      at = to;
    }
  }
}

/** A paragraph longer than this is shown as plain text until it ends. */
const LONG = 16_384;

/**
 * A growing text. Finished blocks are never touched again; only the last, open one is drawn anew,
 * and open code is appended to.
 */
export class MarkdownStream {
  element = h("div", { class: "md" });
  length = 0;
  #chunks = new Chunks();
  #waiting = "";
  #tail = [];
  /** What is appended to, and how much of the open chunk it shows. */
  #grows = null;

  push(delta) {
    this.#waiting += delta;
    this.length += delta.length;
  }

  /** Draws what was pushed. */
  draw() {
    if (!this.#waiting) return;
    const { done, open } = this.#chunks.push(this.#waiting);
    this.#waiting = "";
    if (done.length) {
      this.#clearTail();
      for (const text of done) this.element.append(...parse(text).map(block));
    }
    const skip = this.#chunks.inFence && /^ {0,3}[`~]{3}/.test(open) ? open.indexOf("\n") + 1 : open.length > LONG ? 0 : -1;
    if (this.#grows && skip === this.#grows.skip) {
      this.#grows.pieces.append(open.slice(this.#grows.shown));
      this.#grows.shown = open.length;
      return;
    }
    this.#clearTail();
    if (skip < 0) {
      this.#tail = parse(open).map(block);
    } else {
      const language = skip ? (/^[\s`~]*([\w+#.-]{0,20})/.exec(open)?.[1] ?? "") : "";
      const shown = skip ? codeBlock(language, "") : h("p", { class: "raw" });
      const pieces = new Pieces(skip ? shown.querySelector("code") : shown, skip ? "\n" : " ");
      pieces.append(skip ? open.slice(skip) : open.trimStart());
      this.#grows = { pieces, shown: open.length, skip };
      this.#tail = [shown];
    }
    this.element.append(...this.#tail);
  }

  /** The text is complete. Draws all of it again only if it is not what was pushed. */
  finish(text) {
    this.draw();
    if (text.length !== this.length) this.element.replaceChildren(...parse(text).map(block));
    else if (this.#grows?.skip === 0) {
      const tail = this.#chunks.push("").open;
      this.#clearTail();
      this.element.append(...parse(tail).map(block));
    }
    this.length = text.length;
    this.#grows = null;
    this.#tail = [];
  }

  #clearTail() {
    for (const node of this.#tail) node.remove();
    this.#tail = [];
    this.#grows = null;
  }
}
