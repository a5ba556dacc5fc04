//! `hello` and `get_capabilities`: a client chooses what tiller writes, and learns what it supports.

use std::borrow::Cow;

use tiller_protocol::{
    COMMANDS, Capabilities, ClientId, EVENTS, Hello, HelloData, LineLimits, SequenceInfo,
    ToolUpdates, schema,
};
use uuid::Uuid;

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::Handled;
use crate::lines::LINE_MAX_BYTES;
use crate::server::version;
use crate::state::SessionState;

/// The choices apply from this response on.
pub(crate) fn hello(
    state: &mut SessionState,
    client: ClientId,
    hello: Hello,
    current: WireFormat,
) -> Handled {
    let format = chosen(&hello, current);
    state.outbox.change_format(client, format);
    state.todos.set_level(format.level);
    let diagnostics = state.project.diagnostics().map(Cow::Borrowed).collect();
    let sandbox = state.workspace.sandbox().map(|sandbox| sandbox.summary());
    data(&HelloData { sandbox, ..hello_data(format, names(COMMANDS), diagnostics) })
}

pub(crate) fn hello_data<'a>(
    format: WireFormat,
    commands: Vec<Cow<'a, str>>,
    diagnostics: Vec<Cow<'a, str>>,
) -> HelloData<'a> {
    HelloData {
        server: "tiller".into(),
        version: version().into(),
        wire: format.level,
        stream: format.stream,
        commands,
        events: names(EVENTS),
        limits: LineLimits { line_bytes: LINE_MAX_BYTES },
        diagnostics,
        schema: schema::hash(format.level).into(),
        prompt_results: format.prompt_results.then_some(true),
        sequence: sequence(format),
        max_frame_bytes: format.max_frame_bytes,
        tool_updates: Some(format.tool_updates).filter(|form| *form == ToolUpdates::Deltas),
        sandbox: None,
    }
}

pub(crate) fn get_capabilities(format: WireFormat) -> Handled {
    data(&capabilities(format, names(COMMANDS)))
}

pub(crate) fn capabilities(
    format: WireFormat,
    commands: Vec<Cow<'static, str>>,
) -> Capabilities<'static> {
    Capabilities {
        server: "tiller".into(),
        version: version().into(),
        wire: format.level,
        stream: format.stream,
        commands,
        events: names(EVENTS),
        limits: LineLimits { line_bytes: LINE_MAX_BYTES },
        schema: schema::hash(format.level).into(),
        prompt_results: format.prompt_results,
        sequence: sequence(format),
        max_frame_bytes: format.max_frame_bytes,
        tool_updates: format.tool_updates,
    }
}

/// The format after a `hello`. What it does not mention stays; another level has its own stream.
pub(crate) fn chosen(hello: &Hello, current: WireFormat) -> WireFormat {
    let stream = match (hello.stream, hello.wire) {
        (Some(stream), _) => stream,
        (None, Some(wire)) => wire.stream(),
        (None, None) => current.stream,
    };
    let epoch = match hello.sequence {
        Some(true) => Some(current.epoch.unwrap_or_else(Uuid::new_v4)),
        Some(false) => None,
        None => current.epoch,
    };
    WireFormat {
        level: hello.wire.unwrap_or(current.level),
        stream,
        tool_updates: hello.tool_updates.unwrap_or(current.tool_updates),
        prompt_results: hello.prompt_results.unwrap_or(current.prompt_results),
        epoch,
        max_frame_bytes: hello.max_frame_bytes.or(current.max_frame_bytes),
    }
}

fn sequence(format: WireFormat) -> Option<SequenceInfo<'static>> {
    format.epoch.map(|epoch| SequenceInfo { epoch: epoch.to_string().into() })
}

pub(crate) fn names(names: &'static [&'static str]) -> Vec<Cow<'static, str>> {
    names.iter().copied().map(Cow::Borrowed).collect()
}
