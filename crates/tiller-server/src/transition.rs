//! The change to another session, another entry or newly loaded extensions, step by step:
//!
//! ```text
//! session_change::request ─▶ hooks ─▶ the run ends ─▶ Loading ─▶ ShuttingDown ─┬─▶ (same folder) ──────┐
//!                                                    Navigating ─▶ None        └─▶ ReadingFolder       │
//! start ─▶ DecidingTrust ─▶ ApplyingTrust ─┐                                          ▼                │
//!                                          ▼                                    RetiringExtensions     │
//! reload ────────────────────────▶ LoadingExtensions ◀──── DecidingTrust … ◀──────────┘                │
//!                                          │      ▲────────────────────────────────────────────────────┘
//!                                          ▼
//!                                    None: the requests that waited are answered
//! ```
//!
//! There is one step at a time. Commands that would need its end are held, and [`advance`] is the
//! only function that moves from one step to the next. What an event starts is decided here; how it
//! is done is in `session_loading`, `tree_navigation` and `extensions/loading`.

use tiller_agent::compaction::summary::SummaryError;
use tiller_agent::event::Event;
use tiller_agent::prompt_result::PromptReason;
use tiller_js::LoadError;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason, StartReason};
use tiller_session::Body;
use tokio_util::sync::CancellationToken;

use crate::conversation::Conversation;
use crate::extensions::find::Discovery;
use crate::extensions::loading::{self, LoadKind};
use crate::follow;
use crate::held_requests::HeldRequests;
use crate::model_state;
use crate::project_state::{self, LoadReason};
use crate::prompt_results;
use crate::requester::Requester;
use crate::session_change::{self, SessionChange};
use crate::session_loading::{self, ChangePlan, LoadedSession};
use crate::state::SessionState;
use crate::tree_navigation::{self, Navigation, NavigationDecision};
use crate::work::deferred;

/// The current step, and what waits for the last one.
#[derive(Default)]
pub(crate) struct TransitionState {
    step: Transition,
    /// Requests that wait for a session change, for extensions or for project files.
    held: HeldRequests,
    /// Session changes of the client whose hooks are running.
    client_hooks: usize,
    /// Responses that tasks are still working on.
    pending_responses: usize,
    /// Requests that are answered when extensions are ready.
    waiting: Vec<WaitingRequest>,
    /// A reload that waits until nothing runs.
    pending_reload: Option<Discovery>,
}

/// The step of a transition.
#[derive(Default)]
pub(super) enum Transition {
    #[default]
    None,
    /// The other session is being read or written.
    Loading { requester: Requester },
    /// Extensions handle `session_shutdown` while the old session is still there.
    ShuttingDown(Box<PendingSwitch>),
    /// A hook runs or a summary is written before the move to another entry.
    Navigating { requester: Requester, navigation: Navigation, cancel: CancellationToken },
    /// The session is in another folder, whose settings and extensions are being read.
    ReadingFolder(SessionStart),
    /// The extensions of the previous folder are being stopped.
    RetiringExtensions(SessionStart),
    /// The extensions that may decide project trust are being loaded and asked.
    DecidingTrust(SessionStart, TrustDeciders),
    /// The project is being read again with the trust that extensions decided.
    ApplyingTrust(SessionStart, TrustDeciders),
    /// Extensions are being loaded or restarted, or handle `session_start`.
    LoadingExtensions,
}

/// What ends a step.
pub enum TransitionEvent {
    /// The other session is loaded, or cannot be.
    SessionLoaded(Result<Box<LoadedSession>, String>),
    /// All extensions have handled the `session_shutdown` of the session that is left.
    ShutdownAnnounced,
    /// A navigation has been prepared or cancelled.
    NavigationPrepared(Result<NavigationDecision, SummaryError>),
    /// The folder was read; nothing if that failed.
    FolderRead(Option<Discovery>),
    /// The extensions of the previous folder have been stopped.
    ExtensionsRetired,
    /// The extensions that may decide project trust have answered.
    TrustAnswered(TrustDecision),
    /// The project was read again with the trust decision.
    TrustApplied(TrustDecision, Option<Discovery>),
    /// All extensions have handled `session_start`.
    ExtensionsReady,
}

/// The `session_start` that extensions get.
#[derive(Clone)]
pub(crate) struct SessionStart {
    pub(crate) reason: StartReason,
    /// The file of the session before.
    pub(crate) previous: Option<String>,
}

impl SessionStart {
    pub(crate) fn new(reason: StartReason) -> SessionStart {
        SessionStart { reason, previous: None }
    }
}

