//! The MCP servers of a session: which there are, when they are started, and which of their tools
//! the model is offered.
//!
//! Servers of files are started with the first request to a model, those that a client sets at once.
//! The first request waits for servers whose tools have to be in it, for a limited time; a search
//! waits for all. Without servers nothing is started, waited for or written.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tiller_agent::event::Event;
use tiller_agent::mcp::{
    Exposure, McpServer, McpServerState, McpServerSummary, McpSource, McpTransport, same_name,
};
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, Tool, ToolEffect, ToolOutput, ToolResult};
use tiller_config::mcp::{ConfiguredServer, resolve};
use tiller_config::project::Resources;
use tiller_config::tool_filter::ToolRules;
use tiller_mcp::{Environment, McpTool, Pool, SEARCH_TOOL, Searchable, Status, Step, search};
use tiller_protocol::{McpServerInfo, McpToolInfo, McpTransportKind};

use crate::run_host::RunRequest;
use crate::server::Input;
use crate::state::SessionState;
use crate::tasks::{Responder, Tasks};
use crate::tools;

/// How long a request waits for servers.
const READY_MAX: Duration = Duration::from_secs(10);
/// How many tools a search finds unless the model asks for another number.
const FOUND: usize = 5;
const FOUND_MAX: usize = 20;

/// Why no server is started where tools run in a sandbox.
const OUTSIDE_THE_SANDBOX: &str = "MCP servers are not started while tools run in a sandbox, because they would run outside of it";

/// What the servers of a session have of the process.
#[derive(Clone, Default)]
pub struct McpOptions {
    /// A client cannot set servers either.
    pub is_off: bool,
    /// Tools run in a sandbox. Servers would run outside of it, so none is started.
    pub in_sandbox: bool,
    /// The environment of programs, and the variables that values may name.
    pub variables: Arc<HashMap<String, String>>,
    /// In tests: the clock of a paused runtime stands still while a server works.
    pub holds_clock: bool,
}

#[derive(Default)]
pub(crate) struct McpState {
    options: McpOptions,
    /// Those that a client has set.
    client_servers: Vec<McpServer>,
    running: Option<Running>,
    /// What `running` was made of.
    made_of: Option<MadeOf>,
    /// Whether the next request waits for the servers.
    next_request_waits: bool,
    /// The tools that a search has found.
    found: BTreeSet<String>,
    /// Changes with the tools and with what was found.
    version: u64,
    /// The last event.
    shown: Vec<McpServerSummary>,
}

struct Running {
    pool: Pool,
    cwd: PathBuf,
    /// Of each server, in the order of the pool.
    sources: Vec<McpSource>,
}

struct MadeOf {
    resources: Arc<Resources>,
    client_servers: Vec<McpServer>,
    cwd: PathBuf,
}

impl McpState {
    pub(crate) fn new(options: McpOptions) -> McpState {
        McpState { options, ..McpState::default() }
    }

    /// Whether a client has set servers.
    pub(crate) fn has_client_servers(&self) -> bool {
        !self.client_servers.is_empty()
    }

