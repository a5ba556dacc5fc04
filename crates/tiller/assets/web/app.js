// The page: connects to the server that it comes from, and joins its parts.

import { Connection } from "./connection.js";
import { $, fill, h, notice, setText } from "./dom.js";
import { SessionView } from "./session-view.js";
import { SessionList } from "./sessions.js";

const HELLO = { type: "hello", client: "tiller web", wire: "pi-delta", sequence: true, toolUpdates: "deltas" };
const POLL = 4000;
/** A server that has not answered for so long is gone, though the socket is open. */
const SILENCE = 15_000;

const root = document.documentElement;
const stored = (storage, key, value) => {
  try {
    if (value === undefined) return storage.getItem(key);
    storage.setItem(key, value);
  } catch {
    // Private windows may have no storage. The page works without it.
  }
  return null;
};

// ---- The token and the session in the address

const fragment = new URLSearchParams(location.hash.slice(1));
let token = fragment.get("token") ?? stored(sessionStorage, "tiller-token") ?? "";
let wanted = fragment.get("session");
if (fragment.has("token")) {
  fragment.delete("token");
  stored(sessionStorage, "tiller-token", token);
  history.replaceState(null, "", location.pathname + location.search + (wanted ? `#session=${encodeURIComponent(wanted)}` : ""));
}

const base = new URL(".", location.href);
function openSocket() {
  const address = new URL(base);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  return new WebSocket(address, ["tiller", `token.${token}`]);
}

// ---- The connection

const connection = new Connection({
  open: openSocket,
  prefix: `w${Math.random().toString(36).slice(2, 8)}-`,
  onState: showConnection,
  onRecord: (record) => {
    if (record.type === "server_stopping") return banner(`The server is stopping. Running work has ${record.seconds} s to finish.`);
    if (record.type === "session_closed") list.refreshOpen().catch(() => {});
    view.receive(record);
  },
});
const view = new SessionView({ connection, onChange: refreshLists });
const list = new SessionList({ request: (command) => connection.request(command), onChoose: choose });

let wasOpen = false;
async function showConnection(state, { delay, refused } = {}) {
  root.dataset.connection = state;
  setText($("connection"), { connecting: "Connecting…", open: "Connecting…" }[state] ?? "Not connected");
  view.setConnected(false);
  if (state === "open") return start();
  if (state !== "waiting") return;
  const problem = wasOpen ? "The connection to the server is lost." : "The server cannot be reached.";
  banner(`${problem} Trying again in ${Math.ceil(delay / 1000)} s…`);
  // A socket does not tell a wrong token from a server that is gone.
  if (refused && (await tokenIsWrong())) {
    connection.disconnect();
    banner("");
    askToken(wasOpen || token !== "");
  }
}

async function tokenIsWrong() {
  try {
    const response = await fetch(new URL("health", base), { headers: { authorization: `Bearer ${token}` }, cache: "no-store" });
    return response.status === 401;
  } catch {
    return false;
  }
}

async function start() {
  wasOpen = true;
  try {
    await connection.request(HELLO);
    banner("");
    if (view.handle) await view.resume();
    else if (wanted) await reopen(wanted);
    wanted = null;
    refreshLists();
  } catch (error) {
    if (error.code === "connection_lost") return;
    notice(error.message, "error");
  }
  // Another loss may have come meanwhile.
  if (connection.state !== "open") return;
  view.setConnected(true);
  setText($("connection"), "Connected");
  root.dataset.ready = "yes";
}

/** Shows the session that was shown before the page was loaded again. */
async function reopen(durableId) {
  const open = (await list.refreshOpen()).find((session) => session.durableId === durableId);
  try {
    await view.show(open ? { handle: open.sessionId } : { sessionId: durableId });
  } catch (error) {
    if (error.code === "connection_lost") throw error;
    history.replaceState(null, "", location.pathname + location.search);
    notice(`The session of this address cannot be opened: ${error.message}`, "warning");
  }
}

function banner(text) {
  $("banner").hidden = !text;
  setText($("banner"), text);
}

let refreshing = null;
function refreshLists() {
  // Several reasons within a moment are one reading.
  refreshing ??= setTimeout(async () => {
    refreshing = null;
    list.setCurrent(view.handle, view.durableId);
    try {
      view.noticeOpen(await list.refreshOpen());
      await list.refreshStored();
    } catch (error) {
      if (error.code !== "connection_lost") notice(error.message, "error");
    }
  }, 150);
}

async function poll() {
  if (connection.state === "open" && !document.hidden) {
    const silence = setTimeout(() => connection.reset(), SILENCE);
    try {
      view.noticeOpen(await list.refreshOpen());
    } catch {
      // The next poll, or the connection's own events, say more.
    }
    clearTimeout(silence);
  }
  setTimeout(poll, POLL);
}

addEventListener("online", () => connection.retryNow());
addEventListener("visibilitychange", () => {
  if (!document.hidden) connection.retryNow();
});

// ---- Choosing, starting, renaming and closing sessions

async function choose({ open, stored }) {
  showSide(false, { phoneOnly: true });
  try {
    await view.show(open ? { handle: open.sessionId } : { sessionPath: stored.path });
    if (wide.matches) view.composer.focus();
  } catch (error) {
    if (error.code !== "connection_lost") notice(error.message, "error");
  }
}

