// Builds elements. Content only ever becomes text nodes and checked attributes.

import { visible } from "./text.js";

export const $ = (id) => document.getElementById(id);

/**
 * An element with attributes and children. Strings become text nodes as they are read: without
 * control characters. `on` names listeners, `class` the classes; false, null and undefined
 * attributes and children are left out.
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "on") for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : visible(value));
  }
  element.append(...nodes(children));
  return element;
}

/** Children as nodes. */
export function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(child))));
}

/** Replaces the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Adds to the text of an element, whose only child is a text node. */
export function appendText(element, text) {
  if (!text) return;
  if (element.lastChild) element.lastChild.appendData(visible(text));
  else element.append(visible(text));
}

/** Sets a text only if it is another one, so that live regions stay quiet. */
export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...nodes(children));
  return element;
}

/** Runs work once before the next frame; in a hidden tab, soon. */
export function perFrame(work) {
  let waits = false;
  const run = () => {
    if (!waits) return;
    waits = false;
    work();
  };
  return () => {
    if (waits) return;
    waits = true;
    if (document.hidden) setTimeout(run, 100);
    else {
      requestAnimationFrame(run);
      // Frames stop if the tab is hidden meanwhile.
      setTimeout(run, 500);
    }
  };
}

/** Says something to screen readers without showing it. */
export function announce(text) {
  const place = $("announcer");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = visible(text) });
}

/** Shows a message in the corner. Errors stay until they are dismissed. */
export function notice(text, kind = "info") {
  const word = { warning: "Warning", error: "Error" }[kind];
  const close = h("button", { type: "button", class: "icon", title: "Dismiss", on: { click: () => item.remove() } }, "×", h("span", { class: "sr" }, "Dismiss"));
  const item = h("div", { class: `notice ${word ? kind : "info"}`, role: kind === "error" ? "alert" : "status" },
    h("p", {}, word ? h("b", {}, `${word}: `) : null, text), close);
  const place = $("notices");
  place.append(item);
  while (place.children.length > 5) place.firstChild.remove();
  if (kind !== "error") setTimeout(() => item.remove(), 8000);
}

/** A button that copies a text. */
export function copyButton(text) {
  const button = h("button", { type: "button", class: "copy", on: { click: async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy" }, 1500);
  } } }, "Copy");
  return button;
}
