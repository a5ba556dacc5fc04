//! Navigation to another entry of the session tree.
//!
//! Usually that is one step. If extensions have a hook for it, or the old branch is summarised, a
//! task does that while commands wait; the session changes at its end.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::compaction::ContextLimits;
use tiller_agent::compaction::summary::{BranchOptions, Summarizer, Summary, SummaryError};
use tiller_agent::message::{Message, Usage};
use tiller_agent::prompt_result::PromptReason;
use tiller_js::Extensions;
use tiller_js::event::Event as ExtensionEvent;
use tiller_js::hook::{SessionBeforeTree, TreeChange, TreeSummary};
use tiller_session::{BranchDiff, BranchSummary, Error};
use tokio_util::sync::CancellationToken;

use crate::extensions::{compaction_hooks, hooks};
use crate::requester::Requester;
use crate::state::SessionState;
use crate::transition::{Transition, TransitionEvent};
use crate::work::compaction::ProgressSender;
use crate::work::run;
use crate::{model_state, prompt, prompt_results, session_change};

/// The target and the options of a navigation.
pub struct Navigation {
    pub(super) target: String,
    /// A user message is to be sent again, so the target is the entry before it.
    pub(super) resend: bool,
    pub(super) options: NavigateOptions,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NavigateOptions {
    summarize: Option<bool>,
    custom_instructions: Option<String>,
    replace_instructions: Option<bool>,
    /// For the summary, or for the target when there is none.
    label: Option<String>,
}

/// Whether and how a navigation proceeds, after the hooks.
pub enum NavigationDecision {
    Proceed {
        summary: Option<Box<BranchSummaryText>>,
        label: Option<String>,
    },
    /// An extension has cancelled it.
    Cancelled,
}

/// The summary of the branch that is left.
pub struct BranchSummaryText {
    text: String,
    details: Option<Value>,
    usage: Option<Usage>,
    from_hook: bool,
}

/// Starts when nothing runs. The response follows at once or when a task has
/// prepared the navigation.
pub(super) fn navigate(state: &mut SessionState, requester: Requester, navigation: Navigation) {
    let session = state.session.conversation().session();
    if session.leaf() == Some(&navigation.target) {
        return session_change::respond_to_change(state, requester, Ok(None));
    }
    let diff = match session.branch_diff(&navigation.target) {
        Ok(diff) => diff,
        Err(err) => {
            return session_change::respond_to_change(state, requester, Err(err.to_string()));
        }
    };
    let wants_summary = navigation.options.summarize == Some(true);
    let host = state.extensions.listening_host("session_before_tree").cloned();
    if host.is_none() && !wants_summary {
        let label = navigation.options.label.clone();
        return finish_navigation(state, requester, &navigation, None, label);
    }
    match task(state, &navigation, host, diff) {
        Ok(task) => prepare_in_background(state, requester, navigation, task),
        Err(error) => session_change::respond_to_change(state, requester, Err(error)),
    }
}

fn task(
    state: &mut SessionState,
    navigation: &Navigation,
    host: Option<Extensions>,
    diff: BranchDiff,
) -> Result<NavigationTask, String> {
    let wanted = navigation.options.clone();
    let session = state.session.conversation().session();
    let hook = host.map(|host| {
        let entries: Vec<Value> =
            diff.abandoned.iter().map(|id| compaction_hooks::entry_value(state, id)).collect();
        let mut preparation = json!({
            "targetId": navigation.target,
            "oldLeafId": session.leaf(),
            "commonAncestorId": diff.common,
            "entriesToSummarize": entries,
            "userWantsSummary": wanted.summarize == Some(true),
        });
        let more = [
            ("customInstructions", wanted.custom_instructions.clone().map(Value::from)),
            ("replaceInstructions", wanted.replace_instructions.map(Value::from)),
            ("label", wanted.label.clone().map(Value::from)),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                preparation[name] = value;
            }
        }
        (host, SessionBeforeTree { preparation })
    });
    let messages = match wanted.summarize {
        Some(true) => session.messages_of(&diff.abandoned).map_err(|err| err.to_string())?,
        _ => Vec::new(),
    };
    let writer = (!messages.is_empty()).then(|| branch_writer(state)).transpose();
    // An extension may still provide a summary.
    let writer = match (writer, &hook) {
        (Err(error), None) => return Err(error),
        (writer, _) => writer,
    };
    let progress = ProgressSender { tasks: state.tasks.clone(), reason: None };
    Ok(NavigationTask { hook, wanted, messages, writer, progress })
}

fn branch_writer(state: &mut SessionState) -> Result<Summarizer, String> {
    prompt::check_can_start(state)?;
    let setup = run::setup(state);
    let reserve = state.project.settings().branch_summary.reserve_tokens;
    Ok(Summarizer {
        provider: setup.provider,
        limits: ContextLimits::new(setup.model.context_window, reserve, 0),
        model: setup.model,
        thinking: setup.thinking,
        retry: state.work.retry_settings().policy(),
        session_id: setup.session_id,
        now: state.clock.now(),
        cancel: CancellationToken::new(),
    })
}

fn prepare_in_background(
    state: &mut SessionState,
    requester: Requester,
    navigation: Navigation,
    mut task: NavigationTask,
) {
    let cancel = CancellationToken::new();
    if state.work.is_shutting_down() || state.work.has_deferred() {
        // An abort came before it started.
        cancel.cancel();
    }
    if let Ok(Some(writer)) = &mut task.writer {
        writer.cancel = cancel.clone();
    }
    let token = cancel.clone();
    state.transition.begin(Transition::Navigating { requester, navigation, cancel });
    let deciding = async move { task.decide(&token).await };
    state.tasks.spawn_catching(deciding, |decided| {
        let crashed = |crash| Err(SummaryError::Failed(format!("internal error: {crash}")));
        TransitionEvent::NavigationPrepared(decided.unwrap_or_else(crashed)).into()
    });
}

