//! The way of a prompt, from its command to its run:
//!
//! [`submit`] → `input` hook → queue or start → `before_agent_start` hook →
//! compact a conversation that is too long → todo prelude → start the run.
//!
//! Each step goes on to the next one in this file, at once or, after a hook or a compaction, when
//! its input arrives. Without extensions no hook is entered.

use tiller_agent::compaction::Reason;
use tiller_agent::driver::Queue;
use tiller_agent::message::{Block, Message};
use tiller_js::hook::PromptChange;
use tiller_protocol::{Disposition, Label, Level, Reply, WhenBusy};

use crate::dispatch::{Handled, Response};
use crate::extensions::{self, commands, prompt_hooks};
use crate::prompt_results::{self, AcceptedPrompt, Origin};
use crate::state::SessionState;
use crate::todos;
use crate::work::compaction::{self, AfterCompaction};
use crate::work::{deferred, run};

/// A prompt on its way to a queue or a run.
pub(crate) struct PromptRequest {
    /// The client's command, or nothing for a prompt of an extension.
    pub(crate) origin: Option<Origin>,
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
    pub(super) origin: Option<Origin>,
    pub(super) level: Level,
    pub(super) message: Message,
    pub(super) change: PromptChange,
}

/// Takes a prompt of the client or of an extension.
pub(crate) fn submit(state: &mut SessionState, prompt: PromptRequest) -> Handled {
    if state.extensions.host().is_some() {
        let command = commands::extension_command(state, &prompt.text).filter(|_| prompt.expands);
        if let Some((name, arguments)) = command {
            commands::run_command(state, prompt.origin, name, arguments);
            return Ok(Response::Later);
        }
        if state.extensions.listening_host("input").is_some() {
            prompt_hooks::run_input_hook(state, prompt);
            return Ok(Response::Later);
        }
    }
    queue_or_start(state, prompt)
}

pub(super) fn input_hook_done(state: &mut SessionState, result: InputHookResult) {
    state.extensions.input_hook_ended();
    let InputHookResult { prompt, is_handled } = result;
    if is_handled {
        if let Some(origin) = prompt.origin {
            respond_handled(state, origin);
        }
    } else {
        let label = label(&prompt.origin);
        let handled = queue_or_start(state, prompt);
        respond_to_prompt(state, label, handled);
    }
    deferred::run_deferred_if_idle(state);
}

fn queue_or_start(state: &mut SessionState, prompt: PromptRequest) -> Handled {
    let PromptRequest { origin, level, text, images, when_busy, waits, expands } = prompt;
    let message = if expands {
        user_message(state, text, images)?
    } else {
        Message::user(text, images, state.clock.now())
    };
    let queue = match (waits || state.is_busy(), when_busy) {
        (false, _) => {
            check_can_start_prompt(state)?;
            return Ok(start_prompt(state, origin, level, message));
        }
        (true, WhenBusy::Steer) => Queue::Steering,
        (true, WhenBusy::FollowUp) => Queue::FollowUp,
        (true, WhenBusy::Refuse) => return Err(level.busy().to_owned()),
    };
    state.enqueue(queue, message, origin.map(AcceptedPrompt::new));
    Ok(Response::Now(Disposition::Queued.into()))
}

fn start_prompt(
    state: &mut SessionState,
    origin: Option<Origin>,
    level: Level,
    message: Message,
) -> Response {
    if state.extensions.listening_host("before_agent_start").is_some() {
        prompt_hooks::run_start_hook(state, origin, level, message);
        return Response::Later;
    }
    start_changed_prompt(state, origin, level, message, PromptChange::default())
}

pub(super) fn start_hook_done(state: &mut SessionState, result: StartHookResult) {
    state.work.leave_phase();
    let StartHookResult { origin, level, message, change } = result;
    let label = label(&origin);
    let response = start_changed_prompt(state, origin, level, message, change);
    respond_to_prompt(state, label, Ok(response));
}

fn start_changed_prompt(
    state: &mut SessionState,
    origin: Option<Origin>,
    level: Level,
    message: Message,
    change: PromptChange,
) -> Response {
    let mut messages = vec![message];
    if state.extensions.host().is_some() {
        messages.append(&mut prompt_hooks::apply_prompt_change(state, change));
    }
    if origin.is_none() {
        commands::answer_commands(state);
    }
    let response = compact_then_start(state, level, origin, messages);
    if state.work.has_deferred() {
        // An abort, or a command that implies one, came while the hook was running.
        run::abort(state);
    }
    response
}

