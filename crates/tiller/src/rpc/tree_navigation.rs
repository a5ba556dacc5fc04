//! Navigation to another entry of the session tree.
//!
//! Usually that is one step. If extensions have a hook for it, or the old branch is summarised, a
//! task does that while commands wait; the session changes at its end.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::compaction::Limits;
use tiller_agent::compaction::summary::{BranchOptions, Summarizer, Summary, SummaryError};
use tiller_agent::message::{Message, Usage};
use tiller_js::Extensions;
use tiller_js::event::Event as ExtensionEvent;
use tiller_js::hook::{SessionBeforeTree, TreeChange, TreeSummary};
use tiller_session::{BranchDiff, BranchSummary, Error};
use tokio_util::sync::CancellationToken;

use super::compaction::ProgressSender;
use super::extensions::{ExtensionInput, hooks};
use super::requester::Requester;
use super::state::SessionState;

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

/// A navigation that was prepared or cancelled.
pub struct NavigationResult {
    requester: Requester,
    navigation: Navigation,
    result: Result<NavigationDecision, SummaryError>,
}

enum NavigationDecision {
    Proceed {
        summary: Option<Box<BranchSummaryText>>,
        label: Option<String>,
    },
    /// An extension has cancelled it.
    Cancelled,
}

/// The summary of the branch that is left.
struct BranchSummaryText {
    text: String,
    details: Option<Value>,
    usage: Option<Usage>,
    from_hook: bool,
}

impl SessionState {
    /// Starts when nothing runs. The response follows at once or after [`NavigationResult`].
    pub(super) fn navigate(&mut self, requester: Requester, navigation: Navigation) {
        let session = self.conversation.session();
        if session.leaf() == Some(&navigation.target) {
            return self.respond_to_change(requester, Ok(None));
        }
        let parting = match session.branch_diff(&navigation.target) {
            Ok(parting) => parting,
            Err(err) => return self.respond_to_change(requester, Err(err.to_string())),
        };
        let wants_summary = navigation.options.summarize == Some(true);
        let host = self.extensions.host.clone();
        let host = host.filter(|host| host.has_listener("session_before_tree"));
        if host.is_none() && !wants_summary {
            let label = navigation.options.label.clone();
            return self.go(requester, &navigation, None, label);
        }
        match self.task(&navigation, host, parting) {
            Ok(task) => self.prepare_in_background(requester, navigation, task),
            Err(error) => self.respond_to_change(requester, Err(error)),
        }
    }

    fn task(
        &mut self,
        navigation: &Navigation,
        host: Option<Extensions>,
        parting: BranchDiff,
    ) -> Result<NavigationTask, String> {
        let wanted = navigation.options.clone();
        let session = self.conversation.session();
        let hook = host.map(|host| {
            let entries: Vec<Value> =
                parting.abandoned.iter().map(|id| self.entry_value(id)).collect();
            let mut preparation = json!({
                "targetId": navigation.target,
                "oldLeafId": session.leaf(),
                "commonAncestorId": parting.common,
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
            Some(true) => session.messages_of(&parting.abandoned).map_err(|err| err.to_string())?,
            _ => Vec::new(),
        };
        let writer = (!messages.is_empty()).then(|| self.branch_writer()).transpose();
        // An extension may still provide a summary.
        let writer = match (writer, &hook) {
            (Err(error), None) => return Err(error),
            (writer, _) => writer,
        };
        let progress = ProgressSender { tasks: self.tasks.clone(), reason: None };
        Ok(NavigationTask { hook, wanted, messages, writer, progress })
    }

    fn branch_writer(&mut self) -> Result<Summarizer, String> {
        self.check_can_start()?;
        let setup = self.setup();
        let (window, reserve) =
            (setup.model.context_window, self.settings.branch_summary.reserve_tokens);
        Ok(Summarizer {
            provider: setup.provider,
            limits: Limits::new(window, reserve, 0),
            model: setup.model,
            thinking: setup.thinking,
            retry: self.retries.settings.policy(),
            session_id: setup.session_id,
            now: self.clock.now(),
            cancel: CancellationToken::new(),
        })
    }

    fn prepare_in_background(
        &mut self,
        requester: Requester,
        navigation: Navigation,
        mut task: NavigationTask,
    ) {
        self.is_changing_session = true;
        let cancel = CancellationToken::new();
        if self.is_shutting_down || !self.nothing_deferred() {
            // An abort came before it started.
            cancel.cancel();
        }
        self.navigation_cancel = Some(cancel.clone());
        if let Ok(Some(writer)) = &mut task.writer {
            writer.cancel = cancel.clone();
        }
        let deciding = async move { task.decide(&cancel).await };
        self.tasks.spawn_catching(deciding, |decided| {
            let crashed = |crash| Err(SummaryError::Failed(format!("internal error: {crash}")));
            let result = decided.unwrap_or_else(crashed);
            ExtensionInput::NavigationPrepared(Box::new(NavigationResult {
                requester,
                navigation,
                result,
            }))
            .into()
        });
    }

    /// The navigation was prepared or cancelled.
    pub(super) fn navigation_prepared(&mut self, prepared: NavigationResult) {
        self.is_changing_session = false;
        self.navigation_cancel = None;
        let NavigationResult { requester, navigation, result } = prepared;
        match result {
            Ok(NavigationDecision::Proceed { summary, label }) => {
                self.go(requester, &navigation, summary.map(|summary| *summary), label);
            }
            Ok(NavigationDecision::Cancelled) | Err(SummaryError::Cancelled) => {
                self.cancel_switch(requester, None)
            }
            Err(SummaryError::Failed(error)) => self.respond_to_change(requester, Err(error)),
        }
        self.run_deferred_if_idle();
    }

    fn go(
        &mut self,
        requester: Requester,
        navigation: &Navigation,
        summary: Option<BranchSummaryText>,
        label: Option<String>,
    ) {
        let gone = self.go_to(navigation, summary, label);
        if gone.is_ok() {
            self.restore_choices();
            self.queues.clear();
            self.todos.forget();
        }
        self.respond_to_change(requester, gone.map(|()| None).map_err(|err| err.to_string()));
    }

    fn go_to(
        &mut self,
        navigation: &Navigation,
        summary: Option<BranchSummaryText>,
        label: Option<String>,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let session = self.conversation.session();
        let old_leaf = session.leaf().map(str::to_owned);
        let place = match navigation.resend {
            true => session.resend_parent(&navigation.target)?,
            false => Some(navigation.target.clone()),
        };
        let from_extension = summary.as_ref().is_some_and(|summary| summary.from_hook);
        let entry = match summary {
            Some(BranchSummaryText { text: summary, details, usage, from_hook }) => {
                let from_id = old_leaf.clone().unwrap_or_else(|| "root".to_owned());
                let summary = BranchSummary { from_id, summary, details, usage, from_hook };
                Some(self.conversation.navigate_with(place.as_deref(), summary, now)?)
            }
            None => {
                self.conversation.navigate(place.as_deref(), now)?;
                None
            }
        };
        if let Some(label) = label {
            let labelled = entry.as_deref().unwrap_or(&navigation.target);
            self.conversation.set_label(labelled, Some(&label), now)?;
        }
        if let Some(host) = &self.extensions.host {
            host.emit(&ExtensionEvent::SessionTree {
                new_leaf_id: self.conversation.session().leaf().map(str::to_owned),
                old_leaf_id: old_leaf,
                summary_entry: entry.as_deref().map(|entry| self.entry_value(entry)),
                from_extension: entry.is_some().then_some(from_extension),
            });
        }
        Ok(())
    }
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