    /// Changes whenever [`McpState::offered`] does.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The names of all tools.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools().iter().map(|tool| tool.tool.name())
    }

    /// The tools that the model is offered next to `others` tools, those that a search has found
    /// among them; and the search, if there is something to find.
    pub(crate) fn offered(&self, rules: &ToolRules, others: usize, tasks: &Tasks) -> Vec<Tool> {
        let (mut offered, mut has_deferred) = (Vec::new(), false);
        for (tool, exposure) in self.exposed(rules, others) {
            let is_found = self.found.contains(tool.tool.name());
            match exposure {
                Exposure::Direct => offered.push(tool.tool.clone()),
                Exposure::Deferred if is_found => offered.push(tool.tool.clone()),
                Exposure::Deferred => has_deferred = true,
                Exposure::Hidden | Exposure::Codemode => {}
            }
        }
        if has_deferred && rules.allows_mcp(SEARCH_TOOL) {
            offered.push(self.search_tool(tasks));
        }
        offered
    }

    /// All tools that the command line allows, with the exposure in force.
    fn exposed(
        &self,
        rules: &ToolRules,
        others: usize,
    ) -> impl Iterator<Item = (&McpTool, Exposure)> {
        let allowed = |tool: &&McpTool| rules.allows_mcp(tool.tool.name());
        let at_once = |tool: &&McpTool| matches!(tool.exposure, None | Some(Exposure::Direct));
        let total = others + self.tools().iter().filter(allowed).filter(at_once).count();
        let tools = self.tools().iter().filter(move |tool| rules.allows_mcp(tool.tool.name()));
        tools.map(move |tool| (tool, tool.effective(total)))
    }

    fn tools(&self) -> &[McpTool] {
        self.running.as_ref().map_or(&[], |running| running.pool.tools())
    }

    /// Uses these servers. Those that stay the same keep running.
    fn set(&mut self, servers: Vec<ConfiguredServer>, cwd: PathBuf, environment: Environment) {
        // Programs work in the folder of the session.
        if self.running.as_ref().is_some_and(|running| running.cwd != cwd) {
            self.running = None;
            self.version += 1;
        }
        if servers.is_empty() && self.running.is_none() {
            return;
        }
        let running = self.running.get_or_insert_with(|| Running {
            pool: Pool::new(environment),
            cwd,
            sources: Vec::new(),
        });
        running.sources = servers.iter().map(|server| server.source).collect();
        running.pool.set(servers.into_iter().map(|server| server.server).collect());
        self.version += 1;
        self.next_request_waits = true;
    }

    /// What the client learns about each server when it changes.
    fn summaries(&self) -> Vec<McpServerSummary> {
        let Some(running) = &self.running else { return Vec::new() };
        let summary = |(server, status): (&McpServer, Status)| McpServerSummary {
            name: server.name.clone(),
            state: state_of(server, &status),
            tool_count: status.tools.len(),
            error: self.error_of(server, &status).map(str::to_owned),
        };
        running.pool.statuses().map(summary).collect()
    }

    /// Why a server does not work.
    fn error_of<'a>(&self, server: &McpServer, status: &'a Status) -> Option<&'a str> {
        match status.error() {
            None if self.options.in_sandbox && !server.is_enabled => Some(OUTSIDE_THE_SANDBOX),
            error => error,
        }
    }

    /// What describes a tool's server to a search.
    fn server_text(&self, name: &str) -> String {
        let running = self.running.iter();
        let server = running.flat_map(|running| running.pool.statuses());
        let server = server.map(|(server, _)| server).find(|server| server.name == name);
        let description = server.and_then(|server| server.description.as_deref());
        format!("{name} {}", description.unwrap_or_default())
    }

    fn search_tool(&self, tasks: &Tasks) -> Tool {
        let names: Vec<String> = self.summary_names();
        let spec = ToolSpec {
            name: SEARCH_TOOL.to_owned(),
            description: format!(
                "Finds tools that are not listed yet, and makes them callable from your next \
                 message on. They belong to these MCP servers: {}.",
                names.join(", ")
            ),
            parameters: json!({
                "type": "object",
                "required": ["query"],
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "Words that describe what the tool should do, or its name",
                    },
                    "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX,
                        "description": format!("How many tools to find, by default {FOUND}")},
                },
            }),
        };
        let tasks = tasks.clone();
        // It changes nothing but which tools are offered.
        Tool::new(spec, move |arguments, _| find(tasks.clone(), arguments))
            .effect(ToolEffect::Reads)
    }

    fn summary_names(&self) -> Vec<String> {
        let servers = self.running.iter().flat_map(|running| running.pool.statuses());
        let text = |(server, _): (&McpServer, Status)| match &server.description {
            Some(description) => format!("{} ({description})", server.name),
            None => server.name.clone(),
        };
        servers.filter(|(server, _)| server.is_enabled).map(text).collect()
    }

    /// The servers of the session end. The future resolves when they have ended, or when the time is
    /// over.
    pub(crate) fn stop(&mut self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let stopping = self.running.take().map(|running| running.pool.stop());
        async move {
            if let Some(stopping) = stopping {
                // What is left then is killed when the process exits.
                tokio::time::timeout(limit, stopping).await.ok();
            }
        }
    }
}

fn state_of(server: &McpServer, status: &Status) -> McpServerState {
    match status.step {
        Step::Idle if !server.is_enabled => McpServerState::Disabled,
        Step::Idle => McpServerState::Idle,
        Step::Starting => McpServerState::Starting,
        Step::Ready => McpServerState::Ready,
        Step::Restarting { .. } => McpServerState::Restarting,
        Step::Failed { .. } => McpServerState::Failed,
    }
}

/// Those of files and those of the client, which count more.
fn merged(files: &[ConfiguredServer], client: &[McpServer]) -> Vec<ConfiguredServer> {
    let is_replaced = |file: &&ConfiguredServer| {
        client.iter().any(|server| same_name(&server.name, &file.server.name))
    };
    let kept = files.iter().filter(|file| !is_replaced(file)).cloned();
    let set = client.iter().cloned();
    let set = set.map(|server| ConfiguredServer { server, source: McpSource::Client });
    kept.chain(set).collect()
}

