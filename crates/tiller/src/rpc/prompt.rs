//! The way of a prompt, from its command to its run:
//!
//! [`submit`](SessionState::submit) → `input` hook → queue or start → `before_agent_start` hook →
//! compact a conversation that is too long → todo prelude → start the run.
//!
//! Each step goes on to the next one in this file, at once or, after a hook or a compaction, when
//! its input arrives. Without extensions no hook is entered.

use tiller_agent::compaction::Reason;
use tiller_agent::driver::Queue;
use tiller_agent::message::{Block, Message};
use tiller_js::hook::PromptChange;

use super::compaction::AfterCompaction;
use super::dispatch::{Handled, Response};
use super::state::SessionState;
use super::wire::{Disposition, Label, Level, WhenBusy};

/// A prompt on its way to a queue or a run.
pub(crate) struct PromptRequest {
    /// The client's request, or nothing for a prompt of an extension.
    pub(crate) label: Option<Label>,
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) images: Vec<Block>,
    pub(crate) when_busy: WhenBusy,
    /// Queue it even when a run could start with it.
    pub(crate) waits: bool,
    /// Run commands and expand skills and templates that the text names.
    pub(crate) expands: bool,
}

/// What the `input` hook made of a prompt.
pub struct InputHookResult {
    pub(super) prompt: PromptRequest,
    /// An extension has dealt with the prompt: no run follows.
    pub(super) is_handled: bool,
}

/// What the `before_agent_start` hook adds to a prompt.
pub struct StartHookResult {
    pub(super) label: Option<Label>,
    pub(super) level: Level,
    pub(super) message: Message,
    pub(super) change: PromptChange,
}

impl SessionState {
    /// Takes a prompt of the client or of an extension.
    pub(crate) fn submit(&mut self, prompt: PromptRequest) -> Handled {
        if self.extensions.host.is_some() {
            let command = self.extension_command(&prompt.text).filter(|_| prompt.expands);
            if let Some((name, arguments)) = command {
                self.run_command(prompt.label, name, arguments);
                return Ok(Response::Later);
            }
            if self.extensions.has_listener("input") {
                self.run_input_hook(prompt);
                return Ok(Response::Later);
            }
        }
        self.queue_or_start(prompt)
    }

    pub(super) fn input_hook_done(&mut self, result: InputHookResult) {
        self.extensions.input_hooks_pending -= 1;
        let InputHookResult { prompt, is_handled } = result;
        let label = prompt.label.clone();
        let handled = if is_handled {
            Ok(Response::Now(Disposition::Handled.into()))
        } else {
            self.queue_or_start(prompt)
        };
        self.respond_to_prompt(label, handled);
        self.run_deferred_if_idle();
    }

    fn queue_or_start(&mut self, prompt: PromptRequest) -> Handled {
        let PromptRequest { label, level, text, images, when_busy, waits, expands } = prompt;
        let message = if expands {
            self.user_message(text, images)?
        } else {
            Message::user(text, images, self.clock.now())
        };
        let queue = match (waits || self.is_busy(), when_busy) {
            (false, _) => {
                self.check_can_start_prompt()?;
                return Ok(self.start_prompt(label, level, message));
            }
            (true, WhenBusy::Steer) => Queue::Steering,
            (true, WhenBusy::FollowUp) => Queue::FollowUp,
            (true, WhenBusy::Refuse) => return Err(level.busy().to_owned()),
        };
        self.enqueue(queue, message);
        Ok(Response::Now(Disposition::Queued.into()))
    }

    fn start_prompt(&mut self, label: Option<Label>, level: Level, message: Message) -> Response {
        if self.extensions.has_listener("before_agent_start") {
            self.run_start_hook(label, level, message);
            return Response::Later;
        }
        self.start_changed_prompt(label, level, message, PromptChange::default())
    }

    pub(super) fn start_hook_done(&mut self, result: StartHookResult) {
        self.extensions.start_or_settle_hooks_pending -= 1;
        let StartHookResult { label, level, message, change } = result;
        let response = self.start_changed_prompt(label.clone(), level, message, change);
        self.respond_to_prompt(label, Ok(response));
    }

