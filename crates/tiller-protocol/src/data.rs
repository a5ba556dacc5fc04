//! The data of successful responses: one type for each command, and the table that names it.
//!
//! The server borrows what it writes; a client that parses a response gets the same type with owned
//! fields, with [`Response::read`].
//!
//! [`Response::read`]: crate::Response::read

mod conversation;
mod model;
mod project;
mod session;
mod state;
mod work;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use tiller_agent::model::Model;
use tiller_agent::sandbox::SandboxReport;

pub use conversation::{
    EntriesData, ForkMessage, ForkMessagesData, LastTextData, MessagesData, MessagesPageData,
    TreeData, TreeNode,
};
pub use model::{
    CycledLevelData, CycledModelData, IntegrationsData, ModelConnection, ModelConnectionState,
    ModelsData, Service, ThinkingLevelsData,
};
pub use project::{
    AvailableCommand, AvailableCommandSource, AvailableCommandsData, CommandInfo, CommandSource,
    CommandSourceInfo, CommandsData, ReloadData,
};
pub use session::{
    ChangeData, ContextUsage, ExportData, SessionSummary, SessionsData, StatsData, TokenTotals,
};
pub use state::{OfferedTool, StateData};
pub use work::{BashData, ClearedQueuesData, HostToolsData, TodosData};

use crate::compaction::CompactionResult;
use crate::inspection::{
    ActiveToolsData, ApprovalsData, Capabilities, DiagnosticsData, HelloData, LimitsData,
    SettingData, SettingsData, ToolsData,
};
use crate::mcp::McpServersData;
use crate::queue::{QueueData, QueuedMessageData};
use crate::replay::{EventsData, RecordPiece};
use crate::reply::DispositionData;

