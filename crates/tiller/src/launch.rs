//! Start-up: turns flags, files and environment into a [`ServerConfig`], before the first line is
//! read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::tool::Tool;
use tiller_config::config_files::ConfigFiles;
use tiller_config::credentials::Credentials;
use tiller_config::mcp::ConfiguredServer;
use tiller_config::models::{ModelTable, Models};
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_config::settings::{Scope, Settings};
use tiller_config::startup_model::ModelArgs;
use tiller_config::tool_filter::ToolRules;
use tiller_demo::demo::Demo;
use tiller_demo::script::{Script, ScriptProvider};
use tiller_export::Export;
use tiller_js::EngineClock;
use tiller_llm::CacheRetention;
use tiller_protocol::Level;
use tiller_server::clock::Clock;
use tiller_server::conversation::Conversation;
use tiller_server::extensions::find::{Discovery, Problem, find, missing_path};
use tiller_server::extensions::{ExtensionEnv, ExtensionPlan, flags, offline_load};
use tiller_server::session_store::SessionStore;
use tiller_server::{
    McpOptions, ServerConfig, SessionInUse, TODO_TOOL, ToolConfig, Workspace, with_settings,
};
use tiller_session::{FileStore, Files, Owner, time};

use crate::args::{Args, RunMode};
use crate::log::{Log, LogRecord};
use crate::startup_session::StartupSession;
use crate::stores::{self, Databases, STORE_VARIABLE, StoreChoice, StoreSources};
use crate::usage::StartError;

/// The environment of the process.
#[derive(Clone)]
pub struct ProcessEnv {
    pub cwd: PathBuf,
    pub variables: Arc<HashMap<String, String>>,
    /// Those of the agent folder.
    files: Arc<OnceLock<ConfigFiles>>,
    /// Where clients reach the process, if it serves many sessions.
    server_address: Arc<OnceLock<String>>,
    /// `--store`.
    store_flag: Option<String>,
    /// Those in which sessions are stored.
    databases: Databases,
}

impl ProcessEnv {
    pub fn of_process() -> Result<ProcessEnv, String> {
        let cwd = std::env::current_dir()
            .map_err(|err| format!("cannot determine the working directory: {err}"))?;
        // Variables that are not Unicode are skipped: tiller uses none of them.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = Arc::new(std::env::vars_os().filter_map(text).collect());
        let (files, server_address, databases) = Default::default();
        let store_flag = None;
        Ok(ProcessEnv { cwd, variables, files, server_address, store_flag, databases })
    }

    /// The same with the `--store` of a command line, if it has one.
    pub fn with_store(self, flag: Option<&str>) -> ProcessEnv {
        match flag {
            Some(flag) => ProcessEnv { store_flag: Some(flag.to_owned()), ..self },
            None => self,
        }
    }

    /// The databases in which sessions are stored.
    pub fn databases(&self) -> &Databases {
        &self.databases
    }

    /// The process listens at this address. Only the first one counts.
    pub(crate) fn serves_at(&self, address: String) {
        self.server_address.get_or_init(|| address);
    }

    /// The same for another working directory.
    pub(crate) fn in_folder(self, cwd: PathBuf) -> ProcessEnv {
        ProcessEnv { cwd, ..self }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The folder of settings, keys and sessions.
    pub(crate) fn agent_dir(&self) -> PathBuf {
        let home = || self.variable("HOME").map(PathBuf::from).unwrap_or_default();
        match self.variable("PI_CODING_AGENT_DIR") {
            Some(dir) => match dir.strip_prefix("~/") {
                Some(inside) => home().join(inside),
                None => PathBuf::from(dir),
            },
            None => home().join(".pi/agent"),
        }
    }
}

impl ProcessEnv {
    /// The user's and the project's settings, without flags.
    pub(crate) fn settings(&self) -> Settings {
        Project::find(self.dirs(), ResourceFlags::default()).settings()
    }

