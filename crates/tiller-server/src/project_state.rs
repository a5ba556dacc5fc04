//! The project: its settings and trust, its skills, templates, rules and context files, and the
//! problems found in them.
//!
//! Resources are read on another thread. The first command that needs them waits, and all later
//! ones wait behind it; then they are cached until a client reloads them or a session moves to
//! another folder.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiller_agent::stream_rules::RuleSet;
use tiller_agent::tool::ToolSet;
use tiller_config::project::{ExtensionPaths, Project, Resources};
use tiller_config::prompt::SystemPrompt;
use tiller_config::settings::{SettingError, SettingKey, SettingOverrides, Settings};
use tiller_protocol::data::ReloadData;
use tiller_protocol::{Reply, Request};

use crate::extensions::find::{Discovery, find};
use crate::extensions::flags::ExtensionFlags;
use crate::requester::Requester;
use crate::server::Input;
use crate::state::SessionState;
use crate::tools;
use crate::transition::{self, TransitionEvent, TrustDecision};

pub(crate) struct ProjectState {
    project: Project,
    /// The settings of the files.
    files: Settings,
    /// What clients have changed of them, for this process.
    overrides: SettingOverrides,
    /// The settings in use: both together.
    settings: Settings,
    resources: Option<Arc<Resources>>,
    prompt: Option<SystemPrompt>,
    /// Which commands wait for a load.
    waiting: HoldBack,
    /// Loads started. The result of an older load does not replace that of a newer one.
    loads_started: u64,
    newest: u64,
    /// Problems found at the start and later, apart from those of the project's files.
    diagnostics: Vec<String>,
}

/// Which commands wait for a load.
#[derive(Clone, Copy, PartialEq)]
enum HoldBack {
    NoCommand,
    /// The commands that a session change would hold back, too.
    NotUrgent,
    /// Every command: the first load has not finished.
    EveryCommand,
}

/// Why resources are loaded.
pub(super) enum LoadReason {
    /// A command needs them for the first time.
    Need,
    /// A client or an extension requested a reload.
    Reload(Requester),
    /// The session is in another folder.
    Move,
    /// An extension has decided whether the project is trusted.
    TrustDecided(Box<TrustDecision>),
}

/// The result of a load.
pub struct ResourcesLoaded {
    number: u64,
    reason: LoadReason,
    /// The project, when settings were read again.
    project: Option<Project>,
    resources: Option<Resources>,
    /// The paths that extensions had added when the load started.
    discovered: Arc<ExtensionPaths>,
    /// The extensions found, where they may have changed.
    extensions: Option<Discovery>,
}

const TOO_SLOW: &str = "skills, templates and context files could not be read in time";

/// How long a load may take; a hanging disk is not waited for.
const LOAD_MAX: Duration = Duration::from_secs(10);

