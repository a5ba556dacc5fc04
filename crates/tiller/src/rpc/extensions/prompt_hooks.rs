//! What extensions have to say about a prompt before it becomes a run: some are commands of
//! theirs, some they change or see to themselves, and to some they add.

use serde_json::{Value, json};
use tiller_agent::driver::Queue;
use tiller_agent::message::{Block, CustomMessage, Message, UnixMs};
use tiller_js::hook::{BeforeAgentStart, Input as Said, InputOutcome, InputSource, PromptChange};
use tiller_js::world::ExtensionError;

use super::{ExtensionInput, SessionState, hooks};
use crate::rpc::dispatch::{Handled, Response};
use crate::rpc::handlers::prompt::{can_start, user_message};
use crate::rpc::wire::{Disposition, Label, Level, WhenBusy};

/// A prompt on its way.
pub(crate) struct PromptRequest {
    /// Nothing when an extension says it.
    pub(crate) label: Option<Label>,
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) images: Vec<Block>,
    pub(crate) when_busy: WhenBusy,
    /// Whether it goes into a queue even when a run could begin with it.
    pub(crate) waits: bool,
    /// Whether commands, skills and templates in it are taken as such.
    pub(crate) expands: bool,
}

/// A prompt that extensions have looked at; nothing if one of them has seen to it.
pub struct InputHookResult {
    prompt: PromptRequest,
    is_handled: bool,
}

/// A prompt with everything that goes along with it.
pub struct StartHookResult {
    label: Option<Label>,
    level: Level,
    message: Message,
    change: PromptChange,
}

impl SessionState {
    /// A prompt of the client's.
    pub(crate) fn submit(&mut self, prompt: PromptRequest) -> Handled {
        let command = self.extension_command(&prompt.text).filter(|_| prompt.expands);
        if let Some((name, arguments)) = command {
            self.run_command(prompt.label, name, arguments);
            return Ok(Response::Later);
        }
        if !self.extensions.hears("input") {
            return self.queue_or_start(prompt);
        }
        self.extensions.input_hooks_pending += 1;
        let (guests, hurry) = (self.extensions.host.clone(), self.extensions.hook_cancel.clone());
        let source = if prompt.label.is_some() { InputSource::Rpc } else { InputSource::Extension };
        let streaming_behavior = match prompt.when_busy {
            WhenBusy::Steer if self.is_at_work() => Some("steer"),
            WhenBusy::FollowUp if self.is_at_work() => Some("followUp"),
            _ => None,
        };
        let said = Said {
            text: prompt.text.clone(),
            images: (!prompt.images.is_empty()).then(|| json!(prompt.images)),
            source,
            streaming_behavior: streaming_behavior.map(str::to_owned),
        };
        self.tasks.spawn(async move {
            let outcome = match guests {
                Some(guests) => hooks::ask(&guests, said, &hurry).await.unwrap_or_default(),
                None => InputOutcome::Continue,
            };
            let mut prompt = prompt;
            let mut is_handled = false;
            match outcome {
                InputOutcome::Continue => {}
                InputOutcome::Handled => is_handled = true,
                InputOutcome::Transform { text, images } => {
                    prompt.text = text;
                    if let Some(images) = images {
                        prompt.images = serde_json::from_value(images).unwrap_or_default();
                    }
                }
            }
            ExtensionInput::Considered(Box::new(InputHookResult { prompt, is_handled }))
        });
        Ok(Response::Later)
    }

    pub(super) fn input_hook_done(&mut self, considered: InputHookResult) {
        self.extensions.input_hooks_pending -= 1;
        let InputHookResult { prompt, is_handled } = considered;
        let label = prompt.label.clone();
        let handled =
            if is_handled { Ok(answer(Disposition::Handled)) } else { self.queue_or_start(prompt) };
        self.respond_to_prompt(label, handled);
        self.run_deferred_if_idle();
    }

    /// Answers whoever is there to be answered.
    pub(super) fn respond_to_prompt(&mut self, label: Option<Label>, handled: Handled) {
        match (label, handled) {
            (_, Ok(Response::Later | Response::Never)) => {}
            (Some(label), Ok(Response::Now(reply))) => self.respond(label, Ok(reply)),
            (Some(label), Err(error)) => self.respond(label, Err(error)),
            (None, Ok(Response::Now(_))) => {}
            (None, Err(error)) => self.report(ExtensionError {
                extension_path: "<runtime>".to_owned(),
                event: "send_user_message".to_owned(),
                error,
                at: None,
                stack: None,
            }),
        }
    }

    /// Queues it, or begins a run with it.
    fn queue_or_start(&mut self, prompt: PromptRequest) -> Handled {
        let PromptRequest { label, level, text, images, when_busy, waits, expands } = prompt;
        // What an extension says is said as it is, unless it wants otherwise.
        let message = match expands {
            true => user_message(self, text, images)?,
            false => Message::user(text, images, self.clock.now()),
        };
        let queue = match (waits || self.is_busy(), when_busy) {
            (false, _) => {
                self.can_begin()?;
                return Ok(self.run_start_hook(label, level, message));
            }
            (true, WhenBusy::Steer) => Queue::Steering,
            (true, WhenBusy::FollowUp) => Queue::FollowUp,
            (true, WhenBusy::Refuse) => return Err(level.busy().to_owned()),
        };
        self.enqueue(queue, message);
        Ok(answer(Disposition::Queued))
    }

