//! Extensions and the way from one session to another: what they want, what they are asked, and
//! how they come along.

use serde_json::Value;
use tiller_agent::message::{Message, UnixMs};
use tiller_js::event::StartReason;
use tiller_js::hook::{ForkPosition, SessionBeforeFork, SessionBeforeSwitch, SwitchReason};
use tiller_session::Body;
use tokio::sync::oneshot;

use super::prompts::custom;
use super::{State, Wish};
use crate::rpc::after_run::AfterRun;
use crate::rpc::asker::Asker;
use crate::rpc::change::Change;
use crate::rpc::handlers;
use crate::rpc::navigation::Navigation;
use crate::rpc::server::Input;
use crate::rpc::wire::Level;

type Answer = oneshot::Sender<Result<Value, String>>;

impl State {
    /// `ctx.newSession`: a session with these entries in it from the start.
    pub(super) fn guest_begins(
        &mut self,
        parent: Option<String>,
        entries: Vec<Value>,
        answer: Answer,
    ) {
        let now = self.clock.now();
        let setup: Result<Vec<Body>, String> =
            entries.into_iter().map(|entry| planned(entry, now)).collect();
        match setup {
            Ok(setup) => self.ask_to_change(Asker::Guest(answer), Change::New { parent, setup }),
            // Whoever asked may be gone.
            Err(error) => answer.send(Err(error)).unwrap_or(()),
        }
    }

    /// `ctx.switchSession`.
    pub(super) fn guest_switches(&mut self, path: &str, answer: Answer) {
        let path = self.workplace.cwd.join(path);
        if !path.exists() {
            let error = tiller_session::Error::NotFound(path).to_string();
            // Whoever asked may be gone.
            return answer.send(Err(error)).unwrap_or(());
        }
        self.ask_to_change(Asker::Guest(answer), Change::Switch { path });
    }

    /// `ctx.fork`: before a user message, or behind any entry.
    pub(super) fn guest_forks(&mut self, entry_id: String, is_at: bool, answer: Answer) {
        if !self.conversation.session().contains(&entry_id) {
            let error = tiller_session::Error::NotAUserMessage.to_string();
            // Whoever asked may be gone.
            return answer.send(Err(error)).unwrap_or(());
        }
        let change = if is_at { Change::ForkAt { entry_id } } else { Change::Fork { entry_id } };
        self.ask_to_change(Asker::Guest(answer), change);
    }

    /// `ctx.navigateTree`. A message of the user's is gone back to in order to say it again.
    pub(super) fn guest_navigates(&mut self, target: String, options: Value, answer: Answer) {
        let wanted = match options {
            Value::Null => Ok(Default::default()),
            options => serde_json::from_value(options),
        };
        match wanted {
            Ok(wanted) => {
                let navigation = Navigation { target, says_again: true, wanted };
                self.ask_to_change(Asker::Guest(answer), Change::Navigate(navigation));
            }
            // Whoever asked may be gone.
            Err(err) => answer.send(Err(err.to_string())).unwrap_or(()),
        }
    }

    /// `ctx.compact`.
    pub(super) fn guest_compacts(&mut self, focus: Option<String>, answer: Answer) {
        match handlers::compaction::can_compact(self) {
            Ok(()) => {
                let asker = Asker::Guest(answer);
                handlers::compaction::compact_for(self, Level::Pi, asker, focus);
            }
            // Whoever asked may be gone.
            Err(error) => answer.send(Err(error)).unwrap_or(()),
        }
    }