impl ProjectState {
    pub(super) fn new(
        project: Project,
        settings: Settings,
        diagnostics: Vec<String>,
    ) -> ProjectState {
        ProjectState {
            project,
            files: settings.clone(),
            overrides: SettingOverrides::default(),
            settings,
            resources: None,
            prompt: None,
            waiting: HoldBack::NoCommand,
            loads_started: 0,
            newest: 0,
            diagnostics,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings that clients have changed.
    pub(crate) fn setting_overrides(&self) -> &SettingOverrides {
        &self.overrides
    }

    /// Whether the command line selects the models to cycle through.
    pub(crate) fn has_own_models(&self) -> bool {
        self.project.has_own_models()
    }

    /// Whether any command waits for a load.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting != HoldBack::NoCommand
    }

    /// Whether a request has to wait for a load.
    pub(super) fn holds_back(&self, request: &Request) -> bool {
        match self.waiting {
            HoldBack::NoCommand => false,
            HoldBack::NotUrgent => {
                request.command.as_ref().is_ok_and(|command| !command.is_urgent())
            }
            HoldBack::EveryCommand => true,
        }
    }

    pub(super) fn needs_trust_decision(&self) -> bool {
        self.project.needs_trust_decision()
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.project.is_trusted()
    }

    /// Prints a warning on stderr.
    pub(super) fn print_warning(&self, problem: &str) {
        self.project.print_problems([problem.to_owned()].iter());
    }

    /// Prints an error on stderr.
    pub(super) fn print_error(&self, error: &str) {
        self.project.print(&format!("Error: {error}"));
    }

    /// Prints the problems of settings and trust that waited for the trust decision.
    pub(super) fn print_problems(&self) {
        self.project.print_problems(self.project.problems().iter());
    }

    /// Prints a warning on stderr and keeps it for clients that ask.
    pub(super) fn warn(&mut self, problem: String) {
        self.print_warning(&problem);
        self.diagnostics.push(problem);
    }

    /// Keeps problems for clients that ask.
    pub(super) fn add_diagnostics(&mut self, problems: impl IntoIterator<Item = String>) {
        self.diagnostics.extend(problems);
    }

    /// Whether a problem with this text was found.
    pub(super) fn has_diagnostic(&self, text: &str) -> bool {
        self.diagnostics.iter().any(|known| known.contains(text))
    }

    /// All problems found so far.
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = &str> {
        self.problems().chain(self.diagnostics.iter().map(String::as_str))
    }

    /// The problems of settings and resources.
    fn problems(&self) -> impl Iterator<Item = &str> {
        let later = self.resources.iter().flat_map(|resources| &resources.problems);
        self.project.problems().iter().chain(later).map(String::as_str)
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.resources.is_some()
    }

    /// The resources; loads them synchronously if no load has finished yet.
    pub(crate) fn resources(&mut self) -> Arc<Resources> {
        let resources = self.resources.get_or_insert_with(|| Arc::new(self.project.resources()));
        resources.clone()
    }

    /// The stream rules to match, unless the settings disable them.
    pub(super) fn rules(&mut self) -> Option<Arc<RuleSet>> {
        let is_enabled = self.settings.ttsr.enabled;
        is_enabled.then(|| self.resources().rules.watching.clone()).flatten()
    }

    /// The system prompt; the same text as long as its parts do not change.
    pub(super) fn system_prompt(&mut self, tools: &Arc<ToolSet>, cwd: &Arc<PathBuf>) -> Arc<str> {
        let resources = self.resources();
        let prompt = self.prompt.take();
        let prompt = prompt.filter(|prompt| prompt.is_of(tools, cwd, &resources));
        let prompt = prompt.unwrap_or_else(|| SystemPrompt::new(tools, cwd, &resources));
        self.prompt.insert(prompt).text()
    }

    /// Adds paths from extensions; they are read on next use.
    pub(super) fn add_extension_paths(&mut self, discovered: ExtensionPaths) {
        if self.project.set_discovered(discovered) {
            self.resources = None;
        }
    }

    /// Starts a load.
    fn begin_load(
        &mut self,
        reason: LoadReason,
        cwd: PathBuf,
        flags: Arc<ExtensionFlags>,
    ) -> impl Future<Output = ResourcesLoaded> + use<> {
        self.loads_started += 1;
        self.waiting = match reason {
            LoadReason::Need | LoadReason::Move => HoldBack::EveryCommand,
            LoadReason::Reload(_) => HoldBack::NotUrgent,
            LoadReason::TrustDecided(_) => self.waiting,
        };
        if matches!(reason, LoadReason::Move) {
            self.resources = None;
        }
        let number = self.loads_started;
        let discovered = self.project.discovered().clone();
        let load = Load::new(self.project.clone(), &reason, cwd, flags);
        async move {
            let work = tokio::task::spawn_blocking(move || load.run());
            let none = |why: String| (None, Some(Resources::none(why)), None);
            let (project, resources, extensions) = match tokio::time::timeout(LOAD_MAX, work).await
            {
                Ok(Ok(loaded)) => loaded,
                Ok(Err(crash)) => none(format!("internal error: {crash}")),
                Err(_) => none(TOO_SLOW.to_owned()),
            };
            ResourcesLoaded { number, reason, project, resources, discovered, extensions }
        }
    }

    /// Stores the result of a load, unless a newer one is there. Returns the settings, if they
    /// were read again.
    fn finish_load(&mut self, loaded: &mut ResourcesLoaded) -> Option<Settings> {
        self.waiting = HoldBack::NoCommand;
        if loaded.number <= self.newest {
            return None;
        }
        self.newest = loaded.number;
        let current = self.project.discovered().clone();
        let settings = loaded.project.take().map(|project| {
            let settings = project.settings();
            self.project = project;
            self.project.set_discovered((*current).clone());
            settings
        });
        // Paths that extensions added since are missing from it.
        let resources = loaded.resources.take().filter(|_| *loaded.discovered == *current);
        self.resources = resources.map(Arc::new);
        settings
    }
}

/// A load on another thread.
struct Load {
    project: Project,
    cwd: PathBuf,
    flags: Arc<ExtensionFlags>,
    trust: Option<(bool, bool)>,
    /// Settings are read again, and extensions discovered.
    rereads: bool,
    /// Skills, templates and context files are read.
    reads_resources: bool,
    is_move: bool,
}

impl Load {
    fn new(
        project: Project,
        reason: &LoadReason,
        cwd: PathBuf,
        flags: Arc<ExtensionFlags>,
    ) -> Load {
        Load {
            project,
            cwd,
            flags,
            trust: match reason {
                LoadReason::TrustDecided(decision) => Some((decision.trusted, decision.remember)),
                _ => None,
            },
            rereads: !matches!(reason, LoadReason::Need),
            reads_resources: matches!(reason, LoadReason::Need | LoadReason::Reload(_)),
            is_move: matches!(reason, LoadReason::Move),
        }
    }