    /// The MCP servers of the files, and all problems in files.
    pub(crate) fn mcp_servers(&self, flags: ResourceFlags) -> (Vec<ConfiguredServer>, Vec<String>) {
        let project = Project::find(self.dirs(), flags);
        let resources = project.resources();
        let mut problems = project.problems().to_vec();
        problems.extend(resources.problems.into_iter().filter(|problem| problem.contains("mcp")));
        (resources.mcp, problems)
    }

    /// The environment of programs that are started outside of a session.
    pub(crate) fn child_variables(&self) -> Arc<[(String, String)]> {
        let settings = self.settings();
        // They are reported where models are used.
        let mut ignored = Vec::new();
        let models = self.models(&settings, &mut ignored);
        let own = child_env(None, self, models.credentials(), &settings);
        let inherited = self.variables.iter();
        let inherited = inherited.filter(|(name, _)| !own.iter().any(|(own, _)| own == *name));
        let inherited = inherited.map(|(name, value)| (name.clone(), value.clone()));
        inherited.chain(own.iter().cloned()).collect()
    }

    pub(crate) fn dirs(&self) -> Dirs {
        let home = self.variable("HOME").map(PathBuf::from);
        Dirs { cwd: self.cwd.clone(), agent_dir: self.agent_dir(), home }
    }

    /// Settings and trust of the project in the working directory.
    fn project(&self, args: &Args) -> Project {
        Project::find(self.dirs(), args.resource_flags(args.level(&self.variables)))
    }

    /// The model registry, with all configured keys.
    pub(crate) fn models(&self, settings: &Settings, diagnostics: &mut Vec<String>) -> Models {
        let files = self.files.get_or_init(|| ConfigFiles::in_folder(&self.agent_dir()));
        let credentials = Credentials::load(files, self.variables.clone(), diagnostics);
        let cache = match self.variable("PI_CACHE_RETENTION") {
            Some("long") => CacheRetention::Long,
            _ => CacheRetention::Short,
        };
        let mut models = Models::new(credentials, settings, cache);
        models.load(files, diagnostics);
        models
    }

    /// The log that the command line or the environment asks for. If it cannot be written, tiller
    /// starts without it.
    fn log(&self, args: &Args, keys: &Credentials, diagnostics: &mut Vec<String>) -> Log {
        let from_env = || self.variable("TILLER_LOG").map(PathBuf::from);
        let Some(path) = args.log_file.clone().or_else(from_env) else { return Log::default() };
        Log::open(&self.cwd.join(path), keys.secrets()).unwrap_or_else(|why| {
            diagnostics.push(why);
            Log::default()
        })
    }

    /// The session store: in a database or a folder that the command line, the environment or the
    /// settings choose, else in the agent folder.
    pub(crate) fn session_store(
        &self,
        chosen: Option<PathBuf>,
        settings: &Settings,
        clock: Clock,
    ) -> Result<SessionStore, String> {
        match self.store_choice(chosen.is_some(), settings)? {
            StoreChoice::Database(url) => self.databases.store(&url, self.owner(clock)),
            StoreChoice::Files => {
                let from_env = || self.variable("PI_CODING_AGENT_SESSION_DIR").map(PathBuf::from);
                let chosen = chosen.or_else(from_env).map(|dir| self.cwd.join(dir));
                let chosen = chosen.or_else(|| settings.session_dir.clone());
                let root = self.agent_dir().join("sessions");
                let (owner, files) = (self.owner(clock), Files::default());
                Ok(SessionStore::files(FileStore { root, chosen, owner, files }))
            }
        }
    }

    /// Where sessions are stored.
    pub(crate) fn store_choice(
        &self,
        has_session_dir: bool,
        settings: &Settings,
    ) -> Result<StoreChoice, String> {
        stores::choose(StoreSources {
            flag: self.store_flag.as_deref(),
            variable: self.variable(STORE_VARIABLE),
            setting: settings.store.as_deref(),
            has_session_dir,
        })
    }

