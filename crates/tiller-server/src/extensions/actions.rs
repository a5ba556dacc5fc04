//! Actions of extensions: messages, entries, names, tools; and requests that they wait for.

use serde_json::{Value, json};
use tiller_agent::driver::Queue;
use tiller_agent::event::Event;
use tiller_agent::message::{Block, Message};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::tool::ToolContext;
use tiller_js::event::Event as ExtensionEvent;
use tiller_js::host_api::{Action, Delivery, Request};
use tiller_protocol::{Level, WhenBusy};
use tiller_session::Body;
use tokio_util::sync::CancellationToken;

use super::prompt_hooks::custom;
use super::{SessionState, commands, models, models_store, providers, session_hooks};
use crate::prompt::{self, PromptRequest};
use crate::requester::{ExtensionReply, Requester};
use crate::work::{run, storing};
use crate::{handlers, project_state, tools};

/// Runs an action at once. An error is reported as `extension_error`.
pub(super) fn act(state: &mut SessionState, action: Action) {
    let (event, done) = match action {
        Action::SendMessage { message, trigger_turn, deliver_as } => {
            ("send_message", send_message(state, message, trigger_turn, deliver_as))
        }
        Action::SendUserMessage { content, deliver_as, expand_prompt_templates } => {
            send_user_message(state, content, deliver_as, expand_prompt_templates);
            ("send_user_message", Ok(()))
        }
        Action::AppendEntry { custom_type, data } => {
            ("append_entry", append_custom_entry(state, Body::Custom { custom_type, data }))
        }
        Action::AppendMessage { message } => {
            ("append_message", append_extension_message(state, message))
        }
        Action::SetSessionName { name } => ("set_session_name", name_session(state, &name)),
        Action::SetLabel { entry_id, label } => {
            ("set_label", handlers::tree::set_label(state, &entry_id, label).map(|_| ()))
        }
        Action::SetActiveTools { names } => {
            tools::select(state, names);
            ("set_active_tools", Ok(()))
        }
        Action::SetThinkingLevel { level } => ("set_thinking_level", set_level(state, &level)),
        Action::Abort => {
            run::abort(state);
            ("abort", Ok(()))
        }
        Action::Shutdown => {
            state.extensions.request_shutdown();
            ("shutdown", Ok(()))
        }
        Action::RegisterProvider { name, config } => {
            providers::register_provider(state, &name, config);
            ("register_provider", Ok(()))
        }
        Action::UnregisterProvider { name } => {
            providers::unregister_provider(state, &name);
            ("unregister_provider", Ok(()))
        }
    };
    if let Err(error) = done {
        super::report_action(state, event, error);
    }
}

fn send_message(
    state: &mut SessionState,
    message: Value,
    trigger_turn: Option<bool>,
    deliver_as: Option<Delivery>,
) -> Result<(), String> {
    let message = custom(message, state.clock.now())
        .ok_or("expected {customType, content, display, details?}")?;
    match (deliver_as, state.is_busy(), trigger_turn) {
        (Some(Delivery::NextTurn), ..) => {
            state.extensions.turn.messages_for_next_prompt.push(message)
        }
        (_, true, Some(false)) => state.extensions.turn.messages_after_turn.push(message),
        (Some(Delivery::FollowUp), true, _) => state.enqueue(Queue::FollowUp, message, None),
        (_, true, _) => state.enqueue(Queue::Steering, message, None),
        (_, false, Some(true)) => {
            prompt::check_can_start_prompt(state)?;
            commands::answer_commands(state);
            state.budget.start_prompt();
            run::start_run(state, vec![message]);
        }
        (_, false, _) => append_custom(state, message),
    }
    Ok(())
}

fn send_user_message(
    state: &mut SessionState,
    content: Value,
    deliver_as: Option<Delivery>,
    expands: bool,
) {
    let (text, images) = match content {
        Value::String(text) => (text, Vec::new()),
        blocks => {
            let blocks: Vec<Block> = serde_json::from_value(blocks).unwrap_or_default();
            let text_of = |block: &Block| match block {
                Block::Text { text, .. } => Some(text.clone()),
                _ => None,
            };
            let text: Vec<String> = blocks.iter().filter_map(text_of).collect();
            let images = blocks.into_iter().filter(|b| matches!(b, Block::Image { .. }));
            (text.join("\n"), images.collect())
        }
    };
    let when_busy = match deliver_as {
        Some(Delivery::Steer) => WhenBusy::Steer,
        Some(Delivery::FollowUp) => WhenBusy::FollowUp,
        _ => WhenBusy::Refuse,
    };
    let prompt = PromptRequest {
        origin: None,
        level: Level::Pi,
        text,
        images,
        when_busy,
        waits: false,
        expands,
    };
    let handled = prompt::submit(state, prompt);
    prompt::respond_to_prompt(state, None, handled);
}

/// Appends a message without asking the model.
pub(super) fn append_custom(state: &mut SessionState, message: Message) {
    let message = std::sync::Arc::new(message);
    state.emit(Event::message_start(message.clone(), None));
    if storing::append_message(state, message.clone()).is_ok() {
        state.emit(Event::MessageEnd { message });
    }
}

/// Appends messages that waited for the end of a turn when no turn follows.
pub(crate) fn flush_messages_after_turn(state: &mut SessionState) {
    for message in std::mem::take(&mut state.extensions.turn.messages_after_turn) {
        append_custom(state, message);
    }
    release_waiters(state);
    state.extensions.turn.system_prompt = None;
}

