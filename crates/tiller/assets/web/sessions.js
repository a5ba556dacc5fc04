// The list of sessions: those that the server has open, and the stored ones, with a search.

import { $, fill, h } from "./dom.js";
import { oneLine } from "./text.js";

/** A search reads at most this many stored sessions. */
const SEARCHED = 5000;
const PAGE = 50;

const STATUS = { running: "running", idle: "idle", asleep: "asleep", closing: "closing" };

/** "…/ada/harbour" for a long path. */
export function shortPath(path) {
  const parts = String(path ?? "").split("/").filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : String(path ?? "");
}

/** "5 min" since a time, in milliseconds since 1970 or as ISO text. */
export function age(time, now = Date.now()) {
  const minutes = (now - new Date(time).getTime()) / 60_000;
  if (!Number.isFinite(minutes)) return "";
  if (minutes < 1) return "now";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (minutes < 30 * 24 * 60) return `${Math.floor(minutes / 1440)} d`;
  return new Date(time).toLocaleDateString();
}

/** Whether every word is in one of the texts. */
export function matches(words, texts) {
  const text = texts.filter(Boolean).join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

export class SessionList {
  #request;
  #onChoose;
  #open = [];
  #stored = [];
  #next = null;
  #words = [];
  #drawn = "";
  #current = { handle: null, durableId: null };
  #typing = null;
  #loading = null;

  /** `onChoose({open})` or `onChoose({stored})` is called when the user chooses a session. */
  constructor({ request, onChoose }) {
    this.#request = request;
    this.#onChoose = onChoose;
    $("search").addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#search(), 120);
    });
    $("search").addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        this.#buttons()[0]?.focus();
      } else if (event.key === "Escape" && $("search").value) {
        event.stopPropagation();
        $("search").value = "";
        this.#search();
      }
    });
    $("lists").addEventListener("keydown", (event) => this.#move(event));
    $("more-sessions").addEventListener("click", () => this.#more().then(() => this.#draw()));
  }

  get open() {
    return this.#open;
  }

  /** The folders of all sessions that are known, newest first. */
  get folders() {
    return [...new Set([...this.#open, ...this.#stored].map((session) => session.cwd).filter(Boolean))].slice(0, 50);
  }

  setCurrent(handle, durableId) {
    this.#current = { handle, durableId };
    this.#draw();
  }

  async refreshOpen() {
    this.#open = (await this.#request({ type: "list_open_sessions" })).sessions ?? [];
    this.#draw();
    return this.#open;
  }

  /** Reads the newest stored sessions again. */
  async refreshStored() {
    const data = await this.#request({ type: "list_sessions", all: true, limit: Math.max(PAGE, Math.min(this.#stored.length, 500)) });
    this.#stored = data.sessions ?? [];
    this.#next = data.next ?? null;
    if (this.#words.length) await this.#readAll();
    this.#draw();
  }

  async #more() {
    if (!this.#next) return;
    const data = await this.#request({ type: "list_sessions", all: true, limit: this.#words.length ? 500 : PAGE, before: this.#next });
    this.#stored = this.#stored.concat(data.sessions ?? []);
    this.#next = data.next ?? null;
  }

  async #readAll() {
    while (this.#next && this.#stored.length < SEARCHED) await this.#more();
  }

  async #search() {
    this.#words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    this.#draw();
    if (!this.#words.length || !this.#next) return;
    this.#loading ??= this.#readAll().catch(() => {}).finally(() => { this.#loading = null });
    await this.#loading;
    this.#draw();
  }

  #draw() {
    const open = this.#open.filter((session) => matches(this.#words, [session.name, session.cwd, session.model, this.#firstMessage(session)]));
    const openIds = new Set(this.#open.map((session) => session.durableId));
    const stored = this.#stored.filter((session) => !openIds.has(session.id) && matches(this.#words, [session.name, session.firstMessage, session.cwd]));
    const state = JSON.stringify([open, stored.map((session) => [session.id, session.name, session.messageCount, session.modified]), this.#current, this.#next, Math.floor(Date.now() / 60_000)]);
    if (state === this.#drawn) return;
    this.#drawn = state;
    const focused = document.activeElement?.closest?.("#lists [data-key]")?.dataset.key;
    $("open-title").hidden = !open.length;
    fill($("open-list"), open.map((session) => this.#openItem(session)));
    const nothing = this.#words.length ? "No stored session matches" : "No stored sessions";
    fill($("stored-list"), stored.length ? stored.map((session) => this.#storedItem(session)) : h("li", { class: "hint" }, nothing));
    $("more-sessions").hidden = !this.#next || this.#words.length > 0;
    if (focused) this.#buttons().find((button) => button.dataset.key === focused)?.focus({ preventScroll: true });
  }

  #firstMessage(session) {
    return this.#stored.find((stored) => stored.id === session.durableId)?.firstMessage;
  }

  #openItem(session) {
    const { sessionId, name, cwd, status, messageCount, queuedMessageCount, clients, model, lastActive } = session;
    const title = oneLine(name || this.#firstMessage(session) || "New session", 90);
    const facts = [shortPath(cwd), `${messageCount ?? 0} messages`, queuedMessageCount ? `${queuedMessageCount} queued` : "", clients > 1 ? `${clients} clients` : ""];
    return h("li", {}, h("button", {
      type: "button", class: "session", "data-key": sessionId, "data-status": STATUS[status] ?? "idle", title: [cwd, model].filter(Boolean).join("\n"),
      "aria-current": sessionId === this.#current.handle ? "true" : null,
      on: { click: () => this.#onChoose({ open: session }) },
    }, h("span", { class: "name" }, title), h("span", { class: "facts" }, h("b", {}, STATUS[status] ?? oneLine(status, 20)), " · ", facts.filter(Boolean).join(" · "), " · ", age(lastActive))));
  }

  #storedItem(session) {
    const title = oneLine(session.name || session.firstMessage || "No messages", 90);
    const facts = [shortPath(session.cwd), `${session.messageCount ?? 0} messages`, age(session.modified)];
    return h("li", {}, h("button", {
      type: "button", class: "session", "data-key": session.id, title: [session.cwd, oneLine(session.firstMessage, 300)].filter(Boolean).join("\n"),
      "aria-current": session.id === this.#current.durableId ? "true" : null,
      on: { click: () => this.#onChoose({ stored: session }) },
    }, h("span", { class: "name" }, title), h("span", { class: "facts" }, facts.filter(Boolean).join(" · "))));
  }

  #buttons() {
    return [...$("lists").querySelectorAll("button.session")];
  }

  #move(event) {
    const buttons = this.#buttons();
    const at = buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    (to < 0 ? $("search") : buttons[Math.min(to, buttons.length - 1)]).focus();
  }
}