    /// Whether a run could begin here, or why not. An extension that hears its session end has said
    /// in it what it had to say: a run would go on in another one.
    pub(super) fn can_begin(&mut self) -> Result<(), String> {
        match self.is_changing_session {
            true => {
                Err("Another session, or another place in this one, is about to be opened".into())
            }
            false => can_start(self),
        }
    }

    /// Lets extensions add to a prompt that is about to begin a run.
    fn run_start_hook(&mut self, label: Option<Label>, level: Level, message: Message) -> Response {
        if !self.extensions.hears("before_agent_start") {
            return self.start_prompt(label, level, message, PromptChange::default());
        }
        self.extensions.start_or_settle_hooks_pending += 1;
        let (text, images) = parts(&message);
        let hook = BeforeAgentStart {
            prompt: text,
            images,
            system_prompt: self.system().to_string(),
            system_prompt_options: self.prompt_options(),
        };
        let (guests, hurry) = (self.extensions.host.clone(), self.extensions.hook_cancel.clone());
        self.tasks.spawn(async move {
            let change = match guests {
                Some(guests) => hooks::ask(&guests, hook, &hurry).await.unwrap_or_default(),
                None => PromptChange::default(),
            };
            ExtensionInput::Begun(Box::new(StartHookResult { label, level, message, change }))
        });
        Response::Later
    }

    pub(super) fn start_hook_done(&mut self, begun: StartHookResult) {
        self.extensions.start_or_settle_hooks_pending -= 1;
        let StartHookResult { label, level, message, change } = begun;
        let answer = self.start_prompt(label.clone(), level, message, change);
        self.respond_to_prompt(label, Ok(answer));
    }

    fn start_prompt(
        &mut self,
        label: Option<Label>,
        level: Level,
        message: Message,
        change: PromptChange,
    ) -> Response {
        let now = self.clock.now();
        let mut messages = vec![message];
        messages.append(&mut self.extensions.messages_for_next_prompt);
        messages.extend(change.messages.into_iter().filter_map(|message| custom(message, now)));
        self.extensions.system_prompt_override = None;
        if let Some(options) = &change.system_prompt_options {
            self.take_options(options);
        }
        if let Some(system) = change.system_prompt {
            self.extensions.system_prompt_override = Some(system.into());
        }
        if label.is_none() {
            self.answer_commands();
        }
        let answer = self.compact_then_start(level, label, messages);
        if !self.nothing_deferred() {
            // Somebody wanted it stopped while it was being looked at.
            self.abort();
        }
        answer
    }

    /// The extension's command that a text names, and what follows the name.
    pub(crate) fn extension_command(&self, text: &str) -> Option<(String, String)> {
        let rest = text.strip_prefix('/')?;
        let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        let registrations = self.extensions.host.as_ref()?.registrations();
        let command = registrations.commands.iter().find(|command| command.name == name)?;
        Some((command.name.clone(), arguments.to_owned()))
    }

    /// Runs beside everything else. The prompt that named it is answered at its end, or before a
    /// run that an extension starts.
    fn run_command(&mut self, label: Option<Label>, name: String, arguments: String) {
        let Some(guests) = self.extensions.host.clone() else { return };
        self.pending_responses += 1;
        self.extensions.commands_started += 1;
        let number = self.extensions.commands_started;
        if let Some(label) = label {
            self.extensions.unanswered.insert(number, label);
        }
        self.tasks.spawn(async move {
            let ran = guests.command(&name, &arguments).await;
            ExtensionInput::CommandRan(number, ran.and_then(Result::err))
        });
    }

    pub(super) fn command_ran(&mut self, number: u64, error: Option<ExtensionError>) {
        self.pending_responses -= 1;
        if let Some(error) = error {
            self.report(error);
        }
        if let Some(label) = self.extensions.unanswered.remove(&number) {
            self.respond(label, Ok(Disposition::Handled.into()));
        }
    }

    /// An extension starts a run. If one of its commands does, the prompt that named the command
    /// is answered before `agent_start`: a client takes that for the run of its own prompt
    /// otherwise. Which command it is cannot be known, so all are answered.
    pub(super) fn answer_commands(&mut self) {
        for label in std::mem::take(&mut self.extensions.unanswered).into_values() {
            self.respond(label, Ok(Disposition::Handled.into()));
        }
    }
}

fn answer(disposition: Disposition) -> Response {
    Response::Now(disposition.into())
}

/// A message of an extension's, if it is one.
pub(super) fn custom(message: Value, now: UnixMs) -> Option<Message> {
    let mut message = message;
    message["timestamp"] = json!(now);
    if message["content"].is_null() {
        message["content"] = json!([]);
    }
    if message["display"].is_null() {
        message["display"] = json!(false);
    }
    serde_json::from_value::<CustomMessage>(message).ok().map(Message::Custom)
}

/// The words of a user message, and its pictures.
fn parts(message: &Message) -> (String, Option<Value>) {
    let Message::User(user) = message else { return (String::new(), None) };
    let images = match &user.content {
        tiller_agent::message::Content::Text(_) => Vec::new(),
        tiller_agent::message::Content::Blocks(blocks) => {
            blocks.iter().filter(|block| matches!(block, Block::Image { .. })).collect()
        }
    };
    (user.content.text(), (!images.is_empty()).then(|| json!(images)))
}
