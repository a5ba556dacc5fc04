/** A method for each command. */

import type { AnyCommand } from "./connection.js";
import type { Command, DataOf, Fields } from "./protocol.js";
import type { WaitOptions } from "./waiting.js";

/** The commands of the protocol as methods. `docs/protocol.md` describes each of them. */
export abstract class Commands {
  /** Sends a command and returns the data of its response. */
  abstract request<const C extends Command>(
    command: C,
    options?: WaitOptions,
  ): Promise<DataOf<C["type"]>>;
  /** The same for commands that this version of the package does not know. */
  abstract request(command: AnyCommand, options?: WaitOptions): Promise<unknown>;

  // Prompts and queues

  /** Stops the current run. Resolves when it has ended. */
  abort() {
    return this.request({ type: "abort" });
  }

  /** Empties both queues. Returns the texts that were in them. */
  clearQueue() {
    return this.request({ type: "clear_queue" });
  }

  /** The queued messages, with the ids that `updateQueued` and `removeQueued` take. */
  getQueue() {
    return this.request({ type: "get_queue" });
  }

  /** Replaces the text and the images of a queued message. */
  updateQueued(fields: Fields<"update_queued">) {
    return this.request({ type: "update_queued", ...fields });
  }

  /** Removes a queued message. Its result has the status `dropped`. */
  removeQueued(fields: Fields<"remove_queued">) {
    return this.request({ type: "remove_queued", ...fields });
  }

  /** Whether steering messages are sent all at once or one at a time. */
  setSteeringMode(mode: Fields<"set_steering_mode">["mode"]) {
    return this.request({ type: "set_steering_mode", mode });
  }

  /** Whether follow-ups are sent all at once or one at a time. */
  setFollowUpMode(mode: Fields<"set_follow_up_mode">["mode"]) {
    return this.request({ type: "set_follow_up_mode", mode });
  }

  /** Whether a steering message waits for the running tools or stops them. */
  setInterruptMode(mode: Fields<"set_interrupt_mode">["mode"]) {
    return this.request({ type: "set_interrupt_mode", mode });
  }

  /** Replaces the older part of the conversation with a summary. */
  compact(fields: Fields<"compact"> = {}) {
    return this.request({ type: "compact", ...fields });
  }

  /** Whether long conversations are compacted automatically. */
  setAutoCompaction(enabled: Fields<"set_auto_compaction">["enabled"]) {
    return this.request({ type: "set_auto_compaction", enabled });
  }

  /** Whether answers that failed for a temporary reason are requested again. */
  setAutoRetry(enabled: Fields<"set_auto_retry">["enabled"]) {
    return this.request({ type: "set_auto_retry", enabled });
  }

  /** Cancels the pause before the next retry. */
  abortRetry() {
    return this.request({ type: "abort_retry" });
  }

  /** Which tool calls need an approval, for this session. Resolves to the mode in force. */
  setApprovals(mode: Fields<"set_approvals">["mode"]) {
    return this.request({ type: "set_approvals", mode });
  }

  /** What the sandbox of the tools prevents, and what it does not. */
  getSandbox() {
    return this.request({ type: "get_sandbox" });
  }

  /** Replaces all limits. A limit that is not given does not apply. */
  setLimits(fields: Fields<"set_limits"> = {}) {
    return this.request({ type: "set_limits", ...fields });
  }

  /** The limits that apply now. */
  getLimits() {
    return this.request({ type: "get_limits" });
  }

  // State

  /** The model, the modes, the session and what is in progress. */
  getState() {
    return this.request({ type: "get_state" });
  }

  /** The messages of the current branch, oldest first. */
  getMessages(fields: Fields<"get_messages"> = {}) {
    return this.request({ type: "get_messages", ...fields });
  }

  /** The same in pages with a cursor, as clients of omp use it. */
  getMessagesPage(fields: Fields<"get_messages_page"> = {}) {
    return this.request({ type: "get_messages_page", ...fields });
  }

  /** The text of the newest answer; `undefined` if there is none. */
  async getLastAssistantText(): Promise<string | undefined> {
    return (await this.request({ type: "get_last_assistant_text" })).text ?? undefined;
  }

  /** The tokens, the cost and the size of the session. */
  getSessionStats() {
    return this.request({ type: "get_session_stats" });
  }

  /** Writes the session as an HTML page. Returns its path. */
  exportHtml(fields: Fields<"export_html"> = {}) {
    return this.request({ type: "export_html", ...fields });
  }

  /** The problems that tiller has found in settings, extensions and other files. */
  getDiagnostics() {
    return this.request({ type: "get_diagnostics" });
  }

  /** What this tiller supports. */
  getCapabilities() {
    return this.request({ type: "get_capabilities" });
  }

  /** Records that were written before. `replay` is the more convenient form. */
  getEvents(fields: Fields<"get_events">) {
    return this.request({ type: "get_events", ...fields });
  }

  /** A part of a record that was cut because of `maxFrameBytes`. */
  getRecord(fields: Fields<"get_record">) {
    return this.request({ type: "get_record", ...fields });
  }

