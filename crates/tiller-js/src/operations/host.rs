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
use super::{Later, OpError, OpEvents, OpInput, OpOutput, OpReply, unknown};
use crate::access::{Access, Server};
use crate::coalesce::{Coalesce, JoinDeltas};
use crate::engine_state::EngineState;
use crate::event;
use crate::registrations::OwnRegistrations;
use crate::world::{
    Action, Answers, Dialog, LogLevel, LogLine, ModelRead, ModelRequest, Query, Request,
    RequestCallbacks, SettingsLayer, Wants,
};

/// Upper bound on events of a model's answer that an extension has not handled yet.
const UNHANDLED_MAX: usize = 64;

pub(super) fn sync(core: &Rc<EngineState>, name: &str, input: &OpInput) -> OpReply {
    match name {
        "query" => {
            let query: Query = input.read()?;
            core.allow(Access::Query(&query))?;
            let answer = core.budget.pause(|| core.world.query(query));
            Ok(OpOutput::json(&answer.map_err(OpError::new)?))
        }
        "act" => {
            let action: Action = input.read()?;
            core.allow(Access::Action(&action))?;
            core.world.act(action);
            Ok(OpOutput::Nothing)
        }
        "notice" => {
            core.world.notice(input.read()?);
            Ok(OpOutput::Nothing)
        }
        "log" => {
            let line: Line = input.read()?;
            let extension_path = core.path(core.task.get().extension);
            core.world.log(LogLine { extension_path, level: line.level(), text: line.text });
            Ok(OpOutput::Nothing)
        }
        "registered" => {
            let mut registered: Registered = input.read()?;
            registered.extensions.iter_mut().for_each(|own| own.restrict(core.permissions));
            core.set_own(registered.extensions);
            let heard = registered.listeners.iter().filter(|name| core.may_hear(name));
            core.set_listeners(heard.fold(0, |bits, name| bits | event::bit(name)));
            if registered.changed {
                core.world.changed();
            }
            Ok(OpOutput::Nothing)
        }
        "lostGuards" => {
            core.set_lost_guards(input.read()?);
            Ok(OpOutput::Nothing)
        }
        "modelEventsHandled" => {
            // The extension has handled this many events of a model's answer; zero after the last
            // one.
            let (id, count): (u64, usize) = input.read()?;
            let mut resources = core.resources.borrow_mut();
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
            if let Some(stream) = core.resources.borrow().model_streams.get(&stream_id) {
                stream.answers.give(number, payload);
            }
            Ok(OpOutput::Nothing)
        }
        "settings" => {
            let layers: Vec<SettingsLayer> = input.read()?;
            if layers.iter().any(|layer| matches!(layer, SettingsLayer::File(_))) {
                core.allow(Access::Operation("fs.readFile"))?;
            }
            Ok(OpOutput::json(&core.world.settings(layers)))
        }
        "hostInfo" => Ok(host_info(core)),
        "checkArguments" => {
            let HostCall { tool, schema, arguments } = input.read()?;
            let checked = arguments::check(&tool, &schema, &arguments).map_err(OpError::new)?;
            Ok(OpOutput::json(&checked))
        }
        _ => Err(unknown(name)),
    }
}

pub(super) fn start(
    core: &Rc<EngineState>,
    name: &str,
    input: &OpInput,
    sink: OpEvents,
) -> Result<Later, OpError> {
    match name {
        "request" => {
            let request: Request = input.read()?;
            core.allow(Access::Request(&request))?;
            let answer = core.world.request(request);
            Ok(Box::pin(async move { Ok(OpOutput::json(&answer.await.map_err(OpError::new)?)) }))
        }
        "dialog" => {
            let dialog: Dialog = input.read()?;
            let cancel = CancellationToken::new();
            let answer = core.world.dialog(dialog, cancel.clone());
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
            core.allow(Access::Model { server: server_of(core, &request.model) })?;
            let ModelCallbacks { wants } = input.read()?;
            let room = Arc::new(Semaphore::new(UNHANDLED_MAX));
            let answers = Arc::new(Answers::default());
            if wants.payload || wants.response {
                let sink = sink.clone();
                let tell = move |event: Value| sink.tell(OpOutput::json(&event));
                request.looks = Some(RequestCallbacks::new(wants, answers.clone(), tell));
            }
            let mut resources = core.resources.borrow_mut();
            let id = resources.number();
            resources.model_streams.insert(id, ModelStream { room: room.clone(), answers });
            sink.tell(OpOutput::json(&json!({ "type": "stream", "id": id })));
            let events = core.world.model(request);
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
                sink.tell(OpOutput::json(&waiting.pop()));
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
fn server_of(core: &EngineState, model: &Value) -> Server {
    if core.permissions.env || model["baseUrl"].is_null() {
        return Server::Known;
    }
    let text = |field: &str| model[field].as_str().unwrap_or_default().to_owned();
    let find = ModelRead::Find { provider: text("provider"), id: text("id") };
    let known = core.budget.pause(|| core.world.query(Query::Models(find))).unwrap_or_default();
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
struct Line {
    level: String,
    text: String,
}

impl Line {
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
struct HostCall {
    tool: String,
    schema: Value,
    arguments: Arguments,
}

#[derive(Deserialize)]
struct Registered {
    extensions: Vec<OwnRegistrations>,
    listeners: Vec<String>,
    /// Whether this happened after loading.
    changed: bool,
}

fn host_info(core: &EngineState) -> OpOutput {
    let config = &core.config;
    let env = if core.permissions.env { &*config.env } else { &[] };
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
        "patienceMs": config.limits.patience.as_millis() as u64,
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
