//! What a session and its connection start with. The caller decides all of it; nothing here reads the
//! command line or the environment.

use std::sync::Arc;

use tiller_agent::limits::Limits;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_config::models::Models;
use tiller_config::project::Project;
use tiller_config::settings::Settings;
use tiller_config::startup_model::ModelArgs;
use tiller_protocol::Level;
use tiller_session::SessionId;

use crate::clock::Clock;
use crate::conversation::Conversation;
use crate::extensions::ExtensionPlan;
use crate::mcp::McpOptions;
use crate::server::OnEof;
use crate::session_store::SessionStore;
use crate::tools::ToolConfig;
use crate::workspace::Workspace;

/// Everything a server starts with.
pub struct ServerConfig {
    /// The wire level of the client.
    pub level: Level,
    /// What happens to accepted work when the client closes its input.
    pub on_eof: OnEof,
    /// The settings of the user and the project.
    pub settings: Settings,
    /// The model registry, with keys.
    pub models: Models,
    /// The current model; the client can select one later.
    pub model: Option<Arc<Model>>,
    /// The model flags of the command line.
    pub choice: ModelArgs,
    /// The thinking level of the first run.
    pub thinking: ThinkingLevel,
    /// The working directory and the environment of tools.
    pub workspace: Workspace,
    /// The tools that the model may call.
    pub tools: ToolConfig,
    /// What MCP servers have of the process.
    pub mcp: McpOptions,
    /// What a prompt and the processes of tools may use, until the client sets other limits.
    pub limits: Limits,
    /// Whether a client can answer questions about tool calls. If not, such calls are denied.
    pub asks_client: bool,
    /// Skills, templates, rules and trust of the working directory.
    pub project: Project,
    /// The extensions to load.
    pub extension_plan: ExtensionPlan,
    /// Whether extensions may set the client's window title.
    pub shows_titles: bool,
    /// The session that the server starts with.
    pub conversation: Conversation,
    /// Where further sessions are stored.
    pub store: SessionStore,
    /// The time of messages and entries.
    pub clock: Clock,
    /// Problems found on the way. Not fatal, but shown to the user.
    pub diagnostics: Vec<String>,
}

impl ServerConfig {
    /// A session of this project in memory, at level `pi-delta`: with the default tools and without
    /// extensions. Every field can be changed before the start.
    pub fn new(project: Project, models: Models, model: Arc<Model>) -> ServerConfig {
        let settings = project.settings();
        let clock = Clock::System;
        let cwd = project.cwd().to_owned();
        let store = SessionStore::memory();
        let session = store.begin(SessionId::fresh(), &cwd, None, clock.now());
        ServerConfig {
            level: Level::PiDelta,
            on_eof: OnEof::Abort,
            choice: ModelArgs::named(&format!("{}/{}", model.provider, model.id)),
            thinking: settings.default_thinking_level,
            workspace: Workspace::new(cwd, Arc::new([]), &settings),
            tools: ToolConfig::defaults(&settings),
            mcp: McpOptions::default(),
            limits: Limits::default(),
            asks_client: true,
            models,
            model: Some(model),
            project,
            extension_plan: ExtensionPlan::default(),
            shows_titles: false,
            conversation: Conversation::new(session, settings.session.durability),
            store,
            clock,
            diagnostics: Vec::new(),
            settings,
        }
    }
}
