// The message box: sending, steering and follow-ups, completion of commands, pictures and drafts.

import { $, fill, h, setText } from "./dom.js";
import { oneLine } from "./text.js";

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const LARGEST_IMAGE = 20 * 1024 * 1024;

/** What the message box asks for, from its text. */
export function readDraft(text, { running, followUp }) {
  const shell = /^(!!?)\s*([^]*)$/.exec(text);
  if (shell) return shell[2].trim() ? { kind: "shell", command: shell[2].trim(), hidden: shell[1] === "!!" } : null;
  if (!running) return { kind: "prompt" };
  return { kind: followUp ? "follow_up" : "steer" };
}

/** The commands that complete a text, or none. */
export function completions(text, commands) {
  const match = /^\/(\S*)$/.exec(text);
  if (!match) return [];
  const typed = match[1].toLowerCase();
  const starts = commands.filter(({ name }) => name.toLowerCase().startsWith(typed));
  const contains = commands.filter(({ name }) => !name.toLowerCase().startsWith(typed) && name.toLowerCase().includes(typed));
  return starts.concat(contains).slice(0, 50);
}

export class Composer {
  #box = $("message");
  #onSend;
  #onAbort;
  #getCommands;
  #onError;
  #running = false;
  #connected = false;
  #images = [];
  #commands = null;
  #shown = [];
  #active = -1;
  #draftKey = null;

