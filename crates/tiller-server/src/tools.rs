//! The tools: tiller's and those of extensions, as far as the command line allows them; the todo
//! list; and the tools that the client runs.

use std::collections::HashSet;
use std::sync::Arc;

use tiller_agent::tool::{Tool, ToolSet};
use tiller_config::settings::Settings;
use tiller_config::tool_filter::ToolRules;
use tiller_js::{Extensions, RegisteredTool};

use crate::host_tools::HostTools;
use crate::mcp::McpState;
use crate::state::SessionState;
use crate::tasks::Tasks;
use crate::{todo_tool, todos};

/// The tools that a session starts with.
#[derive(Default)]
pub struct ToolConfig {
    /// The active tools.
    pub active: Vec<Tool>,
    /// Whether the model gets `todo_write`; if unset, the wire level decides.
    pub todo_tool: Option<bool>,
    /// Which tools may be active at all.
    pub rules: ToolRules,
}

impl ToolConfig {
    /// The default tools, without `todo_write`.
    pub fn defaults(settings: &Settings) -> ToolConfig {
        let is_default = |tool: &Tool| tiller_tools::DEFAULT.contains(&tool.name());
        let defaults = tiller_tools::builtin().into_iter().filter(is_default);
        let active = defaults.map(|tool| with_settings(tool, settings)).collect();
        ToolConfig { active, todo_tool: Some(false), rules: ToolRules::default() }
    }
}

pub(crate) struct Tools {
    /// The active tools of tiller and of extensions.
    active: Arc<ToolSet>,
    todo_tool: Option<bool>,
    rules: ToolRules,
    selection: ToolSelection,
    host: HostTools,
    /// The last set, and what it was made of.
    offered: OfferedSet,
}

/// The same tools give the same set, so that what is derived from it is not computed again.
#[derive(Default)]
struct OfferedSet {
    active: Option<Arc<ToolSet>>,
    has_todos: bool,
    host_version: u64,
    mcp_version: u64,
    tools: Arc<ToolSet>,
}

/// What the client and extensions have changed about the tools.
#[derive(Default)]
struct ToolSelection {
    /// The tools that are active unless others are selected.
    default: Vec<String>,
    /// The active tools, if the client or an extension has selected them.
    selected: Option<Vec<String>>,
    /// Tool names that extensions have registered so far. A new one is active at once.
    known: HashSet<String>,
}

/// A tool and its source.
pub(super) enum AvailableTool {
    Builtin(Tool),
    Registered(RegisteredTool),
}

impl AvailableTool {
    fn into_tool(self) -> Tool {
        match self {
            AvailableTool::Builtin(tool) => tool,
            AvailableTool::Registered(registered) => registered.tool,
        }
    }
}

impl Tools {
    pub(crate) fn new(config: ToolConfig) -> Tools {
        let ToolConfig { active, todo_tool, rules } = config;
        let default = active.iter().map(|tool| tool.name().to_owned()).collect();
        Tools {
            active: Arc::new(ToolSet::new(active)),
            todo_tool,
            rules,
            selection: ToolSelection { default, ..ToolSelection::default() },
            host: HostTools::default(),
            offered: OfferedSet::default(),
        }
    }

    /// The active tools of tiller and of extensions.
    pub(crate) fn active(&self) -> &ToolSet {
        &self.active
    }

    /// Whether the command line says that the model gets `todo_write`.
    pub(super) fn todo_tool(&self) -> Option<bool> {
        self.todo_tool
    }

    /// Whether a client has registered or selected tools.
    pub(super) fn has_client_changes(&self) -> bool {
        !self.host.tools().is_empty() || self.selection.selected.is_some()
    }

    pub(super) fn host(&self) -> &HostTools {
        &self.host
    }

    pub(super) fn host_mut(&mut self) -> &mut HostTools {
        &mut self.host
    }

    /// What the command line allows.
    pub(super) fn rules(&self) -> &ToolRules {
        &self.rules
    }

    /// The tools for the next request.
    pub(super) fn offered(
        &mut self,
        has_todos: bool,
        mcp: &McpState,
        tasks: &Tasks,
    ) -> Arc<ToolSet> {
        let active = &self.active;
        let host = &self.host;
        let before = &self.offered;
        let is_same = before.active.as_ref().is_some_and(|before| Arc::ptr_eq(before, active))
            && (before.has_todos, before.host_version) == (has_todos, host.version())
            && before.mcp_version == mcp.version();
        if !is_same {
            let of_servers = mcp.offered(&self.rules, self.count(), tasks);
            let tools = if has_todos || !host.tools().is_empty() || !of_servers.is_empty() {
                let todos = has_todos.then(|| todo_tool::tool(tasks));
                let all = active.iter().cloned().chain(todos).chain(host.tools().iter().cloned());
                let mut all: Vec<Tool> = all.collect();
                let is_free = |tool: &Tool| all.iter().all(|other| other.name() != tool.name());
                let of_servers: Vec<Tool> = of_servers.into_iter().filter(is_free).collect();
                all.extend(of_servers);
                Arc::new(ToolSet::new(all))
            } else {
                active.clone()
            };
            let active = Some(active.clone());
            let host_version = host.version();
            let mcp_version = mcp.version();
            self.offered = OfferedSet { active, has_todos, host_version, mcp_version, tools };
        }
        self.offered.tools.clone()
    }

    /// How many tools are active, apart from those of MCP servers.
    fn count(&self) -> usize {
        self.active.iter().count() + self.host.tools().len()
    }

