//! From one place in the tree of a session to another.
//!
//! Usually that is one step. Where extensions want to be asked, or the branch that is left is to
//! be summed up, a task of its own sees to it while commands wait; the session changes at its end.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::compaction::Limits;
use tiller_agent::compaction::summary::{Unwritten, Wishes, Writer, Written};
use tiller_agent::message::{Message, Usage};
use tiller_js::Guests;
use tiller_js::event::Event as Told;
use tiller_js::hook::{SessionBeforeTree, TreeChange, TreeSummary};
use tiller_session::{BranchSummary, Error, Parting};
use tokio_util::sync::CancellationToken;

use super::asker::Asker;
use super::compaction::Teller;
use super::guests::{Wish, hooks};
use super::handlers::prompt::can_start;
use super::server::Input;
use super::state::State;

/// Where to, and what is wanted on the way.
pub struct Navigation {
    pub(super) target: String,
    /// A message of the user's is to be said again, so the place is the one before it.
    pub(super) says_again: bool,
    pub(super) wanted: Wanted,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    summarize: Option<bool>,
    custom_instructions: Option<String>,
    replace_instructions: Option<bool>,
    /// For the summary, or for the place when there is none.
    label: Option<String>,
}

/// A navigation that was thought over.
pub struct Considered {
    asker: Asker,
    navigation: Navigation,
    result: Result<Decided, Unwritten>,
}

enum Decided {
    Go {
        summary: Option<Box<Summary>>,
        label: Option<String>,
    },
    /// An extension does not want it.
    Stay,
}

/// What is said of the branch that is left.
struct Summary {
    text: String,
    details: Option<Value>,
    usage: Option<Usage>,
    is_brought: bool,
}

impl State {
    /// Begins, now that nothing runs. The answer follows at once or as [`Considered`].
    pub(super) fn navigate(&mut self, asker: Asker, navigation: Navigation) {
        let session = self.conversation.session();
        if session.leaf() == Some(&navigation.target) {
            return self.answer_change(asker, Ok(None));
        }
        let parting = match session.parting(&navigation.target) {
            Ok(parting) => parting,
            Err(err) => return self.answer_change(asker, Err(err.to_string())),
        };
        let wants_summary = navigation.wanted.summarize == Some(true);
        let guests = self.visitors.guests.clone();
        let guests = guests.filter(|guests| guests.hears("session_before_tree"));
        if guests.is_none() && !wants_summary {
            let label = navigation.wanted.label.clone();
            return self.go(asker, &navigation, None, label);
        }
        match self.consideration(&navigation, guests, parting) {
            Ok(consideration) => self.think_over(asker, navigation, consideration),
            Err(error) => self.answer_change(asker, Err(error)),
        }
    }

    fn consideration(
        &mut self,
        navigation: &Navigation,
        guests: Option<Guests>,
        parting: Parting,
    ) -> Result<Consideration, String> {
        let wanted = navigation.wanted.clone();
        let session = self.conversation.session();
        let hook = guests.map(|guests| {
            let entries: Vec<Value> = parting.left.iter().map(|id| self.entry_value(id)).collect();
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
            (guests, SessionBeforeTree { preparation })
        });
        let messages = match wanted.summarize {
            Some(true) => session.said_in(&parting.left).map_err(|err| err.to_string())?,
            _ => Vec::new(),
        };
        let writer = (!messages.is_empty()).then(|| self.branch_writer()).transpose();
        // An extension may still bring a summary of its own.
        let writer = match (writer, &hook) {
            (Err(error), None) => return Err(error),
            (writer, _) => writer,
        };
        let teller = Teller { inputs: self.inputs.clone(), reason: None };
        Ok(Consideration { hook, wanted, messages, writer, teller })
    }

