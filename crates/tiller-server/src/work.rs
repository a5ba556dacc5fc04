//! What the session is doing: a run and everything around it, from the acceptance of a prompt
//! until `agent_settled`.
//!
//! [`Phase`] is the step it is at, and [`next::next`] decides what follows a run.

pub(super) mod compaction;
pub(super) mod deferred;
pub(super) mod next;
pub(super) mod retry;
pub(super) mod run;
pub(super) mod storing;
pub(super) mod stream_rules;

use std::collections::VecDeque;
use std::sync::Arc;

use tiller_agent::driver::{End, NotStored};
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_agent::prompt_result::PromptReason;
use tiller_js::hook::RunOutcome;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::tasks::Pause;
use compaction::Compactions;
use deferred::Deferred;
use retry::Retries;
use stream_rules::RuleMatches;
use tiller_config::settings::{CompactionSettings, RetrySettings, Settings};

pub(crate) struct Work {
    phase: Phase,
    retries: Retries,
    rules: RuleMatches,
    compactions: Compactions,
    /// Actions that wait until nothing runs.
    deferred: VecDeque<Deferred>,
    /// An abort was requested since the last run started.
    abort_requested: bool,
    /// The process is shutting down: new runs are cancelled at once.
    is_shutting_down: bool,
    /// How the last run ended.
    last_end: End,
}

/// The step between the acceptance of a prompt and `agent_settled`.
#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    /// The `before_agent_start` hook of a prompt is running.
    StartHook,
    Running(ActiveRun),
    /// A run failed and is retried after a pause.
    RetryPause {
        _pause: Pause,
    },
    /// A rule interrupted a run and is injected after a pause.
    RulePause {
        _pause: Pause,
    },
    /// An automatic compaction before a prompt or after a run.
    Compacting,
    /// A pause was cancelled; the run settles when the current input is handled.
    PauseCancelled,
    /// The `agent_before_settle` hook is running.
    SettleHook,
}

struct ActiveRun {
    task: RunTask,
    /// The messages it has added.
    added: Vec<Arc<Message>>,
    /// A message has started and not ended.
    is_open: bool,
    /// A message could not be stored, so the run is about to end.
    not_stored: Option<NotStored>,
}

/// The task of a run. It ends with the session: a run whose session is gone would wait for answers
/// for ever, and its tools would go on.
struct RunTask {
    cancel: CancellationToken,
    abort: AbortHandle,
}

impl Drop for RunTask {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.abort.abort();
    }
}

impl Work {
    pub(super) fn new(settings: &Settings) -> Work {
        Work {
            phase: Phase::Idle,
            retries: Retries::new(settings.retry),
            rules: RuleMatches::default(),
            compactions: Compactions::new(settings.compaction.clone()),
            deferred: VecDeque::new(),
            abort_requested: false,
            is_shutting_down: false,
            last_end: End::Complete,
        }
    }

    /// Busy from the acceptance of a prompt until `agent_settled`.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Whether a run or a compaction is in progress, requested or automatic.
    pub(super) fn is_active(&self) -> bool {
        self.is_busy() || self.compactions.is_under_way()
    }

    pub(crate) fn is_in_rule_pause(&self) -> bool {
        matches!(self.phase, Phase::RulePause { .. })
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shutting_down = true;
    }

    pub(crate) fn compactions(&self) -> &Compactions {
        &self.compactions
    }

    pub(super) fn retry_settings(&self) -> &RetrySettings {
        &self.retries.settings
    }

    pub(super) fn set_retry_settings(&mut self, settings: RetrySettings) {
        self.retries.settings = settings;
    }

    pub(super) fn set_compaction_settings(&mut self, settings: CompactionSettings) {
        self.compactions.settings = settings;
    }

    /// The `before_agent_start` hook begins.
    pub(super) fn begin_start_hook(&mut self) {
        self.enter(Phase::StartHook);
    }

    /// The `agent_before_settle` hook begins.
    pub(super) fn begin_settle_hook(&mut self) {
        self.phase = Phase::SettleHook;
    }

    /// The phase is over, and the next one is decided.
    pub(super) fn leave_phase(&mut self) {
        self.phase = Phase::Idle;
    }

    fn enter(&mut self, phase: Phase) {
        debug_assert!(matches!(self.phase, Phase::Idle), "the previous phase has ended");
        self.phase = phase;
    }

    /// Fires when the run is aborted. Never fires if there is none.
    pub(crate) fn run_token(&self) -> CancellationToken {
        self.run().map(|run| run.task.cancel.clone()).unwrap_or_default()
    }

    fn run(&self) -> Option<&ActiveRun> {
        match &self.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    fn run_mut(&mut self) -> Option<&mut ActiveRun> {
        match &mut self.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    /// The run has ended.
    fn take_run(&mut self) -> Option<ActiveRun> {
        match std::mem::take(&mut self.phase) {
            Phase::Running(run) => Some(run),
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// Ends the pause of a retry, if there is one.
    fn take_retry_pause(&mut self) -> bool {
        let is_pausing = matches!(self.phase, Phase::RetryPause { .. });
        if is_pausing {
            self.phase = Phase::Idle;
        }
        is_pausing
    }

    /// Ends the pause of a rule, if there is one.
    fn take_rule_pause(&mut self) -> bool {
        let is_pausing = self.is_in_rule_pause();
        if is_pausing {
            self.phase = Phase::Idle;
        }
        is_pausing
    }

    /// Updates the state of the run from one of its events.
    fn observe(&mut self, event: &Event) {
        let Some(run) = self.run_mut() else { return };
        match event {
            Event::MessageStart { .. } => run.is_open = true,
            Event::MessageEnd { message } => {
                run.is_open = false;
                run.added.push(message.clone());
            }
            _ => {}
        }
    }

    pub(super) fn defer(&mut self, action: Deferred) {
        self.deferred.push_back(action);
    }

    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Whether a deferred action will change the session or start a prompt.
    pub(super) fn has_deferred_change(&self) -> bool {
        self.deferred.iter().any(|action| !matches!(action, Deferred::Answer(_)))
    }

    /// Why the last run was stopped, or the pause after it, if a request has done so.
    pub(super) fn stop_reason(&self) -> Option<PromptReason> {
        let changes = |action: &Deferred| matches!(action, Deferred::Change { .. });
        if self.is_shutting_down {
            Some(PromptReason::Shutdown)
        } else if self.deferred.iter().any(changes) {
            Some(PromptReason::SessionChanged)
        } else {
            self.abort_requested.then_some(PromptReason::Abort)
        }
    }

    pub(super) fn outcome(&self) -> RunOutcome {
        outcome(Some(&self.last_end))
    }
}

/// The outcome that extensions see.
pub(super) fn outcome(end: Option<&End>) -> RunOutcome {
    match end {
        None | Some(End::Complete | End::Limit(_)) => RunOutcome::Completed,
        Some(End::Failed(_) | End::NotStored(_)) => RunOutcome::Error,
        Some(End::Aborted | End::Interrupted) => RunOutcome::Aborted,
    }
}
