//! Operations that go to the host: the session, the models, the user.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::arguments;
use tiller_agent::message::Arguments;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::resources::ModelStream;
use super::{OpError, OpEvents, OpFuture, OpInput, OpOutput, OpReply, unknown};
use crate::access::{Access, Server};
use crate::coalesce::{Coalesce, JoinDeltas};
use crate::engine_state::EngineState;
use crate::event;
use crate::host_api::{
    Action, Answers, Dialog, LogLevel, LogLine, ModelRead, ModelRequest, Query, Request,
    RequestCallbacks, SettingsLayer, Wants,
};
use crate::registrations::ExtensionRegistrations;

/// Upper bound on events of a model's answer that an extension has not handled yet.
const UNHANDLED_MAX: usize = 64;

pub(super) fn sync(state: &Rc<EngineState>, name: &str, input: &OpInput) -> OpReply {
    match name {
        "query" => {
            let query: Query = input.read()?;
            state.allow(Access::Query(&query))?;
            let answer = state.budget.pause(|| state.host.query(query));
            Ok(OpOutput::json(&answer.map_err(OpError::new)?))
        }
        "act" => {
            let action: Action = input.read()?;
            state.allow(Access::Action(&action))?;
            state.host.act(action);
            Ok(OpOutput::Nothing)
        }
        "notice" => {
            state.host.notice(input.read()?);
            Ok(OpOutput::Nothing)
        }
        "log" => {
            let input: LogInput = input.read()?;
            let extension_path = state.path(state.task.get().extension);
            state.host.log(LogLine { extension_path, level: input.level(), text: input.text });
            Ok(OpOutput::Nothing)
        }
        "registered" => {
            let mut registered: Registered = input.read()?;
            registered.extensions.iter_mut().for_each(|own| own.restrict(state.permissions));
            state.set_registrations(registered.extensions);
            let allowed = registered.listeners.iter().filter(|name| state.may_listen_to(name));
            state.set_listeners(allowed.fold(0, |bits, name| bits | event::bit(name)));
            if registered.changed {
                state.host.changed();
            }
            Ok(OpOutput::Nothing)
        }
        "lostGuards" => {
            state.set_lost_guards(input.read()?);
            Ok(OpOutput::Nothing)
        }
        "modelEventsHandled" => {
            // The extension has handled this many events of a model's answer; zero after the last
            // one.
            let (id, count): (u64, usize) = input.read()?;
            let mut resources = state.resources.borrow_mut();
            match count {
                0 => drop(resources.model_streams.remove(&id)),
                count => {
                    let stream = resources.model_streams.get(&id);
                    stream.into_iter().for_each(|stream| stream.room.add_permits(count));
                }
            }
            Ok(OpOutput::Nothing)
        }
        "payloadResult" => {
            let PayloadResult { stream_id, number, payload } = input.read()?;
            if let Some(stream) = state.resources.borrow().model_streams.get(&stream_id) {
                stream.answers.complete(number, payload);
            }
            Ok(OpOutput::Nothing)
        }
        "settings" => {
            let layers: Vec<SettingsLayer> = input.read()?;
            if layers.iter().any(|layer| matches!(layer, SettingsLayer::File(_))) {
                state.allow(Access::Operation("fs.readFile"))?;
            }
            Ok(OpOutput::json(&state.host.settings(layers)))
        }
        "hostInfo" => Ok(host_info(state)),
        "checkArguments" => {
            let ToolArguments { tool, schema, arguments } = input.read()?;
            let checked = arguments::check(&tool, &schema, &arguments).map_err(OpError::new)?;
            Ok(OpOutput::json(&checked))
        }
        _ => Err(unknown(name)),
    }
}

