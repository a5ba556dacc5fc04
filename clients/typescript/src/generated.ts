/**
 * The lines of the protocol at level `pi-delta`. Generated from tiller's JSON Schema: do not edit.
 */

/** Stops the current run and starts with this message instead. */
export type AbortAndPromptCommand = TextAndImages & {
  type: "abort_and_prompt";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `abort_and_prompt` that has succeeded. */
export type AbortAndPromptResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "abort_and_prompt";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Ends all commands that `bash` has started. */
export type AbortBashCommand = {
  type: "abort_bash";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `abort_bash` that has succeeded. */
export type AbortBashResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "abort_bash";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Stops the current run. Answered when it has ended; not an error if there is none. */
export type AbortCommand = {
  type: "abort";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `abort` that has succeeded. */
export type AbortResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "abort";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Cancels the pause before a retry. Not an error if there is none. */
export type AbortRetryCommand = {
  type: "abort_retry";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `abort_retry` that has succeeded. */
export type AbortRetryResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "abort_retry";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of the response to `set_active_tools`. */
export type ActiveToolsData = {
  /** The names of the tools that the model is offered now, in their order. */
  tools: string[];
};

/** The run is over. */
export type AgentEndEvent = {
  type: "agent_end";
  /** The messages that it added. */
  messages: Message[];
  /** Another run follows, because this one failed with an error that may be temporary. */
  willRetry: boolean;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Nothing more happens without a command. */
export type AgentSettledEvent = {
  type: "agent_settled";
  /** An abort was requested before the run ended. */
  aborted: boolean;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A run starts. */
export type AgentStartEvent = {
  type: "agent_start";
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** An answer of the model, complete or cut short. */
export type AssistantMessage = {
  content: Block[];
  api: string;
  provider: string;
  model: string;
  usage: Usage;
  /** `stop` while the answer is still streamed, except at level `pi-delta`. */
  stopReason: StopReason;
  timestamp: number;
  responseId?: string;
  /** The model that the provider reports, if it differs from the requested one. */
  responseModel?: string;
  /** The provider's own stop reason. At level `pi-delta` only. */
  rawStopReason?: string;
  errorMessage?: string;
  /** What the user can do about the error, in tiller's words. */
  errorHint?: string;
  /** The requested thinking level. At level `pi-delta` only. */
  thinkingLevel?: string;
  /** From the request to the end of the answer. At level `pi-delta` only. */
  durationMs?: number;
};

/** No more retries of the run. */
export type AutoRetryEndEvent = {
  type: "auto_retry_end";
  success: boolean;
  attempt: number;
  finalError?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The run failed with an error that may be temporary. It is retried after a pause. */
export type AutoRetryStartEvent = {
  type: "auto_retry_start";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type AutoSetting = {
  enabled: boolean;
};

/** A command without its path. */
export type AvailableCommand = {
  name: string;
  description?: string;
  source: AvailableCommandSource;
};

/** What a command is, in omp's terms. */
export type AvailableCommandSource = ("extension" | "skill" | "file");

/** The data of `get_available_commands`: the same commands in the format of omp's clients. */
export type AvailableCommandsData = {
  commands: AvailableCommand[];
};

export type Bash = {
  command: string;
  /** The model never sees the command and its output. */
  excludeFromContext?: boolean;
};

/**
 * Runs a shell command. Its output is sent as it comes, the response follows at its end,
 * and the model gets both with the next prompt unless they are excluded.
 */
export type BashCommand = Bash & {
  type: "bash";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The data of `bash`. */
export type BashData = {
  /** The end of the output, if it was long. */
  output: string;
  /** Absent if the command was cancelled; 128 plus the signal's number if it was killed. */
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  /** A file with the complete output, if `output` is truncated. */
  fullOutputPath?: string;
};

export type BashExecution = {
  command: string;
  output: string;
  /** Absent if the command was cancelled. */
  exitCode?: number;
  cancelled: boolean;
  truncated: boolean;
  fullOutputPath?: string;
  timestamp: number;
  excludeFromContext?: boolean;
};

/** More output of a `bash` command. */
export type BashExecutionUpdateEvent = {
  type: "bash_execution_update";
  /** As in the command; absent if it had none. */
  id?: Json;
  delta: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The response to a `bash` that has succeeded. */
export type BashResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "bash";
  success: true;
  data: BashData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A content block. */
export type Block = ({
  type: "text";
  text: string;
  /** Opaque; some providers want it back with the text. */
  textSignature?: string;
} | {
  type: "image";
  data: string;
  mimeType: string;
} | {
  type: "thinking";
  thinking: string;
  /** Proves that the thinking is the model's own; sent back to the same model only. */
  thinkingSignature?: string;
  /** The provider hid the text; only the signature carries meaning. */
  redacted?: boolean;
} | ToolCall & {
  type: "toolCall";
});

/** `fork` under the name that xcsh uses. */
export type BranchCommand = EntryId & {
  type: "branch";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `branch` that has succeeded. */
export type BranchResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "branch";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type BranchSummary = {
  summary: string;
  fromId: string;
  timestamp: number;
};

/** The data of the response to `get_capabilities`. */
export type Capabilities = {
  /** Always `tiller`. */
  server: string;
  version: string;
  wire: Level;
  stream: Stream;
  /** The commands that this version accepts. */
  commands: string[];
  /** The events that this version writes. */
  events: string[];
  limits: LineLimits;
  /** The hash of the JSON Schema of the level. `tiller schema` prints the schema. */
  schema: string;
  /** There are `prompt_result` records. */
  promptResults: boolean;
  /** If records are numbered. */
  sequence?: SequenceInfo;
  /** If the length of lines is limited. */
  maxFrameBytes?: number;
  toolUpdates: ToolUpdates;
};

/** The data of the commands that change to another session or entry. */
export type ChangeData = {
  /** The text of the user message, for a client to edit and send again. */
  text?: string;
  /** An extension has cancelled the change. */
  cancelled: boolean;
};

/** Empties both queues. Answered with the texts that were in them. */
export type ClearQueueCommand = {
  type: "clear_queue";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `clear_queue` that has succeeded. */
export type ClearQueueResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "clear_queue";
  success: true;
  data: ClearedQueuesData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of `clear_queue`: the texts that were in the queues. */
export type ClearedQueuesData = {
  steering: string[];
  followUp: string[];
};

/** Any line of a client. */
export type ClientLine = (PromptCommand | SteerCommand | FollowUpCommand | AbortCommand | AbortAndPromptCommand | ClearQueueCommand | GetQueueCommand | UpdateQueuedCommand | RemoveQueuedCommand | SetLimitsCommand | GetLimitsCommand | GetStateCommand | GetMessagesCommand | GetMessagesPageCommand | GetLastAssistantTextCommand | SetSessionNameCommand | SetSteeringModeCommand | SetFollowUpModeCommand | SetInterruptModeCommand | SetModelCommand | CycleModelCommand | GetAvailableModelsCommand | GetIntegrationsCommand | SetThinkingLevelCommand | CycleThinkingLevelCommand | GetAvailableThinkingLevelsCommand | GetSessionStatsCommand | ExportHtmlCommand | BashCommand | AbortBashCommand | CompactCommand | SetAutoCompactionCommand | SetAutoRetryCommand | AbortRetryCommand | NewSessionCommand | SwitchSessionCommand | ForkCommand | BranchCommand | CloneCommand | GetForkMessagesCommand | GetBranchMessagesCommand | GetEntriesCommand | GetTreeCommand | ListSessionsCommand | NavigateTreeCommand | SetLabelCommand | GetCommandsCommand | GetAvailableCommandsCommand | ReloadCommand | GetToolsCommand | SetActiveToolsCommand | GetDiagnosticsCommand | GetCapabilitiesCommand | GetEventsCommand | GetRecordCommand | SetHostToolsCommand | HostToolUpdateCommand | HostToolResultCommand | SetTodosCommand | HelloCommand | ExtensionUiResponseCommand);

/** Starts a session with everything up to here. */
export type CloneCommand = {
  type: "clone";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `clone` that has succeeded. */
export type CloneResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "clone";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A command, template or skill that a message can name. */
export type CommandInfo = {
  /** Without the `/`. The name of a skill begins with `skill:`. */
  name: string;
  description?: string;
  source: CommandSource;
  /** Whose file it is: `user`, `project` or `path`. */
  location: string;
  path: string;
  sourceInfo: CommandSourceInfo;
};

/** What a command is. */
export type CommandSource = ("extension" | "skill" | "prompt");

/** Where the file of a command comes from. */
export type CommandSourceInfo = {
  path: string;
  /** A package, `extension:NAME`, `auto` if it was discovered, or `local` if it was named. */
  source: string;
  /** `user`, `project`, or `temporary` for a file of the command line. */
  scope: string;
  /** `package` or `top-level`. */
  origin: string;
  baseDir?: string;
};

/** The data of `get_commands`. */
export type CommandsData = {
  /** Commands of extensions, then templates, then skills, each in the order of discovery. */
  commands: CommandInfo[];
};

export type Compact = {
  /** What the summary should focus on. */
  customInstructions?: string;
};

/** Replaces the older part of the conversation with a summary. Answered with the result. */
export type CompactCommand = Compact & {
  type: "compact";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `compact` that has succeeded. */
export type CompactResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "compact";
  success: true;
  data: CompactionResult;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** xcsh has other ways to compact a conversation; this is ours. */
export type CompactionAction = "context-full";

/** A compaction has ended. */
export type CompactionEndEvent = {
  type: "compaction_end";
  reason: Reason;
  /**
   * Without a result the conversation is unchanged. It is `null` then, and absent at
   * level `pi-delta`.
   */
  result?: (CompactionResult | null);
  aborted: boolean;
  /** The run that did not fit is continued. */
  willRetry: boolean;
  errorMessage?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The result of a compaction. */
export type CompactionResult = {
  summary: string;
  /** The first entry that is kept verbatim. */
  firstKeptEntryId: string;
  tokensBefore: number;
  estimatedTokensAfter: number;
  /** The tokens of the requests for the summary. At level `pi-delta` only. */
  usage?: Usage;
  /** The files involved, or details from an extension that wrote the summary. */
  details?: unknown;
};

/** A compaction starts. */
export type CompactionStartEvent = {
  type: "compaction_start";
  reason: Reason;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type CompactionSummary = {
  summary: string;
  tokensBefore: number;
  timestamp: number;
};

/** A plain string, or blocks. tiller writes blocks; old files contain strings. */
export type Content = (string | Block[]);

/** How full the model's window is. */
export type ContextUsage = {
  /** `null` right after a compaction, until an answer has reported it. */
  tokens: number | null;
  contextWindow: number;
  percent: number | null;
};

export type CustomMessage = {
  customType: string;
  content: Content;
  display: boolean;
  details?: unknown;
  timestamp: number;
};

/** Where the whole record can be read. */
export type Cut = {
  /** For `get_record`. */
  recordId: string;
  /** The length of the whole record. */
  bytes: number;
};

/** Selects the next model of the list. Answered with `null` if there is no other. */
export type CycleModelCommand = {
  type: "cycle_model";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `cycle_model` that has succeeded. */
export type CycleModelResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "cycle_model";
  success: true;
  data: (CycledModelData | null);
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Selects the next thinking level of the model. */
export type CycleThinkingLevelCommand = {
  type: "cycle_thinking_level";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `cycle_thinking_level` that has succeeded. */
export type CycleThinkingLevelResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "cycle_thinking_level";
  success: true;
  data: (CycledLevelData | null);
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of `cycle_thinking_level`, if the model has another level. */
export type CycledLevelData = {
  level: ThinkingLevel;
};

/** The data of `cycle_model`, if there is another model. */
export type CycledModelData = {
  model: Model;
  thinkingLevel: ThinkingLevel;
  /** Only some models are cycled through: those that the user has selected. */
  isScoped: boolean;
};

/** The data of the response to `get_diagnostics`. */
export type DiagnosticsData = {
  /** Each is a sentence for people, as on stderr. */
  diagnostics: string[];
};

/** A dialog. Serializes as the fields of an `extension_ui_request`. */
export type Dialog = ({
  method: "select";
  title: string;
  options: string[];
} | {
  method: "confirm";
  title: string;
  message: string;
} | {
  method: "input";
  title: string;
  placeholder?: string;
} | {
  method: "editor";
  title: string;
  prefill?: string;
}) & {
  /** Milliseconds until the dialog ends with its default answer. */
  timeout?: number;
};

/** What happened to a `prompt`, `steer` or `follow_up`. */
export type Disposition = ("started" | "queued" | "handled");

/** The data of the response to a `prompt`, `steer` or `follow_up`. */
export type DispositionData = {
  disposition: Disposition;
};

/** A task, with missing fields likewise. */
export type DraftItem = {
  id?: string;
  content: string;
  status?: TodoStatus;
  notes?: string;
  details?: string;
};

/** A phase as a client or model writes it: missing fields are filled in. */
export type DraftPhase = {
  id?: string;
  name: string;
  tasks: DraftItem[];
};

/** The data of `get_entries`. */
export type EntriesData = {
  /** As in the session's file, in the order they were written. */
  entries: Json[];
  /** The current entry; `null` in an empty session. */
  leafId: string | null;
};

/** An entry that is not a message was appended to the session. */
export type EntryAppendedEvent = {
  type: "entry_appended";
  /** As in the session's file. */
  entry: Json;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type EntryId = {
  entryId: string;
};

/** The data of the response to `get_events`. */
export type EventsData = {
  epoch: string;
  /** The records after `since`, as they were written. */
  events: Json[];
  /** Some of the records after `since` are no longer there, or belong to another epoch. */
  truncated: boolean;
  /** The number of the newest record. */
  lastSeq: number;
  /** There are more records: ask again with the last `seq` of these. */
  more: boolean;
};

/** The data of `export_html`. */
export type ExportData = {
  /** The file that was written. */
  path: string;
};

export type ExportHtml = {
  /** By default a file in the working directory, named after the session's file. */
  outputPath?: string;
};

/** Writes the session as an HTML page. Answered with its path. */
export type ExportHtmlCommand = ExportHtml & {
  type: "export_html";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `export_html` that has succeeded. */
export type ExportHtmlResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "export_html";
  success: true;
  data: ExportData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** An extension failed; everything else continues. */
export type ExtensionErrorEvent = {
  type: "extension_error";
  extensionPath: string;
  /** What failed: the name of an event, `command`, or `load`. */
  event: string;
  error: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** An extension asks the user or shows something. */
export type ExtensionUiRequestEvent = (Dialog | Notice) & {
  type: "extension_ui_request";
  /** The `id` of the answer. */
  id: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The answer on the wire. Other fields, and values of another type, are ignored. */
export type ExtensionUiResponse = {
  id: string;
  value?: string;
  confirmed?: boolean;
  cancelled?: boolean;
};

/** The answer to a dialog of an extension. Gets no response. */
export type ExtensionUiResponseCommand = ExtensionUiResponse & {
  type: "extension_ui_response";
};

/** Queues a message to be sent when the run would otherwise end. */
export type FollowUpCommand = TextAndImages & {
  type: "follow_up";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `follow_up` that has succeeded. */
export type FollowUpResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "follow_up";
  success: true;
  data: DispositionData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Starts a session with everything before a user message. Answered with its text. */
export type ForkCommand = EntryId & {
  type: "fork";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** A user message that can be forked from. */
export type ForkMessage = {
  entryId: string;
  text: string;
};

/** The data of `get_fork_messages` and `get_branch_messages`. */
export type ForkMessagesData = {
  messages: ForkMessage[];
};

/** The response to a `fork` that has succeeded. */
export type ForkResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "fork";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The same in the format of omp's clients. */
export type GetAvailableCommandsCommand = {
  type: "get_available_commands";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_available_commands` that has succeeded. */
export type GetAvailableCommandsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_available_commands";
  success: true;
  data: AvailableCommandsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The models that can be selected. */
export type GetAvailableModelsCommand = {
  type: "get_available_models";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_available_models` that has succeeded. */
export type GetAvailableModelsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_available_models";
  success: true;
  data: ModelsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The thinking levels of the model. */
export type GetAvailableThinkingLevelsCommand = {
  type: "get_available_thinking_levels";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_available_thinking_levels` that has succeeded. */
export type GetAvailableThinkingLevelsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_available_thinking_levels";
  success: true;
  data: ThinkingLevelsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** `get_fork_messages` under the name that xcsh uses. */
export type GetBranchMessagesCommand = {
  type: "get_branch_messages";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_branch_messages` that has succeeded. */
export type GetBranchMessagesResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_branch_messages";
  success: true;
  data: ForkMessagesData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** What this server supports and what `hello` has chosen. Changes nothing. */
export type GetCapabilitiesCommand = {
  type: "get_capabilities";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_capabilities` that has succeeded. */
export type GetCapabilitiesResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_capabilities";
  success: true;
  data: Capabilities;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** What a message that begins with `/` can name: commands, templates and skills. */
export type GetCommandsCommand = {
  type: "get_commands";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_commands` that has succeeded. */
export type GetCommandsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_commands";
  success: true;
  data: CommandsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The problems found so far in settings, files, models and sessions. */
export type GetDiagnosticsCommand = {
  type: "get_diagnostics";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_diagnostics` that has succeeded. */
export type GetDiagnosticsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_diagnostics";
  success: true;
  data: DiagnosticsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type GetEntries = {
  /** Only the entries after the one with this id. */
  since?: string;
};

/** The session's entries in the order they were written. */
export type GetEntriesCommand = GetEntries & {
  type: "get_entries";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_entries` that has succeeded. */
export type GetEntriesResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_entries";
  success: true;
  data: EntriesData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type GetEvents = {
  /** The `seq` of the last record that the client has. Later ones are returned. */
  since: number;
  /** The `epoch` of that record. By default the current one. */
  epoch?: string;
  /** The maximum number of records. */
  limit?: number;
};

/** Records that were written before, from a bounded buffer. Needs `sequence` of `hello`. */
export type GetEventsCommand = GetEvents & {
  type: "get_events";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_events` that has succeeded. */
export type GetEventsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_events";
  success: true;
  data: EventsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The user messages that can be forked from. */
export type GetForkMessagesCommand = {
  type: "get_fork_messages";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_fork_messages` that has succeeded. */
export type GetForkMessagesResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_fork_messages";
  success: true;
  data: ForkMessagesData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The connections of tiller: the current model, and other services. */
export type GetIntegrationsCommand = {
  type: "get_integrations";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_integrations` that has succeeded. */
export type GetIntegrationsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_integrations";
  success: true;
  data: IntegrationsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The text of the newest answer. */
export type GetLastAssistantTextCommand = {
  type: "get_last_assistant_text";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_last_assistant_text` that has succeeded. */
export type GetLastAssistantTextResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_last_assistant_text";
  success: true;
  data: LastTextData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The limits in force. */
export type GetLimitsCommand = {
  type: "get_limits";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_limits` that has succeeded. */
export type GetLimitsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_limits";
  success: true;
  data: LimitsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The conversation as the model sees it. */
export type GetMessagesCommand = {
  type: "get_messages";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The same in pages. */
export type GetMessagesPageCommand = PageFields & {
  type: "get_messages_page";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_messages_page` that has succeeded. */
export type GetMessagesPageResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_messages_page";
  success: true;
  data: MessagesPageData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The response to a `get_messages` that has succeeded. */
export type GetMessagesResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_messages";
  success: true;
  data: MessagesData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The queued messages with their ids. */
export type GetQueueCommand = {
  type: "get_queue";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_queue` that has succeeded. */
export type GetQueueResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_queue";
  success: true;
  data: QueueData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type GetRecord = {
  /** The `recordId` in the `cut` of the record. */
  recordId: string;
  /** Where the part begins, in bytes. */
  offset?: number;
  /** The maximum length of the part in bytes. */
  limit?: number;
};

/** A part of the JSON text of a record that was cut because of `maxFrameBytes`. */
export type GetRecordCommand = GetRecord & {
  type: "get_record";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_record` that has succeeded. */
export type GetRecordResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_record";
  success: true;
  data: RecordPiece;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The tokens, the cost and the size of the session. */
export type GetSessionStatsCommand = {
  type: "get_session_stats";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_session_stats` that has succeeded. */
export type GetSessionStatsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_session_stats";
  success: true;
  data: StatsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The model, the modes, the session and what is in progress. */
export type GetStateCommand = {
  type: "get_state";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_state` that has succeeded. */
export type GetStateResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_state";
  success: true;
  data: StateData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** All tools, with those that the model is offered. */
export type GetToolsCommand = {
  type: "get_tools";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_tools` that has succeeded. */
export type GetToolsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_tools";
  success: true;
  data: ToolsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The session's entries as a tree. */
export type GetTreeCommand = {
  type: "get_tree";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `get_tree` that has succeeded. */
export type GetTreeResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "get_tree";
  success: true;
  data: TreeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type Hello = {
  /** The name of the client. For logs only. */
  client?: unknown;
  /** What a `message_update` carries; by default as the level has it. */
  stream?: Stream;
  /** The level of this response and of later records; by default it stays as it is. */
  wire?: Level;
  /** Whether there is a `prompt_result` for every accepted prompt. */
  promptResults?: boolean;
  /** Whether every record carries `seq` and `epoch`, and is kept for `get_events`. */
  sequence?: boolean;
  /** The length of the longest line that tiller may write, in bytes. */
  maxFrameBytes?: number;
  /** What a `tool_execution_update` carries. */
  toolUpdates?: ToolUpdates;
};

/** Names the client and selects a level. Answered with the server's capabilities. */
export type HelloCommand = Hello & {
  type: "hello";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The data of the response to `hello`. */
export type HelloData = {
  /** Always `tiller`. */
  server: string;
  version: string;
  wire: Level;
  stream: Stream;
  /** The commands that this version accepts. */
  commands: string[];
  /** The events that this version writes. */
  events: string[];
  limits: LineLimits;
  /** The problems found so far, as `get_diagnostics` returns them. */
  diagnostics: string[];
  /** The hash of the JSON Schema of the level. `tiller schema` prints the schema. */
  schema: string;
  /** True if there are `prompt_result` records. */
  promptResults?: boolean;
  /** If records are numbered. */
  sequence?: SequenceInfo;
  /** If the length of lines is limited. */
  maxFrameBytes?: number;
  /** If `tool_execution_update` carries deltas. */
  toolUpdates?: ToolUpdates;
};

/** The response to a `hello` that has succeeded. */
export type HelloResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "hello";
  success: true;
  data: HelloData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A tool that the client runs. */
export type HostTool = {
  name: string;
  description: string;
  /** A JSON Schema of the arguments. Calls that do not match it are not sent to the client. */
  parameters: unknown;
  /** The name is reserved, but the tool is not offered to the model. */
  hidden?: boolean;
  /** The client's time limit in milliseconds; by default there is none. */
  timeoutMs?: number;
};

/** The client is to run one of its tools and to answer with `host_tool_result`. */
export type HostToolCallEvent = {
  type: "host_tool_call";
  /** The `id` of the result. */
  id: string;
  toolCallId: string;
  toolName: string;
  arguments: { [key: string]: unknown };
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The result of such a call is no longer needed. */
export type HostToolCancelEvent = {
  type: "host_tool_cancel";
  id: string;
  /** The `id` of the `host_tool_call`. */
  targetId: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type HostToolResult = {
  /** The `id` of the `host_tool_call`. */
  id: string;
  /** Blocks of text and images. */
  result: ToolOutput;
  /** The call failed; the texts of the result say why. */
  isError?: boolean;
};

/** The result of such a tool. Gets no response. */
export type HostToolResultCommand = HostToolResult & {
  type: "host_tool_result";
};

export type HostToolUpdate = {
  /** The `id` of the `host_tool_call`. */
  id: string;
  partialResult: ToolOutput;
};

/** The partial result of such a tool. Gets no response. */
export type HostToolUpdateCommand = HostToolUpdate & {
  type: "host_tool_update";
};

/** The data of `set_host_tools`. */
export type HostToolsData = {
  /** The tools of the client that are registered now. */
  toolNames: string[];
};

/** An image sent with a message. */
export type Image = {
  type: ImageKind;
  /** Base64. */
  data: string;
  /** Such as `image/png`. */
  mimeType: string;
};

export type ImageKind = "image";

/** The data of `get_integrations`: the connections of tiller, in the format of xcsh's client. */
export type IntegrationsData = {
  /** The version of tiller. */
  version: string;
  model: ModelConnection;
  /** Other services to sign in to. tiller has none. */
  services: Service[];
};

/** Whether steering waits for the tools of a turn or interrupts them. */
export type InterruptMode = "immediate" | "wait";

/**
 * A JSON value as text. The server writes it as it was spelled; a client that reads it gets the
 * spelling of `serde_json`.
 */
export type Json = unknown;

/** The data of `get_last_assistant_text`. */
export type LastTextData = {
  /** The text of the newest answer. If there is none it is `null`, and absent at level `xcsh`. */
  text?: string | null;
};

/** The level of the records. All levels accept the same commands. */
export type Level = ("pi" | "pi-delta" | "xcsh");

/** The limits of a prompt. */
export type LimitName = "maxTurns" | "maxToolCalls" | "maxTokens" | "maxCost" | "maxSeconds";

/** A limit ends the current run: no further request is sent and no further tool is called. */
export type LimitReachedEvent = {
  type: "limit_reached";
  limit: LimitName;
  /** The limit. */
  max: number;
  /** What the prompt has used. */
  used: number;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Limits of a session. A limit that is absent is not enforced. */
export type Limits = {
  /** The turns of a prompt. */
  maxTurns?: number;
  /** The tool calls of a prompt. */
  maxToolCalls?: number;
  /** The tokens of a prompt's requests and answers. */
  maxTokens?: number;
  /** The price of a prompt in dollars. */
  maxCost?: number;
  /** The seconds that a prompt may take. */
  maxSeconds?: number;
  /** The memory of each process that a tool starts, in bytes. */
  toolMemoryBytes?: number;
  /** The seconds that a process which a tool starts may run. */
  toolSeconds?: number;
};

/** The data of the responses to `set_limits` and `get_limits`. */
export type LimitsData = {
  limits: Limits;
};

/** Limits on the lines of a client. */
export type LineLimits = {
  lineBytes: number;
};

export type ListSessions = {
  /** The sessions of this working directory; by default the current one. */
  cwd?: string;
  /** The sessions of all working directories. */
  all?: boolean;
  limit?: number;
  /** The `next` of an earlier response. */
  before?: string;
};

/** The stored sessions, newest first. */
export type ListSessionsCommand = ListSessions & {
  type: "list_sessions";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `list_sessions` that has succeeded. */
export type ListSessionsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "list_sessions";
  success: true;
  data: SessionsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A message of the conversation, as its level writes it. */
export type Message = (UserMessage & {
  role: "user";
} | AssistantMessage & {
  role: "assistant";
} | ToolResultMessage & {
  role: "toolResult";
} | BashExecution & {
  role: "bashExecution";
} | CustomMessage & {
  role: "custom";
} | BranchSummary & {
  role: "branchSummary";
} | CompactionSummary & {
  role: "compactionSummary";
});

/** The message is complete and stored. It replaces whatever was shown before. */
export type MessageEndEvent = {
  type: "message_end";
  message: Message;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A message is added to the conversation. An answer starts empty and is filled by updates. */
export type MessageStartEvent = {
  type: "message_start";
  message: Message;
  /** As in the command that sent the message; absent if it had none. */
  clientMessageId?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** One step of a growing answer. `content_index` is the position of its block in the content. */
export type MessageStep = ({
  type: "text_start";
  contentIndex: number;
} | {
  type: "text_delta";
  contentIndex: number;
  delta: string;
} | {
  type: "text_end";
  contentIndex: number;
  content: string;
} | {
  type: "thinking_start";
  contentIndex: number;
} | {
  type: "thinking_delta";
  contentIndex: number;
  delta: string;
} | {
  type: "thinking_end";
  contentIndex: number;
  content: string;
} | {
  type: "toolcall_start";
  contentIndex: number;
  id?: string;
  toolName?: string;
} | {
  type: "toolcall_delta";
  contentIndex: number;
  delta: string;
} | {
  type: "toolcall_end";
  contentIndex: number;
  toolCall: toolCall;
}) & {
  /** The message after this step. With snapshots only. */
  partial?: Message;
};

/** The answer grows by one step. */
export type MessageUpdateEvent = {
  type: "message_update";
  /** The tokens counted so far. With deltas only. */
  usage?: Usage;
  assistantMessageEvent: MessageStep;
  /** The message after this step. With snapshots only. */
  message?: Message;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of `get_messages`. */
export type MessagesData = {
  /** The conversation as the model sees it. */
  messages: Message[];
};

/** The data of `get_messages_page`. */
export type MessagesPageData = {
  messages: Message[];
  /** The `cursor` of the next page; absent on the last one. */
  nextCursor?: string;
  totalMessages: number;
};

/** The input types of a model. */
export type Modality = "text" | "image";

/**
 * Everything known about a model. Serialised on the wire, except the headers, which may contain
 * secrets.
 */
export type Model = {
  id: string;
  name: string;
  /** The API of its server, for example `anthropic-messages`. */
  api: string;
  provider: string;
  /** Serialised without the password that may be in it. */
  baseUrl: string;
  reasoning: boolean;
  /** This model's name for each level; `null` if it has no such level. */
  thinkingLevelMap?: { [key: string]: string | null };
  input: Modality[];
  cost: Price;
  contextWindow: number;
  maxTokens: number;
  /** Options for servers that deviate from their API. */
  compat?: unknown;
};

/** The connection to the current model. */
export type ModelConnection = {
  state: ModelConnectionState;
  provider?: string;
};

export type ModelConnectionState = ("no_provider" | "connected" | "auth_error");

/** The data of `get_available_models`. */
export type ModelsData = {
  models: Model[];
};

/** Continues from another entry of this session. */
export type NavigateTreeCommand = EntryId & {
  type: "navigate_tree";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `navigate_tree` that has succeeded. */
export type NavigateTreeResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "navigate_tree";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type NewSession = {
  /** The path of the session that this one continues. */
  parentSession?: string;
};

/** Starts an empty session. The current run is stopped first. */
export type NewSessionCommand = NewSession & {
  type: "new_session";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `new_session` that has succeeded. */
export type NewSessionResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "new_session";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A notice. Serializes as the fields of an `extension_ui_request`. */
export type Notice = ({
  method: "notify";
  message: string;
  notifyType?: string;
} | {
  method: "setStatus";
  statusKey: string;
  statusText?: string;
} | {
  method: "setWidget";
  widgetKey: string;
  widgetLines?: string[];
  widgetPlacement?: string;
} | {
  method: "setTitle";
  title: string;
} | {
  method: "set_editor_text";
  text: string;
});

/** A tool as the model sees it. */
export type OfferedTool = {
  name: string;
  description: string;
  /** A JSON Schema of the arguments. */
  parameters: unknown;
};

/** A task that is not done. */
export type OpenTodo = {
  id: string;
  content: string;
  status: TodoStatus;
};

export type PageFields = {
  /** The `nextCursor` of an earlier response. */
  cursor?: string;
  limit?: number;
};

/** Dollars per million tokens. */
export type Price = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  /** Prices for longer prompts, in any order. */
  tiers?: PriceTier[];
};

/** The prices for prompts, including cached tokens, longer than this. */
export type PriceTier = {
  inputTokensAbove: number;
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
};

export type Prompt = {
  /** May be empty only if there are images. */
  message: string;
  images?: Image[];
  streamingBehavior?: WhenBusy;
  /**
   * The client's own name for the message, at most 256 bytes. It comes back in `queue_update`,
   * `message_start` and `prompt_result`.
   */
  clientMessageId?: string;
};

/**
 * Sends the agent a user message. Answered at once with a [`Disposition`]; the run follows
 * as events.
 *
 * [`Disposition`]: crate::Disposition
 */
export type PromptCommand = Prompt & {
  type: "prompt";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

export type PromptReason = ("abort" | "sessionChanged" | "shutdown" | "cleared" | "removed" | LimitName);

/** The response to a `prompt` that has succeeded. */
export type PromptResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "prompt";
  success: true;
  data: DispositionData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/**
 * What became of a `prompt`, `steer`, `follow_up` or `abort_and_prompt` that was accepted:
 * one for each. With `promptResults` of `hello` only.
 */
export type PromptResultEvent = {
  type: "prompt_result";
  /** As in the command; absent if it had none. */
  id?: Json;
  /** As in the command; absent if it had none. */
  clientMessageId?: string;
  /** The name of the command. */
  command: string;
  status: PromptStatus;
  /** Why it was aborted or dropped, or which limit was reached. */
  reason?: PromptReason;
  /** How many runs worked on it. */
  runs: number;
  /** How many turns these runs had. */
  turns: number;
  /** How many messages they added to the conversation. */
  messages: number;
  /** The tokens of these messages. */
  usage: Usage;
  /** The price of these tokens in dollars. */
  cost: number;
  /** From the acceptance of the command to this record. */
  durationMs: number;
  /** With the status `error`. */
  error?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type PromptStatus = ("done" | "error" | "aborted" | "handled" | "dropped" | "limit");

/** The data of the response to `get_queue`. */
export type QueueData = {
  /** Steering messages first, each queue in its order. */
  messages: QueuedMessage[];
};

/** How many messages of a queue are sent at once. */
export type QueueMode = "all" | "one-at-a-time";

export type QueueName = "steering" | "followUp";

/** The texts in both queues. Written whenever a queue changes. */
export type QueueUpdateEvent = {
  type: "queue_update";
  steering: string[];
  followUp: string[];
  /**
   * The `clientMessageId` of each steering message. Absent unless a queued message has
   * one.
   */
  steeringIds?: (string | null)[];
  /** The same for the follow-up messages. */
  followUpIds?: (string | null)[];
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A message in one of the two queues. */
export type QueuedMessage = {
  /** tiller's name for the message, unique in the process. */
  queueId: string;
  queue: QueueName;
  text: string;
  /** The number of images. */
  images: number;
  /** As in the command that queued it; absent if it had none. */
  clientMessageId?: string;
  /** A run has taken the message and is about to send it. It can no longer be changed. */
  isBeingSent: boolean;
};

/** The data of the responses to `update_queued` and `remove_queued`. */
export type QueuedMessageData = {
  /** The message as it is now, or as it was when it was removed. */
  message: QueuedMessage;
};

/** Names one queued message, by one of the two ids. */
export type QueuedTarget = {
  queueId?: string;
  /** If several queued messages have it, the first one is meant. */
  clientMessageId?: string;
};

/** Why a conversation is compacted. */
export type Reason = ("manual" | "threshold" | "overflow");

/** The data of the response to `get_record`. */
export type RecordPiece = {
  recordId: string;
  /** The length of the whole record. */
  bytes: number;
  offset: number;
  /** A part of the record's JSON text. */
  text: string;
  /** Where the next part begins; absent after the last one. */
  nextOffset?: number;
};

/** The response to a command that was refused. Nothing has changed. */
export type RefusalResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  /** The command's name as the client wrote it, or `parse`. */
  command: string;
  success: false;
  /** A text for people. */
  error: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Reads settings, skills, templates and context files again. */
export type ReloadCommand = {
  type: "reload";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The data of `reload`: how many of each there are now. */
export type ReloadData = {
  skills: number;
  promptTemplates: number;
  contextFiles: number;
  rules: number;
  /** Problems with settings, skills and other files. */
  diagnostics: string[];
};

/** The response to a `reload` that has succeeded. */
export type ReloadResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "reload";
  success: true;
  data: ReloadData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Removes a queued message. */
export type RemoveQueuedCommand = QueuedTarget & {
  type: "remove_queued";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `remove_queued` that has succeeded. */
export type RemoveQueuedResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "remove_queued";
  success: true;
  data: QueuedMessageData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The one response to a command. */
export type Response = {
  /** As in the command; absent if it had none. */
  id?: Json;
  type: ResponseKind;
  /** The command's name as the client wrote it, or `parse`. */
  command: string;
  success: boolean;
  /** On success, if the command returns something; may be `null`. */
  data?: Json;
  /** On refusal, a text for people. */
  error?: string;
};

export type ResponseKind = "response";

/** A rule as in its file, and as sent to clients. */
export type Rule = {
  /** The file's name without its extension. */
  name: string;
  path: string;
  /** The text for the model. */
  content: string;
  /** Matches only in a call that names a path like one of these. */
  globs?: string[];
  alwaysApply: boolean;
  description?: string;
  /** Any of these must match. */
  condition: string[];
  /** Where to match; empty means text and calls. */
  scope?: string[];
  /** Overrides the setting. */
  interruptMode?: RuleInterruptMode;
  _source: RuleSource;
};

/** Which matches stop the model. Other rules are added after the answer. */
export type RuleInterruptMode = ("never" | "prose-only" | "tool-only" | "always");

export type RuleLevel = "project" | "user";

/** Where a rule comes from, in xcsh's terms. */
export type RuleSource = {
  provider: string;
  providerName: string;
  path: string;
  level: RuleLevel;
};

/** The numbers of records. The response carries its own `seq`. */
export type SequenceInfo = {
  epoch: string;
};

/** Any line of tiller. */
export type ServerLine = (AgentStartEvent | AgentEndEvent | AgentSettledEvent | TurnStartEvent | TurnEndEvent | MessageStartEvent | MessageUpdateEvent | MessageEndEvent | ToolExecutionStartEvent | ToolExecutionUpdateEvent | ToolExecutionEndEvent | HostToolCallEvent | HostToolCancelEvent | CompactionStartEvent | CompactionEndEvent | SummarizationRetryScheduledEvent | SummarizationRetryAttemptStartEvent | SummarizationRetryFinishedEvent | AutoRetryStartEvent | AutoRetryEndEvent | ExtensionUiRequestEvent | ExtensionErrorEvent | TtsrTriggeredEvent | EntryAppendedEvent | TodoReminderEvent | TodoAutoClearEvent | QueueUpdateEvent | PromptResultEvent | LimitReachedEvent | BashExecutionUpdateEvent | SessionInfoChangedEvent | SessionErrorEvent | ThinkingLevelChangedEvent | PromptResponse | SteerResponse | FollowUpResponse | AbortResponse | AbortAndPromptResponse | ClearQueueResponse | GetQueueResponse | UpdateQueuedResponse | RemoveQueuedResponse | SetLimitsResponse | GetLimitsResponse | GetStateResponse | GetMessagesResponse | GetMessagesPageResponse | GetLastAssistantTextResponse | SetSessionNameResponse | SetSteeringModeResponse | SetFollowUpModeResponse | SetInterruptModeResponse | SetModelResponse | CycleModelResponse | GetAvailableModelsResponse | GetIntegrationsResponse | SetThinkingLevelResponse | CycleThinkingLevelResponse | GetAvailableThinkingLevelsResponse | GetSessionStatsResponse | ExportHtmlResponse | BashResponse | AbortBashResponse | CompactResponse | SetAutoCompactionResponse | SetAutoRetryResponse | AbortRetryResponse | NewSessionResponse | SwitchSessionResponse | CloneResponse | NavigateTreeResponse | ForkResponse | BranchResponse | GetForkMessagesResponse | GetBranchMessagesResponse | GetEntriesResponse | GetTreeResponse | ListSessionsResponse | SetLabelResponse | GetCommandsResponse | GetAvailableCommandsResponse | ReloadResponse | GetToolsResponse | SetActiveToolsResponse | GetDiagnosticsResponse | GetCapabilitiesResponse | GetEventsResponse | GetRecordResponse | SetHostToolsResponse | SetTodosResponse | HelloResponse | RefusalResponse);

/** A service to sign in to. */
export type Service = { [key: string]: unknown };

/** The session could not be written, or its file was moved or replaced. */
export type SessionErrorEvent = {
  type: "session_error";
  error: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The session has another name. */
export type SessionInfoChangedEvent = {
  type: "session_info_changed";
  name?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A session in a list. */
export type SessionSummary = {
  id: string;
  path: string;
  name?: string;
  cwd: string;
  /** The path of the session that this one continues. */
  parentSession?: string;
  /** When it was created, as ISO time. */
  created: string;
  /** When the file was last modified, as ISO time. */
  modified: string;
  messageCount: number;
  /** The beginning of the first user message. */
  firstMessage: string;
};

/** The data of `list_sessions`. */
export type SessionsData = {
  /** Newest first. */
  sessions: SessionSummary[];
  /** The `before` of the next page; `null` on the last one. */
  next: string | null;
};

export type SetActiveTools = {
  /** Names of tools that `get_tools` lists. */
  tools: string[];
};

/** Selects the tools that the model is offered from the next request on. */
export type SetActiveToolsCommand = SetActiveTools & {
  type: "set_active_tools";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_active_tools` that has succeeded. */
export type SetActiveToolsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_active_tools";
  success: true;
  data: ActiveToolsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Whether that happens automatically when the window is nearly full. */
export type SetAutoCompactionCommand = AutoSetting & {
  type: "set_auto_compaction";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_auto_compaction` that has succeeded. */
export type SetAutoCompactionResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_auto_compaction";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Whether a run that failed with a temporary error is retried. */
export type SetAutoRetryCommand = AutoSetting & {
  type: "set_auto_retry";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_auto_retry` that has succeeded. */
export type SetAutoRetryResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_auto_retry";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** How many follow-up messages are sent at once. */
export type SetFollowUpModeCommand = SetQueueMode & {
  type: "set_follow_up_mode";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_follow_up_mode` that has succeeded. */
export type SetFollowUpModeResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_follow_up_mode";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetHostTools = {
  tools: HostTool[];
};

/** Offers tools that the client runs, in place of those it offered before. */
export type SetHostToolsCommand = SetHostTools & {
  type: "set_host_tools";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_host_tools` that has succeeded. */
export type SetHostToolsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_host_tools";
  success: true;
  data: HostToolsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetInterruptMode = {
  mode: InterruptMode;
};

/** Whether steering waits for the tools of a turn. */
export type SetInterruptModeCommand = SetInterruptMode & {
  type: "set_interrupt_mode";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_interrupt_mode` that has succeeded. */
export type SetInterruptModeResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_interrupt_mode";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetLabel = {
  entryId: string;
  /** Absent: the label is removed. */
  label?: string;
};

/** Labels an entry, or removes its label. */
export type SetLabelCommand = SetLabel & {
  type: "set_label";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_label` that has succeeded. */
export type SetLabelResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_label";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Replaces the limits of the prompts and tools of this session. */
export type SetLimitsCommand = Limits & {
  type: "set_limits";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_limits` that has succeeded. */
export type SetLimitsResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_limits";
  success: true;
  data: LimitsData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetModel = {
  provider: string;
  modelId: string;
};

/** Selects a model from the next request on, also in the middle of a run. */
export type SetModelCommand = SetModel & {
  type: "set_model";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_model` that has succeeded. */
export type SetModelResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_model";
  success: true;
  data: Model;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetQueueMode = {
  mode: QueueMode;
};

export type SetSessionName = {
  name: string;
};

/** Names the session. */
export type SetSessionNameCommand = SetSessionName & {
  type: "set_session_name";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_session_name` that has succeeded. */
export type SetSessionNameResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_session_name";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** How many steering messages are sent at once. */
export type SetSteeringModeCommand = SetQueueMode & {
  type: "set_steering_mode";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_steering_mode` that has succeeded. */
export type SetSteeringModeResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_steering_mode";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetThinkingLevel = {
  level: ThinkingLevel;
};

/** Selects a thinking level. */
export type SetThinkingLevelCommand = SetThinkingLevel & {
  type: "set_thinking_level";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_thinking_level` that has succeeded. */
export type SetThinkingLevelResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_thinking_level";
  success: true;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type SetTodos = {
  phases: DraftPhase[];
};

/** Replaces the todo list. */
export type SetTodosCommand = SetTodos & {
  type: "set_todos";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `set_todos` that has succeeded. */
export type SetTodosResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "set_todos";
  success: true;
  data: TodosData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of `get_state`. */
export type StateData = {
  /** `null` if there is no model; a placeholder at level `pi-delta`. */
  model: (Model | null);
  thinkingLevel: ThinkingLevel;
  /** A run is in progress, or may start at any moment. */
  isStreaming: boolean;
  isCompacting: boolean;
  steeringMode: QueueMode;
  followUpMode: QueueMode;
  interruptMode: InterruptMode;
  /** Absent if the session is only in memory. */
  sessionFile?: string;
  sessionId: string;
  sessionName?: string;
  autoCompactionEnabled: boolean;
  messageCount: number;
  /** The number of queued messages. */
  pendingMessageCount: number;
  /** The same number under the name that xcsh uses. */
  queuedMessageCount: number;
};

/**
 * The data of `get_session_stats`. The figures are those of the whole session, abandoned branches
 * included, so that they never shrink.
 */
export type StatsData = {
  /** Absent if the session is only in memory. */
  sessionFile?: string;
  sessionId: string;
  userMessages: number;
  assistantMessages: number;
  toolCalls: number;
  toolResults: number;
  /** All messages, whatever their role. */
  totalMessages: number;
  tokens: TokenTotals;
  /** Dollars. */
  cost: number;
  /** Absent if the size of the model's window is unknown. */
  contextUsage?: ContextUsage;
};

/** Queues a message to be sent as soon as the tools of the current turn are done. */
export type SteerCommand = TextAndImages & {
  type: "steer";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `steer` that has succeeded. */
export type SteerResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "steer";
  success: true;
  data: DispositionData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type StopReason = ("stop" | "toolUse" | "error" | "aborted" | "length" | "pending" | "deferred");

/** What a `message_update` carries. */
export type Stream = ("snapshots" | "deltas");

/** The request for a summary is sent again. */
export type SummarizationRetryAttemptStartEvent = {
  type: "summarization_retry_attempt_start";
  source: SummarySource;
  /** Absent for the summary of a branch. */
  reason?: Reason;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** No more retries of the summary, whether it succeeded or not. */
export type SummarizationRetryFinishedEvent = {
  type: "summarization_retry_finished";
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The request for a summary failed; it is sent again after a pause. */
export type SummarizationRetryScheduledEvent = {
  type: "summarization_retry_scheduled";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  errorMessage: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** What is summarised. */
export type SummarySource = "compaction" | "branchSummary";

export type SwitchSession = {
  sessionPath: string;
};

/** Opens a stored session. The current run is stopped first. */
export type SwitchSessionCommand = SwitchSession & {
  type: "switch_session";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `switch_session` that has succeeded. */
export type SwitchSessionResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "switch_session";
  success: true;
  data: ChangeData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type TextAndImages = {
  /** May be empty only if there are images. */
  message: string;
  images?: Image[];
  /**
   * The client's own name for the message, at most 256 bytes. It comes back in `queue_update`,
   * `message_start` and `prompt_result`.
   */
  clientMessageId?: string;
};

/** How much the model is asked to think. */
export type ThinkingLevel = ("off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max");

/** Another thinking level is selected. */
export type ThinkingLevelChangedEvent = {
  type: "thinking_level_changed";
  level: ThinkingLevel;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The data of `get_available_thinking_levels`. */
export type ThinkingLevelsData = {
  /** From the lowest to the highest. */
  levels: ThinkingLevel[];
};

/** A finished task was removed from the todo list. */
export type TodoAutoClearEvent = {
  type: "todo_auto_clear";
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type TodoItem = {
  id: string;
  content: string;
  status: TodoStatus;
  notes?: string;
  details?: string;
};

/** Phases in order, each with its tasks. */
export type TodoList = TodoPhase[];

export type TodoPhase = {
  id: string;
  name: string;
  tasks: TodoItem[];
};

/** The model stopped although these tasks are open. It is reminded, and another run follows. */
export type TodoReminderEvent = {
  type: "todo_reminder";
  todos: OpenTodo[];
  /** Counts since the user's last message. */
  attempt: number;
  maxAttempts: number;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

export type TodoStatus = "pending" | "in_progress" | "completed" | "abandoned";

/** The data of `set_todos`. */
export type TodosData = {
  /** The list with all ids and states filled in. */
  todoPhases: TodoList;
};

/** The tokens of a session. */
export type TokenTotals = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
};

/** A tool call of the model. */
export type ToolCall = {
  id: string;
  name: string;
  arguments: { [key: string]: unknown };
  /** Why the arguments could not be parsed; `arguments` is empty then. */
  argumentsError?: string;
  thoughtSignature?: string;
};

/** A tool call has its result. */
export type ToolExecutionEndEvent = {
  type: "tool_execution_end";
  toolCallId: string;
  toolName: string;
  result: ToolOutput;
  isError: boolean;
  /** How long the tool ran. At level `pi-delta` only, and only if it ran. */
  durationMs?: number;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A tool call starts. */
export type ToolExecutionStartEvent = {
  type: "tool_execution_start";
  toolCallId: string;
  toolName: string;
  args: { [key: string]: unknown };
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Intermediate output of a tool. */
export type ToolExecutionUpdateEvent = {
  type: "tool_execution_update";
  toolCallId: string;
  toolName: string;
  /** Absent with deltas. */
  args?: { [key: string]: unknown };
  /** The output so far. It replaces the one before. */
  partialResult?: ToolOutput;
  /**
   * Text that is added to the output so far. With deltas only, in place of
   * `partialResult`.
   */
  delta?: string;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** A tool that can be offered to the model. */
export type ToolInfo = {
  name: string;
  description: string;
  /** A JSON Schema of the arguments. */
  parameters: unknown;
  source: ToolSource;
  /** The model is offered the tool. */
  isActive: boolean;
};

/** The result of a tool, or its intermediate output. */
export type ToolOutput = {
  content: Block[];
  /** For the client and the session file; the model never sees it. */
  details?: unknown;
  [key: string]: unknown;
};

/** The result of a tool call. */
export type ToolResultMessage = {
  toolCallId: string;
  toolName: string;
  content: Block[];
  /** For the client and the session file; the model never sees it. */
  details?: unknown;
  isError: boolean;
  /** Tokens that a tool spent on model requests of its own. */
  usage?: Usage;
  timestamp: number;
  /** How long the tool ran. At level `pi-delta` only, and only if it ran. */
  durationMs?: number;
};

export type ToolSource = ("builtin" | "extension" | "host");

/** What a `tool_execution_update` carries. */
export type ToolUpdates = ("snapshots" | "deltas");

/** The data of the response to `get_tools`. */
export type ToolsData = {
  tools: ToolInfo[];
};

/** The data of `get_tree`. */
export type TreeData = {
  /** The entries without a parent. */
  tree: TreeNode[];
  /** The current entry; `null` in an empty session. */
  leafId: string | null;
};

/** An entry and those that follow it. */
export type TreeNode = {
  /** As in the session's file. */
  entry: Json;
  children: TreeNode[];
  label?: string;
  /** When the label was set, as ISO time. */
  labelTimestamp?: string;
};

/**
 * The answer matched these rules and was stopped. Another run follows, with the rules
 * added to the conversation.
 */
export type TtsrTriggeredEvent = {
  type: "ttsr_triggered";
  rules: Rule[];
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The answer and the results of its calls are complete. */
export type TurnEndEvent = {
  type: "turn_end";
  message: Message;
  /** In the order of the calls. */
  toolResults: Message[];
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** The messages to send follow, then a request to the model. */
export type TurnStartEvent = {
  type: "turn_start";
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/** Names one queued message, by one of the two ids. */
export type UpdateQueued = {
  queueId?: string;
  /** If several queued messages have it, the first one is meant. */
  clientMessageId?: string;
  /** May be empty only if there are images. */
  message: string;
  images?: Image[];
};

/** Replaces the text and the images of a queued message, which keeps its place. */
export type UpdateQueuedCommand = UpdateQueued & {
  type: "update_queued";
  /** Any JSON value. The response has the same. */
  id?: unknown;
};

/** The response to a `update_queued` that has succeeded. */
export type UpdateQueuedResponse = {
  /** As in the command; absent if it had none. */
  id?: unknown;
  type: "response";
  command: "update_queued";
  success: true;
  data: QueuedMessageData;
  /**
   * The number of the record: 1 for the first, then one more each time. With `sequence` of
   * `hello` only.
   */
  seq?: number;
  /** Names the process that counts. With `sequence` of `hello` only. */
  epoch?: string;
  /** The record is shorter than it was, because of `maxFrameBytes`. */
  cut?: Cut;
};

/**
 * Tokens and their price. `input` excludes cached tokens, `reasoning` is part of `output`,
 * `cache_write_1h` part of `cache_write`.
 */
export type Usage = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  cost: UsageCost;
  cacheWrite1h?: number;
  /** At level `pi-delta` only, and always there. */
  reasoning: number;
};

/** Dollars. */
export type UsageCost = {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
  /** The provider reported the total. At level `pi-delta` only, and always there. */
  totalFromProvider: boolean;
};

export type UserMessage = {
  content: Content;
  timestamp: number;
};

/** What happens to a prompt while another one is running. */
export type WhenBusy = ("steer" | "followUp");

/** A tool call of the model, as a content block. */
export type toolCall = {
  id: string;
  name: string;
  arguments: { [key: string]: unknown };
  /** Why the arguments could not be parsed. At level `pi-delta` only. */
  argumentsError?: string;
  thoughtSignature?: string;
};