/// Uses the servers that files and the client configure now. Starts none.
fn update_servers(state: &mut SessionState) {
    let resources = state.project.resources();
    let cwd = state.workspace.cwd();
    let is_same = state.mcp.made_of.as_ref().is_some_and(|made| {
        Arc::ptr_eq(&made.resources, &resources)
            && made.client_servers == state.mcp.client_servers
            && made.cwd == *cwd
    });
    if is_same {
        return;
    }
    let cwd = cwd.to_owned();
    let mut servers = merged(&resources.mcp, &state.mcp.client_servers);
    if state.mcp.options.in_sandbox {
        servers.iter_mut().for_each(|server| server.server.is_enabled = false);
    }
    let client_servers = state.mcp.client_servers.clone();
    state.mcp.made_of = Some(MadeOf { resources, client_servers, cwd: cwd.clone() });
    if servers.is_empty() && state.mcp.running.is_none() {
        return;
    }
    let environment = environment(state, cwd.clone());
    state.mcp.set(servers, cwd, environment);
    servers_changed(state);
}

fn environment(state: &SessionState, cwd: PathBuf) -> Environment {
    let McpOptions { variables, holds_clock, .. } = state.mcp.options.clone();
    let own = state.workspace.env();
    let inherited = variables.iter().filter(|(name, _)| !own.iter().any(|(own, _)| own == *name));
    let inherited = inherited.map(|(name, value)| (name.clone(), value.clone()));
    let tasks = state.tasks.clone();
    Environment {
        cwd,
        variables: inherited.chain(own.iter().cloned()).collect(),
        resolve: Arc::new(move |server| {
            let variables = variables.clone();
            async move { resolve(server, &variables).await }.boxed()
        }),
        on_change: Arc::new(move || tasks.send_soon(Input::McpServersChanged)),
        holds_clock,
    }
}

/// Takes in what servers have become, and emits an event if that is new.
pub(crate) fn servers_changed(state: &mut SessionState) {
    if let Some(running) = &mut state.mcp.running
        && running.pool.refresh()
    {
        state.mcp.version += 1;
    }
    let summaries = state.mcp.summaries();
    use McpServerState as State;
    let has_news = |now: &McpServerSummary| {
        let before = state.mcp.shown.iter().find(|before| before.name == now.name);
        // A server that was not started, or has neither failed nor succeeded yet, is no news.
        let is_news = !matches!(now.state, State::Disabled | State::Idle | State::Starting);
        is_news && before != Some(now)
    };
    let is_gone = |before: &McpServerSummary| !summaries.iter().any(|now| now.name == before.name);
    if summaries.iter().any(has_news) || state.mcp.shown.iter().any(is_gone) {
        state.mcp.shown.clone_from(&summaries);
        state.emit(Event::McpServersChange { servers: summaries });
    }
}

/// Starts the servers that the next request needs. Returns the request if it has to wait for them:
/// it comes back when they are ready.
pub(crate) fn hold_back(
    state: &mut SessionState,
    responder: Responder<tiller_agent::driver::RequestSetup>,
) -> Option<Responder<tiller_agent::driver::RequestSetup>> {
    update_servers(state);
    let Some(running) = &mut state.mcp.running else { return Some(responder) };
    running.pool.start();
    let waits = std::mem::take(&mut state.mcp.next_request_waits);
    let mut ready = running.pool.ready().boxed();
    if !waits || (&mut ready).now_or_never().is_some() {
        servers_changed(state);
        return Some(responder);
    }
    let cancel = state.work.run_token();
    state.tasks.spawn(async move {
        let ready = tokio::time::timeout(READY_MAX, ready);
        // Whatever became of them, the request goes on.
        cancel.run_until_cancelled(ready).await;
        Input::RunRequest(RunRequest::Setup(responder))
    });
    None
}

/// A search of the model in deferred tools.
pub struct McpSearch {
    query: String,
    limit: usize,
    /// Whether it has waited for the servers.
    has_waited: bool,
    answer: Responder<ToolResult>,
}

/// The tool: sends the search to the server.
async fn find(tasks: Tasks, arguments: Arguments) -> ToolResult {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(FOUND as u64);
    let limit = (limit as usize).clamp(1, FOUND_MAX);
    let (answer, result) = Responder::channel();
    let search = McpSearch { query, limit, has_waited: false, answer };
    tasks.send(Input::McpSearch(Box::new(search))).await;
    match result.await {
        Ok(result) => result,
        Err(_) => Err(Failure::new("the session has ended")),
    }
}

