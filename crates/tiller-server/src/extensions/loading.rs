//! Loading extensions at the start, and again on a reload.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_config::project::{DiscoveredPath, ExtensionPaths, Project};
use tiller_config::settings::resolve;
use tiller_config::start_error::USAGE;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason, StartReason};
use tiller_js::hook::{DiscoveredPaths, ProjectTrust, ResourcesDiscover, Trust, Trusted};
use tiller_js::{
    Config, EngineClock, Extension, Extensions, HookObserver, Limits, LoadError, LoadReport,
};
use tiller_llm::Interceptor;

use super::{ExtensionTaskDone, SessionState, providers};
use crate::extensions::find::{DiscoveredExtension, Discovery, Problem, find, with_absolute_paths};
use crate::extensions::flags;
use crate::extensions::flags::ExtensionFlags;
use crate::extensions::host_api::ServerHostApi;
use crate::extensions::request_hooks::RequestHooks;
use crate::tasks::Tasks;
use crate::tools;
use crate::transition::{self, SessionStart, TransitionEvent, TrustDeciders, TrustDecision};

/// What extensions are started with.
#[derive(Default)]
pub struct ExtensionPlan {
    found: Vec<Arc<DiscoveredExtension>>,
    /// Extensions named in settings or flags that were not found.
    missing: Vec<Problem>,
    flags: ExtensionFlags,
    env: Option<ExtensionEnv>,
    /// They may decide project trust before anything of the project is loaded.
    may_decide_trust: bool,
}

/// What extensions see of the process.
#[derive(Clone)]
pub struct ExtensionEnv {
    /// The folder of settings, keys and sessions.
    pub agent_dir: PathBuf,
    /// The home directory of the user.
    pub home_dir: PathBuf,
    /// `rpc`, `json` or `print`.
    pub mode: &'static str,
    /// Whether a client can answer dialogs.
    pub has_ui: bool,
    /// The environment variables.
    pub variables: Arc<HashMap<String, String>>,
    /// Whether they may run in a sidecar process.
    pub sidecars: bool,
    /// The clock of the JavaScript engines.
    pub clock: EngineClock,
    /// The program itself, for extensions that start it.
    pub exec_path: PathBuf,
    /// Gets the time that each hook took.
    pub hook_observer: Option<HookObserver>,
}

impl ExtensionEnv {
    /// The engine configuration for this folder, on the current runtime.
    pub(crate) fn config(self, cwd: PathBuf) -> Config {
        Config {
            runtime: tokio::runtime::Handle::current(),
            limits: Limits::default(),
            cwd,
            agent_dir: self.agent_dir,
            home_dir: self.home_dir,
            mode: self.mode.to_owned(),
            has_ui: self.has_ui,
            version: PI_VERSION.to_owned(),
            exec_path: self.exec_path,
            env: self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            sidecars: self.sidecars,
            clock: self.clock,
            hook_observer: self.hook_observer,
        }
    }
}

impl ExtensionPlan {
    /// Discovers extensions.
    pub fn find(project: &Project, flags: ExtensionFlags, env: ExtensionEnv) -> ExtensionPlan {
        let flags = with_absolute_paths(flags, project);
        let Discovery { found, problems: missing } = find(project, &flags);
        ExtensionPlan {
            may_decide_trust: !found.is_empty() && project.needs_trust_decision(),
            found: found.into_iter().map(Arc::new).collect(),
            missing,
            flags,
            env: Some(env),
        }
    }

    /// Whether an extension from outside the project may decide its trust.
    pub fn has_trust_deciders(&self) -> bool {
        self.may_decide_trust && self.found.iter().any(|found| found.may_decide_trust())
    }

