//! The lines between a client and tiller, as types that serialise and deserialise. The prose
//! version is docs/protocol.md.
//!
//! A client writes a [`Command`] with [`Command::to_line`] and parses each line of the server as a
//! [`Record`]:
//!
//! ```
//! use tiller_protocol::{Command, Prompt, Record, Step};
//!
//! let prompt = Prompt { message: "What is here?".to_owned(), ..Prompt::default() };
//! let line = Command::Prompt(prompt).to_line(Some("1"));
//! assert_eq!(line, r#"{"id":"1","type":"prompt","message":"What is here?"}"#);
//!
//! # let line = r#"{"type":"agent_start"}"#;
//! match serde_json::from_str(line)? {
//!     Record::Response(response) if response.answers("1") => {}
//!     Record::MessageUpdate { assistant_message_event, .. } => {
//!         if let Step::TextDelta { delta, .. } = assistant_message_event.step {
//!             // Show more text.
//!             # drop(delta);
//!         }
//!     }
//!     Record::AgentSettled { .. } => {} // Done.
//!     _ => {}
//! }
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! The server parses a [`Request`] from each line and writes with a [`RecordWriter`]. Three levels
//! write one stream of events in three ways. All differences between their records are in this
//! crate.

mod request;
mod command;
mod fields;
mod json;
mod record;
mod reply;
pub mod data;
mod message;
mod compaction;
mod host_tools;
mod mcp;
mod queue;
mod replay;
mod sessions;
mod inspection;
pub mod schema;
mod writer;
mod snapshot;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use command::{
    AutoSetting, Bash, COMMANDS, Command, Compact, EntryId, ExportHtml, GetEntries, GetEvents,
    GetRecord, Hello, ListRange, MIN_FRAME_BYTES, NewSession, PageFields, SetActiveTools,
    SetApprovals, SetInterruptMode, SetLabel, SetModel, SetQueueMode, SetSessionName, SetSetting,
    SetThinkingLevel, SetTodos, SwitchSession,
};
pub use compaction::{CompactionAction, CompactionResult, SummarySource};
pub use fields::{
    ExtensionUiResponse, Image, ListSessions, Prompt, TextAndImages, UiAnswer, WhenBusy,
};
pub use host_tools::{HostTool, HostToolResult, HostToolUpdate, SetHostTools};
pub use inspection::{
    ActiveToolsData, ApprovalsData, Capabilities, DiagnosticsData, HelloData, LimitsData,
    LineLimits, SequenceInfo, SettingData, SettingsData, ToolInfo, ToolSource, ToolsData,
};
pub use json::Json;
pub use mcp::{McpServerInfo, McpServersData, McpToolInfo, McpTransportKind, SetMcpServers};
pub use message::{
    AssistantMessage, Message, Messages, ToolCallBlock, ToolResultMessage, Usage, UsageCost, stored,
};
pub use queue::{
    QueueData, QueueName, QueuedMessage, QueuedMessageData, QueuedTarget, UpdateQueued,
};
pub use record::{EVENTS, MessageStep, OpenTodo, Record, Step};
pub use replay::{Cut, EventsData, RecordPiece, Stamp};
pub use reply::{ClientId, Disposition, DispositionData, Label, Reply, Response};
pub use request::{LINE_MAX_BYTES, Line, Refusal, RefusalKind, Request};
pub use sessions::{
    Attach, AttachMode, ClosedReason, DetachedReason, ErrorCode, InUseData, OpenSession,
    OpenSessionStatus, OpenSessionSummary, OpenSessionsData, OpenedData, ReplayData,
    SERVER_COMMANDS, ServerCommand, ServerRecord, ServerRequest, SessionOwner, SessionTarget,
};
pub use writer::{Detail, RecordWriter};

// Types of the agent in the fields of commands and records, for clients that depend on this crate
// alone.
pub use tiller_agent::approvals::ApprovalMode;
pub use tiller_agent::dialog::{ApprovalRequest, Dialog, DialogKind, Notice, UiRequest};
pub use tiller_agent::limits::{LimitName, Limits};
pub use tiller_agent::mcp::{
    Exposure, McpServerEntry, McpServerState, McpServerSummary, McpSource, ToolExposures,
};
pub use tiller_agent::message::{Arguments, Block};
pub use tiller_agent::model::{Model, ThinkingLevel};
pub use tiller_agent::modes::{InterruptMode, QueueMode};
pub use tiller_agent::prompt_result::{PromptReason, PromptStatus};
pub use tiller_agent::sandbox::{
    CanaryResult, NetworkAccess, ReadAccess, SandboxMechanisms, SandboxMode, SandboxReport,
    SandboxSummary, SignalAccess, WriteAccess,
};
pub use tiller_agent::todo::{DraftItem, DraftPhase, TodoStatus};
pub use tiller_agent::tool::ToolOutput;

/// The level of the records. All levels accept the same commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Records of pi 0.80.2: every update carries the whole message so far.
    #[default]
    Pi,
    /// Records of pi since 0.84: updates carry only what is new.
    #[serde(alias = "pi@1")]
    PiDelta,
    /// Records of xcsh, with a `ready` record before everything else.
    Xcsh,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Pi, Level::PiDelta, Level::Xcsh];

    /// The name on the wire and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Level::Pi => "pi",
            Level::PiDelta => "pi-delta",
            Level::Xcsh => "xcsh",
        }
    }

    /// The default stream of updates.
    pub fn stream(self) -> Stream {
        match self {
            Level::Pi | Level::Xcsh => Stream::Snapshots,
            Level::PiDelta => Stream::Deltas,
        }
    }

    /// The program name in file names that the client does not choose.
    pub fn file_prefix(self) -> &'static str {
        match self {
            Level::Pi | Level::PiDelta => "pi",
            Level::Xcsh => "xcsh",
        }
    }

    /// A session's name as the level's programs store it: xcsh's has no control characters and no
    /// double spaces.
    pub fn session_name(self, name: String) -> String {
        match self {
            Level::Pi | Level::PiDelta => name,
            Level::Xcsh => {
                let words = name.split(|c: char| c == ' ' || c.is_control());
                words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Whether a refusal carries the request's `id`. xcsh leaves it out where the command is
    /// unknown, and its clients expect that.
    fn labels(self, kind: RefusalKind) -> bool {
        match kind {
            RefusalKind::Parse | RefusalKind::Unknown => self != Level::Xcsh,
            RefusalKind::Refused => true,
        }
    }

    /// The error for a prompt while another one is running.
    pub fn busy(self) -> &'static str {
        match self {
            Level::Pi | Level::PiDelta => {
                "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') \
                 to queue the message."
            }
            Level::Xcsh => {
                "Agent is already processing. Use steer() or followUp() to queue messages, or \
                 wait for completion."
            }
        }
    }
}

/// What a `tool_execution_update` carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolUpdates {
    /// The output so far.
    #[default]
    Snapshots,
    /// What was added to it, if it has only grown.
    Deltas,
}

/// What a `message_update` carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The update and, twice, the message after it.
    Snapshots,
    /// The update alone.
    Deltas,
}