    fn branch_writer(&mut self) -> Result<Writer, String> {
        can_start(self)?;
        let setup = self.setup();
        let (window, reserve) =
            (setup.model.context_window, self.settings.branch_summary.reserve_tokens);
        Ok(Writer {
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

    fn think_over(
        &mut self,
        asker: Asker,
        navigation: Navigation,
        mut consideration: Consideration,
    ) {
        self.opening = true;
        let cancel = CancellationToken::new();
        if self.stopping || !self.after_run_is_empty() {
            // Somebody wanted it stopped before it began.
            cancel.cancel();
        }
        self.leaving = Some(cancel.clone());
        if let Ok(Some(writer)) = &mut consideration.writer {
            writer.cancel = cancel.clone();
        }
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let task = tokio::spawn(async move { consideration.decide(&cancel).await });
            let crash = |err| Err(Unwritten::Failed(format!("internal error: {err}")));
            let result = task.await.unwrap_or_else(crash);
            let considered = Wish::Navigated(Box::new(Considered { asker, navigation, result }));
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(considered))).await.ok();
        });
    }

    /// It was thought over.
    pub(super) fn navigated(&mut self, considered: Considered) {
        self.opening = false;
        self.leaving = None;
        let Considered { asker, navigation, result } = considered;
        match result {
            Ok(Decided::Go { summary, label }) => {
                self.go(asker, &navigation, summary.map(|summary| *summary), label);
            }
            Ok(Decided::Stay) | Err(Unwritten::Cancelled) => self.stay(asker, None),
            Err(Unwritten::Failed(error)) => self.answer_change(asker, Err(error)),
        }
        self.go_on_if_quiet();
    }

    fn go(
        &mut self,
        asker: Asker,
        navigation: &Navigation,
        summary: Option<Summary>,
        label: Option<String>,
    ) {
        let gone = self.go_to(navigation, summary, label);
        if gone.is_ok() {
            self.restore_choices();
            self.queues.clear();
            self.todos.forget();
        }
        self.answer_change(asker, gone.map(|()| None).map_err(|err| err.to_string()));
    }

    fn go_to(
        &mut self,
        navigation: &Navigation,
        summary: Option<Summary>,
        label: Option<String>,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let session = self.conversation.session();
        let old_leaf = session.leaf().map(str::to_owned);
        let place = match navigation.says_again {
            true => session.place_of(&navigation.target)?,
            false => Some(navigation.target.clone()),
        };
        let is_brought = summary.as_ref().is_some_and(|summary| summary.is_brought);
        let entry = match summary {
            Some(Summary { text: summary, details, usage, is_brought: from_hook }) => {
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
        if let Some(guests) = &self.visitors.guests {
            guests.emit(&Told::SessionTree {
                new_leaf_id: self.conversation.session().leaf().map(str::to_owned),
                old_leaf_id: old_leaf,
                summary_entry: entry.as_deref().map(|entry| self.entry_value(entry)),
                from_extension: entry.is_some().then_some(is_brought),
            });
        }
        Ok(())
    }
}

/// Everything that is needed to think a navigation over.
struct Consideration {
    hook: Option<(Guests, SessionBeforeTree)>,
    wanted: Wanted,
    /// What was said on the branch, if it is to be summed up.
    messages: Vec<Arc<Message>>,
    /// Who sums it up, if anything was said.
    writer: Result<Option<Writer>, String>,
    teller: Teller,
}

impl Consideration {
    async fn decide(self, cancel: &CancellationToken) -> Result<Decided, Unwritten> {
        let Consideration { hook, wanted, messages, writer, teller } = self;
        let change = match hook {
            Some((guests, hook)) => hooks::ask(&guests, hook, cancel).await.unwrap_or_default(),
            None => TreeChange::default(),
        };
        if cancel.is_cancelled() {
            return Err(Unwritten::Cancelled);
        }
        if change.cancel {
            return Ok(Decided::Stay);
        }
        let label = change.label.or(wanted.label);
        let brought = change.summary.filter(|_| wanted.summarize == Some(true));
        let summary = match (brought, writer) {
            (Some(brought), _) => Some(Box::new(Summary::brought(brought))),
            (None, Err(error)) => return Err(Unwritten::Failed(error)),
            (None, Ok(None)) => None,
            (None, Ok(Some(writer))) => {
                let wishes = Wishes {
                    instructions: change.custom_instructions.or(wanted.custom_instructions),
                    is_all: change.replace_instructions.or(wanted.replace_instructions)
                        == Some(true),
                };
                let written = writer.write_branch(&messages, &wishes, &teller).await?;
                Some(Box::new(Summary::written(written)))
            }
        };
        Ok(Decided::Go { summary, label })
    }
}

impl Summary {
    fn written(written: Written) -> Summary {
        let Written { summary, files, usage } = written;
        Summary {
            text: summary,
            details: serde_json::to_value(&files).ok(),
            usage: Some(usage),
            is_brought: false,
        }
    }

    fn brought(brought: TreeSummary) -> Summary {
        let TreeSummary { summary, details, usage } = brought;
        let usage = usage.and_then(|usage| serde_json::from_value(usage).ok());
        Summary { text: summary, details, usage, is_brought: true }
    }
}
