// Reads Markdown into plain objects. The document is built from them in markdown-view.js.
//
// Only what models write: paragraphs, headings, fenced and indented code, lists, quotes, tables,
// rules, inline code, bold, italic, strike-through and links. HTML is text. An image becomes a
// link, because the page fetches nothing.

import { safeAddress } from "./text.js";

const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const DEEPEST = 12;

/** All blocks of a text. */
export function parse(text) {
  return parseLines(text.split("\n"), 0);
}

function parseLines(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const read = depth < DEEPEST ? readBlock(lines, at, depth) : null;
    if (read) {
      blocks.push(read.block);
      at = read.next;
      continue;
    }
    const start = at;
    do at += 1;
    while (at < lines.length && lines[at].trim() && !endsParagraph(lines, at));
    const text = lines.slice(start, at).map((line) => line.trimStart()).join("\n");
    blocks.push({ kind: "paragraph", inline: inline(text.trimEnd()) });
  }
  return blocks;
}

function endsParagraph(lines, at) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  // Only a list that begins with 1 can interrupt a paragraph: "in\n1984. It was …" is prose.
  if (item && item[4]?.trim() && (!/\d/.test(item[2]) || /^1[.)]$/.test(item[2]))) return true;
  return isTable(lines, at);
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    return { block: { kind: "heading", level: heading[1].length, inline: inline(heading[2] ?? "") }, next: at + 1 };
  }
  if (RULE.test(line)) return { block: { kind: "rule" }, next: at + 1 };
  if (/^(?: {4}|\t)/.test(line)) {
    let next = at;
    while (next < lines.length && (/^(?: {4}|\t)/.test(lines[next]) || !lines[next].trim())) next += 1;
    while (!lines[next - 1].trim()) next -= 1;
    const text = lines.slice(at, next).map((line) => line.replace(/^(?: {4}|\t)/, "")).join("\n");
    return { block: { kind: "code", language: "", text, open: false }, next };
  }
  if (QUOTE.test(line)) {
    let next = at;
    const inner = [];
    for (; next < lines.length; next += 1) {
      const quote = QUOTE.exec(lines[next]);
      if (!quote) break;
      inner.push(quote[1]);
    }
    return { block: { kind: "quote", blocks: parseLines(inner, depth + 1) }, next };
  }
  if (ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return null;
}

function readFence(lines, at, [, indent, marker, info]) {
  const closing = new RegExp(`^ {0,3}${marker[0] === "`" ? "`" : "~"}{${marker.length},}[ \\t]*$`);
  let next = at + 1;
  while (next < lines.length && !closing.test(lines[next])) next += 1;
  const strip = new RegExp(`^ {0,${indent.length}}`);
  const text = lines.slice(at + 1, next).map((line) => (indent ? line.replace(strip, "") : line)).join("\n");
  const open = next >= lines.length;
  return { block: { kind: "code", language: language(info), text, open }, next: next + 1 };
}

const language = (info) => (/^[\w+#.-]{1,20}/.exec(info) ?? [""])[0];

function readList(lines, at, depth) {
  const [, , first] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first);
  const mark = first.at(-1);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || /\d/.test(item[2]) !== ordered || item[2].at(-1) !== mark || RULE.test(lines[next])) break;
    const spaces = item[3] && item[3].length <= 4 && item[4] ? item[3].length : 1;
    const width = item[1].length + item[2].length + spaces;
    const inner = [item[4] ?? ""];
    next += 1;
    let blank = false;
    for (; next < lines.length; next += 1) {
      const line = lines[next];
      if (!line.trim()) {
        // A blank line belongs to the item only if an indented line follows.
        const after = lines.slice(next).find((line) => line.trim());
        if (after === undefined || after.search(/\S/) < width) break;
        inner.push("");
        blank = true;
        continue;
      }
      const indent = line.search(/\S/);
      if (indent >= width) inner.push(line.slice(width));
      else if (!blank && !ITEM.test(line) && !endsParagraph(lines, next)) inner.push(line.trimStart());
      else break;
    }
    loose ||= blank;
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    items.push({ blocks: parseLines(inner, depth + 1), task: task ? task[1] !== " " : null });
    if (next < lines.length && !lines[next].trim()) {
      let after = next;
      while (after < lines.length && !lines[after].trim()) after += 1;
      const following = after < lines.length ? ITEM.exec(lines[after]) : null;
      if (!following || /\d/.test(following[2]) !== ordered) break;
      loose = true;
      next = after;
    }
  }
  return { block: { kind: "list", ordered, start: ordered ? parseInt(first, 10) : 1, loose, items }, next };
}