  /**
   * `onSend({kind, text, images, …})` resolves to true if the message was taken; otherwise it stays
   * in the box. `getCommands` resolves to the commands of the session.
   */
  constructor({ onSend, onAbort, getCommands, onError }) {
    this.#onSend = onSend;
    this.#onAbort = onAbort;
    this.#getCommands = getCommands;
    this.#onError = onError;
    const box = this.#box;
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send(false);
    });
    $("follow-up").addEventListener("click", () => this.#send(true));
    $("abort").addEventListener("click", () => this.#onAbort());
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => {
      this.#addFiles($("file").files);
      $("file").value = "";
    });
    box.addEventListener("input", () => this.#changed());
    box.addEventListener("blur", () => this.#hideCompletions());
    box.addEventListener("keydown", (event) => this.#key(event));
    box.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])].filter((file) => IMAGE.test(file.type));
      if (!files.length) return;
      event.preventDefault();
      this.#addFiles(files);
    });
    const dock = $("dock");
    dock.addEventListener("dragover", (event) => event.preventDefault());
    dock.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#addFiles(event.dataTransfer?.files ?? []);
    });
    $("completions").addEventListener("mousedown", (event) => {
      event.preventDefault();
      const item = event.target.closest("[role=option]");
      if (item) this.#complete(Number(item.dataset.at));
    });
  }

  /** Shows the box for a session, with the text that was typed there before. */
  show(key) {
    $("composer").hidden = false;
    this.#commands = null;
    this.#draftKey = `tiller-draft-${key}`;
    this.#images = [];
    this.#drawImages();
    this.#setText(sessionStorage.getItem(this.#draftKey) ?? "");
  }

  hide() {
    $("composer").hidden = true;
    this.#draftKey = null;
  }

  focus() {
    if (!$("composer").hidden) this.#box.focus();
  }

  get text() {
    return this.#box.value;
  }

  /** Puts a text into the box; with `keep`, before what is there. */
  setDraft(text, images = [], { keep = false } = {}) {
    const now = this.#box.value;
    this.#setText(keep && now && now !== text ? `${text}\n\n${now}` : text);
    this.#images = keep ? images.concat(this.#images) : images;
    this.#drawImages();
  }

  setState({ running, connected }) {
    this.#running = running;
    this.#connected = connected;
    $("abort").hidden = !running;
    $("follow-up").hidden = !running;
    $("send").textContent = running ? "Steer" : "Send";
    this.#hint();
  }

  #hint() {
    const hint = !this.#connected ? "Not connected: your text is kept here."
      : this.#running ? "Enter steers, Alt+Enter follows up, Esc stops." : "";
    $("composer-hint").dataset.kind = this.#connected ? "keys" : "connection";
    setText($("composer-hint"), hint);
  }

  #setText(text) {
    this.#box.value = text;
    this.#changed({ quiet: true });
  }

  #changed({ quiet = false } = {}) {
    const box = this.#box;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight * 0.4)}px`;
    if (this.#draftKey) {
      if (box.value) sessionStorage.setItem(this.#draftKey, box.value);
      else sessionStorage.removeItem(this.#draftKey);
    }
    if (quiet) this.#hideCompletions();
    else this.#showCompletions();
  }

  async #send(followUp) {
    const text = this.#box.value;
    const images = this.#images;
    if (!text.trim() && !images.length) return;
    const draft = readDraft(text, { running: this.#running, followUp });
    if (!draft) return;
    if (!this.#connected) return this.#onError("Not connected. The message stays in the box.");
    // The box is empty at once, so that the next message can be typed.
    this.#setText("");
    this.#images = [];
    this.#drawImages();
    const key = this.#draftKey;
    const taken = await this.#onSend({ ...draft, text, images });
    if (!taken && key === this.#draftKey) this.setDraft(text, images, { keep: true });
  }

  #key(event) {
    if (event.isComposing) return;
    if (this.#shown.length && this.#completionKey(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#send(event.altKey && this.#running);
    }
  }

  // ---- Completion

  #completionKey(event) {
    const { key } = event;
    const last = this.#shown.length - 1;
    if (key === "ArrowDown") this.#choose(this.#active >= last ? 0 : this.#active + 1);
    else if (key === "ArrowUp") this.#choose(this.#active <= 0 ? last : this.#active - 1);
    else if (key === "Tab" && !event.shiftKey) this.#complete(Math.max(this.#active, 0));
    else if (key === "Enter" && !event.shiftKey && `/${this.#shown[this.#active]?.name}` !== this.#box.value) this.#complete(this.#active);
    else if (key === "Escape") this.#hideCompletions();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  async #showCompletions() {
    if (!/^\/\S*$/.test(this.#box.value)) return this.#hideCompletions();
    this.#commands ??= this.#getCommands();
    const commands = await this.#commands;
    this.#shown = completions(this.#box.value, commands);
    if (!this.#shown.length) return this.#hideCompletions();
    this.#active = -1;
    fill($("completions"), this.#shown.map((command, at) =>
      h("li", { role: "option", id: `completion-${at}`, "data-at": String(at), "aria-selected": "false" },
        h("b", {}, `/${oneLine(command.name, 60)}`), " ", h("span", {}, oneLine(command.description, 160)))));
    $("completions").hidden = false;
    this.#box.setAttribute("aria-expanded", "true");
    this.#choose(0);
  }

  #choose(at) {
    this.#active = at;
    [...$("completions").children].forEach((item, index) => {
      item.setAttribute("aria-selected", String(index === at));
      if (index === at) item.scrollIntoView({ block: "nearest" });
    });
    this.#box.setAttribute("aria-activedescendant", `completion-${at}`);
  }

  #complete(at) {
    const command = this.#shown[at];
    if (!command) return;
    this.#setText(`/${command.name} `);
    this.#box.setSelectionRange(this.#box.value.length, this.#box.value.length);
  }

  #hideCompletions() {
    this.#shown = [];
    this.#active = -1;
    $("completions").hidden = true;
    this.#box.setAttribute("aria-expanded", "false");
    this.#box.removeAttribute("aria-activedescendant");
  }

  // ---- Pictures

  async #addFiles(files) {
    for (const file of files) {
      if (!IMAGE.test(file.type)) this.#onError(`${file.name} is not a picture that models can read (PNG, JPEG, GIF, WebP).`);
      else if (file.size > LARGEST_IMAGE) this.#onError(`${file.name} is larger than 20 MB.`);
      else this.#images = this.#images.concat({ type: "image", data: await base64(file), mimeType: file.type });
    }
    this.#drawImages();
    this.focus();
  }

  #drawImages() {
    $("pictures").hidden = !this.#images.length;
    fill($("pictures"), this.#images.map((image, at) =>
      h("span", { class: "attached" }, h("img", { src: `data:${image.mimeType};base64,${image.data}`, alt: `Picture ${at + 1}` }),
        h("button", { type: "button", class: "icon", title: "Remove the picture", on: { click: () => {
          this.#images = this.#images.filter((other) => other !== image);
          this.#drawImages();
          this.focus();
        } } }, "×", h("span", { class: "sr" }, `Remove picture ${at + 1}`)))));
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
