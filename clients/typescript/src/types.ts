// Stand-in until the generated file is there.
export type Json = unknown;
export interface Image { type: "image"; data: string; mimeType: string }
export type Block =
  | { type: "text"; text: string; textSignature?: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "thinking"; thinking: string; thinkingSignature?: string; redacted?: boolean }
  | { type: "toolCall"; id: string; name: string; arguments: { [key: string]: unknown } };
export interface ToolOutput { content: Block[]; details?: unknown }
export interface Usage { input: number; output: number; cacheRead: number; cacheWrite: number; totalTokens: number; cost: { input: number; output: number; cacheRead: number; cacheWrite: number; total: number } }
export type Message =
  | { role: "user"; content: string | Block[]; timestamp: number }
  | { role: "assistant"; content: Block[]; usage: Usage; stopReason: string; errorMessage?: string; timestamp: number }
  | { role: "toolResult"; toolCallId: string; toolName: string; content: Block[]; isError: boolean; timestamp: number }
  | { role: "custom"; customType: string; content: string | Block[]; timestamp: number };
export interface Limits { maxTurns?: number; maxToolCalls?: number; maxTokens?: number; maxCost?: number; maxSeconds?: number; toolMemoryBytes?: number; toolSeconds?: number }
export type LimitName = "maxTurns" | "maxToolCalls" | "maxTokens" | "maxCost" | "maxSeconds";
export interface HostTool { name: string; description: string; parameters: unknown; label?: string; hidden?: boolean; timeoutMs?: number }
export interface QueuedMessage { queueId: string; queue: "steering" | "followUp"; text: string; images: number; clientMessageId?: string; isBeingSent: boolean }
export interface ToolInfo { name: string; description: string; parameters: unknown; source: "builtin" | "extension" | "host"; isActive: boolean }
export interface TextAndImages { message: string; images?: Image[]; clientMessageId?: string }
export type Command =
  | ({ type: "prompt"; streamingBehavior?: "steer" | "followUp" } & TextAndImages)
  | ({ type: "steer" } & TextAndImages)
  | ({ type: "follow_up" } & TextAndImages)
  | ({ type: "abort_and_prompt" } & TextAndImages)
  | { type: "abort" } | { type: "clear_queue" } | { type: "get_queue" }
  | { type: "update_queued"; queueId?: string; clientMessageId?: string; message: string; images?: Image[] }
  | { type: "remove_queued"; queueId?: string; clientMessageId?: string }
  | { type: "get_state" } | { type: "get_messages"; offset?: number; limit?: number }
  | { type: "hello"; client?: unknown; wire?: "pi" | "pi-delta" | "xcsh"; stream?: "snapshots" | "deltas"; promptResults?: boolean; sequence?: boolean; maxFrameBytes?: number; toolUpdates?: "snapshots" | "deltas" }
  | { type: "set_host_tools"; tools: HostTool[] }
  | { type: "host_tool_update"; id: string; partialResult: ToolOutput }
  | { type: "host_tool_result"; id: string; result: ToolOutput; isError?: boolean }
  | { type: "extension_ui_response"; id: string; value?: string; confirmed?: boolean; cancelled?: boolean }
  | ({ type: "set_limits" } & Limits) | { type: "get_limits" } | { type: "get_tools" }
  | { type: "set_active_tools"; tools: string[] }
  | { type: "get_settings" } | { type: "set_setting"; key: string; value: unknown }
  | { type: "get_diagnostics" } | { type: "get_capabilities" }
  | { type: "get_events"; since: number; epoch?: string; limit?: number }
  | { type: "get_record"; recordId: string; offset?: number; limit?: number }
  | { type: "get_messages_page"; cursor?: string; limit?: number } | { type: "get_last_assistant_text" }
  | { type: "set_session_name"; name: string }
  | { type: "set_steering_mode" | "set_follow_up_mode"; mode: "all" | "one-at-a-time" }
  | { type: "set_interrupt_mode"; mode: "wait" | "immediate" }
  | { type: "set_model"; provider: string; modelId: string } | { type: "cycle_model" }
  | { type: "get_available_models"; offset?: number; limit?: number } | { type: "get_integrations" }
  | { type: "set_thinking_level"; level: ThinkingLevel } | { type: "cycle_thinking_level" } | { type: "get_available_thinking_levels" }
  | { type: "get_session_stats" } | { type: "export_html"; outputPath?: string }
  | { type: "bash"; command: string; excludeFromContext?: boolean } | { type: "abort_bash" }
  | { type: "compact"; customInstructions?: string }
  | { type: "set_auto_compaction" | "set_auto_retry"; enabled: boolean } | { type: "abort_retry" }
  | { type: "new_session"; parentSession?: string } | { type: "switch_session"; sessionPath: string }
  | { type: "fork" | "branch" | "navigate_tree"; entryId: string } | { type: "clone" }
  | { type: "get_fork_messages" } | { type: "get_branch_messages" }
  | { type: "get_entries"; since?: string; offset?: number; limit?: number } | { type: "get_tree" }
  | { type: "list_sessions"; cwd?: string; all?: boolean; limit?: number; before?: string }
  | { type: "set_label"; entryId: string; label?: string }
  | { type: "get_commands" } | { type: "get_available_commands" } | { type: "reload" }
  | { type: "set_todos"; phases: unknown[] };