pub(super) fn start(
    state: &Rc<EngineState>,
    name: &str,
    input: &OpInput,
    sink: OpEvents,
) -> Result<OpFuture, OpError> {
    match name {
        "request" => {
            let request: Request = input.read()?;
            state.allow(Access::Request(&request))?;
            let answer = state.host.request(request);
            Ok(Box::pin(async move { Ok(OpOutput::json(&answer.await.map_err(OpError::new)?)) }))
        }
        "dialog" => {
            let dialog: Dialog = input.read()?;
            let cancel = CancellationToken::new();
            let answer = state.host.dialog(dialog, cancel.clone());
            // Dropped with this future when the extension cancels.
            let guard = cancel.drop_guard();
            Ok(Box::pin(async move {
                let answer = answer.await;
                guard.disarm();
                Ok(OpOutput::json(&answer))
            }))
        }
        "model" => {
            let mut request: ModelRequest = input.read()?;
            state.allow(Access::Model { server: server_of(state, &request.model) })?;
            let ModelCallbacks { wants } = input.read()?;
            let room = Arc::new(Semaphore::new(UNHANDLED_MAX));
            let answers = Arc::new(Answers::default());
            if wants.payload || wants.response {
                let sink = sink.clone();
                let send = move |event: Value| sink.emit(OpOutput::json(&event));
                request.callbacks = Some(RequestCallbacks::new(wants, answers.clone(), send));
            }
            let mut resources = state.resources.borrow_mut();
            let id = resources.number();
            resources.model_streams.insert(id, ModelStream { room: room.clone(), answers });
            sink.emit(OpOutput::json(&json!({ "type": "stream", "id": id })));
            let events = state.host.model(request);
            Ok(Box::pin(forward_events(events, room, sink)))
        }
        _ => Err(unknown(name)),
    }
}

/// Forwards the events of a model's answer as fast as the extension handles them. The answer is
/// read in any case, because a provider would close the connection on a reader that stalls; queued
/// events are merged.
async fn forward_events(
    mut events: BoxStream<'static, Value>,
    room: Arc<Semaphore>,
    sink: OpEvents,
) -> OpReply {
    let mut waiting = JoinDeltas::default();
    let mut is_over = false;
    while !is_over || !waiting.is_empty() {
        tokio::select! {
            biased;
            Ok(permit) = room.acquire(), if !waiting.is_empty() => {
                // Released when the extension has handled the event.
                permit.forget();
                sink.emit(OpOutput::json(&waiting.pop()));
            }
            event = events.next(), if !is_over => match event {
                Some(event) => waiting.add(event),
                None => is_over = true,
            }
        }
    }
    Ok(OpOutput::Nothing)
}

/// Which server a request goes to: the one known for the model, or another one that the extension
/// names.
fn server_of(state: &EngineState, model: &Value) -> Server {
    if state.permissions.env || model["baseUrl"].is_null() {
        return Server::Known;
    }
    let text = |field: &str| model[field].as_str().unwrap_or_default().to_owned();
    let find = ModelRead::Find { provider: text("provider"), id: text("id") };
    let known = state.budget.pause(|| state.host.query(Query::Models(find))).unwrap_or_default();
    if known["baseUrl"] == model["baseUrl"] { Server::Known } else { Server::Named }
}

/// The callbacks of a model request.
#[derive(Deserialize)]
struct ModelCallbacks {
    #[serde(default)]
    wants: Wants,
}

/// The result of `onPayload`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PayloadResult {
    stream_id: u64,
    number: u64,
    payload: Option<Value>,
}

#[derive(Deserialize)]
struct LogInput {
    level: String,
    text: String,
}

impl LogInput {
    fn level(&self) -> LogLevel {
        match self.level.as_str() {
            "debug" => LogLevel::Debug,
            "warn" => LogLevel::Warning,
            "error" => LogLevel::Error,
            _ => LogLevel::Info,
        }
    }
}

/// An extension that runs tools itself is about to call one.
#[derive(Deserialize)]
struct ToolArguments {
    tool: String,
    schema: Value,
    arguments: Arguments,
}

#[derive(Deserialize)]
struct Registered {
    extensions: Vec<ExtensionRegistrations>,
    listeners: Vec<String>,
    /// Whether this happened after loading.
    changed: bool,
}

fn host_info(state: &EngineState) -> OpOutput {
    let config = &state.config;
    let env = if state.permissions.env { &*config.env } else { &[] };
    let env: serde_json::Map<String, Value> =
        env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    OpOutput::json(&json!({
        "cwd": config.cwd,
        "agentDir": config.agent_dir,
        "homeDir": config.home_dir,
        "mode": config.mode,
        "hasUI": config.has_ui,
        "version": config.version,
        "execPath": config.exec_path,
        "env": env,
        "platform": platform(),
        "arch": arch(),
        "pid": std::process::id(),
        "eventWaitMs": config.limits.event_wait.as_millis() as u64,
    }))
}

/// Node's name of the operating system.
pub(super) fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

/// Node's name of the processor.
pub(super) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "x86" => "ia32",
        "aarch64" => "arm64",
        other => other,
    }
}