/// A session change that is about to be made.
pub(super) struct PendingSwitch {
    requester: Requester,
    conversation: Conversation,
    reason: StartReason,
    text: Option<String>,
    setup: Vec<Body>,
}

/// The slots of the extensions that were loaded first to decide project trust.
pub(crate) struct TrustDeciders(pub(crate) Vec<u32>);

/// The trust decision of extensions from outside the project.
pub struct TrustDecision {
    pub(crate) trusted: bool,
    pub(crate) remember: bool,
    pub(crate) is_decided: bool,
    pub(crate) errors: Vec<LoadError>,
}

/// A request that is answered when extensions are ready.
enum WaitingRequest {
    /// With the text of the message that was forked from.
    SessionChange(Requester, Option<String>),
    Reload(Requester),
}

impl WaitingRequest {
    fn is_client(&self) -> bool {
        let (WaitingRequest::SessionChange(requester, _) | WaitingRequest::Reload(requester)) =
            self;
        requester.command().is_some()
    }
}

impl TransitionState {
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.step, Transition::None)
    }

    /// Whether the open session or entry is about to be left.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(
            self.step,
            Transition::Loading { .. }
                | Transition::ShuttingDown(_)
                | Transition::Navigating { .. }
        )
    }

    pub(super) fn is_loading_extensions(&self) -> bool {
        self.is_active() && !self.is_leaving()
    }

    pub(super) fn is_navigating(&self) -> bool {
        matches!(self.step, Transition::Navigating { .. })
    }

    /// Whether hooks are running for a session change of the client.
    pub(super) fn has_client_hook(&self) -> bool {
        self.client_hooks > 0
    }

    /// Whether the client waits for another session or a reload.
    pub(super) fn owes_change(&self) -> bool {
        (self.is_leaving() && !self.is_navigating())
            || self.has_client_hook()
            || self.waiting.iter().any(WaitingRequest::is_client)
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_active() && self.held.is_empty() && self.pending_responses == 0
    }

    pub(super) fn held(&self) -> &HeldRequests {
        &self.held
    }

    pub(super) fn held_mut(&mut self) -> &mut HeldRequests {
        &mut self.held
    }

    /// A task will respond later.
    pub(super) fn expect_response(&mut self) {
        self.pending_responses += 1;
    }

    /// The task has responded.
    pub(super) fn response_sent(&mut self) {
        self.pending_responses -= 1;
    }

    /// Hooks run before a session change.
    pub(super) fn hooks_started(&mut self, requester: &Requester) {
        self.expect_response();
        self.client_hooks += usize::from(requester.command().is_some());
    }

    pub(super) fn hooks_ended(&mut self, requester: &Requester) {
        self.response_sent();
        self.client_hooks -= usize::from(requester.command().is_some());
    }

    pub(super) fn cancel_navigation(&self) {
        if let Transition::Navigating { cancel, .. } = &self.step {
            cancel.cancel();
        }
    }

    /// Begins a step. The one before has ended.
    pub(super) fn begin(&mut self, step: Transition) {
        debug_assert!(!self.is_active(), "the previous transition has ended");
        self.step = step;
    }
}

/// Ends the current step and begins the next one. An event that does not belong to the step is
/// ignored: what it was about is over.
pub(super) fn advance(state: &mut SessionState, event: TransitionEvent) {
    match (std::mem::take(&mut state.transition.step), event) {
        (Transition::Loading { requester }, TransitionEvent::SessionLoaded(result)) => {
            change_to(state, requester, result);
            deferred::run_deferred_if_idle(state);
        }
        (Transition::ShuttingDown(switch), TransitionEvent::ShutdownAnnounced) => {
            finish_switch(state, *switch);
            deferred::run_deferred_if_idle(state);
        }
        (
            Transition::Navigating { requester, navigation, .. },
            TransitionEvent::NavigationPrepared(result),
        ) => {
            tree_navigation::finish(state, requester, &navigation, result);
            deferred::run_deferred_if_idle(state);
        }
        (Transition::ReadingFolder(start), TransitionEvent::FolderRead(discovery)) => {
            load_for_folder(state, start, discovery);
        }
        (Transition::RetiringExtensions(start), TransitionEvent::ExtensionsRetired) => {
            let may_decide_trust = state.project.needs_trust_decision();
            load_new(state, start, may_decide_trust);
        }
        (Transition::DecidingTrust(start, deciders), TransitionEvent::TrustAnswered(decision)) => {
            apply_trust(state, start, deciders, decision);
        }
        (
            Transition::ApplyingTrust(start, deciders),
            TransitionEvent::TrustApplied(decision, discovery),
        ) => {
            if let Some(discovery) = discovery {
                loading::found_again(state, discovery);
            }
            load_rest(state, start, deciders, decision.errors);
        }
        (Transition::LoadingExtensions, TransitionEvent::ExtensionsReady) => ready(state),
        (step, _) => state.transition.step = step,
    }
}

