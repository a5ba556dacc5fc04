//! A method of [`Client`] for each command: one table of their names, fields and data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tiller_protocol::data::{
    AvailableCommandsData, BashData, ChangeData, ClearedQueuesData, CommandsData, CycledLevelData,
    CycledModelData, EntriesData, ExportData, ForkMessagesData, IntegrationsData, LastTextData,
    MessagesData, MessagesPageData, ModelsData, ReloadData, SessionsData, StateData, StatsData,
    ThinkingLevelsData, TodosData, TreeData,
};
use tiller_protocol::{
    ActiveToolsData, ApprovalMode, ApprovalsData, AutoSetting, Bash, Capabilities, Command,
    Compact, CompactionResult, DiagnosticsData, DraftPhase, EntryId, EventsData, ExportHtml,
    GetEntries, GetEvents, GetRecord, InterruptMode, Limits, LimitsData, ListRange, ListSessions,
    McpServerEntry, McpServersData, Model, NewSession, PageFields, QueueData, QueueMode,
    QueuedMessageData, QueuedTarget, RecordPiece, SandboxReport, SetActiveTools, SetApprovals,
    SetInterruptMode, SetLabel, SetMcpServers, SetModel, SetQueueMode, SetSessionName, SetSetting,
    SetThinkingLevel, SetTodos, SettingData, SettingsData, SwitchSession, ThinkingLevel, ToolsData,
    UpdateQueued,
};

use crate::{Client, ClientError};

/// Makes the methods. Each sends its command and parses the data of the response.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $method:ident($($field:ident: $type:ty),*) -> $data:ty = $command:expr;
    )*) => {
        impl Client {
            $(
                $(#[$doc])*
                pub async fn $method(&self, $($field: $type),*) -> Result<$data, ClientError> {
                    self.request($command).await
                }
            )*
        }

        #[cfg(test)]
        const METHODS: &[&str] = &[$(stringify!($method)),*];
    };
}