    fn run(self) -> (Option<Project>, Option<Resources>, Option<Discovery>) {
        let project = match self.trust {
            Some((trusted, remember)) => self.project.with_trust_decision(trusted, remember),
            None => self.project,
        };
        if !self.rereads {
            let resources = project.resources();
            project.print_problems(resources.problems.iter());
            return (None, Some(resources), None);
        }
        let project = project.reread(self.cwd);
        let extensions = find(&project, &self.flags);
        let resources = self.reads_resources.then(|| project.resources());
        // If extensions decide trust, its problems are printed after their decision.
        let is_undecided =
            self.is_move && project.needs_trust_decision() && extensions.may_decide_trust();
        let of_project = if is_undecided { &[] } else { project.problems() };
        let of_resources = resources.iter().flat_map(|resources| &resources.problems);
        project.print_problems(of_project.iter().chain(of_resources));
        (Some(project), resources, Some(extensions))
    }
}

/// The system prompt for the current tools, folder and files.
pub(super) fn system_prompt(state: &mut SessionState) -> Arc<str> {
    let tools = tools::offered(state);
    state.project.system_prompt(&tools, &state.workspace.shared_cwd())
}

/// Changes the folder, and reads the project there. Returns whether it is another one.
pub(super) fn set_cwd(state: &mut SessionState, cwd: PathBuf) -> bool {
    let is_other = state.workspace.set_cwd(cwd);
    if is_other {
        load(state, LoadReason::Move);
    }
    is_other
}

/// Loads settings, resources or both in the background.
pub(super) fn load(state: &mut SessionState, reason: LoadReason) {
    let cwd = state.workspace.cwd().to_owned();
    let flags = state.extensions.flags();
    let loading = state.project.begin_load(reason, cwd, flags);
    state.tasks.spawn(async move { Input::ResourcesLoaded(Box::new(loading.await)) });
}

/// Reads settings and resources again.
pub(crate) fn reload(state: &mut SessionState, requester: Requester) {
    state.transition.expect_response();
    load(state, LoadReason::Reload(requester));
}

/// Stores the result of a load, and continues what waited for it.
pub(super) fn loaded(state: &mut SessionState, mut loaded: ResourcesLoaded) {
    if let Some(settings) = state.project.finish_load(&mut loaded) {
        use_files(state, settings, matches!(loaded.reason, LoadReason::Reload(_)));
    }
    let ResourcesLoaded { reason, extensions, .. } = loaded;
    match reason {
        LoadReason::Need => {}
        LoadReason::Reload(requester) => {
            state.transition.response_sent();
            match extensions {
                Some(extensions) => transition::reload_extensions(state, requester, extensions),
                None => answer_reload(state, requester),
            }
        }
        LoadReason::Move => transition::advance(state, TransitionEvent::FolderRead(extensions)),
        LoadReason::TrustDecided(decision) => {
            transition::advance(state, TransitionEvent::TrustApplied(*decision, extensions));
        }
    }
}

/// A reload has finished.
pub(super) fn answer_reload(state: &mut SessionState, requester: Requester) {
    let resources = state.project.resources();
    let reply = Reply::data(&ReloadData {
        skills: resources.skills.len(),
        prompt_templates: resources.templates.len(),
        context_files: resources.context_files.len(),
        rules: resources.rules.count(),
        diagnostics: state.project.problems().map(Cow::Borrowed).collect(),
    });
    state.respond_to(requester, Ok(()), || reply, || Value::Null);
}

/// Changes a setting for this process, or makes it follow the files again.
pub(crate) fn set_setting(
    state: &mut SessionState,
    key: SettingKey,
    value: Option<Value>,
) -> Result<(), SettingError> {
    match value {
        Some(value) => state.project.overrides.set(key, value)?,
        None => state.project.overrides.remove(key),
    }
    update_settings(state);
    Ok(())
}

/// Uses files that were read again. What clients have changed stays, unless a reload finds another
/// value in the files.
fn use_files(state: &mut SessionState, files: Settings, is_reload: bool) {
    let project = &mut state.project;
    let before = std::mem::replace(&mut project.files, files);
    if is_reload {
        project.overrides.forget_changed(&before, &project.files);
    }
    update_settings(state);
}

fn update_settings(state: &mut SessionState) {
    let project = &mut state.project;
    let settings = project.overrides.apply(&project.files);
    let before = std::mem::replace(&mut project.settings, settings);
    state.models.registry_mut().apply_settings(&project.settings);
    if before.enabled_models != project.settings.enabled_models && !project.has_own_models() {
        state.models.resolve_scope(&project.settings, &mut project.diagnostics);
    }
    state.approvals.configure(&project.settings, project.project.rules());
    if state.workspace.apply_settings(&project.settings) {
        state.tools.apply_settings(&project.settings);
    }
    super::modes::apply(state);
    tools::update(state);
}