export type Disposition = "started" | "queued" | "handled";
export interface DispositionData { disposition: Disposition }
export interface PromptResult { type: "prompt_result"; id?: unknown; clientMessageId?: string; command: string; status: "done" | "error" | "aborted" | "handled" | "dropped" | "limit"; reason?: string; runs: number; turns: number; messages: number; usage: Usage; cost: number; durationMs: number; error?: string }
export type Step =
  | { type: "text_start" | "thinking_start"; contentIndex: number }
  | { type: "text_delta" | "thinking_delta" | "toolcall_delta"; contentIndex: number; delta: string }
  | { type: "text_end" | "thinking_end"; contentIndex: number; content: string }
  | { type: "toolcall_start"; contentIndex: number; id?: string; toolName?: string }
  | { type: "toolcall_end"; contentIndex: number; toolCall: unknown };
export type Dialog = ({ method: "select"; title: string; options: string[] } | { method: "confirm"; title: string; message: string } | { method: "input"; title: string; placeholder?: string } | { method: "editor"; title: string; prefill?: string }) & { timeout?: number };
export type Notice = { method: "notify"; message: string; notifyType?: string } | { method: "setStatus"; statusKey: string; statusText?: string } | { method: "setTitle"; title: string };
export type Event =
  | { type: "agent_start" } | { type: "agent_end"; messages: Message[]; willRetry: boolean } | { type: "agent_settled"; aborted: boolean }
  | { type: "turn_start" } | { type: "turn_end"; message: Message; toolResults: Message[] }
  | { type: "message_start"; message: Message; clientMessageId?: string }
  | { type: "message_update"; usage?: Usage; assistantMessageEvent: Step }
  | { type: "message_end"; message: Message }
  | { type: "tool_execution_start"; toolCallId: string; toolName: string; args: { [key: string]: unknown } }
  | { type: "tool_execution_update"; toolCallId: string; toolName: string; args?: unknown; partialResult?: ToolOutput; delta?: string }
  | { type: "tool_execution_end"; toolCallId: string; toolName: string; result: ToolOutput; isError: boolean }
  | { type: "host_tool_call"; id: string; toolCallId: string; toolName: string; arguments: { [key: string]: unknown } }
  | { type: "host_tool_cancel"; id: string; targetId: string }
  | ({ type: "extension_ui_request"; id: string } & (Dialog | Notice))
  | { type: "queue_update"; steering: string[]; followUp: string[]; steeringIds?: (string | null)[]; followUpIds?: (string | null)[] }
  | { type: "limit_reached"; limit: LimitName; max: number; used: number }
  | { type: "bash_execution_update"; id?: unknown; delta: string }
  | { type: "session_info_changed"; name?: string }
  | PromptResult;
export interface Response { id?: unknown; type: "response"; command: string; success: boolean; data?: unknown; error?: string }
export type Record = Event | Response;

export type ThinkingLevel = "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
export interface Model { id: string; provider: string; name: string }
export interface HelloData { server: string; version: string; commands: string[]; events: string[]; limits: { lineBytes: number }; diagnostics: string[]; promptResults?: boolean; sequence?: { epoch: string } }
export interface EventsData { epoch: string; events: unknown[]; truncated: boolean; lastSeq: number; more: boolean }
export interface StateData { model?: Model | null; isStreaming: boolean; sessionFile?: string; sessionId: string; sessionName?: string; messageCount: number }
export interface MessagesData { messages: Message[]; total?: number; nextOffset?: number }
export interface LimitsData { limits: Limits }
export interface ToolsData { tools: ToolInfo[] }
export interface ActiveToolsData { tools: string[] }
export interface SettingsData { settings: { [k: string]: unknown } }
export interface SettingData { key: string; value: unknown }
export interface DiagnosticsData { diagnostics: string[] }
export interface QueueData { messages: QueuedMessage[] }
export interface QueuedMessageData { message: QueuedMessage }
export interface ClearedQueuesData { steering: string[]; followUp: string[] }
export interface ChangeData { cancelled: boolean; text?: string }
export interface BashData { output: string; exitCode?: number; cancelled: boolean; truncated: boolean; fullOutputPath?: string }
export interface LastTextData { text?: string | null }
export interface SessionsData { sessions: { id: string; path: string; name?: string; cwd: string; messageCount: number; firstMessage: string }[]; next: string | null }
export interface ForkMessagesData { messages: { entryId: string; text: string }[] }
export interface HostToolsData { toolNames: string[] }
export interface StatsData { sessionId: string; cost: number; totalMessages: number }
export interface MessagesPageData { [key: string]: unknown }
export interface CycledModelData { [key: string]: unknown }
export interface ModelsData { [key: string]: unknown }
export interface IntegrationsData { [key: string]: unknown }
export interface CycledLevelData { [key: string]: unknown }
export interface ThinkingLevelsData { [key: string]: unknown }
export interface ExportData { [key: string]: unknown }
export interface CompactionResult { [key: string]: unknown }
export interface EntriesData { [key: string]: unknown }
export interface TreeData { [key: string]: unknown }
export interface CommandsData { [key: string]: unknown }
export interface AvailableCommandsData { [key: string]: unknown }
export interface ReloadData { [key: string]: unknown }
export interface Capabilities { [key: string]: unknown }
export interface RecordPiece { [key: string]: unknown }
export interface TodosData { [key: string]: unknown }