/// What a command answers when it succeeds.
#[derive(Clone, Copy)]
pub enum ResponseData {
    /// The command has no response.
    Never,
    /// A response without `data`.
    Nothing,
    /// A response with `data` of this schema.
    Always(fn(&mut SchemaGenerator) -> Schema),
    /// The same, but `data` may be `null`.
    OrNull(fn(&mut SchemaGenerator) -> Schema),
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What each command answers, by its name.
pub const RESPONSES: &[(&str, ResponseData)] = &[
    ("prompt", ResponseData::Always(of::<DispositionData>)),
    ("steer", ResponseData::Always(of::<DispositionData>)),
    ("follow_up", ResponseData::Always(of::<DispositionData>)),
    ("abort", ResponseData::Nothing),
    ("abort_and_prompt", ResponseData::Nothing),
    ("clear_queue", ResponseData::Always(of::<ClearedQueuesData>)),
    ("get_queue", ResponseData::Always(of::<QueueData>)),
    ("update_queued", ResponseData::Always(of::<QueuedMessageData>)),
    ("remove_queued", ResponseData::Always(of::<QueuedMessageData>)),
    ("set_limits", ResponseData::Always(of::<LimitsData>)),
    ("get_limits", ResponseData::Always(of::<LimitsData>)),
    ("set_approvals", ResponseData::Always(of::<ApprovalsData>)),
    ("get_sandbox", ResponseData::Always(of::<SandboxReport>)),
    ("get_state", ResponseData::Always(of::<StateData<'_>>)),
    ("get_messages", ResponseData::Always(of::<MessagesData<'_>>)),
    ("get_messages_page", ResponseData::Always(of::<MessagesPageData<'_>>)),
    ("get_last_assistant_text", ResponseData::Always(of::<LastTextData>)),
    ("set_session_name", ResponseData::Nothing),
    ("set_steering_mode", ResponseData::Nothing),
    ("set_follow_up_mode", ResponseData::Nothing),
    ("set_interrupt_mode", ResponseData::Nothing),
    ("set_model", ResponseData::Always(of::<Model>)),
    ("cycle_model", ResponseData::OrNull(of::<CycledModelData<'_>>)),
    ("get_available_models", ResponseData::Always(of::<ModelsData<'_>>)),
    ("get_integrations", ResponseData::Always(of::<IntegrationsData<'_>>)),
    ("set_thinking_level", ResponseData::Nothing),
    ("cycle_thinking_level", ResponseData::OrNull(of::<CycledLevelData>)),
    ("get_available_thinking_levels", ResponseData::Always(of::<ThinkingLevelsData>)),
    ("get_session_stats", ResponseData::Always(of::<StatsData<'_>>)),
    ("export_html", ResponseData::Always(of::<ExportData>)),
    ("bash", ResponseData::Always(of::<BashData<'_>>)),
    ("abort_bash", ResponseData::Nothing),
    ("compact", ResponseData::Always(of::<CompactionResult<'_>>)),
    ("set_auto_compaction", ResponseData::Nothing),
    ("set_auto_retry", ResponseData::Nothing),
    ("abort_retry", ResponseData::Nothing),
    ("new_session", ResponseData::Always(of::<ChangeData>)),
    ("switch_session", ResponseData::Always(of::<ChangeData>)),
    ("clone", ResponseData::Always(of::<ChangeData>)),
    ("navigate_tree", ResponseData::Always(of::<ChangeData>)),
    ("fork", ResponseData::Always(of::<ChangeData>)),
    ("branch", ResponseData::Always(of::<ChangeData>)),
    ("get_fork_messages", ResponseData::Always(of::<ForkMessagesData>)),
    ("get_branch_messages", ResponseData::Always(of::<ForkMessagesData>)),
    ("get_entries", ResponseData::Always(of::<EntriesData<'_>>)),
    ("get_tree", ResponseData::Always(of::<TreeData<'_>>)),
    ("list_sessions", ResponseData::Always(of::<SessionsData>)),
    ("set_label", ResponseData::Nothing),
    ("get_commands", ResponseData::Always(of::<CommandsData>)),
    ("get_available_commands", ResponseData::Always(of::<AvailableCommandsData>)),
    ("reload", ResponseData::Always(of::<ReloadData<'_>>)),
    ("get_settings", ResponseData::Always(of::<SettingsData<'_>>)),
    ("set_setting", ResponseData::Always(of::<SettingData<'_>>)),
    ("get_tools", ResponseData::Always(of::<ToolsData<'_>>)),
    ("set_active_tools", ResponseData::Always(of::<ActiveToolsData>)),
    ("get_diagnostics", ResponseData::Always(of::<DiagnosticsData<'_>>)),
    ("get_capabilities", ResponseData::Always(of::<Capabilities<'_>>)),
    ("get_events", ResponseData::Always(of::<EventsData<'_>>)),
    ("get_record", ResponseData::Always(of::<RecordPiece<'_>>)),
    ("set_host_tools", ResponseData::Always(of::<HostToolsData>)),
    ("host_tool_update", ResponseData::Never),
    ("host_tool_result", ResponseData::Never),
    ("set_mcp_servers", ResponseData::Always(of::<McpServersData<'_>>)),
    ("get_mcp_servers", ResponseData::Always(of::<McpServersData<'_>>)),
    ("set_todos", ResponseData::Always(of::<TodosData<'_>>)),
    ("hello", ResponseData::Always(of::<HelloData<'_>>)),
    ("extension_ui_response", ResponseData::Never),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COMMANDS;

    #[test]
    fn every_command_names_its_data() {
        let names: Vec<&str> = RESPONSES.iter().map(|(name, _)| *name).collect();
        for command in COMMANDS.iter().chain(&["extension_ui_response"]) {
            let count = names.iter().filter(|name| *name == command).count();
            assert_eq!(count, 1, "`{command}` must be in the table of data.rs exactly once");
        }
        assert_eq!(names.len(), COMMANDS.len() + 1, "a name is no command");
    }
}