    /// How many extensions are to be loaded.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// True if there are no extensions to load.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// The version of pi that extensions see.
const PI_VERSION: &str = "0.87.1";

/// Slots between two extensions that were loaded first, for those loaded later.
const GAP: u32 = 1000;

/// How extensions are loaded.
pub(crate) enum LoadKind {
    /// All that are not loaded yet, each in its slot; after those that decided project trust.
    Rest { deciders: TrustDeciders, errors: Vec<LoadError> },
    /// The loaded ones start over, in a new session.
    Restart,
    /// All of them from their current files.
    Reload,
}

/// Loads the extensions that the server starts with. Without any, no engine is started.
pub(crate) fn load_at_start(state: &mut SessionState, plan: ExtensionPlan) {
    let ExtensionPlan { found, missing, flags, env, may_decide_trust } = plan;
    state.extensions.cli_flags = Arc::new(flags);
    state.extensions.env = env;
    report_missing(state, missing);
    if !found.is_empty() {
        state.extensions.discovered = found;
        state.models.await_extensions();
        transition::load_at_start(state, may_decide_trust);
    }
}

/// Extensions were discovered.
pub(crate) fn found(state: &mut SessionState, discovery: Discovery) {
    let Discovery { found, problems } = discovery;
    report_missing(state, problems);
    state.extensions.discovered = found.into_iter().map(Arc::new).collect();
}

/// The same once more for the same folder: most problems were reported after the first time.
pub(crate) fn found_again(state: &mut SessionState, mut discovery: Discovery) {
    discovery.problems.retain(|problem| !state.project.has_diagnostic(&problem.error));
    found(state, discovery);
}

/// Forgets what belonged to the session that was left.
pub(crate) fn forget_session(state: &mut SessionState) {
    state.extensions.turn.messages_for_next_prompt.clear();
    state.tools.forget_selection();
}

/// Stops the extensions of the previous folder. Returns whether there can be any.
pub(crate) fn retire(state: &mut SessionState) -> bool {
    let Some(host) = extension_host(state) else { return false };
    state.tasks.spawn(async move {
        host.retire().await;
        TransitionEvent::ExtensionsRetired
    });
    true
}

/// Loads these extensions first and asks them about project trust. Returns their slots.
pub(crate) fn ask_project_trust(
    state: &mut SessionState,
    deciders: Vec<Arc<DiscoveredExtension>>,
) -> TrustDeciders {
    let slots: Vec<u32> = (1..).map(|project| project * GAP).take(deciders.len()).collect();
    let extensions = deciders.iter().map(|found| found.extension.clone());
    let deciders: Vec<(u32, Extension)> = slots.iter().copied().zip(extensions).collect();
    let cwd = state.workspace.cwd().display().to_string();
    let host = extension_host(state);
    state.tasks.spawn(async move {
        let mut trust = Trust::default();
        let mut errors = Vec::new();
        if let Some(host) = host {
            errors = host.load_at(&deciders).await;
            if host.has_listener("project_trust") {
                trust = host.run_hook(ProjectTrust { cwd }).await.unwrap_or_default();
            }
        }
        TransitionEvent::TrustAnswered(TrustDecision {
            trusted: trust.trusted == Trusted::Yes,
            remember: trust.remember,
            is_decided: trust.trusted != Trusted::Undecided,
            errors,
        })
    });
    TrustDeciders(slots)
}

/// Loads the discovered extensions. Returns whether extensions can be loaded at all.
pub(crate) fn load(state: &mut SessionState, start: SessionStart, kind: LoadKind) -> bool {
    let Some(host) = extension_host(state) else { return false };
    let discovered = &state.extensions.discovered;
    let completion = LoadCompletion {
        flags: state.extensions.cli_flags.clone(),
        cwd: state.workspace.cwd().to_owned(),
        home: state.extensions.env.as_ref().map(|env| env.home_dir.clone()),
        tasks: state.tasks.clone(),
        start,
    };
    match kind {
        LoadKind::Rest { deciders, errors } => {
            let rest = in_slots(discovered, deciders);
            tokio::spawn(load_rest(host, completion, rest, errors));
        }
        LoadKind::Restart => {
            tokio::spawn(async move {
                let errors = host.start_over().await;
                completion.finish_load(&host, errors).await;
                completion.announce_session_start(&host).await;
            });
        }
        LoadKind::Reload => {
            let all = discovered.iter().map(|found| found.extension.clone()).collect();
            tokio::spawn(load_again(host, completion, all));
        }
    }
    true
}

/// The extensions that are not loaded yet, each with its slot.
fn in_slots(
    discovered: &[Arc<DiscoveredExtension>],
    TrustDeciders(deciders): TrustDeciders,
) -> Vec<(u32, Extension)> {
    let trust_was_asked = !deciders.is_empty();
    let mut deciders = deciders.into_iter();
    let mut last = 0;
    let mut rest = Vec::new();
    for found in discovered {
        let decider = (trust_was_asked && found.may_decide_trust()).then(|| deciders.next());
        match decider.flatten() {
            Some(slot) => last = slot,
            None => {
                last += 1;
                rest.push((last, found.extension.clone()));
            }
        }
    }
    rest
}

async fn load_rest(
    host: Extensions,
    completion: LoadCompletion,
    rest: Vec<(u32, Extension)>,
    mut errors: Vec<LoadError>,
) {
    errors.extend(host.load_at(&rest).await);
    errors.extend(host.registrations().conflicts);
    let problems = completion.finish_load(&host, errors).await;
    // After a folder change the extension of a flag may be missing, which is no error.
    if completion.start.reason == StartReason::Startup && !problems.is_empty() {
        completion.tasks.send(ExtensionTaskDone::WrongFlags(problems)).await;
    }
    completion.announce_session_start(&host).await;
}

async fn load_again(host: Extensions, completion: LoadCompletion, all: Vec<Extension>) {
    let reason = ShutdownReason::Reload;
    let target_session_file = None;
    host.emit_and_wait(&ExtensionEvent::SessionShutdown { reason, target_session_file }).await;
    host.stop();
    let report = host.load(&all).await;
    // Flags of an extension that is gone are ignored.
    completion.finish_load(&host, report.errors).await;
    completion.announce_session_start(&host).await;
}

/// Returns the extension host, creating it on first use.
fn extension_host(state: &mut SessionState) -> Option<Extensions> {
    if state.extensions.host.is_none() {
        let env = state.extensions.env.clone()?;
        let config = env.config(state.workspace.cwd().to_owned());
        let host_api = Arc::new(ServerHostApi { inputs: state.tasks.sender() });
        let host = Extensions::new(config, host_api);
        let hooks = Interceptor(Arc::new(RequestHooks(host.clone())));
        state.models.registry_mut().set_interceptor(hooks);
        state.extensions.host = Some(host);
    }
    state.extensions.host.clone()
}

pub(super) fn wrong_flags(state: &mut SessionState, problems: &[String]) {
    for problem in problems {
        state.project.print_error(problem);
    }
    state.extensions.fail(USAGE);
}

fn report_missing(state: &mut SessionState, problems: Vec<Problem>) {
    for Problem { what, error } in problems {
        report_not_loaded(state, what, error, None);
    }
}

/// All extensions are loaded, and their registrations are known.
pub(super) fn loaded(state: &mut SessionState, report: LoadReport) {
    for LoadError { path, error, at } in report.errors {
        report_not_loaded(state, path, error, at);
    }
    providers::all_registered(state);
    tools::update(state);
    tools::report_unknown_names(state);
}

fn report_not_loaded(state: &mut SessionState, path: String, error: String, at: Option<String>) {
    let location = at.map(|at| format!(" ({at})")).unwrap_or_default();
    state.project.warn(format!("Failed to load extension \"{path}\": {error}{location}"));
    if state.extensions.cli_flags.is_strict {
        state.extensions.fail(1);
    }
    state.emit(Event::ExtensionError { path, event: "load".to_owned(), error });
}

/// The steps between loading extensions and their being ready.
struct LoadCompletion {
    start: SessionStart,
    flags: Arc<ExtensionFlags>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    tasks: Tasks,
}

impl LoadCompletion {
    /// Sets flags, lets extensions act, and reports their registrations. Returns what is wrong with
    /// the flags.
    async fn finish_load(&self, host: &Extensions, errors: Vec<LoadError>) -> Vec<String> {
        let registrations = host.registrations();
        let (values, problems) = flags::values(&self.flags.unknown_flags, &registrations.flags);
        host.set_flags(&values).await;
        host.bind().await;
        self.tasks.send(ExtensionTaskDone::Loaded(LoadReport { registrations, errors })).await;
        problems
    }