/// Compacts a conversation that is too long; then the prompt waits for the summary.
fn compact_then_start(
    state: &mut SessionState,
    level: Level,
    origin: Option<Origin>,
    messages: Vec<Message>,
) -> Response {
    let started = || Response::Now(Disposition::Started.into());
    let Some(cut) = compaction::plan_before_prompt(state, &messages) else {
        accept(state, origin);
        start_with_prelude(state, messages);
        return started();
    };
    // At xcsh's level clients give up on a response that takes as long as a summary.
    let is_acknowledged = level == Level::Xcsh;
    let unanswered = if is_acknowledged {
        accept(state, origin);
        None
    } else {
        origin
    };
    let then = AfterCompaction::Prompt { origin: unanswered, messages };
    compaction::begin(state, Reason::Threshold, cut, None, then);
    if is_acknowledged { started() } else { Response::Later }
}

/// The compaction that a prompt waited for is over, with or without a summary.
pub(super) fn start_after_compaction(
    state: &mut SessionState,
    origin: Option<Origin>,
    messages: Vec<Message>,
) {
    if let Some(origin) = &origin {
        state.respond(origin.label.clone(), Ok(Disposition::Started.into()));
    }
    accept(state, origin);
    start_with_prelude(state, messages);
    if state.work.has_deferred() {
        // An abort came while the prompt waited.
        run::abort(state);
    }
}

/// The prompt is accepted: it gets a result, whatever happens.
fn accept(state: &mut SessionState, origin: Option<Origin>) {
    if let Some(origin) = origin {
        state.results.start(AcceptedPrompt::new(origin));
    }
}

/// Starts the prompt of `abort_and_prompt`.
pub(super) fn start_accepted(state: &mut SessionState, origin: Origin, message: Message) {
    state.respond(origin.label.clone(), Ok(Reply::DONE));
    accept(state, Some(origin));
    start_with_prelude(state, vec![message]);
}

/// Responds to a prompt that an extension has dealt with.
pub(super) fn respond_handled(state: &mut SessionState, origin: Origin) {
    state.respond(origin.label.clone(), Ok(Disposition::Handled.into()));
    prompt_results::handled(state, origin);
}

fn label(origin: &Option<Origin>) -> Option<Label> {
    origin.as_ref().map(|origin| origin.label.clone())
}

fn start_with_prelude(state: &mut SessionState, messages: Vec<Message>) {
    state.budget.start_prompt();
    let messages = todos::with_todo_prelude(state, messages);
    run::start_run(state, messages);
}

/// Responds to the client; a refused prompt of an extension is an `extension_error`.
pub(super) fn respond_to_prompt(state: &mut SessionState, label: Option<Label>, handled: Handled) {
    match (label, handled) {
        (_, Ok(Response::Later | Response::Never)) | (None, Ok(Response::Now(_))) => {}
        (Some(label), Ok(Response::Now(reply))) => state.respond(label, Ok(reply)),
        (Some(label), Err(error)) => state.respond(label, Err(error)),
        (None, Err(error)) => extensions::report_action(state, "send_user_message", error),
    }
}

/// The user message for a text, with the skill or template that it names in place of the name.
pub(super) fn user_message(
    state: &mut SessionState,
    text: String,
    images: Vec<Block>,
) -> Result<Message, String> {
    let text = if text.starts_with('/') { state.project.resources().expand(text)? } else { text };
    Ok(Message::user(text, images, state.clock.now()))
}

/// Checks that a prompt can start a run here. An extension may send one while its session is
/// being replaced; its run would go on in the other session.
pub(super) fn check_can_start_prompt(state: &mut SessionState) -> Result<(), String> {
    if state.transition.is_leaving() {
        return Err(CHANGING_SESSION.to_owned());
    }
    check_can_start(state)
}

/// Checks that there is a model that can be asked and a conversation that can be read and
/// continued.
pub(super) fn check_can_start(state: &mut SessionState) -> Result<(), String> {
    match state.models.current() {
        None => return Err(NO_MODEL.trim_end().to_owned()),
        Some(model) => state.models.registry().check_access(model)?,
    }
    if state.session.conversation().session().is_read_only() {
        return Err("Session is open read-only".to_owned());
    }
    // Loads the messages now, so that a session file that cannot be read refuses the prompt.
    state.session.conversation_mut().messages().map(|_| ()).map_err(|err| err.to_string())
}

const CHANGING_SESSION: &str = "Cannot start a run while another session or entry is being opened";

const NO_MODEL: &str = include_str!("../texts/no-model.md");
