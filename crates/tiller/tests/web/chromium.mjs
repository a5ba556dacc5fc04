// Headless Chromium, driven by the DevTools protocol through a pair of pipes. Requests and events
// are JSON, each ended by a zero byte.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { accessSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How long anything in the browser may take. A busy machine is slow. */
const LIMIT = 30_000;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until `check` returns a value that counts as true, and returns it. */
export async function until(what, check, limit = LIMIT) {
  const deadline = Date.now() + limit;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`never came: ${what}`);
    await pause(15);
  }
}

/** The path of the browser, or null. */
export function findChromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const names = ["chromium", "chromium-browser", "google-chrome"];
  for (const name of names) {
    for (const folder of (process.env.PATH ?? "").split(":")) {
      try {
        accessSync(join(folder, name));
        return join(folder, name);
      } catch {
        // It is not in this folder.
      }
    }
  }
  return null;
}

export class Chromium {
  #child;
  #profile;
  #pending = new Map();
  #lastId = 0;
  #tabs = new Map();

  static async start() {
    const browser = new Chromium();
    browser.#profile = await mkdtemp(join(tmpdir(), "tiller-web-browser-"));
    browser.#child = spawn(findChromium(), ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--lang=en-US", "--window-size=1280,900",
      "--remote-debugging-pipe", `--user-data-dir=${browser.#profile}`, "about:blank"],
    // The browser reads requests from its file descriptor 3 and writes answers to 4.
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], env: { ...process.env, TZ: "UTC" }, detached: true });
    browser.#child.on("exit", () => browser.#fail(new Error("Chromium has ended")));
    browser.#child.on("error", (error) => browser.#fail(error));
    browser.#child.stdio[3].on("error", () => {});
    let rest = "";
    browser.#child.stdio[4].setEncoding("utf8").on("data", (data) => {
      const messages = (rest + data).split("\0");
      rest = messages.pop();
      for (const message of messages) browser.#receive(JSON.parse(message));
    });
    return browser;
  }

  #fail(error) {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  #receive({ id, result, error, method, params, sessionId }) {
    if (id === undefined) return this.#tabs.get(sessionId)?.receive(method, params);
    const { resolve, reject, what } = this.#pending.get(id);
    this.#pending.delete(id);
    if (error) reject(new Error(`${what}: ${error.message}`));
    else resolve(result);
  }

  call(method, params = {}, sessionId) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, what: method });
      this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** A tab with storage of its own; `scripts` run before those of the page. */
  async tab(scripts = []) {
    const { browserContextId } = await this.call("Target.createBrowserContext");
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank", browserContextId, width: 1280, height: 900 });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId, targetId);
    this.#tabs.set(sessionId, tab);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await tab.call(`${domain}.enable`);
    // Two tabs at once are both drawn.
    await tab.call("Emulation.setFocusEmulationEnabled", { enabled: true });
    for (const source of [WATCH, ...scripts]) await tab.call("Page.addScriptToEvaluateOnNewDocument", { source });
    return tab;
  }

  async stop() {
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

/** Notes what a page must not do. */
const WATCH = `window.misdeeds = [];
addEventListener("securitypolicyviolation", (event) => misdeeds.push("policy: " + event.violatedDirective + " " + event.blockedURI));
addEventListener("error", (event) => misdeeds.push("error: " + event.message));
addEventListener("unhandledrejection", (event) => misdeeds.push("rejection: " + (event.reason?.stack ?? event.reason)));
window.harm = () => misdeeds.push("harm");`;

export class Tab {
  #browser;
  #session;
  #target;
  #console = [];
  #dialogs = [];
  requests = [];

  constructor(browser, session, target) {
    this.#browser = browser;
    this.#session = session;
    this.#target = target;
  }

  receive(method, params) {
    if (method === "Page.javascriptDialogOpening") {
      this.#dialogs.push(`dialog: ${params.message}`);
      this.call("Page.handleJavaScriptDialog", { accept: false });
    }
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) {
      this.#console.push(`console: ${params.args.map(({ value, description }) => value ?? description).join(" ")}`);
    }
    if (method === "Runtime.exceptionThrown") this.#console.push(`exception: ${params.exceptionDetails.exception?.description}`);
    if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
  }

  call(method, params) {
    return this.#browser.call(method, params, this.#session);
  }

  close() {
    return this.#browser.call("Target.closeTarget", { targetId: this.#target });
  }

  async go(address) {
    const { errorText } = await this.call("Page.navigate", { url: address });
    if (errorText) throw new Error(`${address}: ${errorText}`);
    await this.until("document.readyState === 'complete'");
  }

  async reload() {
    await this.call("Page.reload");
    await this.until("document.readyState === 'complete'");
  }

  /** The value of an expression. */
  async eval(expression) {
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  until(expression, limit) {
    return until(expression, () => this.eval(expression).catch(() => false), limit);
  }

  text(selector) {
    return this.eval(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? null`);
  }

  /** Waits until an element shows a text. */
  untilText(selector, text, limit) {
    return this.until(`[...document.querySelectorAll(${JSON.stringify(selector)})].some((element) => element.innerText.includes(${JSON.stringify(text)}))`, limit);
  }

  async click(selector) {
    const find = `(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      if (!element) return null;
      element.scrollIntoView({ block: "nearest" });
      const { x, y, width, height } = element.getBoundingClientRect();
      const at = [x + width / 2, y + height / 2];
      return element.contains(document.elementFromPoint(...at)) ? at : null;
    })()`;
    let last = null;
    const [x, y] = await until(`can be clicked on: ${selector}`, async () => {
      const place = await this.eval(find);
      const still = place && last && place[0] === last[0] && place[1] === last[1];
      last = place;
      return still ? place : null;
    });
    for (const type of ["mousePressed", "mouseReleased"]) await this.call("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  }

  type(text) {
    return this.call("Input.insertText", { text });
  }

  /** Presses a key, with modifiers: "Alt+Enter". */
  async press(keys) {
    const parts = keys.split("+");
    const key = parts.pop() || "+";
    const bits = { Alt: 1, Control: 2, Meta: 4, Shift: 8 };
    const modifiers = parts.reduce((sum, name) => sum | bits[name], 0);
    const codes = { Enter: 13, Escape: 27, Tab: 9, Home: 36, End: 35, ArrowUp: 38, ArrowDown: 40, " ": 32, Space: 32 };
    const name = key === "Space" ? " " : key;
    const text = name.length === 1 && modifiers < 2 ? name : name === "Enter" && (modifiers === 0 || modifiers === bits.Shift) ? "\r" : "";
    const shared = { key: name, code: { " ": "Space" }[name] ?? (name.length === 1 ? `Key${name.toUpperCase()}` : name), modifiers, windowsVirtualKeyCode: codes[name] ?? name.toUpperCase().charCodeAt(0) };
    await this.call("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", ...shared, text });
    await this.call("Input.dispatchKeyEvent", { type: "keyUp", ...shared });
  }

  size(width, height) {
    return this.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  }

  dark(on = true) {
    return this.call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: on ? "dark" : "light" }] });
  }

  async screenshot(path) {
    const { data } = await this.call("Page.captureScreenshot", { format: "png" });
    await writeFile(path, Buffer.from(data, "base64"));
  }

  /** What the page has done that it must not do. Lost connections are no misdeeds. */
  async misdeeds() {
    const found = await this.eval("window.misdeeds ?? []");
    return [...this.#dialogs, ...this.#console, ...found].filter((text) => !/WebSocket connection to|ERR_CONNECTION/.test(text));
  }
}
