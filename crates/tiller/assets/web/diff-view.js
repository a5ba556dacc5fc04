// Shows the rows of a diff. The signs are text, so that colour is not the only difference.

import { h } from "./dom.js";

const SIGNS = { add: "+", del: "−", same: " ", hunk: " " };
const WORDS = { add: "added: ", del: "removed: " };
/** More rows than this are shown on demand. */
const SHOWN = 400;

export function diffView(rows) {
  const code = h("code", {}, rows.slice(0, SHOWN).map(row));
  const view = h("div", { class: "diff", tabindex: "0", role: "group", "aria-label": "Changes" }, code);
  if (rows.length > SHOWN) {
    const more = h("button", { type: "button", class: "more", on: { click: () => {
      more.remove();
      code.append(...rows.slice(SHOWN).map(row));
    } } }, `Show ${rows.length - SHOWN} more lines`);
    view.append(more);
  }
  return view;
}

function row({ kind, number, text }) {
  return h("span", { class: kind }, h("i", {}, `${number} ${SIGNS[kind]}`.padStart(2)),
    WORDS[kind] ? h("span", { class: "sr" }, WORDS[kind]) : null, text || " ");
}