function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
    TABLE_RULE.test(lines[at + 1]) && cells(lines[at]).length === cells(lines[at + 1]).length;
}

function readTable(lines, at) {
  const align = cells(lines[at + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "middle" : right ? "right" : "";
  });
  const row = (line) => {
    const found = cells(line);
    return align.map((_, column) => inline(found[column] ?? ""));
  };
  const head = row(lines[at]);
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].trim() && lines[next].includes("|"); next += 1) rows.push(row(lines[next]));
  return { block: { kind: "table", align, head, rows }, next };
}

/** The cells of a row. A bar in inline code or behind a backslash does not end a cell. */
function cells(line) {
  const text = line.trim().replace(/^\|/, "");
  const found = [];
  let cell = "";
  let code = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (character === "|" && !code) {
      found.push(cell.trim());
      cell = "";
    } else {
      if (character === "`") code = !code && text.indexOf("`", at + 1) > 0;
      cell += character;
    }
  }
  if (cell.trim()) found.push(cell.trim());
  return found;
}

// ---- Inline

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;

/** The inline parts of a text: strings, and objects for everything else. */
export function inline(text, depth = 0) {
  const parts = [];
  let plain = "";
  const flush = () => {
    if (plain) parts.push(plain);
    plain = "";
  };
  const add = (part) => {
    flush();
    parts.push(part);
  };
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    const read = depth < DEEPEST ? READERS[character]?.(text, at, depth) : null;
    if (read) {
      if (typeof read.part === "string") plain += read.part;
      else add(read.part);
      at = read.next;
    } else {
      plain += character;
      at += 1;
    }
  }
  flush();
  return parts;
}

const READERS = {
  "\\": (text, at) => {
    const next = text[at + 1];
    if (next === "\n") return { part: { kind: "break" }, next: at + 2 };
    return next && PUNCTUATION.test(next) ? { part: next, next: at + 2 } : null;
  },
  "\n": (text, at) => {
    // Two spaces before a line break ask for one; a plain one is shown too, as chats do.
    return { part: { kind: "break" }, next: at + 1 };
  },
  "`": (text, at) => {
    const [marker] = /^`+/.exec(text.slice(at, at + 64));
    let end = at + marker.length;
    for (;;) {
      end = text.indexOf(marker, end);
      if (end < 0) return { part: marker, next: at + marker.length };
      const length = /^`+/.exec(text.slice(end))[0].length;
      if (length === marker.length) break;
      end += length;
    }
    const code = text.slice(at + marker.length, end).replace(/\n/g, " ");
    const padded = /^ .*[^ ].* $/.test(code) || /^ `.*` $/.test(code);
    return { part: { kind: "code", text: padded ? code.slice(1, -1) : code }, next: end + marker.length };
  },
  "*": (text, at, depth) => readEmphasis(text, at, depth, "*"),
  "_": (text, at, depth) => readEmphasis(text, at, depth, "_"),
  "~": (text, at, depth) => {
    if (!text.startsWith("~~", at)) return null;
    const end = text.indexOf("~~", at + 2);
    if (end <= at + 2) return { part: "~~", next: at + 2 };
    return { part: { kind: "strike", inline: inline(text.slice(at + 2, end), depth + 1) }, next: end + 2 };
  },
  "!": (text, at, depth) => (text[at + 1] === "[" ? readLink(text, at + 1, depth) : null),
  "[": (text, at, depth) => readLink(text, at, depth),
  "<": (text, at) => {
    const match = /^<(https?:\/\/[^\s<>]{1,2000})>/i.exec(text.slice(at, at + 2010));
    const address = match && safeAddress(match[1]);
    return address ? { part: { kind: "link", address, inline: [match[1]] }, next: at + match[0].length } : null;
  },
  "h": (text, at) => {
    if (at > 0 && WORD.test(text[at - 1])) return null;
    const match = /^https?:\/\/[^\s<>"'`|\\^{}\u0000-\u001f]{1,2000}/.exec(text.slice(at, at + 2010));
    if (!match) return null;
    let found = match[0].replace(/[.,:;!?*_~]+$/, "");
    while (found.endsWith(")") && found.split(")").length > found.split("(").length) found = found.slice(0, -1);
    found = found.replace(/[.,:;!?\]]+$/, "");
    const address = safeAddress(found);
    return address ? { part: { kind: "link", address, inline: [found] }, next: at + found.length } : null;
  },
};