    /// This process as the owner of sessions.
    pub(crate) fn owner(&self, clock: Clock) -> Owner {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Owner {
            program: concat!("tiller ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            host: host.trim().to_owned(),
            started: time::iso(clock.now()),
            address: self.server_address.get().cloned(),
        }
    }
}

/// The output of `--list-models`, and diagnostics.
pub fn list_models(
    args: &Args,
    env: &ProcessEnv,
    search: &str,
) -> Result<(ModelTable, Vec<String>), String> {
    let project = env.project(args);
    refuse_missing(&project, args)?;
    let mut diagnostics = project.problems().to_vec();
    let mut models = env.models(&project.settings(), &mut diagnostics);
    add_builtin(&mut models, args)?;
    let Discovery { found, problems } = find(&project, &args.extension_flags());
    let message = |it: Problem| format!("Failed to load extension \"{}\": {}", it.what, it.error);
    diagnostics.extend(problems.into_iter().map(message));
    if !found.is_empty() {
        let extensions: Vec<_> = found.into_iter().map(|found| found.extension).collect();
        let extension_env = ExtensionEnv { has_ui: false, ..extension_env(args, env, &project) };
        let cwd = env.cwd.clone();
        diagnostics.extend(offline_load::add_models(&mut models, &extensions, extension_env, cwd)?);
    }
    Ok((models.list(search), diagnostics))
}

/// The options of extensions for `--help`, and diagnostics. Loads nothing if there are no
/// extensions.
pub fn extension_help(args: &Args, env: &ProcessEnv) -> Result<(String, Vec<String>), String> {
    let project = env.project(args);
    let Discovery { found, .. } = find(&project, &args.extension_flags());
    if found.is_empty() {
        return Ok(Default::default());
    }
    let extensions: Vec<_> = found.into_iter().map(|found| found.extension).collect();
    let extension_env = ExtensionEnv { has_ui: false, ..extension_env(args, env, &project) };
    let (flags, problems) = offline_load::flags(&extensions, extension_env, env.cwd.clone())?;
    Ok((flags::help(&flags), problems))
}

/// `--export FILE [OUT]`. Returns the path of the page.
pub fn export(args: &Args, env: &ProcessEnv, paths: &[PathBuf]) -> Result<PathBuf, String> {
    let cwd = &env.cwd;
    let session = paths.first().ok_or("--export requires a session file")?;
    // Problems in the settings are not reported here.
    let mut diagnostics = Vec::new();
    let settings_path = env.agent_dir().join("settings.json");
    let settings = Settings::load(&settings_path, &mut diagnostics);
    let models = env.models(&settings, &mut diagnostics);
    let prefix = args.level(&env.variables).file_prefix();
    let store = env.session_store(args.session_dir.clone(), &settings, Clock::System)?;
    let source = store.export_source(store.store.location(session, cwd));
    let export = Export {
        to: Export::output_path(&source, paths.get(1).map(PathBuf::as_path), prefix, cwd),
        source,
        secrets: models.secrets(),
        windows: models.context_windows(),
        setting: None,
    };
    export.run()?;
    Ok(export.to)
}

/// Why tiller cannot start, and diagnostics found before.
#[derive(Debug)]
pub struct NotLaunched {
    pub why: StartError,
    /// Set if another process has the session open.
    pub in_use: Option<Box<SessionInUse>>,
    pub diagnostics: Vec<String>,
}

impl From<StartError> for NotLaunched {
    fn from(why: StartError) -> NotLaunched {
        NotLaunched { why, in_use: None, diagnostics: Vec::new() }
    }
}

impl From<String> for NotLaunched {
    fn from(why: String) -> NotLaunched {
        StartError::from(why).into()
    }
}

impl From<tiller_session::Error> for NotLaunched {
    fn from(err: tiller_session::Error) -> NotLaunched {
        let failed = NotLaunched::from(err.to_string());
        match err {
            tiller_session::Error::InUse { path, owner } => {
                let in_use = SessionInUse { location: path, owner };
                NotLaunched { in_use: Some(Box::new(in_use)), ..failed }
            }
            _ => failed,
        }
    }
}

/// A server that is about to start, and the log of the process.
pub struct Launch {
    pub config: ServerConfig,
    pub log: Log,
}

impl Launch {
    /// Reads settings, keys and the session, and decides everything the server starts with.
    pub fn prepare(args: &Args, env: ProcessEnv) -> Result<Launch, NotLaunched> {
        let mut diagnostics = Vec::new();
        match Launch::build(args, env, &mut diagnostics) {
            Ok(mut launch) => {
                launch.config.diagnostics = diagnostics;
                Ok(launch)
            }
            Err(why) => Err(NotLaunched { diagnostics, ..why }),
        }
    }