  // Tools and commands

  /** The settings in use, and the keys of those that can be changed. */
  getSettings() {
    return this.request({ type: "get_settings" });
  }

  /** Changes a setting for this process; with `null` the files count again. */
  setSetting(key: string, value: Fields<"set_setting">["value"]) {
    return this.request({ type: "set_setting", key, value });
  }

  /** All tools: those of tiller, of extensions and of this client. */
  getTools() {
    return this.request({ type: "get_tools" });
  }

  /** Selects among the tools of tiller and of extensions. Returns their names in order. */
  setActiveTools(tools: Fields<"set_active_tools">["tools"]) {
    return this.request({ type: "set_active_tools", tools });
  }

  /** Replaces the MCP servers that the client has set for this session. */
  setMcpServers(mcpServers: Fields<"set_mcp_servers">["mcpServers"]) {
    return this.request({ type: "set_mcp_servers", mcpServers });
  }

  /** The MCP servers of the session, with their states, tools and errors. */
  getMcpServers() {
    return this.request({ type: "get_mcp_servers" });
  }

  /** Replaces the todo list. */
  setTodos(phases: Fields<"set_todos">["phases"]) {
    return this.request({ type: "set_todos", phases });
  }

  /** What a message that begins with `/` can name: commands, templates and skills. */
  getCommands() {
    return this.request({ type: "get_commands" });
  }

  /** The same, as clients of omp use it. */
  getAvailableCommands() {
    return this.request({ type: "get_available_commands" });
  }

  /** Reads settings, skills, templates, context files and extensions again. */
  reload() {
    return this.request({ type: "reload" });
  }

  // The model

  /** Selects a model from the next request on. */
  setModel(provider: string, modelId: string) {
    return this.request({ type: "set_model", provider, modelId });
  }

  /** Selects the next model. `null` if there is no other. */
  cycleModel() {
    return this.request({ type: "cycle_model" });
  }

  /** The models that can be used now. */
  getAvailableModels(fields: Fields<"get_available_models"> = {}) {
    return this.request({ type: "get_available_models", ...fields });
  }

  /** The state of the provider, as clients of xcsh use it. */
  getIntegrations() {
    return this.request({ type: "get_integrations" });
  }

  /** Requests a thinking level. The nearest one that the model has is used. */
  setThinkingLevel(level: Fields<"set_thinking_level">["level"]) {
    return this.request({ type: "set_thinking_level", level });
  }

  /** Selects the model's next thinking level. `null` if there is no other. */
  cycleThinkingLevel() {
    return this.request({ type: "cycle_thinking_level" });
  }

  /** The thinking levels of the model. */
  getAvailableThinkingLevels() {
    return this.request({ type: "get_available_thinking_levels" });
  }

  // Shell commands

  /** Runs a shell command in the session's folder. Resolves when it has ended. */
  bash(command: string, options: Omit<Fields<"bash">, "command"> = {}) {
    return this.request({ type: "bash", command, ...options });
  }

  /** Ends all commands that `bash` has started. */
  abortBash() {
    return this.request({ type: "abort_bash" });
  }

  // Sessions

  /** Starts an empty session. */
  newSession(fields: Fields<"new_session"> = {}) {
    return this.request({ type: "new_session", ...fields });
  }

  /** Opens a stored session. */
  switchSession(sessionPath: Fields<"switch_session">["sessionPath"]) {
    return this.request({ type: "switch_session", sessionPath });
  }

  /** The stored sessions, newest first. */
  listSessions(fields: Fields<"list_sessions"> = {}) {
    return this.request({ type: "list_sessions", ...fields });
  }

  /** Names the session. */
  setSessionName(name: Fields<"set_session_name">["name"]) {
    return this.request({ type: "set_session_name", name });
  }

  /** Starts a session with everything before a user message. Returns the message's text. */
  fork(entryId: Fields<"fork">["entryId"]) {
    return this.request({ type: "fork", entryId });
  }

  /** The same under the name of xcsh. */
  branch(entryId: Fields<"branch">["entryId"]) {
    return this.request({ type: "branch", entryId });
  }

  /** Starts a session with everything up to here. */
  clone() {
    return this.request({ type: "clone" });
  }

  /** The user messages that can be forked from. */
  getForkMessages() {
    return this.request({ type: "get_fork_messages" });
  }

  /** The same under the name of xcsh. */
  getBranchMessages() {
    return this.request({ type: "get_branch_messages" });
  }

  /** The entries of the session in the order of the file. */
  getEntries(fields: Fields<"get_entries"> = {}) {
    return this.request({ type: "get_entries", ...fields });
  }

  /** The entries of the session as a tree. */
  getTree() {
    return this.request({ type: "get_tree" });
  }

  /** Continues from another entry of this session. */
  navigateTree(entryId: Fields<"navigate_tree">["entryId"]) {
    return this.request({ type: "navigate_tree", entryId });
  }

  /** Labels an entry; without a label, removes it. */
  setLabel(entryId: string, label?: string) {
    return this.request({ type: "set_label", entryId, ...(label === undefined ? {} : { label }) });
  }
}
