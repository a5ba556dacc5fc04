// The session that is shown: its attachment, its conversation, and everything around it.

import { Attachment, CONTINUED } from "./attachment.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { ExtensionDialogs } from "./dialogs.js";
import { $, announce, fill, h, notice, setText } from "./dom.js";
import { earlierMessages, newestMessages, recordsAfter } from "./loading.js";
import { ContextHistory } from "./meter.js";
import { showChart, showStats, showTodos, todosOf } from "./panel.js";
import { shortPath } from "./sessions.js";
import { oneLine, textOf } from "./text.js";

export class SessionView {
  #connection;
  #onChange;
  #attachment = null;
  #connected = false;
  #running = false;
  #compacting = false;
  #name = null;
  #title = null;
  /** What a session without a name is called. */
  #firstMessage = null;
  #model = null;
  #offset = 0;
  /** Records that wait until the messages are read, or null. */
  #waiting = null;
  #history = new ContextHistory();
  #todos = [];
  /** A message whose response was lost with the connection. */
  #unconfirmed = null;
  /** The newest user messages that were read with the session. */
  #lastUserTexts = [];
  #statsTimer = null;
  #opening = 0;

  /** `onChange()` is called when the list of sessions should be read again. */
  constructor({ connection, onChange }) {
    this.#connection = connection;
    this.#onChange = onChange;
    this.conversation = new Conversation({ entries: $("entries"), scroller: $("scroll"), onFork: (element, text) => this.#run(this.#fork(element, text)) });
    this.conversation.onEnd = (atEnd) => { $("latest").hidden = atEnd };
    this.conversation.onUserMessage = (text, id) => {
      this.#confirm(id);
      this.#noteFirstMessage(text);
    };
    this.composer = new Composer({
      onSend: (draft) => this.#send(draft),
      onAbort: () => this.abort(),
      getCommands: () => this.request({ type: "get_commands" }).then((data) => data.commands ?? [], () => []),
      onError: (text) => notice(text, "warning"),
    });
    this.dialogs = new ExtensionDialogs({
      answer: (line) => connection.send({ ...line, sessionId: this.#attachment?.handle }),
      setEditorText: (text) => this.composer.setDraft(text),
      setTitle: (title) => {
        this.#title = title;
        this.#showHead();
      },
    });
    $("latest").addEventListener("click", () => {
      this.conversation.scrollToEnd();
      this.composer.focus();
    });
    $("older").firstElementChild.addEventListener("click", () => this.#run(this.#showOlder()));
    $("model").addEventListener("change", () => this.#run(this.#setModel($("model").value)));
    $("thinking").addEventListener("change", () => this.#run(this.request({ type: "set_thinking_level", level: $("thinking").value })));
    $("compact").addEventListener("click", () => this.#run(this.request({ type: "compact" })));
  }

  get handle() {
    return this.#attachment?.handle ?? null;
  }

  get durableId() {
    return this.#attachment?.durableId ?? null;
  }

  get name() {
    return this.#name;
  }

  get isRunning() {
    return this.#running;
  }

  /** Sends a command of the session that is shown. */
  request(command) {
    return this.#connection.request({ ...command, sessionId: this.handle });
  }

  /** Shows a refusal. */
  #run(work) {
    return work.catch((error) => {
      if (error.code !== "connection_lost") notice(error.message, "error");
    });
  }

  // ---- Opening and closing

  /** Opens or attaches to a session and shows it. `how` is `{handle}` or options of `open_session`. */
  async show(how) {
    const opening = ++this.#opening;
    const before = this.#attachment;
    const attachment = new Attachment((command) => this.#connection.request(command));
    if (how.handle) await attachment.attach(how.handle);
    else await attachment.open(how);
    if (opening !== this.#opening) {
      if (attachment.handle !== this.handle) this.#connection.request({ type: "detach", sessionId: attachment.handle }).catch(() => {});
      return;
    }
    if (before && before.handle !== attachment.handle) this.#connection.request({ type: "detach", sessionId: before.handle }).catch(() => {});
    this.#attachment = attachment;
    this.#unconfirmed = null;
    this.composer.show(attachment.durableId);
    await this.#load();
    this.#onChange();
  }

  /** Shows no session. */
  leave() {
    this.#opening += 1;
    this.#attachment = null;
    this.#running = this.#compacting = false;
    this.#waiting = null;
    this.conversation.clear();
    this.dialogs.clear();
    this.composer.hide();
    this.#showQueue([]);
    this.#title = null;
    $("older").hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
    this.#showHead();
  }

  async close() {
    const { handle } = this;
    await this.#connection.request({ type: "close_session", sessionId: handle });
    if (this.handle === handle) this.leave();
    this.#onChange();
  }

  /** The connection is there again. */
  async resume() {
    const attachment = this.#attachment;
    if (!attachment) return;
    const handle = attachment.handle;
    let outcome;
    try {
      outcome = await attachment.resume();
    } catch (error) {
      if (error.code === "connection_lost" || this.#attachment !== attachment) return;
      notice(`The session cannot be continued: ${error.message}`, "error");
      return this.leave();
    }
    if (this.#attachment !== attachment) return;
    if (outcome === CONTINUED) {
      this.#applyState();
      // Its response comes after the records that are sent again.
      await this.#readQueue();
    } else {
      if (attachment.handle !== handle) announce("The session was opened again");
      await this.#load();
    }
    this.#settleUnconfirmed();
    this.#onChange();
  }

  /** What the server says about the session that is shown, from `list_open_sessions`. */
  noticeOpen(sessions) {
    const session = sessions.find(({ sessionId }) => sessionId === this.handle);
    if (!session || !this.#attachment) return;
    if (session.cwd && session.cwd !== this.#attachment.cwd) {
      this.#attachment.cwd = session.cwd;
      this.#showHead();
    }
    // Another client has changed the session behind the handle.
    if (session.durableId !== this.durableId && !this.#waiting) this.#run(this.reload());
  }

  /** Reads the state and the messages again. */
  async reload() {
    this.#attachment.update(await this.request({ type: "get_state" }));
    this.composer.show(this.durableId);
    await this.#load();
    this.#onChange();
  }

  async #load() {
    const attachment = this.#attachment;
    const records = [];
    this.#waiting = records;
    this.conversation.clear();
    this.dialogs.clear();
    this.#history.clear();
    this.#todos = [];
    this.#title = this.#firstMessage = null;
    this.#applyState();
    history.replaceState(null, "", `#session=${encodeURIComponent(attachment.durableId ?? "")}`);
    const { messages, offset } = await newestMessages((command) => this.request(command), attachment.state?.messageCount ?? 0);
    if (this.#waiting !== records) return;
    this.#waiting = null;
    this.#offset = offset;
    $("older").hidden = offset === 0;
    this.conversation.append(messages);
    if (offset === 0) this.#noteFirstMessage(textOf(messages.find(({ role }) => role === "user")?.content));
    this.#history.add(messages);
    for (const message of messages) this.#noteTodos(message);
    this.#lastUserTexts = messages.filter(({ role }) => role === "user").slice(-10)
      .map((message) => ({ text: textOf(message.content), timestamp: message.timestamp ?? 0 }));
    for (const record of recordsAfter(records)) this.#apply(record);
    // A server that was killed has left calls without results.
    if (!this.#running) this.conversation.settle();
    this.#showTodos();
    this.#showHead();
    this.#showUsage();
    this.#run(this.#readQueue());
    this.#run(this.#readModels());
    $("log").dataset.ready = attachment.handle;
  }

  async #showOlder() {
    const before = this.#offset;
    const { messages, offset } = await earlierMessages((command) => this.request(command), before);
    if (this.#offset !== before) return;
    this.#offset = offset;
    $("older").hidden = offset === 0;
    this.conversation.prepend(messages);
    this.#history.add(messages, { before: true });
    this.#showChart();
    if (offset === 0) $("scroll").focus();
  }

  // ---- Records

  /** Handles a record, if it is of this session. */
  receive(record) {
    if (!this.#attachment?.accepts(record)) return;
    if (record.type === "response") return;
    if (record.type === "session_closed" || record.type === "session_detached") return this.#end(record);
    if (this.#waiting) this.#waiting.push(record);
    else this.#apply(record);
  }

  #apply(record) {
    this.conversation.handle(record);
    switch (record.type) {
      case "agent_start":
        this.#setRunning(true);
        return this.#onChange();
      case "agent_settled":
        this.#setRunning(false);
        announce(record.aborted ? "Stopped" : "The answer is complete");
        this.#showUsage();
        return this.#onChange();
      case "message_end":
        return this.#endMessage(record.message);
      case "tool_execution_end":
        this.#noteTodos({ toolName: record.toolName, details: record.result?.details, isError: record.isError });
        return this.#showTodos();
      case "todo_auto_clear":
        this.#todos = withoutFinished(this.#todos);
        return this.#showTodos();
      case "queue_update":
        return this.#queueChanged(record);
      case "session_info_changed":
        this.#name = record.name;
        this.#showHead();
        return this.#onChange();
      case "thinking_level_changed":
        $("thinking").value = record.level;
        return;
      case "compaction_start":
        return this.#setCompacting(true);
      case "compaction_end":
        this.#setCompacting(false);
        if (!record.result) return;
        this.#history.addCompaction();
        // The summarized messages are no longer among those that can be read.
        this.#offset = 0;
        $("older").hidden = true;
        return this.#showUsage();
      case "extension_ui_request":
        return this.dialogs.handle(record);
      case "extension_ui_closed":
        return this.dialogs.close(record.id);
    }
  }

  #endMessage(message) {
    if (message.role !== "assistant") return;
    this.#history.add([message]);
    this.#showChart();
    clearTimeout(this.#statsTimer);
    this.#statsTimer = setTimeout(() => this.#showUsage(), 300);
  }

  #end({ type, reason, error }) {
    const words = {
      closed: "The session was closed.", ended: "The session has ended.", crashed: "The session has failed.", server_stopping: "The server is stopping.",
      taken_over: "Another client has taken over the session.", too_slow: "This page was too slow and was detached from the session.",
    }[reason] ?? `The session has ended (${oneLine(reason, 40)}).`;
    notice(error ? `${words} ${error}` : words, type === "session_closed" && reason === "crashed" ? "error" : "warning");
    // The server says that it stops, and the page waits for the next one.
    if (reason === "server_stopping") return;
    this.leave();
    this.#onChange();
  }

  // ---- The head, and what the message box may do

  setConnected(connected) {
    this.#connected = connected;
    this.#showComposer();
  }

  #applyState() {
    const state = this.#attachment.state ?? {};
    this.#running = !!state.isStreaming;
    this.#compacting = !!state.isCompacting;
    this.#name = state.sessionName ?? null;
    this.#model = state.model && state.model.id !== "unknown" ? state.model : null;
    if (state.todoPhases) this.#todos = state.todoPhases;
    this.#showHead();
    this.#showComposer();
  }

  #setRunning(running) {
    this.#running = running;
    this.#showHead();
    this.#showComposer();
  }

  #noteFirstMessage(text) {
    if (this.#firstMessage || !text) return;
    this.#firstMessage = text;
    this.#showHead();
  }

  #setCompacting(compacting) {
    this.#compacting = compacting;
    this.#showHead();
    this.#showComposer();
  }

  #showComposer() {
    this.composer.setState({ running: this.#running || this.#compacting, connected: this.#connected });
  }

  #showHead() {
    const attachment = this.#attachment;
    const name = attachment ? oneLine(this.#name || (this.#offset === 0 && this.#firstMessage) || "New session", 120) : "No session";
    setText($("session-name"), name);
    setText($("session-place"), attachment ? shortPath(attachment.cwd) : "");
    $("session-place").title = attachment?.cwd ?? "";
    const activity = this.#compacting ? "Summarizing" : this.#running ? "Working" : "";
    $("activity").hidden = !activity;
    setText($("activity"), activity);
    for (const id of ["rename", "close-session"]) $(id).hidden = !attachment;
    $("panel").dataset.empty = String(!attachment);
    $("welcome").hidden = !!attachment;
    document.title = `${activity ? "● " : ""}${this.#title ?? (attachment ? name : "tiller")}${attachment ? " – tiller" : ""}`;
  }

  // ---- Models, tokens and todos

  async #readModels() {
    const { handle } = this;
    const [{ models }, { levels }] = await Promise.all([this.request({ type: "get_available_models" }), this.request({ type: "get_available_thinking_levels" })]);
    if (handle !== this.handle) return;
    this.models = models;
    const known = this.#model && !models.some((model) => model.provider === this.#model.provider && model.id === this.#model.id) ? [this.#model, ...models] : models;
    const groups = Map.groupBy(known, (model) => model.provider);
    const current = this.#model ? `${this.#model.provider}/${this.#model.id}` : "";
    fill($("model"), current ? null : h("option", { value: "" }, "None"), [...groups].map(([provider, list]) =>
      h("optgroup", { label: oneLine(provider, 60) }, list.map((model) => h("option", { value: `${model.provider}/${model.id}` }, oneLine(model.name || model.id, 80))))));
    $("model").value = current;
    fill($("thinking"), levels.map((level) => h("option", { value: level }, level)));
    $("thinking").value = this.#attachment.state?.thinkingLevel ?? levels[0];
    $("thinking").disabled = levels.length < 2;
  }

  async #setModel(value) {
    const at = value.indexOf("/");
    try {
      this.#model = await this.request({ type: "set_model", provider: value.slice(0, at), modelId: value.slice(at + 1) });
    } finally {
      this.#attachment.update(await this.request({ type: "get_state" }));
      await this.#readModels();
      this.#showUsage();
    }
  }

  #showUsage() {
    const { handle } = this;
    if (!handle) return;
    this.request({ type: "get_session_stats" }).then((stats) => {
      if (handle === this.handle) showStats(stats);
    }, () => {});
    this.#showChart();
  }

  #showChart() {
    showChart(this.#history.points, this.#model?.contextWindow);
  }

  #noteTodos(message) {
    const phases = todosOf(message);
    if (phases) this.#todos = phases;
  }

  #showTodos() {
    showTodos(this.#todos);
  }

  // ---- The queue

  #queueChanged({ steering, followUp, steeringIds, followUpIds }) {
    for (const id of [...(steeringIds ?? []), ...(followUpIds ?? [])]) this.#confirm(id);
    if (!steering.length && !followUp.length) return this.#showQueue([]);
    this.#run(this.#readQueue());
  }

  async #readQueue() {
    const { handle } = this;
    const { messages } = await this.request({ type: "get_queue" });
    for (const message of messages) this.#confirm(message.clientMessageId);
    if (handle === this.handle) this.#showQueue(messages);
  }

  #showQueue(messages) {
    $("queue").hidden = !messages.length;
    fill($("queue").querySelector("ul"), messages.map((message) => {
      const { queueId, queue, text, images, isBeingSent } = message;
      const words = oneLine(text, 160) || `${images} pictures`;
      const take = (edit) => this.#run(this.request({ type: "remove_queued", queueId }).then(() => {
        if (edit) this.composer.setDraft(text, [], { keep: true });
        this.composer.focus();
      }));
      return h("li", {}, h("b", {}, queue === "steering" ? "Steering" : "Follow-up"), h("span", { title: text }, words),
        h("button", { type: "button", class: "quiet", disabled: isBeingSent, on: { click: () => take(true) } }, "Edit", h("span", { class: "sr" }, ` queued message: ${words}`)),
        h("button", { type: "button", class: "quiet", disabled: isBeingSent, on: { click: () => take(false) } }, "Remove", h("span", { class: "sr" }, ` queued message: ${words}`)));
    }));
  }

  // ---- Sending

  async #send(draft) {
    const { kind, text, images } = draft;
    if (kind === "shell") return this.#shell(draft);
    const clientMessageId = this.#connection.newId();
    const command = { type: kind, message: text, clientMessageId };
    if (images.length) command.images = images;
    // If another client has just started a run, the message is queued instead of refused.
    if (kind === "prompt") command.streamingBehavior = "steer";
    this.conversation.scrollToEnd();
    const sent = { clientMessageId, text, images, confirmed: false, key: this.durableId, since: Date.now() };
    this.#unconfirmed = sent;
    try {
      await this.request(command);
      if (this.#unconfirmed === sent) this.#unconfirmed = null;
      return true;
    } catch (error) {
      // After reconnecting, the conversation shows whether the message has arrived.
      if (error.code === "connection_lost") return true;
      if (this.#unconfirmed === sent) this.#unconfirmed = null;
      notice(error.message, "error");
      return false;
    }
  }

  #shell({ command, hidden }) {
    const id = this.#connection.newId();
    const card = this.conversation.shell(id, command, hidden);
    this.conversation.scrollToEnd();
    const line = { id, type: "bash", command };
    if (hidden) line.excludeFromContext = true;
    this.request(line).then((result) => card.finish(result), (error) => card.fail(error.message));
    return true;
  }

  #confirm(clientMessageId) {
    if (clientMessageId && this.#unconfirmed?.clientMessageId === clientMessageId) this.#unconfirmed.confirmed = true;
  }

  #settleUnconfirmed() {
    const sent = this.#unconfirmed;
    this.#unconfirmed = null;
    if (!sent || sent.confirmed || !this.#attachment) return;
    if (this.#lastUserTexts.some(({ text, timestamp }) => text === sent.text && timestamp >= sent.since - 60_000)) return;
    this.composer.setDraft(sent.text, sent.images, { keep: true });
    notice("The connection was lost before your message was confirmed. It is in the message box again.", "warning");
  }

  abort() {
    if (!this.handle) return;
    if (this.#running || this.#compacting) this.#run(this.request({ type: "abort" }));
  }

  async rename(name) {
    await this.request({ type: "set_session_name", name });
  }

  async #fork(element, text) {
    const fromEnd = this.conversation.userMessageFromEnd(element);
    const { messages } = await this.request({ type: "get_fork_messages" });
    let found = messages.at(-1 - fromEnd);
    if (found?.text !== text) found = messages.findLast((message) => message.text === text);
    if (!found) return notice("This message cannot be forked.", "warning");
    const data = await this.request({ type: "fork", entryId: found.entryId });
    if (data.cancelled) return notice("An extension has cancelled the fork.", "warning");
    await this.reload();
    this.composer.setDraft(data.text ?? "");
    this.composer.focus();
    announce("A new session with the messages before this one");
  }
}

/** The todo list without its first finished task. */
function withoutFinished(phases) {
  let removed = false;
  return phases.map((phase) => ({
    ...phase,
    tasks: (phase.tasks ?? []).filter((task) => removed || !["completed", "abandoned"].includes(task.status) || !(removed = true)),
  })).filter((phase) => phase.tasks.length);
}
