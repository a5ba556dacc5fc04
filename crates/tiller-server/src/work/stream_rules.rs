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
use tiller_agent::event::Event;
use tiller_agent::message::{Content, CustomMessage, Message, UnixMs};
use tiller_agent::stream_rules::{Rule, RuleMatch};
use tiller_config::settings::{TtsrContextMode, TtsrRepeatMode};
use tiller_session::Body;

use super::{Phase, retry, run};
use crate::server::Input;
use crate::state::SessionState;

/// Between an interrupted answer and the next run.
const PAUSE: Duration = Duration::from_millis(50);
/// The `customType` of the message with a rule.
const INJECTION: &str = "ttsr-injection";
const EXPLANATION: &str = include_str!("../../prompts/rule-injection.md");

/// Rules that matched and have not been injected.
#[derive(Default)]
pub(super) struct RuleMatches {
    /// They interrupted the model.
    due: Vec<Arc<Rule>>,
    /// They wait for the end of the message.
    noted: Vec<Arc<Rule>>,
    /// The message has ended; they wait for the end of the run.
    waiting: Vec<Arc<Rule>>,
}

impl RuleMatches {
    /// Whether rules have interrupted the model.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether rules wait for the end of the run.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Forgets matches when the session settles.
    pub(super) fn forget(&mut self) {
        *self = RuleMatches::default();
    }

    fn has_match(&self, rule: &Rule) -> bool {
        let mut all = self.due.iter().chain(&self.noted).chain(&self.waiting);
        all.any(|known| known.name == rule.name)
    }
}

/// Records matches. Returns whether the model is interrupted.
pub(super) fn matched(state: &mut SessionState, mut matches: Vec<RuleMatch>) -> bool {
    let settings = state.project.settings().ttsr;
    // An unreadable session is no reason to ignore a rule.
    let injected = state.session.conversation().session().injected_rules().unwrap_or_default();
    matches.retain(|RuleMatch { rule, .. }| {
        let may_repeat = match (injected.get(&rule.name), settings.repeat_mode) {
            (None, _) => true,
            (Some(_), TtsrRepeatMode::Once) => false,
            // The current answer counts as a turn, too.
            (Some(answers), TtsrRepeatMode::AfterGap) => {
                answers + 1 >= u64::from(settings.repeat_gap)
            }
        };
        may_repeat && !state.work.rules.has_match(rule)
    });
    let stops = matches.iter().any(|RuleMatch { rule, kind }| {
        rule.interrupt_mode.unwrap_or(settings.interrupt_mode).stops(*kind)
    });
    state.work.rules.noted.extend(matches.into_iter().map(|found| found.rule));
    if stops {
        // Rules that waited for the end of this message are injected, too: it ends here.
        let rules = std::mem::take(&mut state.work.rules.noted);
        state.work.rules.due.extend(rules.iter().cloned());
        state.emit(Event::TtsrTriggered { rules });
    }
    stops
}

/// Records rules at the end of a message.
pub(super) fn rules_after_message(state: &mut SessionState, message: &Message) {
    match message {
        Message::Assistant(answer) => {
            let noted = std::mem::take(&mut state.work.rules.noted);
            if !answer.failed() {
                state.work.rules.waiting.extend(noted);
            }
        }
        Message::Custom(custom) if custom.custom_type == INJECTION => {
            let rules = names_in(custom);
            state.append_entry_or_report(Body::TtsrInjection { rules });
        }
        _ => {}
    }
}

/// Starts the pause before the injection.
pub(super) fn schedule_injection(state: &mut SessionState) {
    let _pause = state.tasks.after(PAUSE, Input::RulePauseOver);
    state.work.enter(Phase::RulePause { _pause });
}

/// Starts the run that injects the rules.
pub(crate) fn inject_now(state: &mut SessionState) {
    // The pause may have been cancelled after its input was sent.
    if !state.work.take_rule_pause() {
        return;
    }
    let rules = std::mem::take(&mut state.work.rules.due);
    if state.project.settings().ttsr.context_mode == TtsrContextMode::Discard {
        retry::hide_last_answer(state);
    }
    run::start_run(state, vec![injection(&rules, state.clock.now())]);
}

/// The message with the rules that waited for the end of the run.
pub(super) fn take_waiting_injection(state: &mut SessionState) -> Message {
    let rules = std::mem::take(&mut state.work.rules.waiting);
    injection(&rules, state.clock.now())
}

/// Cancels the injection. The answer stays truncated, and the rule may match again.
pub(super) fn cancel_injection(state: &mut SessionState) {
    if end_pause(state) {
        retry::settle_soon(state);
    }
}

/// Cancels the injection and settles at once.
pub(crate) fn cancel_and_settle(state: &mut SessionState) {
    if end_pause(state) {
        run::settle(state);
    }
}

fn end_pause(state: &mut SessionState) -> bool {
    let was_pausing = state.work.take_rule_pause();
    state.work.rules.forget();
    if was_pausing {
        retry::end_retries(state, false, Some(retry::CANCELLED.to_owned()));
    }
    was_pausing
}

/// The message that injects rules.
fn injection(rules: &[Arc<Rule>], timestamp: UnixMs) -> Message {
    let mut text = String::new();
    for Rule { name, path, content, .. } in rules.iter().map(|rule| &**rule) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let path = path.display();
        let explanation = EXPLANATION.trim_end();
        write!(
            text,
            "{gap}<system-interrupt reason=\"rule_violation\" rule=\"{name}\" path=\"{path}\">\n\
             {explanation}\n\n{content}\n</system-interrupt>"
        )
        .expect("writing to a String cannot fail");
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