    /// The names that tools of the client cannot have.
    pub(crate) fn reserved_names(&self) -> HashSet<String> {
        let builtin = tiller_tools::builtin();
        let names = builtin.iter().chain(self.active.iter()).map(|tool| tool.name().to_owned());
        names.chain([todo_tool::NAME.to_owned()]).collect()
    }

    /// Applies settings to the active tools.
    pub(super) fn apply_settings(&mut self, settings: &Settings) {
        let tools = self.active.iter().map(|tool| with_settings(tool.clone(), settings)).collect();
        self.active = Arc::new(ToolSet::new(tools));
    }

    /// Selects the active tools. Unknown names are ignored.
    pub(super) fn select(&mut self, names: Vec<String>) {
        self.selection.selected = Some(names);
    }

    /// Forgets the selection of a session that was left.
    pub(super) fn forget_selection(&mut self) {
        self.selection.selected = None;
        self.selection.known.clear();
    }

    fn has_selection(&self) -> bool {
        self.selection.selected.is_some()
    }

    /// Activates the tools by the selection, with those that extensions have registered by now.
    pub(super) fn update(&mut self, host: Option<&Extensions>, settings: &Settings) {
        let registered = self.registered(host);
        let selection = &mut self.selection;
        for RegisteredTool { tool, .. } in &registered {
            let is_new = selection.known.insert(tool.name().to_owned());
            if let Some(selected) = selection.selected.as_mut().filter(|_| is_new) {
                selected.push(tool.name().to_owned());
            }
        }
        let selection = &self.selection;
        let is_active = |name: &str| match &selection.selected {
            Some(selected) => selected.iter().any(|one| one == name),
            None => {
                selection.default.iter().any(|one| one == name) || selection.known.contains(name)
            }
        };
        let all = self.merge(registered, settings).into_iter().map(AvailableTool::into_tool);
        let mut tools: Vec<Tool> = all.filter(|tool| is_active(tool.name())).collect();
        self.rules.sort(&mut tools, Tool::name);
        self.active = Arc::new(ToolSet::new(tools));
    }

    /// All tools, active or not, with their sources.
    pub(super) fn available(
        &self,
        host: Option<&Extensions>,
        settings: &Settings,
    ) -> Vec<AvailableTool> {
        self.merge(self.registered(host), settings)
    }

    /// The built-in tools in their order, each replaced in place by an extension's tool of the
    /// same name, then the other tools of extensions.
    fn merge(
        &self,
        mut registered: Vec<RegisteredTool>,
        settings: &Settings,
    ) -> Vec<AvailableTool> {
        let mut tools = Vec::new();
        for builtin in tiller_tools::builtin() {
            match registered.iter().position(|other| other.tool.name() == builtin.name()) {
                Some(at) => tools.push(AvailableTool::Registered(registered.remove(at))),
                None if self.rules.allows_builtin(builtin.name()) => {
                    tools.push(AvailableTool::Builtin(with_settings(builtin, settings)));
                }
                None => {}
            }
        }
        tools.extend(registered.into_iter().map(AvailableTool::Registered));
        tools
    }

    /// The tools of extensions that the command line allows.
    fn registered(&self, host: Option<&Extensions>) -> Vec<RegisteredTool> {
        let mut tools = host.map(|host| host.registrations().tools).unwrap_or_default();
        tools.retain(|registered| self.rules.allows(registered.tool.name()));
        tools
    }

    /// The names of the command line that match no tool, once all extensions are loaded.
    pub(super) fn take_unknown_names(&mut self, host: Option<&Extensions>) -> Vec<String> {
        let registered = self.registered(host);
        let mut unknown = std::mem::take(&mut self.rules.unknown);
        unknown.retain(|name| !registered.iter().any(|other| other.tool.name() == name));
        unknown
    }
}

/// A tool with the user's settings applied.
pub fn with_settings(tool: Tool, settings: &Settings) -> Tool {
    match tool.name() {
        "bash" => tiller_tools::bash::with(settings.shell()),
        "read" => tiller_tools::read::with(settings.resize()),
        _ => tool,
    }
}

/// Activates these tools only.
pub(super) fn select(state: &mut SessionState, names: Vec<String>) {
    state.tools.select(names);
    update(state);
}

/// Tools of extensions, the selection or the settings have changed.
pub(super) fn update(state: &mut SessionState) {
    let host = state.extensions.host();
    if host.is_some() || state.tools.has_selection() {
        state.tools.update(host, state.project.settings());
    }
}

/// The tools for the next request.
pub(super) fn offered(state: &mut SessionState) -> Arc<ToolSet> {
    let has_todos = todos::offers_todos(state);
    state.tools.offered(has_todos, &state.mcp, &state.tasks)
}

/// How many tools there are apart from those of MCP servers.
pub(super) fn count_without_mcp(state: &SessionState) -> usize {
    state.tools.count()
}

/// All tools of tiller and of extensions, active or not.
pub(super) fn all(state: &SessionState) -> impl Iterator<Item = Tool> + use<> {
    let available = state.tools.available(state.extensions.host(), state.project.settings());
    available.into_iter().map(AvailableTool::into_tool)
}

/// Reports names of the command line that match no tool.
pub(super) fn report_unknown_names(state: &mut SessionState) {
    let unknown = state.tools.take_unknown_names(state.extensions.host());
    let problems = unknown.into_iter().map(|name| format!("there is no tool called `{name}`"));
    state.project.add_diagnostics(problems);
}