/// Responds to `ctx.waitForIdle` when nothing runs.
pub(crate) fn release_waiters(state: &mut SessionState) {
    if state.is_at_work() {
        return;
    }
    for waiter in std::mem::take(&mut state.extensions.hooks.idle_waiters) {
        waiter.respond(Ok(Value::Null));
    }
}

pub(super) fn append_custom_entry(state: &mut SessionState, body: Body) -> Result<(), String> {
    let now = state.clock.now();
    let id = state.session.conversation_mut().record(body, now).map_err(|err| err.to_string())?;
    let text = state.session.conversation().session().raw(&id).map_err(|err| err.to_string())?;
    let entry = text.and_then(|text| serde_json::value::RawValue::from_string(text).ok());
    if let Some(entry) = entry {
        state.emit(Event::EntryAppended { entry });
    }
    Ok(())
}

/// A blank name removes the name; the client's command refuses it.
fn name_session(state: &mut SessionState, name: &str) -> Result<(), String> {
    if !name.trim().is_empty() {
        return handlers::session::set_name(state, name).map(|_| ());
    }
    let unnamed = Body::SessionInfo { name: String::new() };
    state
        .session
        .conversation_mut()
        .record(unnamed, state.clock.now())
        .map_err(|err| err.to_string())?;
    state.emit(Event::SessionInfoChanged { name: None });
    Ok(())
}

fn append_extension_message(state: &mut SessionState, message: Value) -> Result<(), String> {
    let message: Message = serde_json::from_value(message).map_err(|err| err.to_string())?;
    storing::append_message(state, std::sync::Arc::new(message)).map_err(|why| why.0)
}

fn set_level(state: &mut SessionState, level: &str) -> Result<(), String> {
    let level: ThinkingLevel =
        serde_json::from_value(json!(level)).map_err(|err| err.to_string())?;
    handlers::thinking::set_level(state, level).map(|_| ())
}

/// Handles a request that the extension waits for.
pub(super) fn handle_request(state: &mut SessionState, request: Request, answer: ExtensionReply) {
    let done = match request {
        Request::SetModel { model } => {
            let name = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
            let provider = name("provider");
            let id = name("id");
            Ok(json!(handlers::model::set_model(state, &provider, &id).is_ok()))
        }
        Request::WaitForIdle if state.is_at_work() => {
            return state.extensions.hooks.idle_waiters.push(answer);
        }
        Request::WaitForIdle => Ok(Value::Null),
        Request::RunTool { name, arguments, cwd, .. } => {
            return run_tool(state, &name, arguments, cwd, answer);
        }
        Request::NewSession { parent_session, entries } => {
            return session_hooks::extension_new_session(state, parent_session, entries, answer);
        }
        Request::SwitchSession { path } => {
            return session_hooks::extension_switch_session(state, &path, answer);
        }
        Request::Fork { entry_id, position } => {
            let is_at = position.as_deref() == Some("at");
            return session_hooks::extension_fork(state, entry_id, is_at, answer);
        }
        Request::Compact { custom_instructions } => {
            return session_hooks::extension_compact(state, custom_instructions, answer);
        }
        Request::NavigateTree { target_id, options } => {
            return session_hooks::extension_navigate(state, target_id, options, answer);
        }
        Request::RefreshModels { options } => {
            return providers::refresh_models(state, options, answer);
        }
        Request::StoredModels { provider } => {
            return models_store::reply_with_stored_models(state, provider, answer);
        }
        Request::StoreModels { provider, entry } => {
            return models_store::store_models(state, provider, entry, answer);
        }
        Request::BeforeProviderRequest { payload } => {
            return providers::run_payload_hook(state, payload, answer);
        }
        Request::AfterProviderResponse { status, headers } => {
            if let Some(host) = state.extensions.host() {
                host.emit(&ExtensionEvent::AfterProviderResponse { status, headers });
            }
            Ok(Value::Null)
        }
        Request::ApiKey { provider } => return models::reply_with_key(state, &provider, answer),
        Request::ApiKeyAndHeaders { model } => {
            return models::reply_with_auth(state, &model, answer);
        }
        Request::Reload => return project_state::reload(state, Requester::Extension(answer)),
    };
    answer.respond(done);
}

/// Runs a built-in tool for an extension that wraps it. Cancelled when the extension stops
/// waiting.
fn run_tool(
    state: &mut SessionState,
    name: &str,
    arguments: Value,
    cwd: String,
    mut answer: ExtensionReply,
) {
    let tool = tiller_tools::builtin().into_iter().find(|tool| tool.name() == name);
    let (Some(tool), Value::Object(arguments)) = (tool, arguments) else {
        let error = Err(format!("there is no built-in tool called {name}"));
        return answer.respond(error);
    };
    let cwd = std::sync::Arc::new(std::path::PathBuf::from(cwd));
    let env = state.workspace.env();
    tokio::spawn(async move {
        let cancel = CancellationToken::new();
        let (cx, _shown) = ToolContext::new(cwd, cancel.clone(), true, env);
        let running = tool.run(arguments, cx);
        tokio::pin!(running);
        let result = tokio::select! {
            biased;
            result = &mut running => result,
            () = answer.closed() => {
                cancel.cancel();
                running.await
            }
        };
        let result = result.map(|output| json!(output)).map_err(|failure| failure.message);
        answer.respond(result);
    });
}
