//! Loading extensions at the start, and again on a reload.

use std::path::PathBuf;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason, StartReason};
use tiller_js::hook::{DiscoveredPaths, ProjectTrust, ResourcesDiscover, Trust, Trusted};
use tiller_js::{Config, EngineClock, Extension, Extensions, Limits, LoadError, LoadReport};
use tiller_llm::Interceptor;

use super::folder_change::SessionStart;
use super::tools::ToolSelection;
use super::{ExtensionInput, SessionState};
use crate::args::ExtensionFlags;
use crate::extensions::find::{DiscoveredExtension, Discovery, Problem, find, with_absolute_paths};
use crate::extensions::flags;
use crate::extensions::host_api::ServerHostApi;
use crate::extensions::request_hooks::RequestHooks;
use crate::log::Log;
use crate::project::{DiscoveredPath, ExtensionPaths, Project};
use crate::rpc::requester::Requester;
use crate::rpc::tasks::Tasks;
use crate::settings::resolve;
use crate::startup_model::ModelArgs;
use crate::usage::USAGE;

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
    /// The model flags, to be resolved again when extensions are loaded.
    pub(crate) choice: Option<ModelArgs>,
}

/// What extensions see of the process.
#[derive(Clone)]
pub struct ExtensionEnv {
    pub agent_dir: PathBuf,
    pub home_dir: PathBuf,
    /// `rpc`, `json` or `print`.
    pub mode: &'static str,
    /// Whether a client can answer dialogs.
    pub has_ui: bool,
    pub variables: Vec<(String, String)>,
    /// Whether they may run in a sidecar process.
    pub sidecars: bool,
    pub clock: EngineClock,
    pub log: Log,
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
            exec_path: std::env::current_exe().unwrap_or_default(),
            env: self.variables,
            sidecars: self.sidecars,
            clock: self.clock,
            hook_observer: self.log.hooks(),
        }
    }
}

impl ExtensionPlan {
    /// Discovers extensions.
    pub fn find(place: &Project, flags: ExtensionFlags, env: ExtensionEnv) -> ExtensionPlan {
        let flags = with_absolute_paths(flags, place);
        let Discovery { found, problems: missing } = find(place, &flags);
        ExtensionPlan {
            may_decide_trust: !found.is_empty() && place.needs_trust_decision(),
            found: found.into_iter().map(Arc::new).collect(),
            missing,
            flags,
            env: Some(env),
            choice: None,
        }
    }

    /// Whether an extension from outside the project may decide its trust.
    pub fn has_judges(&self) -> bool {
        self.may_decide_trust && self.found.iter().any(|found| found.may_decide_trust())
    }

    /// True if there are no extensions to load.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// The trust decision of extensions from outside the project.
pub struct TrustDecision {
    pub(in crate::rpc) trusted: bool,
    pub(in crate::rpc) remember: bool,
    is_decided: bool,
    errors: Vec<LoadError>,
}

/// The version of pi that extensions see.
const PI_VERSION: &str = "0.87.1";

/// Slots between two extensions that were loaded first, for those loaded later.
const GAP: u32 = 1000;

impl SessionState {
    /// Loads the discovered extensions. Without any, no engine is started.
    pub(in crate::rpc) fn load_extensions(&mut self, plan: ExtensionPlan) {
        let ExtensionPlan { found, missing, flags, env, may_decide_trust, choice } = plan;
        self.extensions.cli_flags = Arc::new(flags);
        self.extensions.env = env;
        self.not_found(missing);
        if found.is_empty() {
            return;
        }
        let Some(host) = self.extension_host() else { return };
        self.extensions.is_loading = true;
        self.extensions.discovered = found;
        self.extensions.model_args = choice;
        self.load_new(host, may_decide_trust);
    }

    /// Loads the discovered extensions, first those that may decide project trust.
    pub(super) fn load_new(&mut self, host: Extensions, may_decide_trust: bool) {
        let deciders = self.extensions.discovered.iter().filter(|found| found.may_decide_trust());
        let deciders: Vec<_> = (1..).map(|place| place * GAP).zip(deciders.cloned()).collect();
        if may_decide_trust && !deciders.is_empty() {
            self.extensions.trust_decider_slots =
                deciders.iter().map(|(number, _)| *number).collect();
            return self.ask_project_trust(host, extensions(&deciders));
        }
        self.load_rest(host, Vec::new());
    }

    fn ask_project_trust(&self, host: Extensions, deciders: Vec<(u32, Extension)>) {
        let cwd = self.workspace.cwd.display().to_string();
        self.tasks.spawn(async move {
            let errors = host.load_at(&deciders).await;
            let trust = match host.has_listener("project_trust") {
                true => host.run_hook(ProjectTrust { cwd }).await.unwrap_or_default(),
                false => Trust::default(),
            };
            ExtensionInput::TrustDecided(TrustDecision {
                trusted: trust.trusted == Trusted::Yes,
                remember: trust.remember,
                is_decided: trust.trusted != Trusted::Undecided,
                errors,
            })
        });
    }