    /// Asks extensions whether the session may be another one, then goes on or does not.
    pub(crate) fn ask_to_change(&mut self, asker: Asker, change: Change) {
        let Some(guests) = self.visitors.guests.clone() else {
            return self.after_run(AfterRun::Change { asker, change });
        };
        let hears = |name| self.visitors.hears(name);
        let (switch, fork) = match &change {
            Change::New { .. } if hears("session_before_switch") => {
                let reason = SwitchReason::New;
                (Some(SessionBeforeSwitch { reason, target_session_file: None }), None)
            }
            Change::Switch { path } if hears("session_before_switch") => {
                let target_session_file = Some(path.display().to_string());
                let reason = SwitchReason::Resume;
                (Some(SessionBeforeSwitch { reason, target_session_file }), None)
            }
            Change::Fork { entry_id } if hears("session_before_fork") => {
                (None, Some(forking(entry_id, ForkPosition::Before)))
            }
            Change::ForkAt { entry_id } if hears("session_before_fork") => {
                (None, Some(forking(entry_id, ForkPosition::At)))
            }
            Change::Clone if hears("session_before_fork") => {
                let leaf = self.conversation.session().leaf().unwrap_or_default();
                (None, Some(forking(leaf, ForkPosition::At)))
            }
            _ => return self.after_run(AfterRun::Change { asker, change }),
        };
        self.slow_answers += 1;
        self.visitors.changes_asked += usize::from(asker.command().is_some());
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let decided = match (switch, fork) {
                (Some(hook), _) => guests.ask(hook).await,
                (None, Some(hook)) => guests.ask(hook).await,
                (None, None) => Ok(Default::default()),
            };
            let is_cancelled = decided.is_ok_and(|decided| decided.cancel);
            let decided = Wish::ChangeDecided { asker, change, is_cancelled };
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(decided))).await.ok();
        });
    }

    pub(super) fn change_decided(&mut self, asker: Asker, change: Change, is_cancelled: bool) {
        self.slow_answers -= 1;
        self.visitors.changes_asked -= usize::from(asker.command().is_some());
        match is_cancelled {
            true => self.stay(asker, Some(&change)),
            false => self.after_run(AfterRun::Change { asker, change }),
        }
    }

    /// The session is another one now: they begin anew. Whoever asked for that is answered when
    /// all have heard of the new session.
    pub(in crate::rpc) fn move_guests(&mut self, reason: StartReason, previous: Option<String>) {
        let Some(guests) = self.visitors.guests.clone() else { return };
        self.visitors.is_moving = true;
        // What was meant for the session that is gone, and chosen in it.
        self.visitors.next_turn.clear();
        self.visitors.stock.forget();
        let arrival = self.arrival(reason, previous);
        tokio::spawn(async move {
            let errors = guests.renew().await;
            arrival.come_in(&guests, errors).await;
            arrival.settle_in(&guests).await;
        });
    }

    /// All have heard that the session began: what waited for that goes on.
    pub(super) fn guests_are_ready(&mut self) {
        self.visitors.is_moving = false;
        for (asker, text) in std::mem::take(&mut self.visitors.movers) {
            self.answer_change(asker, Ok(text));
        }
        if let Some(asker) = self.visitors.reloader.take() {
            self.answer_reload(asker);
        }
        self.go_on_if_quiet();
    }
}

fn forking(entry_id: &str, position: ForkPosition) -> SessionBeforeFork {
    SessionBeforeFork { entry_id: entry_id.to_owned(), position }
}

/// An entry that an extension wants in a new session.
fn planned(mut entry: Value, now: UnixMs) -> Result<Body, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(match entry["type"].as_str() {
        Some("message") => {
            let message: Message =
                serde_json::from_value(entry["message"].take()).map_err(|err| err.to_string())?;
            Body::message(message)
        }
        Some("custom") => Body::Custom {
            custom_type: text(&entry["customType"]),
            data: Some(entry["data"].take()).filter(|data| !data.is_null()),
        },
        Some("custom_message") => {
            let message = custom(entry, now);
            Body::message(message.ok_or("expected {customType, content, display, details?}")?)
        }
        Some("session_info") => Body::SessionInfo { name: text(&entry["name"]) },
        _ => return Err(format!("a session cannot begin with {entry}")),
    })
}