function showNewDialog() {
  fill($("folders"), list.folders.map((folder) => h("option", { value: folder })));
  fill($("models"), (view.models ?? []).map((model) => h("option", { value: `${model.provider}/${model.id}` }, model.name ?? "")));
  $("new-error").hidden = true;
  $("new-dialog").showModal();
}
$("new-session").addEventListener("click", showNewDialog);
$("welcome-new").addEventListener("click", showNewDialog);

onSubmit("new-dialog", async () => {
  const options = {};
  const cwd = $("new-cwd").value.trim();
  const model = $("new-model").value.trim();
  const name = $("new-name").value.trim();
  if (cwd) options.cwd = cwd;
  if (model) {
    const at = model.indexOf("/");
    if (at < 1) throw new Error("Write the model as provider/model.");
    options.provider = model.slice(0, at);
    options.modelId = model.slice(at + 1);
  }
  if (name) options.name = name;
  if ($("new-memory").checked) options.inMemory = true;
  await view.show(options);
  $("new-name").value = "";
  showSide(false, { phoneOnly: true });
}, (error) => {
  $("new-error").hidden = false;
  setText($("new-error"), error.message);
}, () => view.composer.focus());

$("rename").addEventListener("click", () => {
  $("rename-name").value = view.name ?? "";
  $("rename-dialog").showModal();
  $("rename-name").select();
});
onSubmit("rename-dialog", () => view.rename($("rename-name").value), (error) => notice(error.message, "error"));

$("close-session").addEventListener("click", async () => {
  try {
    if (view.isRunning && !(await ask("Close the session?", "The model is still working. Closing the session stops it."))) return;
    await view.close();
    $("new-session").focus();
  } catch (error) {
    if (error.code !== "connection_lost") notice(error.message, "error");
  }
});

/** Runs work when the form of a dialog is sent, and closes the dialog if it succeeds; then `after`. */
function onSubmit(id, work, onError, after = () => {}) {
  const dialog = $(id);
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await work();
      dialog.close();
      after();
    } catch (error) {
      onError(error);
    }
  });
  dialog.querySelector("[data-cancel]")?.addEventListener("click", () => dialog.close());
}

/** A question of the page itself. */
function ask(title, message) {
  return new Promise((resolve) => {
    const answer = (value) => () => {
      dialog.remove();
      resolve(value);
    };
    const dialog = h("dialog", { "aria-labelledby": "ask-title" }, h("form", { method: "dialog" }, h("h2", { id: "ask-title" }, title), h("p", {}, message),
      h("div", { class: "row" }, h("button", { type: "button", on: { click: answer(false) } }, "Cancel"), h("button", { type: "button", class: "primary", on: { click: answer(true) } }, "Close the session"))));
    dialog.addEventListener("close", answer(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// ---- The token

function askToken(wrong) {
  $("token-error").hidden = !wrong;
  $("token").value = "";
  if (!$("token-dialog").open) $("token-dialog").showModal();
}
onSubmit("token-dialog", () => {
  token = $("token").value.trim();
  stored(sessionStorage, "tiller-token", token);
  connection.connect();
}, () => {});
$("token-dialog").addEventListener("cancel", (event) => event.preventDefault());

// ---- The frame: sides, theme, help and keys

const wide = matchMedia("(min-width: 60rem)");
const roomy = matchMedia("(min-width: 80rem)");

function showSide(open, { phoneOnly = false } = {}) {
  if (phoneOnly && wide.matches) return;
  show("side", open, wide);
}
function show(id, open, fits) {
  root.classList.toggle(`no-${id}`, !open);
  $(`toggle-${id}`).setAttribute("aria-expanded", String(open));
  const shade = document.querySelector(`.shade[data-close=${id}]`);
  shade.hidden = !open || fits.matches;
  if (open && !fits.matches) $(id).querySelector("button, select, input")?.focus();
  else if (!open && $(id).contains(document.activeElement)) $(`toggle-${id}`).focus();
}
const isShown = (id) => !root.classList.contains(`no-${id}`);
$("toggle-side").addEventListener("click", () => show("side", !isShown("side"), wide));
$("toggle-panel").addEventListener("click", () => show("panel", !isShown("panel"), roomy));
for (const shade of document.querySelectorAll(".shade")) {
  shade.addEventListener("click", () => show(shade.dataset.close, false, shade.dataset.close === "side" ? wide : roomy));
}
wide.addEventListener("change", () => show("side", wide.matches, wide));
roomy.addEventListener("change", () => show("panel", roomy.matches, roomy));
show("side", wide.matches, wide);
show("panel", roomy.matches, roomy);

const theme = stored(localStorage, "tiller-theme");
if (theme === "light" || theme === "dark") root.dataset.theme = theme;
$("theme").addEventListener("click", () => {
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  stored(localStorage, "tiller-theme", root.dataset.theme);
});
$("help-button").addEventListener("click", () => $("help").showModal());

const KEYS = {
  "/": () => view.composer.focus(),
  "?": () => $("help").showModal(),
  "j": () => view.conversation.step(1),
  "k": () => view.conversation.step(-1),
};
addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    showSide(true);
    $("search").focus();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (!wide.matches && isShown("side")) return showSide(false);
    if (!roomy.matches && isShown("panel")) return show("panel", false, roomy);
    return view.abort();
  }
  if (event.target.closest?.("input, textarea, select")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// ---- Begin

view.leave();
if (wanted) history.replaceState(null, "", `#session=${encodeURIComponent(wanted)}`);
if (token) connection.connect();
else askToken(false);
setTimeout(poll, POLL);