/// Starts a change when nothing runs. The response follows at once or at the end of the last step.
pub(super) fn start(state: &mut SessionState, requester: Requester, change: SessionChange) {
    match session_loading::plan(state, change) {
        ChangePlan::Stay => {
            let cleared = state.queues.clear();
            prompt_results::drop_queued(state, cleared.prompts, PromptReason::SessionChanged);
            session_change::respond_to_change(state, requester, Ok(None));
        }
        ChangePlan::Navigate(navigation) => {
            tree_navigation::navigate(state, requester, navigation);
        }
        ChangePlan::Open(result) => change_to(state, requester, result),
        ChangePlan::Load(load) => {
            state.transition.begin(Transition::Loading { requester });
            state.tasks.spawn_blocking(load, |result| {
                let crashed = |crash| Err(format!("internal error: {crash}"));
                let result = result.unwrap_or_else(crashed);
                TransitionEvent::SessionLoaded(result.map(Box::new)).into()
            });
        }
    }
}

/// The other session is loaded, or cannot be; then this one stays.
fn change_to(
    state: &mut SessionState,
    requester: Requester,
    result: Result<Box<LoadedSession>, String>,
) {
    let durability = state.project.settings().session.durability;
    let resumed = result.and_then(|other| {
        let LoadedSession { session, reason, text, setup } = *other;
        let conversation = Conversation::resume(session, durability, state.clock.now());
        Ok((conversation.map_err(|err| err.to_string())?, reason, text, setup))
    });
    match resumed {
        Ok((conversation, reason, text, setup)) => {
            let switch = PendingSwitch { requester, conversation, reason, text, setup };
            announce_shutdown(state, switch);
        }
        Err(error) => session_change::respond_to_change(state, requester, Err(error)),
    }
}

/// Sends `session_shutdown` while the old session is still there.
fn announce_shutdown(state: &mut SessionState, switch: PendingSwitch) {
    let host = state.extensions.listening_host("session_shutdown");
    let Some(host) = host.cloned() else { return finish_switch(state, switch) };
    let reason = match switch.reason {
        StartReason::New => ShutdownReason::New,
        StartReason::Fork => ShutdownReason::Fork,
        StartReason::Reload => ShutdownReason::Reload,
        StartReason::Resume | StartReason::Startup => ShutdownReason::Resume,
    };
    let target_session_file = switch.conversation.file().map(|file| file.display().to_string());
    state.transition.begin(Transition::ShuttingDown(Box::new(switch)));
    state.tasks.spawn(async move {
        host.emit_and_wait(&ExtensionEvent::SessionShutdown { reason, target_session_file }).await;
        TransitionEvent::ShutdownAnnounced
    });
}

/// Replaces the session. Extensions follow it.
fn finish_switch(state: &mut SessionState, switch: PendingSwitch) {
    let PendingSwitch { requester, conversation, reason, text, setup } = switch;
    let is_new = conversation.session().is_empty();
    let problems = conversation.session().problems();
    let is_other_folder = project_state::set_cwd(state, conversation.cwd());
    // Commands that the client ran there are not appended to another session.
    state.client_bash.abort_all();
    state.project.add_diagnostics(problems.iter().map(ToString::to_string));
    let previous = state.session.replace(conversation);
    follow::begin(state);
    let dropped = state.queues.forget();
    prompt_results::drop_queued(state, dropped, PromptReason::SessionChanged);
    state.todos.forget();
    state.approvals.session_changed();
    if reason == StartReason::New {
        model_state::select_for_new_session(state);
    }
    if is_new {
        model_state::append_choices(state);
    } else {
        model_state::restore(state);
    }
    for body in setup {
        if let Err(err) = state.session.append_setup_entry(body, state.clock.now()) {
            state.emit(Event::SessionError { error: err.to_string() });
        }
    }
    let start = SessionStart { reason, previous };
    follow_session(state, start, is_other_folder, requester, text);
}

/// Loads the extensions that a session starts with.
pub(super) fn load_at_start(state: &mut SessionState, may_decide_trust: bool) {
    load_new(state, SessionStart::new(StartReason::Startup), may_decide_trust);
}

