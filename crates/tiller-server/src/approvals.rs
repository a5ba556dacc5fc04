//! Approvals of tool calls: the mode and the rules in force, what the user has granted in this
//! session, and the questions to the client.
//!
//! A run asks for the decision about a call when all hooks have seen it, and the answer is the last
//! word: nothing changes the arguments after it. Fails closed: a question without an answer denies
//! the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tiller_agent::approvals::{
    ApprovalMode, CallFacts, CallTarget, Decision, Grant, Grants, Refused, Rules, decide,
};
use tiller_agent::dialog::ApprovalRequest;
use tiller_agent::driver::Approval;
use tiller_agent::message::{Arguments, ToolCall};
use tiller_agent::tool::{Failure, Tool};
use tiller_config::project::Project;
use tiller_config::settings::Settings;
use tiller_protocol::{Dialog, DialogKind, UiAnswer};
use tiller_tools::preview::Preview;
use tokio_util::sync::CancellationToken;

use crate::extensions::dialogs;
use crate::state::SessionState;
use crate::tasks::Responder;

pub(crate) struct Approvals {
    /// By flags and settings.
    configured: ApprovalMode,
    /// By the client, for this session.
    chosen: Option<ApprovalMode>,
    rules: Arc<Rules>,
    timeout: Option<Duration>,
    grants: Grants,
    /// Whether a client can be asked at all.
    asks: bool,
    clients: Clients,
    switch: ApprovalSwitch,
}

/// Who can answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clients {
    Attached,
    /// One may come back.
    Detached,
    Gone,
}

/// Whether calls may need an approval, for the task of a run: without approvals it asks nothing.
#[derive(Clone)]
pub(crate) struct ApprovalSwitch(Arc<AtomicBool>);

impl ApprovalSwitch {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A call that a run wants to start.
pub struct PendingCall {
    call: Arc<ToolCall>,
    arguments: Arguments,
    facts: CallFacts,
    diff: Option<String>,
    cancel: CancellationToken,
}

/// A question that the client has not answered.
pub(crate) struct OpenApproval {
    facts: CallFacts,
    /// What the user can choose, in the order of the options after the first.
    grants: Vec<Grant>,
    timeout: Option<Duration>,
    answer: Responder<Approval>,
}

const ALLOW: &str = "Allow";
const ALLOW_FOR_SESSION: &str = "Allow for this session";
const DENY: &str = "Deny";

impl Approvals {
    pub(crate) fn new(settings: &Settings, project: &Project, asks: bool) -> Approvals {
        let mut approvals = Approvals {
            configured: ApprovalMode::Off,
            chosen: None,
            rules: Arc::default(),
            timeout: None,
            grants: Grants::default(),
            asks,
            clients: Clients::Attached,
            switch: ApprovalSwitch(Arc::default()),
        };
        approvals.configure(settings, project.rules());
        approvals
    }

    /// Uses settings that were read again.
    pub(crate) fn configure(&mut self, settings: &Settings, rules: &Arc<Rules>) {
        self.configured = settings.approvals;
        self.rules = rules.clone();
        let seconds = settings.permissions.timeout_seconds;
        self.timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
        self.update_switch();
    }

    pub(crate) fn mode(&self) -> ApprovalMode {
        self.chosen.unwrap_or(self.configured)
    }

    pub(crate) fn choose(&mut self, mode: ApprovalMode) {
        self.chosen = Some(mode);
        self.update_switch();
    }

    /// The session is another one: grants end, and so does a choice that was less strict than the
    /// configuration.
    pub(crate) fn session_changed(&mut self) {
        self.grants.clear();
        self.chosen = self.chosen.filter(|chosen| *chosen > self.configured);
        self.update_switch();
    }

    pub(crate) fn switch(&self) -> ApprovalSwitch {
        self.switch.clone()
    }

    /// The clients of a session that is shared come and go. Returns whether none is left.
    pub(crate) fn set_attached(&mut self, any: bool) -> bool {
        if self.clients != Clients::Gone {
            self.clients = if any { Clients::Attached } else { Clients::Detached };
        }
        self.clients != Clients::Attached
    }

    /// No client can answer any more, because the input is at its end.
    pub(crate) fn client_left(&mut self) {
        self.clients = Clients::Gone;
    }

    fn update_switch(&mut self) {
        let is_on = self.mode() != ApprovalMode::Off || self.rules.restrict();
        self.switch.0.store(is_on, Ordering::Relaxed);
    }

    fn decide(&self, call: &CallFacts) -> Decision {
        decide(self.mode(), &self.rules, &self.grants, call)
    }

