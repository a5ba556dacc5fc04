// Turns text of models, tools and files into text that is safe to read.
//
// Nothing here touches the document. Callers put the results into text nodes, so markup is never
// interpreted; this file handles what a text node would still show wrongly: terminal escapes,
// control characters and bidirectional controls that reorder what the reader sees.

const ESCAPES = new RegExp(
  [
    "\\x1b\\[[0-?]*[ -/]*[@-~]", // CSI: colours, cursor movement
    "\\x1b[\\]PX^_][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)?", // OSC, DCS and other strings
    "\\x1b[ -/]*[0-~]", // all other escapes
    "\\x9b[0-?]*[ -/]*[@-~]", // CSI as one character
  ].join("|"),
  "g",
);
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
const NEEDS_WORK = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/;

/** The text as it is shown: no terminal escapes, control characters as symbols. */
export function visible(value) {
  const text = typeof value === "string" ? value : value == null ? "" : String(value);
  if (!NEEDS_WORK.test(text)) return text;
  return text.replace(ESCAPES, "").replace(/\r\n/g, "\n").replace(UNSAFE, symbol);
}

function symbol(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code === 0x2028 || code === 0x2029) return "\n";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** One line of at most `length` characters, for lists and titles. */
export function oneLine(value, length = 120) {
  const text = visible(String(value ?? "").slice(0, length * 4)).replace(/\s+/g, " ").trim();
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}

/** The address of a link, or null if the link must stay text. Only web addresses are links. */
export function safeAddress(address) {
  if (!/^https?:\/\//i.test(address)) return null;
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** The `data:` address of an image block, or null if it is not an image that pages show. */
export function imageAddress({ data, mimeType }) {
  if (!/^image\/(png|jpeg|gif|webp)$/.test(mimeType ?? "")) return null;
  if (typeof data !== "string" || !/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return null;
  return `data:${mimeType};base64,${data}`;
}

/** The texts of a message's content, which is a string in old sessions. */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.filter((block) => block?.type === "text").map((block) => block.text ?? "").join("\n");
}

/** 1234567 as "1.2M". */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  if (number < 1000) return String(Math.round(number));
  const [unit, size] = number < 999_950 ? ["k", 1e3] : ["M", 1e6];
  const value = number / size;
  return (value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value))) + unit;
}

export function dollars(amount) {
  if (!Number.isFinite(amount) || amount === 0) return "$0";
  return amount < 0.01 ? `$${amount.toFixed(4)}` : `$${amount.toFixed(2)}`;
}

export function seconds(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}
