//! `hello`: a client names itself, chooses its level, and gets the server's capabilities.

use serde::Serialize;
use tiller_protocol::{COMMANDS, EVENTS, Hello, Level, Stream};

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::Handled;
use crate::lines::LINE_MAX_BYTES;
use crate::server::version;
use crate::state::SessionState;

#[derive(Serialize)]
struct Greeting<'a> {
    server: &'static str,
    version: &'static str,
    wire: Level,
    stream: Stream,
    commands: &'static [&'static str],
    events: &'static [&'static str],
    limits: Limits,
    diagnostics: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    line_bytes: usize,
}

/// The level applies from this response on.
pub(crate) fn hello(state: &mut SessionState, hello: Hello, current: WireFormat) -> Handled {
    let wire = hello.wire.unwrap_or(current.level);
    let stream = match (hello.stream, hello.wire) {
        (Some(stream), _) => stream,
        (None, Some(wire)) => wire.stream(),
        (None, None) => current.stream,
    };
    state.outbox.change_format(WireFormat { level: wire, stream });
    state.todos.set_level(wire);
    data(&Greeting {
        server: "tiller",
        version: version(),
        wire,
        stream,
        commands: COMMANDS,
        events: EVENTS,
        limits: Limits { line_bytes: LINE_MAX_BYTES },
        diagnostics: state.project.diagnostics().collect(),
    })
}