    /// The decision that needs no user; else the grants to offer.
    fn without_asking(&self, call: &CallFacts) -> Result<Approval, Vec<Grant>> {
        match self.decide(call) {
            Decision::Run => Ok(Approval::Granted),
            Decision::Refuse(why) => Ok(Approval::Denied(refused(&why))),
            Decision::Ask(_) if !self.asks => Ok(Approval::Denied(NOT_ASKED.to_owned())),
            Decision::Ask(_) if self.clients != Clients::Attached => {
                Ok(Approval::Denied(CLIENT_GONE.to_owned()))
            }
            Decision::Ask(grants) => Err(grants),
        }
    }
}

impl PendingCall {
    /// Blocks: looks at the files that the call names.
    pub(crate) fn new(
        call: Arc<ToolCall>,
        tool: &Tool,
        arguments: Arguments,
        cwd: &std::path::Path,
        cancel: CancellationToken,
    ) -> PendingCall {
        let Preview { target, diff } = Preview::of(tool, &arguments, cwd);
        let facts = CallFacts { tool: tool.name().to_owned(), effect: tool.effect, target };
        PendingCall { call, arguments, facts, diff, cancel }
    }
}

/// Decides about a call, or asks the client.
pub(crate) fn request(state: &mut SessionState, call: PendingCall, answer: Responder<Approval>) {
    let grants = match state.approvals.without_asking(&call.facts) {
        Ok(decided) => return answer.respond(decided),
        Err(grants) => grants,
    };
    let PendingCall { call, arguments, facts, diff, cancel } = call;
    let options = [ALLOW.to_owned()].into_iter().chain(grants.iter().map(label));
    let kind = DialogKind::Select {
        title: title(&facts),
        options: options.chain([DENY.to_owned()]).collect(),
    };
    let command = match &facts.target {
        CallTarget::Command(command) => Some(command.clone()),
        CallTarget::Path(_) | CallTarget::Unknown => None,
    };
    let approval = ApprovalRequest {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        args: arguments,
        command,
        diff,
    };
    let timeout = state.approvals.timeout;
    let millis = timeout.map(|timeout| timeout.as_millis() as u64);
    let dialog = Dialog { kind, timeout: millis, approval: Some(Box::new(approval)) };
    dialogs::open_approval(state, dialog, cancel, OpenApproval { facts, grants, timeout, answer });
}

/// The client has answered.
pub(crate) fn answered(state: &mut SessionState, open: OpenApproval, answer: UiAnswer) {
    let (value, reason) = match answer {
        UiAnswer::Value(value) => (value, None),
        UiAnswer::Reasoned { value, reason } => (value, Some(reason)),
        UiAnswer::Confirmed(_) | UiAnswer::Cancelled => (DENY.to_owned(), None),
    };
    // The mode may have become stricter while the question was open.
    if let Decision::Refuse(why) = state.approvals.decide(&open.facts) {
        return open.answer.respond(Approval::Denied(refused(&why)));
    }
    if value == ALLOW {
        return open.answer.respond(Approval::Granted);
    }
    match open.grants.into_iter().find(|grant| label(grant) == value) {
        Some(grant) => {
            state.approvals.grants.add(grant);
            open.answer.respond(Approval::Granted);
        }
        None => open.answer.respond(Approval::Denied(denied(reason.as_deref()))),
    }
}

impl OpenApproval {
    /// The question was open for too long, or its run was aborted.
    pub(crate) fn expire(self) {
        let text = match self.timeout {
            Some(timeout) => {
                let seconds = timeout.as_secs();
                format!("The call was denied: the user did not approve it within {seconds} s.")
            }
            None => Failure::aborted().message,
        };
        self.answer.respond(Approval::Denied(text));
    }

    pub(crate) fn client_left(self) {
        self.answer.respond(Approval::Denied(CLIENT_GONE.to_owned()));
    }
}

const CLIENT_GONE: &str =
    "The call was denied: it needs the user's approval, and the client is gone.";
const NOT_ASKED: &str = "The call was denied: it needs the user's approval, and there is no client \
    that can ask. A rule in `permissions.allow` of the user's settings.json can allow it.";

fn refused(why: &Refused) -> String {
    match why {
        Refused::ByRule(rule) => {
            format!("The call was refused by the rule `{rule}` in `permissions.deny`.")
        }
        Refused::ReadOnly => {
            "The call was refused: approvals are `read-only`, so only reading tools run.".to_owned()
        }
    }
}

fn denied(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("The user denied this call: {reason}"),
        None => "The user denied this call.".to_owned(),
    }
}

/// The option that chooses this grant.
fn label(grant: &Grant) -> String {
    match grant {
        Grant::Prefix(words) => format!("{ALLOW_FOR_SESSION}: {} *", words.join(" ")),
        Grant::Tool(_) | Grant::InFolder(_) | Grant::Path(..) | Grant::Command(_) => {
            ALLOW_FOR_SESSION.to_owned()
        }
    }
}

/// A longer command is cut in the title; the field `command` has all of it.
const TITLE_MAX_CHARS: usize = 2000;

/// For a client that shows nothing but the title and the options.
fn title(call: &CallFacts) -> String {
    let tool = &call.tool;
    let subject = match &call.target {
        CallTarget::Unknown => return format!("Allow {tool}?"),
        CallTarget::Command(command) => visible(command),
        CallTarget::Path(path) => visible(&path.real.to_string_lossy()),
    };
    let rest = subject.chars().count().saturating_sub(TITLE_MAX_CHARS);
    if rest == 0 {
        return format!("Allow {tool}? {subject}");
    }
    let beginning: String = subject.chars().take(TITLE_MAX_CHARS).collect();
    format!("Allow {tool}? {beginning} … and {rest} more characters")
}

/// The text without characters that could hide a part of it: they are written as escapes.
fn visible(text: &str) -> String {
    let is_hiding = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let escaped =
        |c: char| if is_hiding(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use tiller_agent::tool::ToolEffect;

    use super::*;

    fn command(command: &str) -> CallFacts {
        CallFacts {
            tool: "bash".to_owned(),
            effect: ToolEffect::RunsCommands,
            target: CallTarget::Command(command.to_owned()),
        }
    }

    #[test]
    fn title_shows_what_a_terminal_would_hide() {
        for (text, expected) in [
            ("ls -la", "Allow bash? ls -la"),
            ("a\nb", "Allow bash? a\nb"),
            ("a\rb\u{1b}[2Kc", "Allow bash? a\\u{d}b\\u{1b}[2Kc"),
            ("x \u{202e}txt.exe", "Allow bash? x \\u{202e}txt.exe"),
            ("a\u{200b}b", "Allow bash? a\\u{200b}b"),
        ] {
            assert_eq!(title(&command(text)), expected);
        }
        let long = title(&command(&"é".repeat(2001)));
        assert!(long.ends_with("é … and 1 more characters"), "{long}");
    }
}