    /// The extensions that may decide project trust have answered.
    pub(super) fn trust_answered(&mut self, decision: TrustDecision) {
        // The reason why the project is not trusted is printed again if it has changed.
        let is_news = !decision.trusted || !self.resources.is_trusted() || decision.remember;
        if decision.is_decided && is_news {
            return self.apply_trust(decision);
        }
        self.resources.tell_of_place();
        if let Some(host) = self.extension_host() {
            self.load_rest(host, decision.errors);
        }
    }

    /// The project was loaded again with the trust decision.
    pub(in crate::rpc) fn trust_applied(
        &mut self,
        decision: TrustDecision,
        discovery: Option<Discovery>,
    ) {
        if let Some(Discovery { found, mut problems }) = discovery {
            self.extensions.discovered = found.into_iter().map(Arc::new).collect();
            // Most problems were reported after the first discovery.
            let is_told = |error: &str| self.diagnostics.iter().any(|told| told.contains(error));
            problems.retain(|problem| !is_told(&problem.error));
            self.not_found(problems);
        }
        if let Some(host) = self.extension_host() {
            self.load_rest(host, decision.errors);
        }
    }

    /// Loads the remaining extensions, each in its slot.
    fn load_rest(&mut self, host: Extensions, mut errors: Vec<LoadError>) {
        let mut deciders = std::mem::take(&mut self.extensions.trust_decider_slots).into_iter();
        let mut last = 0;
        let mut rest = Vec::new();
        let trust_was_asked = deciders.len() > 0;
        for found in &self.extensions.discovered {
            let decider = (trust_was_asked && found.may_decide_trust()).then(|| deciders.next());
            match decider.flatten() {
                Some(number) => last = number,
                None => {
                    last += 1;
                    rest.push((last, found.extension.clone()));
                }
            }
        }
        let SessionStart { reason, previous } =
            self.extensions.pending_session_start.take().unwrap_or_default();
        let completion = self.load_completion(reason, previous);
        tokio::spawn(async move {
            errors.extend(host.load_at(&rest).await);
            errors.extend(host.registrations().conflicts);
            let problems = completion.finish_load(&host, errors).await;
            // After a folder change the extension of a flag may be missing, which is no error.
            if reason == StartReason::Startup && !problems.is_empty() {
                completion.tasks.send(ExtensionInput::WrongFlags(problems)).await;
            }
            completion.announce_session_start(&host).await;
        });
    }

    /// Loads extensions from their current files. A run keeps the ones it started with.
    pub(in crate::rpc) fn reload_extensions(&mut self, requester: Requester, discovery: Discovery) {
        let has_no_extension = self.extensions.host.is_none() && discovery.found.is_empty();
        if has_no_extension {
            self.not_found(discovery.problems);
            return self.answer_reload(requester);
        }
        if self.is_occupied() || self.extensions.is_loading {
            self.extensions.pending_reload = Some(discovery);
            return match requester {
                // The engine of the extension ends before it could get a response.
                extension @ Requester::Extension(_) => {
                    self.extensions.waiting_for_ready.push((extension, None))
                }
                client => self.answer_reload(client),
            };
        }
        match requester {
            extension @ Requester::Extension(_) => {
                self.extensions.waiting_for_ready.push((extension, None))
            }
            client => self.extensions.reload_requester = Some(client),
        }
        self.load_anew(discovery);
    }

    /// Runs a reload that waited for the run to close.
    pub(in crate::rpc) fn reload_if_due(&mut self) {
        if !self.extensions.is_loading
            && let Some(discovery) = self.extensions.pending_reload.take()
        {
            self.load_anew(discovery);
        }
    }

    fn load_anew(&mut self, discovery: Discovery) {
        let Discovery { found, problems } = discovery;
        self.not_found(problems);
        let Some(host) = self.extension_host() else { return };
        self.extensions.is_loading = true;
        self.extensions.tool_selection.forget();
        self.extensions.discovered = found.into_iter().map(Arc::new).collect();
        let extensions: Vec<Extension> =
            self.extensions.discovered.iter().map(|found| found.extension.clone()).collect();
        let completion = self.load_completion(StartReason::Reload, None);
        tokio::spawn(async move {
            let (reason, target_session_file) = (ShutdownReason::Reload, None);
            host.emit_and_wait(&ExtensionEvent::SessionShutdown { reason, target_session_file })
                .await;
            host.stop();
            let report = host.load(&extensions).await;
            // Flags of an extension that is gone are ignored.
            completion.finish_load(&host, report.errors).await;
            completion.announce_session_start(&host).await;
        });
    }