    fn build(
        args: &Args,
        env: ProcessEnv,
        diagnostics: &mut Vec<String>,
    ) -> Result<Launch, NotLaunched> {
        args.session_name().map_err(StartError::Usage)?;
        let env = env.with_store(args.store.as_deref());
        let ignored = args.unknown.iter();
        diagnostics.extend(ignored.map(|option| format!("Unknown option {option} is ignored")));
        let mut project = env.project(args);
        refuse_missing(&project, args)?;
        let mut settings = project.settings();
        let (mut models, log) = models_and_log(args, &env, &settings, diagnostics)?;
        let choice = args.model_args();
        let clock = Clock::System;
        let choice_of_store = env.store_choice(args.session_dir.is_some(), &settings)?;
        let mut store = match choice_of_store {
            // It need not even be reachable.
            StoreChoice::Database(_) if args.no_session => SessionStore::memory(),
            _ => env.session_store(args.session_dir.clone(), &settings, clock)?,
        };
        store.persists = !args.no_session;
        let startup = StartupSession { args, store: &store, cwd: &env.cwd, now: clock.now() };
        let start = SessionStart::new(&startup, &choice, &mut models, &settings, diagnostics)?;
        let SessionStart { conversation, model, thinking, model_warnings } = start;
        let cwd = conversation.cwd();
        if cwd != env.cwd {
            project = project.reread(cwd.clone());
            settings = project.settings();
        }
        let mut tools = tool_config(args, &settings);
        let api_key = args.api_key.as_deref();
        let child_env = child_env(api_key, &env, models.credentials(), &settings);
        let from_env = || env.variable("PI_CODING_AGENT_SESSION_DIR").map(PathBuf::from);
        let session_dir = args.session_dir.clone().or_else(from_env);
        let session_dir = session_dir.map(|dir| env.cwd.join(dir));
        let session_dir = session_dir.or_else(|| settings.session_dir.clone());
        let sandbox = args.sandbox().sandbox(&project, &settings, &cwd, session_dir);
        let mut extension_flags = args.extension_flags();
        let in_sandbox = sandbox.is_some();
        extension_flags.are_refused = in_sandbox;
        let mut workspace = Workspace::new(cwd.clone(), child_env, &settings);
        if let Some(sandbox) = sandbox {
            // Tried now: the client may rely on it from the first record on.
            let problem = sandbox.report().problem.as_ref();
            diagnostics.extend(problem.map(|why| format!("The sandbox is not enforced: {why}")));
            workspace = workspace.in_sandbox(sandbox);
        }
        let known_model = model.as_ref().ok().cloned().flatten();
        log.write(&LogRecord::Start {
            version: env!("CARGO_PKG_VERSION"),
            mode: args.mode().name(),
            cwd: cwd.to_string_lossy(),
            model: known_model.as_ref().map(|model| format!("{}/{}", model.provider, model.id)),
        });
        let extension_env =
            ExtensionEnv { hook_observer: log.hooks(), ..extension_env(args, &env, &project) };
        let extension_plan = ExtensionPlan::find(&project, extension_flags, extension_env);
        // Extensions may register missing flags, models and tools: with them, these are reported
        // after loading.
        if extension_plan.is_empty() {
            if let Some(why) = &args.unknown_flags_error {
                return Err(StartError::Usage(why.clone()).into());
            }
            model?;
            diagnostics.extend(model_warnings);
            let unknown = tools.rules.unknown.drain(..);
            diagnostics.extend(unknown.map(|name| format!("unknown tool `{name}`")));
        }
        let level = args.level(&env.variables);
        let config = ServerConfig {
            level,
            on_eof: args.on_eof(),
            settings,
            models,
            model: known_model,
            choice,
            thinking,
            workspace,
            tools,
            mcp: McpOptions {
                is_off: args.no_mcp,
                in_sandbox,
                variables: env.variables.clone(),
                holds_clock: false,
            },
            limits: args.limits(),
            asks_client: args.mode() == RunMode::Rpc,
            project,
            extension_plan,
            shows_titles: level != Level::Xcsh || env.variable("PI_RPC_EMIT_TITLE") == Some("1"),
            conversation,
            store,
            clock,
            diagnostics: Vec::new(),
        };
        Ok(Launch { config, log })
    }
}

/// The session that the process starts with, and its model.
struct SessionStart {
    conversation: Conversation,
    /// An error is final only if no extension can register the model.
    model: Result<Option<Arc<Model>>, StartError>,
    thinking: ThinkingLevel,
    /// Warnings about model names. Extensions may make them obsolete.
    model_warnings: Vec<String>,
}

impl SessionStart {
    fn new(
        startup: &StartupSession<'_>,
        choice: &ModelArgs,
        models: &mut Models,
        settings: &Settings,
        diagnostics: &mut Vec<String>,
    ) -> Result<SessionStart, NotLaunched> {
        let mut model_warnings = Vec::new();
        models.set_scope(choice.scope(settings), &mut model_warnings);
        startup.refuse_conflicts()?;
        let session = startup.session(diagnostics)?;
        let stored_model = || session.model().map_err(|err| err.to_string());
        let selected = choice.select(models, settings, stored_model, &mut model_warnings);
        let (model, level) = match selected {
            Ok((model, level)) => (Ok(model), level),
            Err(why) => (Err(why), None),
        };
        let known_model = model.as_ref().ok().and_then(Option::as_deref);
        let stored_level = session.thinking_level()?;
        let thinking = startup.args.thinking(diagnostics);
        let thinking = thinking.or(level).or(stored_level);
        let thinking = thinking.or_else(|| models.thinking(known_model?));
        let thinking = thinking.unwrap_or(settings.default_thinking_level);
        let conversation = startup.conversation(session, settings, known_model, thinking)?;
        diagnostics.extend(conversation.session().problems().iter().map(ToString::to_string));
        Ok(SessionStart { conversation, model, thinking, model_warnings })
    }
}

/// The model registry with the keys of the command line, and the log that observes its requests.
fn models_and_log(
    args: &Args,
    env: &ProcessEnv,
    settings: &Settings,
    diagnostics: &mut Vec<String>,
) -> Result<(Models, Log), String> {
    let mut models = env.models(settings, diagnostics);
    add_builtin(&mut models, args)?;
    if let (Some(provider), Some(key)) = (&args.provider, &args.api_key) {
        models.credentials_mut().set_command_line(provider, key);
    }
    let log = env.log(args, models.credentials(), diagnostics);
    models.observe(log.requests());
    log.watch_children();
    Ok((models, log))
}

/// A missing extension named on the command line is an error, strict or not.
fn refuse_missing(project: &Project, args: &Args) -> Result<(), String> {
    match missing_path(project, &args.extension_flags()) {
        Some(path) => Err(format!("Extension path does not exist: {}", path.display())),
        None => Ok(()),
    }
}

/// What extensions see of the process.
fn extension_env(args: &Args, env: &ProcessEnv, project: &Project) -> ExtensionEnv {
    let agent_dir = env.agent_dir();
    let home = env.variable("HOME").map(PathBuf::from);
    let (mode, has_ui) = match args.mode() {
        RunMode::Rpc | RunMode::Acp => ("rpc", true),
        RunMode::Json => ("json", false),
        RunMode::Text => ("print", false),
    };
    ExtensionEnv {
        home_dir: home.unwrap_or_else(|| agent_dir.clone()),
        agent_dir,
        mode,
        has_ui,
        variables: env.variables.clone(),
        sidecars: may_have_sidecars(project),
        clock: EngineClock::Wall,
        exec_path: std::env::current_exe().unwrap_or_default(),
        hook_observer: None,
    }
}

/// Sidecars are allowed unless one of the settings files forbids them.
fn may_have_sidecars(project: &Project) -> bool {
    let setting = |scope| project.layers().value::<Option<bool>>(scope, "extensionSidecars");
    [Scope::User, Scope::Project].into_iter().all(|scope| setting(scope) != Some(false))
}

fn add_builtin(models: &mut Models, args: &Args) -> Result<(), String> {
    models.add_builtin(Demo::model(), Arc::new(Demo::new(args.pace())));
    if let Some(path) = &args.script {
        let text = std::fs::read_to_string(path)
            .map_err(|err| format!("cannot read the script {}: {err}", path.display()))?;
        let script = Script::parse(&text).map_err(|err| format!("{}: {err}", path.display()))?;
        let script = script.named(path.display().to_string());
        models.add_builtin(Script::model(), ScriptProvider::new(script));
    }
    Ok(())
}

fn tool_config(args: &Args, settings: &Settings) -> ToolConfig {
    let mut rules = ToolRules::of(args.tool_flags(), settings);
    // Selected like all others, but it belongs to the server.
    rules.unknown.retain(|name| name != TODO_TOOL);
    let todo_tool = rules.selects(TODO_TOOL);
    ToolConfig { active: selected_tools(&rules, settings), todo_tool, rules }
}

fn selected_tools(rules: &ToolRules, settings: &Settings) -> Vec<Tool> {
    let is_default = |name: &str| tiller_tools::DEFAULT.contains(&name);
    let is_selected = |tool: &Tool| rules.selects(tool.name()).unwrap_or(is_default(tool.name()));
    let chosen = tiller_tools::builtin().into_iter().filter(is_selected);
    let mut chosen: Vec<Tool> = chosen.map(|tool| with_settings(tool, settings)).collect();
    rules.sort(&mut chosen, Tool::name);
    chosen
}

/// Environment of every child process: marks it as started by an agent, and extends `PATH` with the
/// agent folder's programs. Variables that hold a key are emptied, unless the settings pass them.
fn child_env(
    api_key: Option<&str>,
    env: &ProcessEnv,
    keys: &Credentials,
    settings: &Settings,
) -> Arc<[(String, String)]> {
    let bin = env.agent_dir().join("bin").to_string_lossy().into_owned();
    let path = match env.variable("PATH") {
        Some(path) => format!("{bin}:{path}"),
        None => bin,
    };
    let key_variables = keys.key_variables();
    let holds_key = |(name, value): &(&String, &String)| {
        let is_key = api_key == Some(value)
            || key_variables.contains(name.as_str())
            || name.as_str() == STORE_VARIABLE;
        is_key && !settings.tools.passes(name)
    };
    let emptied = env.variables.iter().filter(holds_key);
    let emptied = emptied.map(|(name, _)| (name.clone(), String::new()));
    let set = [("PATH", path.as_str()), ("PI_CODING_AGENT", "true"), ("AI_AGENT", "pi")];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
    emptied.chain(set).collect()
}
