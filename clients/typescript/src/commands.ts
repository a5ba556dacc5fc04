/** A method for each command, and the data that each command returns. */

import type { RequestOptions } from "./connection.js";
import type { CommandName, Fields } from "./protocol.js";
import type * as wire from "./types.js";

/** The data of each command's response. */
export interface CommandResults {
  prompt: wire.DispositionData;
  steer: wire.DispositionData;
  follow_up: wire.DispositionData;
  abort: undefined;
  abort_and_prompt: undefined;
  clear_queue: wire.ClearedQueuesData;
  get_queue: wire.QueueData;
  update_queued: wire.QueuedMessageData;
  remove_queued: wire.QueuedMessageData;
  set_limits: wire.LimitsData;
  get_limits: wire.LimitsData;
  get_state: wire.StateData;
  get_messages: wire.MessagesData;
  get_messages_page: wire.MessagesPageData;
  get_last_assistant_text: wire.LastTextData;
  set_session_name: undefined;
  set_steering_mode: undefined;
  set_follow_up_mode: undefined;
  set_interrupt_mode: undefined;
  set_model: wire.Model;
  cycle_model: wire.CycledModelData | null;
  get_available_models: wire.ModelsData;
  get_integrations: wire.IntegrationsData;
  set_thinking_level: undefined;
  cycle_thinking_level: wire.CycledLevelData | null;
  get_available_thinking_levels: wire.ThinkingLevelsData;
  get_session_stats: wire.StatsData;
  export_html: wire.ExportData;
  bash: wire.BashData;
  abort_bash: undefined;
  compact: wire.CompactionResult;
  set_auto_compaction: undefined;
  set_auto_retry: undefined;
  abort_retry: undefined;
  new_session: wire.ChangeData;
  switch_session: wire.ChangeData;
  clone: wire.ChangeData;
  navigate_tree: wire.ChangeData;
  fork: wire.ChangeData;
  branch: wire.ChangeData;
  get_fork_messages: wire.ForkMessagesData;
  get_branch_messages: wire.ForkMessagesData;
  get_entries: wire.EntriesData;
  get_tree: wire.TreeData;
  list_sessions: wire.SessionsData;
  set_label: undefined;
  get_commands: wire.CommandsData;
  get_available_commands: wire.AvailableCommandsData;
  reload: wire.ReloadData;
  get_tools: wire.ToolsData;
  set_active_tools: wire.ActiveToolsData;
  get_settings: wire.SettingsData;
  set_setting: wire.SettingData;
  get_diagnostics: wire.DiagnosticsData;
  get_capabilities: wire.Capabilities;
  get_events: wire.EventsData;
  get_record: wire.RecordPiece;
  set_host_tools: wire.HostToolsData;
  host_tool_update: never;
  host_tool_result: never;
  set_todos: wire.TodosData;
  hello: wire.HelloData;
  extension_ui_response: never;}

/** The arguments of `request` after the name: the fields may be left out if none is required. */
export type FieldsAndOptions<K extends CommandName> =
  {} extends Fields<K>
    ? [fields?: Fields<K>, options?: RequestOptions]
    : [fields: Fields<K>, options?: RequestOptions];

/** Names one queued message. */
export type QueuedTarget = { queueId: string } | { clientMessageId: string };

/** The commands of the protocol as methods. `docs/protocol.md` describes each of them. */
export abstract class Commands {
  /** Sends any command and returns the data of its response. */
  abstract request<K extends CommandName>(
    type: K,
    ...rest: FieldsAndOptions<K>
  ): Promise<CommandResults[K]>;

  /** Stops the current run. Resolves when it has ended. */
  async abort(): Promise<void> {
    await this.request("abort");
  }

  // State

  /** The model, the modes, the session and what is in progress. */
  getState() {
    return this.request("get_state");
  }

  /** The conversation as the model sees it; with `offset` or `limit` a part of it. */
  getMessages(part: Fields<"get_messages"> = {}) {
    return this.request("get_messages", part);
  }

  /** The text of the newest answer. */
  async getLastAssistantText(): Promise<string | undefined> {
    return (await this.request("get_last_assistant_text")).text ?? undefined;
  }

  /** The tokens, the cost and the size of the session. */
  getSessionStats() {
    return this.request("get_session_stats");
  }

  /** What the server supports, and what this client has chosen. */
  getCapabilities() {
    return this.request("get_capabilities");
  }

  /** The problems found so far in settings, files, models and sessions. */
  async getDiagnostics(): Promise<string[]> {
    return (await this.request("get_diagnostics")).diagnostics;
  }

  /** Writes the session as an HTML page. Returns its path. */
  exportHtml(fields: Fields<"export_html"> = {}) {
    return this.request("export_html", fields);
  }

  // Queues

  /** The messages in both queues. */
  async getQueue(): Promise<wire.QueuedMessage[]> {
    return (await this.request("get_queue")).messages;
  }

  /** Replaces the text and the images of a queued message. */
  async updateQueued(
    target: QueuedTarget,
    message: string,
    images?: readonly wire.Image[],
  ): Promise<wire.QueuedMessage> {
    const fields = { ...target, message, ...(images === undefined ? {} : { images: [...images] }) };
    return (await this.request("update_queued", fields)).message;
  }

