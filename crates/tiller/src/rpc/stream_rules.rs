//! Stream rules: what follows a match.
//!
//! The loop finds matches, this decides. Most rules interrupt the model: its answer ends as aborted
//! and is hidden, and after a short pause another run starts with the rule. Others wait for the end
//! of the run. How often a rule was injected is read from the session, so that it is right after a
//! reload and on every branch.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tiller_agent::message::{Content, CustomMessage, Message, UnixMs};
use tiller_agent::stream_rules::{Rule, RuleMatch, RuleSet};
use tiller_session::Body;

use super::server::Input;
use super::state::SessionState;
use super::tasks::Pause;
use crate::settings::{TtsrContextMode, TtsrRepeatMode};

/// Between an interrupted answer and the next run.
const PAUSE: Duration = Duration::from_millis(50);
/// The `customType` of the message with a rule.
const INJECTION: &str = "ttsr-injection";
const EXPLANATION: &str = include_str!("../../prompts/rule-injection.md");

/// Rules that matched and have not been injected.
#[derive(Default)]
pub(crate) struct RuleMatches {
    /// They interrupted the model.
    due: Vec<Arc<Rule>>,
    /// They wait for the end of the message.
    noted: Vec<Arc<Rule>>,
    /// The message has ended; they wait for the end of the run.
    waiting: Vec<Arc<Rule>>,
    /// The pause before the run that injects `due`.
    pause: Option<Pause>,
}

impl RuleMatches {
    pub(crate) fn is_pausing(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether a run that ended like this is followed by an injection.
    pub(super) fn will_go_on(&self, end: &End) -> bool {
        match end {
            End::Interrupted => !self.due.is_empty(),
            End::Complete => !self.waiting.is_empty(),
            End::Aborted | End::Failed(_) | End::NotStored(_) => false,
        }
    }

    /// Forgets matches when the session settles.
    pub(super) fn forget(&mut self) {
        *self = RuleMatches::default();
    }

    fn knows(&self, rule: &Rule) -> bool {
        let mut all = self.due.iter().chain(&self.noted).chain(&self.waiting);
        all.any(|known| known.name == rule.name)
    }
}

impl SessionState {
    /// The rules to match, unless the settings disable them.
    pub(super) fn rules(&mut self) -> Option<Arc<RuleSet>> {
        let is_wanted = self.settings.ttsr.enabled;
        is_wanted.then(|| self.resources.resources().rules.watching.clone()).flatten()
    }

    /// Records matches. Returns whether the model is interrupted.
    pub(super) fn matched(&mut self, mut matches: Vec<RuleMatch>) -> bool {
        let settings = self.settings.ttsr;
        // An unreadable session is no reason to ignore a rule.
        let told = self.conversation.session().injected_rules().unwrap_or_default();
        matches.retain(|RuleMatch { rule, .. }| {
            let may_speak = match (told.get(&rule.name), settings.repeat_mode) {
                (None, _) => true,
                (Some(_), TtsrRepeatMode::Once) => false,
                // The current answer counts as a turn, too.
                (Some(answers), TtsrRepeatMode::AfterGap) => {
                    answers + 1 >= u64::from(settings.repeat_gap)
                }
            };
            may_speak && !self.rule_matches.knows(rule)
        });
        let stops = matches.iter().any(|RuleMatch { rule, place }| {
            rule.interrupt_mode.unwrap_or(settings.interrupt_mode.into()).stops(*place)
        });
        self.rule_matches.noted.extend(matches.into_iter().map(|found| found.rule));
        if stops {
            // Rules that waited for the end of this message are injected, too: it ends here.
            let rules = std::mem::take(&mut self.rule_matches.noted);
            self.rule_matches.due.extend(rules.iter().cloned());
            self.emit(Event::TtsrTriggered { rules });
        }
        stops
    }

    /// Records rules at the end of a message.
    pub(super) fn rules_after_message(&mut self, message: &Message) {
        match message {
            Message::Assistant(answer) => {
                let noted = std::mem::take(&mut self.rule_matches.noted);
                if !answer.failed() {
                    self.rule_matches.waiting.extend(noted);
                }
            }
            Message::Custom(custom) if custom.custom_type == INJECTION => {
                let rules = names_in(custom);
                if let Err(error) = self.append_entry(Body::TtsrInjection { rules }) {
                    self.emit(Event::SessionError { error });
                }
            }
            _ => {}
        }
    }

    /// Starts the pause before the injection. Returns whether there is anything to inject.
    pub(super) fn schedule_injection(&mut self) -> bool {
        if self.rule_matches.due.is_empty() {
            return false;
        }
        self.rule_matches.pause = Some(self.tasks.after(PAUSE, Input::RulePauseOver));
        true
    }

    /// Starts the run that injects the rules.
    pub(super) fn inject_now(&mut self) {
        // The pause may have been cancelled after its input was sent.
        if self.rule_matches.pause.take().is_none() {
            return;
        }
        let rules = std::mem::take(&mut self.rule_matches.due);
        if self.settings.ttsr.context_mode == TtsrContextMode::Discard {
            self.hide_last_answer();
        }
        self.start_run(vec![injection(&rules, self.clock.now())]);
    }

    /// The message with the rules that waited for the end of the run.
    pub(super) fn take_deferred_injection(&mut self) -> Option<Message> {
        let rules = std::mem::take(&mut self.rule_matches.waiting);
        (!rules.is_empty()).then(|| injection(&rules, self.clock.now()))
    }

    /// Cancels the injection. The answer stays truncated, and the rule may match again.
    pub(super) fn cancel_injection(&mut self) {
        if self.end_pause() {
            // Settles after this input, so that the command that cancelled is answered first.
            self.tasks.send_soon(Input::RetryCancelled);
            self.is_settling = true;
        }
    }

    /// Cancels the injection and settles at once.
    pub(crate) fn cancel_and_settle(&mut self) {
        if self.end_pause() {
            self.settle();
        }
    }

    fn end_pause(&mut self) -> bool {
        let pause = self.rule_matches.pause.take();
        self.rule_matches.forget();
        if pause.is_none() {
            return false;
        }
        self.end_retrying(false, Some("Retry cancelled".to_owned()));
        true
    }
}

/// The message that injects rules.
fn injection(rules: &[Arc<Rule>], timestamp: UnixMs) -> Message {
    let mut text = String::new();
    for Rule { name, path, content, .. } in rules.iter().map(|rule| &**rule) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let (path, explanation) = (path.display(), EXPLANATION.trim_end());
        write!(
            text,
            "{gap}<system-interrupt reason=\"rule_violation\" rule=\"{name}\" path=\"{path}\">\n\
             {explanation}\n\n{content}\n</system-interrupt>"
        )
        .expect("a string takes every text");
    }
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    Message::Custom(CustomMessage {
        custom_type: INJECTION.to_owned(),
        content: Content::Text(text),
        display: false,
        details: Some(json!({ "rules": names })),
        timestamp,
    })
}

fn names_in(injection: &CustomMessage) -> Vec<String> {
    let details = injection.details.as_ref();
    let names = details.and_then(|details| details["rules"].as_array()).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