commands! {
    // Prompts and queues

    /// Stops the current run. Returns when it has ended; not an error if there is none.
    abort() -> () = Command::Abort;
    /// Empties both queues. Returns the texts that were in them.
    clear_queue() -> ClearedQueuesData = Command::ClearQueue;
    /// The queued messages with their ids.
    get_queue() -> QueueData = Command::GetQueue;
    /// Replaces the text and the images of a queued message, which keeps its place.
    update_queued(update: UpdateQueued) -> QueuedMessageData = Command::UpdateQueued(update);
    /// Removes a queued message.
    remove_queued(target: QueuedTarget) -> QueuedMessageData = Command::RemoveQueued(target);
    /// How many steering messages are sent at once.
    set_steering_mode(mode: QueueMode) -> () = Command::SetSteeringMode(SetQueueMode { mode });
    /// How many follow-up messages are sent at once.
    set_follow_up_mode(mode: QueueMode) -> () = Command::SetFollowUpMode(SetQueueMode { mode });
    /// Whether steering waits for the tools of a turn.
    set_interrupt_mode(mode: InterruptMode) -> () =
        Command::SetInterruptMode(SetInterruptMode { mode });
    /// Replaces the limits of the prompts and tools of this session. Returns those in force.
    set_limits(limits: Limits) -> LimitsData = Command::SetLimits(limits);
    /// The limits in force.
    get_limits() -> LimitsData = Command::GetLimits;
    /// Which tool calls need an approval, for this session only. Returns the mode in force.
    set_approvals(mode: ApprovalMode) -> ApprovalsData =
        Command::SetApprovals(SetApprovals { mode });
    /// What the sandbox of the tools prevents, and what it does not.
    get_sandbox() -> SandboxReport = Command::GetSandbox;
    /// Replaces the older part of the conversation with a summary, which focuses on this.
    compact(focus: Option<String>) -> CompactionResult<'static> =
        Command::Compact(Compact { focus });
    /// Whether that happens automatically when the window is nearly full.
    set_auto_compaction(enabled: bool) -> () = Command::SetAutoCompaction(AutoSetting { enabled });
    /// Whether a run that failed with a temporary error is retried.
    set_auto_retry(enabled: bool) -> () = Command::SetAutoRetry(AutoSetting { enabled });
    /// Cancels the pause before a retry.
    abort_retry() -> () = Command::AbortRetry;

    // State

    /// The model, the modes, the session and what is in progress.
    get_state() -> StateData<'static> = Command::GetState;
    /// The conversation as the model sees it, or a page of it.
    get_messages(range: ListRange) -> MessagesData<'static> = Command::GetMessages(range);
    /// The same in pages.
    get_messages_page(page: PageFields) -> MessagesPageData<'static> =
        Command::GetMessagesPage(page);
    /// The text of the newest answer.
    get_last_assistant_text() -> LastTextData = Command::GetLastAssistantText;
    /// The tokens, the cost and the size of the session.
    get_session_stats() -> StatsData<'static> = Command::GetSessionStats;
    /// What this server supports. Changes nothing.
    get_capabilities() -> Capabilities<'static> = Command::GetCapabilities;
    /// The problems found so far in settings, files, models and sessions.
    get_diagnostics() -> DiagnosticsData<'static> = Command::GetDiagnostics;
    /// Records of the past. [`Client::replay`] is easier to use.
    get_events(range: GetEvents) -> EventsData<'static> = Command::GetEvents(range);
    /// A part of the text of a record that was cut.
    get_record(part: GetRecord) -> RecordPiece<'static> = Command::GetRecord(part);

    // The model

    /// Selects a model from the next request on, also in the middle of a run.
    set_model(provider: impl Into<String>, model_id: impl Into<String>) -> Model =
        Command::SetModel(SetModel { provider: provider.into(), model_id: model_id.into() });
    /// Selects the next model of the list, if there is another.
    cycle_model() -> Option<CycledModelData<'static>> = Command::CycleModel;
    /// The models that can be selected, or a page of them.
    get_available_models(range: ListRange) -> ModelsData<'static> =
        Command::GetAvailableModels(range);
    /// The connections of tiller: the current model, and other services.
    get_integrations() -> IntegrationsData<'static> = Command::GetIntegrations;
    /// Selects a thinking level.
    set_thinking_level(level: ThinkingLevel) -> () =
        Command::SetThinkingLevel(SetThinkingLevel { level });
    /// Selects the next thinking level of the model, if there is another.
    cycle_thinking_level() -> Option<CycledLevelData> = Command::CycleThinkingLevel;
    /// The thinking levels of the model.
    get_available_thinking_levels() -> ThinkingLevelsData = Command::GetAvailableThinkingLevels;

    // Tools, shell commands and files

    /// The settings in use, and which of them can be changed.
    get_settings() -> SettingsData<'static> = Command::GetSettings;
    /// Changes a setting for the process; with `None` the files count again.
    set_setting(key: impl Into<String>, value: Option<Value>) -> SettingData<'static> =
        Command::SetSetting(SetSetting { key: key.into(), value });
    /// All tools, with those that the model is offered.
    get_tools() -> ToolsData<'static> = Command::GetTools;
    /// Selects the tools that the model is offered from the next request on.
    set_active_tools(tools: Vec<String>) -> ActiveToolsData =
        Command::SetActiveTools(SetActiveTools { tools });
    /// Replaces the MCP servers that the client has set for this session.
    set_mcp_servers(mcp_servers: BTreeMap<String, McpServerEntry>) -> McpServersData<'static> =
        Command::SetMcpServers(SetMcpServers { mcp_servers });
    /// The MCP servers of the session, with their states, tools and errors.
    get_mcp_servers() -> McpServersData<'static> = Command::GetMcpServers;
    /// Replaces the todo list.
    set_todos(phases: Vec<DraftPhase>) -> TodosData<'static> =
        Command::SetTodos(SetTodos { phases });
    /// Runs a shell command. Returns at its end.
    bash(command: Bash) -> BashData<'static> = Command::Bash(command);
    /// Ends all commands that `bash` has started.
    abort_bash() -> () = Command::AbortBash;
    /// What a message that begins with `/` can name: commands, templates and skills.
    get_commands() -> CommandsData = Command::GetCommands;
    /// The same in the format of omp's clients.
    get_available_commands() -> AvailableCommandsData = Command::GetAvailableCommands;
    /// Reads settings, skills, templates and context files again.
    reload() -> ReloadData<'static> = Command::Reload;

    // Sessions

    /// Names the session.
    set_session_name(name: impl Into<String>) -> () =
        Command::SetSessionName(SetSessionName { name: name.into() });
    /// Starts an empty session. The current run is stopped first.
    new_session() -> ChangeData = Command::NewSession(NewSession { parent_session: None });
    /// Opens a stored session. The current run is stopped first.
    switch_session(path: impl Into<PathBuf>) -> ChangeData =
        Command::SwitchSession(SwitchSession { path: path.into() });
    /// Starts a session with everything before a user message. Returns its text.
    fork(entry_id: impl Into<String>) -> ChangeData =
        Command::Fork(EntryId { entry_id: entry_id.into() });
    /// `fork` under the name that xcsh uses.
    branch(entry_id: impl Into<String>) -> ChangeData =
        Command::Branch(EntryId { entry_id: entry_id.into() });
    /// Starts a session with everything up to here.
    clone_session() -> ChangeData = Command::Clone;
    /// The user messages that can be forked from.
    get_fork_messages() -> ForkMessagesData = Command::GetForkMessages;
    /// `get_fork_messages` under the name that xcsh uses.
    get_branch_messages() -> ForkMessagesData = Command::GetBranchMessages;
    /// The session's entries in the order they were written: all, or a part.
    get_entries(request: GetEntries) -> EntriesData<'static> = Command::GetEntries(request);
    /// The session's entries as a tree.
    get_tree() -> TreeData<'static> = Command::GetTree;
    /// The stored sessions, newest first.
    list_sessions(selection: ListSessions) -> SessionsData = Command::ListSessions(selection);
    /// Continues from another entry of this session.
    navigate_tree(entry_id: impl Into<String>) -> ChangeData =
        Command::NavigateTree(EntryId { entry_id: entry_id.into() });
    /// Labels an entry, or removes its label.
    set_label(entry_id: impl Into<String>, label: Option<String>) -> () =
        Command::SetLabel(SetLabel { entry_id: entry_id.into(), label });
    /// Writes the session as an HTML page; by default to a file in the working directory.
    export_html(output_path: Option<PathBuf>) -> ExportData =
        Command::ExportHtml(ExportHtml { output_path });
}

#[cfg(test)]
mod tests {
    use tiller_protocol::COMMANDS;

    use super::*;

    /// Commands that methods of another kind or name send.
    const ELSEWHERE: &[&str] = &[
        "prompt",
        "steer",
        "follow_up",
        "abort_and_prompt",
        "clone",
        "set_host_tools",
        "host_tool_update",
        "host_tool_result",
        "hello",
    ];

    #[test]
    fn every_command_has_a_method() {
        for command in COMMANDS {
            let is_there = METHODS.contains(command);
            assert!(is_there != ELSEWHERE.contains(command), "{command}");
        }
    }
}