/// Loads extensions, first those that may decide project trust.
fn load_new(state: &mut SessionState, start: SessionStart, may_decide_trust: bool) {
    let deciders = state.extensions.trust_deciders();
    if may_decide_trust && !deciders.is_empty() {
        let slots = loading::ask_project_trust(state, deciders);
        state.transition.begin(Transition::DecidingTrust(start, slots));
    } else {
        load_rest(state, start, TrustDeciders(Vec::new()), Vec::new());
    }
}

/// Applies what extensions decided about the project's trust, if that changes anything.
fn apply_trust(
    state: &mut SessionState,
    start: SessionStart,
    deciders: TrustDeciders,
    decision: TrustDecision,
) {
    // The reason why the project is not trusted is printed again if it has changed.
    let is_news = !decision.trusted || !state.project.is_trusted() || decision.remember;
    if decision.is_decided && is_news {
        state.transition.begin(Transition::ApplyingTrust(start, deciders));
        return project_state::load(state, LoadReason::TrustDecided(Box::new(decision)));
    }
    state.project.print_problems();
    load_rest(state, start, deciders, decision.errors);
}

fn load_rest(
    state: &mut SessionState,
    start: SessionStart,
    deciders: TrustDeciders,
    errors: Vec<LoadError>,
) {
    start_loading(state, start, LoadKind::Rest { deciders, errors });
}

fn start_loading(state: &mut SessionState, start: SessionStart, kind: LoadKind) {
    if loading::load(state, start, kind) {
        state.transition.begin(Transition::LoadingExtensions);
    } else {
        ready(state);
    }
}

/// The session has been replaced: extensions follow it. The requester is answered when they are
/// ready.
fn follow_session(
    state: &mut SessionState,
    start: SessionStart,
    is_other_folder: bool,
    requester: Requester,
    text: Option<String>,
) {
    if is_other_folder && state.extensions.is_enabled() {
        state.transition.begin(Transition::ReadingFolder(start));
    } else if !is_other_folder && state.extensions.host().is_some() {
        restart(state, start);
    } else {
        return session_change::respond_to_change(state, requester, Ok(text));
    }
    state.transition.waiting.push(WaitingRequest::SessionChange(requester, text));
}

/// Restarts extensions in a new session.
fn restart(state: &mut SessionState, start: SessionStart) {
    loading::forget_session(state);
    start_loading(state, start, LoadKind::Restart);
}

/// The new folder was read. If that failed, the loaded extensions are restarted.
fn load_for_folder(state: &mut SessionState, start: SessionStart, discovery: Option<Discovery>) {
    let has_host = state.extensions.host().is_some();
    let Some(discovery) = discovery else {
        return if has_host { restart(state, start) } else { ready(state) };
    };
    let is_empty = discovery.found.is_empty();
    loading::found(state, discovery);
    if !has_host && is_empty {
        return ready(state);
    }
    loading::forget_session(state);
    if loading::retire(state) {
        state.transition.begin(Transition::RetiringExtensions(start));
    } else {
        ready(state);
    }
}

/// Extensions are ready: answers what waited for that.
fn ready(state: &mut SessionState) {
    for request in std::mem::take(&mut state.transition.waiting) {
        match request {
            WaitingRequest::SessionChange(requester, text) => {
                session_change::respond_to_change(state, requester, Ok(text));
            }
            WaitingRequest::Reload(requester) => project_state::answer_reload(state, requester),
        }
    }
    deferred::run_deferred_if_idle(state);
}

/// Loads extensions from their current files. A run keeps the ones it started with.
pub(super) fn reload_extensions(
    state: &mut SessionState,
    requester: Requester,
    discovery: Discovery,
) {
    if state.extensions.host().is_none() && discovery.found.is_empty() {
        loading::found(state, discovery);
        return project_state::answer_reload(state, requester);
    }
    let waits = state.is_occupied() || state.transition.is_active();
    match requester {
        // The engine of the extension ends before it could get a response.
        extension @ Requester::Extension(_) => {
            state.transition.waiting.push(WaitingRequest::SessionChange(extension, None));
        }
        client if waits => project_state::answer_reload(state, client),
        client => state.transition.waiting.push(WaitingRequest::Reload(client)),
    }
    if waits {
        state.transition.pending_reload = Some(discovery);
    } else {
        reload_now(state, discovery);
    }
}

/// Runs a reload that waited for the run to close.
pub(super) fn reload_if_due(state: &mut SessionState) {
    if !state.transition.is_active()
        && let Some(discovery) = state.transition.pending_reload.take()
    {
        reload_now(state, discovery);
    }
}

fn reload_now(state: &mut SessionState, discovery: Discovery) {
    loading::found(state, discovery);
    state.tools.forget_selection();
    start_loading(state, SessionStart::new(StartReason::Reload), LoadKind::Reload);
}