/// The navigation was prepared or cancelled.
pub(super) fn finish(
    state: &mut SessionState,
    requester: Requester,
    navigation: &Navigation,
    result: Result<NavigationDecision, SummaryError>,
) {
    match result {
        Ok(NavigationDecision::Proceed { summary, label }) => {
            finish_navigation(state, requester, navigation, summary.map(|summary| *summary), label);
        }
        Ok(NavigationDecision::Cancelled) | Err(SummaryError::Cancelled) => {
            session_change::cancel(state, requester, None)
        }
        Err(SummaryError::Failed(error)) => {
            session_change::respond_to_change(state, requester, Err(error))
        }
    }
}

fn finish_navigation(
    state: &mut SessionState,
    requester: Requester,
    navigation: &Navigation,
    summary: Option<BranchSummaryText>,
    label: Option<String>,
) {
    let result = move_leaf(state, navigation, summary, label);
    if result.is_ok() {
        model_state::restore(state);
        let cleared = state.queues.clear();
        prompt_results::drop_queued(state, cleared.prompts, PromptReason::SessionChanged);
        state.todos.forget();
    }
    session_change::respond_to_change(
        state,
        requester,
        result.map(|()| None).map_err(|err| err.to_string()),
    );
}

fn move_leaf(
    state: &mut SessionState,
    navigation: &Navigation,
    summary: Option<BranchSummaryText>,
    label: Option<String>,
) -> Result<(), Error> {
    let now = state.clock.now();
    let session = state.session.conversation().session();
    let old_leaf = session.leaf().map(str::to_owned);
    let leaf = if navigation.resend {
        session.resend_parent(&navigation.target)?
    } else {
        Some(navigation.target.clone())
    };
    let from_extension = summary.as_ref().is_some_and(|summary| summary.from_hook);
    let entry = match summary {
        Some(BranchSummaryText { text: summary, details, usage, from_hook }) => {
            let from_id = old_leaf.clone().unwrap_or_else(|| "root".to_owned());
            let summary = BranchSummary { from_id, summary, details, usage, from_hook };
            Some(state.session.conversation_mut().navigate_with(leaf.as_deref(), summary, now)?)
        }
        None => {
            state.session.conversation_mut().navigate(leaf.as_deref(), now)?;
            None
        }
    };
    if let Some(label) = label {
        let labelled = entry.as_deref().unwrap_or(&navigation.target);
        state.session.conversation_mut().set_label(labelled, Some(&label), now)?;
    }
    if let Some(host) = state.extensions.host() {
        host.emit(&ExtensionEvent::SessionTree {
            new_leaf_id: state.session.conversation().session().leaf().map(str::to_owned),
            old_leaf_id: old_leaf,
            summary_entry: entry
                .as_deref()
                .map(|entry| compaction_hooks::entry_value(state, entry)),
            from_extension: entry.is_some().then_some(from_extension),
        });
    }
    Ok(())
}

/// Everything that the task needs.
struct NavigationTask {
    hook: Option<(Extensions, SessionBeforeTree)>,
    wanted: NavigateOptions,
    /// The messages of the branch, if it is summarised.
    messages: Vec<Arc<Message>>,
    /// The summarizer, if there are messages.
    writer: Result<Option<Summarizer>, String>,
    progress: ProgressSender,
}

impl NavigationTask {
    async fn decide(self, cancel: &CancellationToken) -> Result<NavigationDecision, SummaryError> {
        let NavigationTask { hook, wanted, messages, writer, progress } = self;
        let change = match hook {
            Some((host, hook)) => hooks::ask(&host, hook, cancel).await.unwrap_or_default(),
            None => TreeChange::default(),
        };
        if cancel.is_cancelled() {
            return Err(SummaryError::Cancelled);
        }
        if change.cancel {
            return Ok(NavigationDecision::Cancelled);
        }
        let label = change.label.or(wanted.label);
        let provided = change.summary.filter(|_| wanted.summarize == Some(true));
        let summary = match (provided, writer) {
            (Some(provided), _) => Some(Box::new(BranchSummaryText::provided(provided))),
            (None, Err(error)) => return Err(SummaryError::Failed(error)),
            (None, Ok(None)) => None,
            (None, Ok(Some(writer))) => {
                let options = BranchOptions {
                    instructions: change.custom_instructions.or(wanted.custom_instructions),
                    is_all: change.replace_instructions.or(wanted.replace_instructions)
                        == Some(true),
                };
                let written = writer.write_branch(&messages, &options, &progress).await?;
                Some(Box::new(BranchSummaryText::written(written)))
            }
        };
        Ok(NavigationDecision::Proceed { summary, label })
    }
}

impl BranchSummaryText {
    fn written(written: Summary) -> BranchSummaryText {
        let Summary { summary, files, usage } = written;
        BranchSummaryText {
            text: summary,
            details: serde_json::to_value(&files).ok(),
            usage: Some(usage),
            from_hook: false,
        }
    }

    fn provided(provided: TreeSummary) -> BranchSummaryText {
        let TreeSummary { summary, details, usage } = provided;
        let usage = usage.and_then(|usage| serde_json::from_value(usage).ok());
        BranchSummaryText { text: summary, details, usage, from_hook: true }
    }
}