    fn start_changed_prompt(
        &mut self,
        label: Option<Label>,
        level: Level,
        message: Message,
        change: PromptChange,
    ) -> Response {
        let mut messages = vec![message];
        if self.extensions.host.is_some() {
            messages.append(&mut self.apply_prompt_change(change));
        }
        if label.is_none() {
            self.answer_commands();
        }
        let response = self.compact_then_start(level, label, messages);
        if !self.nothing_deferred() {
            // An abort, or a command that implies one, came while the hook was running.
            self.abort();
        }
        response
    }

    /// Compacts a conversation that is too long; then the prompt waits for the summary.
    fn compact_then_start(
        &mut self,
        level: Level,
        label: Option<Label>,
        messages: Vec<Message>,
    ) -> Response {
        let started = || Response::Now(Disposition::Started.into());
        let Some((plan, first_kept)) = self.plan_before_prompt(&messages) else {
            self.start_with_prelude(messages);
            return started();
        };
        // At xcsh's level clients give up on a response that takes as long as a summary.
        let is_acknowledged = level == Level::Xcsh;
        let label = label.filter(|_| !is_acknowledged);
        let then = AfterCompaction::Prompt { label, messages };
        self.begin(Reason::Threshold, plan, first_kept, None, then);
        if is_acknowledged { started() } else { Response::Later }
    }

    /// The compaction that a prompt waited for is over, with or without a summary.
    pub(super) fn start_after_compaction(&mut self, label: Option<Label>, messages: Vec<Message>) {
        if let Some(label) = label {
            self.respond(label, Ok(Disposition::Started.into()));
        }
        self.start_with_prelude(messages);
        if !self.nothing_deferred() {
            // An abort came while the prompt waited.
            self.abort();
        }
    }

    pub(super) fn start_with_prelude(&mut self, messages: Vec<Message>) {
        let messages = self.with_todo_prelude(messages);
        self.start_run(messages);
    }

    /// Responds to the client; a refused prompt of an extension is an `extension_error`.
    pub(super) fn respond_to_prompt(&mut self, label: Option<Label>, handled: Handled) {
        match (label, handled) {
            (_, Ok(Response::Later | Response::Never)) | (None, Ok(Response::Now(_))) => {}
            (Some(label), Ok(Response::Now(reply))) => self.respond(label, Ok(reply)),
            (Some(label), Err(error)) => self.respond(label, Err(error)),
            (None, Err(error)) => self.report_action("send_user_message", error),
        }
    }

    /// The user message for a text, with the skill or template that it names in place of the name.
    pub(super) fn user_message(
        &mut self,
        text: String,
        images: Vec<Block>,
    ) -> Result<Message, String> {
        let text =
            if text.starts_with('/') { self.resources.resources().expand(text)? } else { text };
        Ok(Message::user(text, images, self.clock.now()))
    }

    /// Checks that a prompt can start a run here. An extension may send one while its session is
    /// being replaced; its run would go on in the other session.
    pub(super) fn check_can_start_prompt(&mut self) -> Result<(), String> {
        if self.is_changing_session {
            return Err(CHANGING_SESSION.to_owned());
        }
        self.check_can_start()
    }

    /// Checks that there is a model that can be asked and a conversation that can be read and
    /// continued.
    pub(super) fn check_can_start(&mut self) -> Result<(), String> {
        match &self.model {
            None => return Err(NO_MODEL.trim_end().to_owned()),
            Some(model) => self.models.check_access(model)?,
        }
        if self.conversation.session().is_read_only() {
            return Err("Session is open read-only".to_owned());
        }
        // Loads the messages now, so that a session file that cannot be read refuses the prompt.
        self.conversation.messages().map(|_| ()).map_err(|err| err.to_string())
    }
}

const CHANGING_SESSION: &str =
    "Another session, or another place in this one, is about to be opened";

const NO_MODEL: &str = include_str!("../../texts/no-model.md");