function readEmphasis(text, at, depth, mark) {
  let length = 1;
  while (text[at + length] === mark) length += 1;
  const run = mark.repeat(length);
  const after = text[at + length];
  const opens = after && !/\s/.test(after) && !(mark === "_" && at > 0 && WORD.test(text[at - 1]));
  if (!opens || length > 3) return { part: run, next: at + length };
  let end = at + length;
  for (let tries = 0; tries < 200; tries += 1) {
    end = text.indexOf(run, end);
    if (end < 0) break;
    let closing = length;
    while (text[end + closing] === mark) closing += 1;
    const follows = text[end + closing];
    const closes = !/\s/.test(text[end - 1]) && closing === length && !(mark === "_" && follows && WORD.test(follows));
    if (closes && end > at + length) {
      const inner = inline(text.slice(at + length, end), depth + 1);
      const strong = { kind: "strong", inline: inner };
      const part = length === 1 ? { kind: "emphasis", inline: inner } : length === 2 ? strong : { kind: "emphasis", inline: [strong] };
      return { part, next: end + length };
    }
    end += closing;
  }
  return { part: run, next: at + length };
}

function readLink(text, at, depth) {
  let open = 0;
  let end = at;
  const limit = Math.min(text.length, at + 2000);
  for (; end < limit; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") open += 1;
    else if (text[end] === "]" && --open === 0) break;
  }
  if (end >= limit || text[end + 1] !== "(") return null;
  const match = /^\(\s*<?([^\s<>]*?)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(balanced(text, end + 1));
  if (!match) return null;
  const label = inline(text.slice(at + 1, end), depth + 1);
  const next = end + 1 + match[0].length;
  const address = safeAddress(match[1]);
  // The target of any other link is shown as text, so that the reader sees what was written.
  if (!address) return { part: { kind: "nolink", inline: label, target: match[1] }, next };
  return { part: { kind: "link", address, inline: label.length ? label : [match[1]] }, next };
}

/** From an opening parenthesis to its closing one. */
function balanced(text, at) {
  let open = 0;
  for (let end = at; end < text.length && end < at + 4000; end += 1) {
    if (text[end] === "(") open += 1;
    else if (text[end] === ")" && --open === 0) return text.slice(at, end + 1);
    else if (text[end] === "\n") break;
  }
  return "";
}

// ---- Streaming

/**
 * Splits a growing text into chunks that no later text can change.
 *
 * `push` returns `{done, open}`: the texts that have become final, in order, and the rest. A chunk
 * ends at a blank line, or where a fence closes, so the work for a delta depends on the open chunk
 * and not on the whole answer.
 */
export class Chunks {
  #open = "";
  /** The part of `#open` that was scanned: the beginning of its last line. */
  #scanned = 0;
  #fence = null;
  #blank = false;
  #inList = false;

  /** Whether the open chunk is code whose end has not come. */
  get inFence() {
    return this.#fence !== null;
  }

  push(delta) {
    this.#open += delta;
    const done = [];
    for (;;) {
      const end = this.#open.indexOf("\n", this.#scanned);
      if (end < 0) break;
      const line = this.#open.slice(this.#scanned, end);
      const start = this.#scanned;
      this.#scanned = end + 1;
      if (this.#fence) {
        if (this.#fence.test(line)) {
          this.#fence = null;
          if (!this.#inList) this.#cut(this.#scanned, done);
        }
        continue;
      }
      if (!line.trim()) {
        this.#blank = true;
        continue;
      }
      const indented = /^[ \t]/.test(line);
      const item = ITEM.test(line) && !RULE.test(line);
      if (this.#blank && !(this.#inList && (indented || item)) && !/^(?: {4}|\t)/.test(line)) {
        this.#cut(start, done);
        this.#inList = false;
      }
      this.#blank = false;
      this.#inList ||= item;
      const fence = FENCE.exec(line.trimStart().length < line.length && this.#inList ? line.trimStart() : line);
      if (fence) {
        // A fence begins a chunk, so that its code can be appended to.
        if (!this.#inList) this.#cut(this.#scanned - line.length - 1, done);
        const mark = fence[2][0] === "`" ? "`" : "~";
        this.#fence = new RegExp(`^[ \\t]*${mark}{${fence[2].length},}[ \\t]*$`);
      }
    }
    return { done, open: this.#open };
  }

  #cut(at, done) {
    // Positions in `#open` move with every cut.
    const from = Math.min(at, this.#open.length);
    const text = this.#open.slice(0, from);
    this.#open = this.#open.slice(from);
    this.#scanned -= from;
    if (text.trim()) done.push(text);
  }
}