    /// Sends `session_start`, then asks for more resource paths.
    async fn announce_session_start(&self, host: &Extensions) {
        let SessionStart { reason, previous } = self.start.clone();
        let event = ExtensionEvent::SessionStart { reason, previous_session_file: previous };
        host.emit_and_wait(&event).await;
        let found = if host.has_listener("resources_discover") {
            host.run_hook(self.discovery()).await.unwrap_or_default()
        } else {
            DiscoveredPaths::default()
        };
        let absolute = |paths: Vec<(String, String)>| {
            let paths = paths.into_iter().map(|(path, extension)| DiscoveredPath {
                path: resolve(&path, &self.cwd, self.home.as_deref()),
                extension: extension.into(),
            });
            paths.collect()
        };
        let DiscoveredPaths { skill_paths, prompt_paths, .. } = found;
        let discovered =
            ExtensionPaths { skills: absolute(skill_paths), templates: absolute(prompt_paths) };
        self.tasks.send(ExtensionTaskDone::Discovered(discovered)).await;
        self.tasks.send(TransitionEvent::ExtensionsReady).await;
    }

    fn discovery(&self) -> ResourcesDiscover {
        let reason = if self.start.reason == StartReason::Reload { "reload" } else { "startup" };
        ResourcesDiscover { cwd: self.cwd.display().to_string(), reason: reason.to_owned() }
    }
}