/// Answers a search. What it finds is offered from the next request on.
pub(crate) fn answer_search(state: &mut SessionState, mut search: Box<McpSearch>) {
    if let Some(running) = &state.mcp.running
        && !std::mem::replace(&mut search.has_waited, true)
    {
        let ready = running.pool.all_ready();
        state.tasks.spawn(async move {
            tokio::time::timeout(READY_MAX, ready).await.ok();
            Input::McpSearch(search)
        });
        return;
    }
    servers_changed(state);
    let others = tools::count_without_mcp(state);
    let found = found_tools(&state.mcp, state.tools.rules(), others, &search);
    let text = if found.is_empty() {
        "No tool matches. Try other words, or the name of a server.".to_owned()
    } else {
        let lines: Vec<String> =
            found.iter().map(|spec| format!("- {}: {}", spec.name, spec.description)).collect();
        format!("You can call these tools from now on:\n{}", lines.join("\n"))
    };
    let before = state.mcp.found.len();
    state.mcp.found.extend(found.into_iter().map(|spec| spec.name.clone()));
    if state.mcp.found.len() != before {
        state.mcp.version += 1;
    }
    search.answer.respond(Ok(ToolOutput::text(text)));
}

fn found_tools(
    mcp: &McpState,
    rules: &ToolRules,
    others: usize,
    wanted: &McpSearch,
) -> Vec<Arc<ToolSpec>> {
    let deferred = mcp.exposed(rules, others);
    let deferred = deferred.filter(|(_, exposure)| *exposure == Exposure::Deferred);
    let tools: Vec<(&McpTool, String)> =
        deferred.map(|(tool, _)| (tool, mcp.server_text(&tool.server))).collect();
    let searchable: Vec<Searchable<'_>> = tools
        .iter()
        .map(|(tool, server)| Searchable {
            name: tool.tool.name(),
            description: &tool.tool.spec.description,
            server,
        })
        .collect();
    let places = search(&wanted.query, &searchable, wanted.limit);
    places.into_iter().map(|place| tools[place].0.tool.spec.clone()).collect()
}

/// Replaces the servers of the client, and starts all.
pub(crate) fn set_client_servers(
    state: &mut SessionState,
    servers: Vec<McpServer>,
) -> Result<(), String> {
    if state.mcp.options.is_off {
        return Err("MCP is switched off by --no-mcp".to_owned());
    }
    if state.mcp.options.in_sandbox && !servers.is_empty() {
        return Err(OUTSIDE_THE_SANDBOX.to_owned());
    }
    state.mcp.client_servers = servers;
    update_servers(state);
    if let Some(running) = &mut state.mcp.running {
        running.pool.start();
    }
    Ok(())
}

/// The tools of servers that the model can reach, and whether it is offered them now.
pub(crate) fn listed_tools(state: &SessionState) -> Vec<(Tool, bool)> {
    let others = tools::count_without_mcp(state);
    let (mcp, rules) = (&state.mcp, state.tools.rules());
    let offered = mcp.offered(rules, others, &state.tasks);
    let is_offered = |name: &str| offered.iter().any(|tool| tool.name() == name);
    let reachable = mcp.exposed(rules, others);
    let reachable = reachable.filter(|(_, exposure)| *exposure != Exposure::Hidden);
    let search = offered.iter().filter(|tool| tool.name() == SEARCH_TOOL).cloned();
    let tools = reachable.map(|(tool, _)| (tool.tool.clone(), is_offered(tool.tool.name())));
    search.map(|tool| (tool, true)).chain(tools).collect()
}

/// All servers as a client sees them.
pub(crate) fn server_infos(state: &mut SessionState) -> Vec<McpServerInfo<'static>> {
    update_servers(state);
    let others = tools::count_without_mcp(state);
    let mcp = &state.mcp;
    let exposures: HashMap<&str, Exposure> = mcp
        .exposed(state.tools.rules(), others)
        .map(|(tool, exposure)| (tool.tool.name(), exposure))
        .collect();
    let Some(running) = &mcp.running else { return Vec::new() };
    let info = |((server, status), source): ((&McpServer, Status), &McpSource)| {
        let own = mcp.tools().iter().filter(|tool| tool.server == server.name);
        let tools = own.map(|tool| McpToolInfo {
            name: tool.tool.name().to_owned().into(),
            tool: tool.name.clone().into(),
            description: tool.tool.spec.description.clone().into(),
            // Those that the command line excludes.
            exposure: exposures.get(tool.tool.name()).copied().unwrap_or(Exposure::Hidden),
        });
        McpServerInfo {
            name: server.name.clone().into(),
            source: *source,
            transport: match server.transport {
                McpTransport::Stdio { .. } => McpTransportKind::Stdio,
                McpTransport::Http { .. } => McpTransportKind::Http,
            },
            state: state_of(server, &status),
            version: status.version.as_deref().map(|version| version.to_owned().into()),
            protocol_version: status
                .protocol_version
                .as_deref()
                .map(|version| version.to_owned().into()),
            error: mcp.error_of(server, &status).map(|error| error.to_owned().into()),
            problems: status.problems.to_vec(),
            tools: tools.collect(),
        }
    };
    running.pool.statuses().zip(&running.sources).map(info).collect()
}