    /// Returns the extension host, creating it on first use.
    pub(super) fn extension_host(&mut self) -> Option<Extensions> {
        if self.extensions.host.is_none() {
            let around = self.extensions.env.clone()?;
            let config = around.config(self.workspace.cwd.to_path_buf());
            let outside = Arc::new(ServerHostApi { inputs: self.tasks.sender() });
            let host = Extensions::new(config, outside);
            self.models.set_interceptor(Interceptor(Arc::new(RequestHooks(host.clone()))));
            self.extensions.host = Some(host);
            self.extensions.tool_selection = ToolSelection::new(&self.workspace.tools);
        }
        self.extensions.host.clone()
    }

    pub(super) fn load_completion(
        &self,
        reason: StartReason,
        previous: Option<String>,
    ) -> LoadCompletion {
        LoadCompletion {
            reason,
            previous,
            flags: self.extensions.cli_flags.clone(),
            cwd: self.workspace.cwd.to_path_buf(),
            home: self.extensions.env.as_ref().map(|around| around.home_dir.clone()),
            tasks: self.tasks.clone(),
        }
    }

    pub(super) fn wrong_flags(&mut self, problems: &[String]) {
        for problem in problems {
            self.resources.complain_of_error(problem);
        }
        self.extensions.fatal = Some(USAGE);
    }

    pub(super) fn not_found(&mut self, problems: Vec<Problem>) {
        for Problem { what, error } in problems {
            self.not_loaded(what, error, None);
        }
    }

    pub(super) fn loaded(&mut self, report: LoadReport) {
        for LoadError { path, error, at } in report.errors {
            self.not_loaded(path, error, at);
        }
        self.settle_providers();
        self.update_tools();
        self.unknown_tools();
    }

    fn not_loaded(&mut self, path: String, error: String, at: Option<String>) {
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        let problem = format!("Failed to load extension \"{path}\": {error}{place}");
        self.resources.complain(&problem);
        self.diagnostics.push(problem);
        if self.extensions.cli_flags.is_strict {
            self.extensions.fatal.get_or_insert(1);
        }
        self.emit(Event::ExtensionError { path, event: "load".to_owned(), error });
    }
}

fn extensions(found: &[(u32, Arc<DiscoveredExtension>)]) -> Vec<(u32, Extension)> {
    found.iter().map(|(number, found)| (*number, found.extension.clone())).collect()
}

/// The steps between loading extensions and their being ready.
pub(super) struct LoadCompletion {
    reason: StartReason,
    previous: Option<String>,
    flags: Arc<ExtensionFlags>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    tasks: Tasks,
}

impl LoadCompletion {
    /// Sets flags, lets extensions act, and reports their registrations. Returns what is wrong with
    /// the flags.
    pub(super) async fn finish_load(
        &self,
        host: &Extensions,
        errors: Vec<LoadError>,
    ) -> Vec<String> {
        let registrations = host.registrations();
        let (values, problems) = flags::values(&self.flags.foreign, &registrations.flags);
        host.set_flags(&values).await;
        host.bind().await;
        self.tasks.send(ExtensionInput::Loaded(LoadReport { registrations, errors })).await;
        problems
    }

    /// Sends `session_start`, then asks for more resource paths.
    pub(super) async fn announce_session_start(&self, host: &Extensions) {
        let previous_session_file = self.previous.clone();
        host.emit_and_wait(&ExtensionEvent::SessionStart {
            reason: self.reason,
            previous_session_file,
        })
        .await;
        let found = match host.has_listener("resources_discover") {
            true => host.run_hook(self.discovery()).await.unwrap_or_default(),
            false => DiscoveredPaths::default(),
        };
        let whole = |paths: Vec<(String, String)>| {
            let paths = paths.into_iter().map(|(path, extension)| DiscoveredPath {
                path: resolve(&path, &self.cwd, self.home.as_deref()),
                extension: extension.into(),
            });
            paths.collect()
        };
        let DiscoveredPaths { skill_paths, prompt_paths, .. } = found;
        let discovered =
            ExtensionPaths { skills: whole(skill_paths), templates: whole(prompt_paths) };
        self.tasks.send(ExtensionInput::Discovered(discovered)).await;
        self.tasks.send(ExtensionInput::Ready).await;
    }

    fn discovery(&self) -> ResourcesDiscover {
        let reason = if self.reason == StartReason::Reload { "reload" } else { "startup" };
        ResourcesDiscover { cwd: self.cwd.display().to_string(), reason: reason.to_owned() }
    }
}