  /** Removes a queued message. Its result has the status `dropped`. */
  async removeQueued(target: QueuedTarget): Promise<wire.QueuedMessage> {
    return (await this.request("remove_queued", target)).message;
  }

  /** Empties both queues. Returns the texts that were in them. */
  clearQueue() {
    return this.request("clear_queue");
  }

  /** How many steering messages are sent at once. */
  setSteeringMode(mode: Fields<"set_steering_mode">["mode"]) {
    return this.request("set_steering_mode", { mode });
  }

  /** How many follow-up messages are sent at once. */
  setFollowUpMode(mode: Fields<"set_follow_up_mode">["mode"]) {
    return this.request("set_follow_up_mode", { mode });
  }

  /** Whether steering waits for the tools of a turn. */
  setInterruptMode(mode: Fields<"set_interrupt_mode">["mode"]) {
    return this.request("set_interrupt_mode", { mode });
  }

  // Limits, tools and settings

  /** Limits every later prompt. A limit that is absent is removed. */
  async setLimits(limits: wire.Limits): Promise<wire.Limits> {
    return (await this.request("set_limits", limits)).limits;
  }

  async getLimits(): Promise<wire.Limits> {
    return (await this.request("get_limits")).limits;
  }

  /** All tools: those of tiller, of extensions and of this client. */
  async getTools(): Promise<wire.ToolInfo[]> {
    return (await this.request("get_tools")).tools;
  }

  /** Selects the tools that the model is offered. Returns their names in order. */
  async setActiveTools(names: readonly string[]): Promise<string[]> {
    return (await this.request("set_active_tools", { tools: [...names] })).tools;
  }

  /** The settings in force. */
  async getSettings(): Promise<wire.SettingsData["settings"]> {
    return (await this.request("get_settings")).settings;
  }

  /** Changes a setting such as `retry.maxRetries` for this session. No file is written. */
  setSetting(key: string, value: unknown) {
    return this.request("set_setting", { key, value });
  }

  setAutoCompaction(enabled: boolean) {
    return this.request("set_auto_compaction", { enabled });
  }

  setAutoRetry(enabled: boolean) {
    return this.request("set_auto_retry", { enabled });
  }

  /** Cancels the pause before the next retry. */
  abortRetry() {
    return this.request("abort_retry");
  }

  /** Replaces the older part of the conversation with a summary. */
  compact(fields: Fields<"compact"> = {}) {
    return this.request("compact", fields);
  }

  /** Replaces the todo list. */
  setTodos(phases: Fields<"set_todos">["phases"]) {
    return this.request("set_todos", { phases });
  }

  /** What a message that begins with `/` can name: commands, templates and skills. */
  getCommands() {
    return this.request("get_commands");
  }

  /** Reads settings, skills, templates, context files and extensions again. */
  reload() {
    return this.request("reload");
  }

  // The model

  setModel(provider: string, modelId: string) {
    return this.request("set_model", { provider, modelId });
  }

  /** Selects the next model. `null` if there is no other. */
  cycleModel() {
    return this.request("cycle_model");
  }

  getAvailableModels(part: Fields<"get_available_models"> = {}) {
    return this.request("get_available_models", part);
  }

  setThinkingLevel(level: Fields<"set_thinking_level">["level"]) {
    return this.request("set_thinking_level", { level });
  }

  /** Selects the next thinking level of the model. `null` if there is no other. */
  cycleThinkingLevel() {
    return this.request("cycle_thinking_level");
  }

  getAvailableThinkingLevels() {
    return this.request("get_available_thinking_levels");
  }

  // Shell commands

  /** Runs a shell command in the session's folder. Resolves when it has ended. */
  bash(command: string, options: { excludeFromContext?: boolean } = {}) {
    return this.request("bash", { command, ...options });
  }

  /** Ends all commands that `bash` has started. */
  abortBash() {
    return this.request("abort_bash");
  }

  // Sessions

  /** Starts an empty session. */
  newSession(fields: Fields<"new_session"> = {}) {
    return this.request("new_session", fields);
  }

  /** Opens a stored session. */
  switchSession(sessionPath: string) {
    return this.request("switch_session", { sessionPath });
  }

  /** The stored sessions, newest first. */
  listSessions(fields: Fields<"list_sessions"> = {}) {
    return this.request("list_sessions", fields);
  }

  setSessionName(name: string) {
    return this.request("set_session_name", { name });
  }

  /** Starts a session with everything before a user message. Returns the message's text. */
  fork(entryId: string) {
    return this.request("fork", { entryId });
  }

  /** Starts a session with everything up to here. */
  clone() {
    return this.request("clone");
  }

  /** The user messages that can be forked from. */
  getForkMessages() {
    return this.request("get_fork_messages");
  }

  /** The entries of the session in the order they were written. */
  getEntries(part: Fields<"get_entries"> = {}) {
    return this.request("get_entries", part);
  }

  /** The entries of the session as a tree. */
  getTree() {
    return this.request("get_tree");
  }

  /** Continues from another entry of this session. */
  navigateTree(entryId: string) {
    return this.request("navigate_tree", { entryId });
  }

  /** Labels an entry; without a label, removes it. */
  setLabel(entryId: string, label?: string) {
    return this.request("set_label", { entryId, ...(label === undefined ? {} : { label }) });
  }
}
