//! `hello`: a client names itself, chooses its level, and gets the server's capabilities.

use std::borrow::Cow;

use tiller_protocol::data::{HelloData, LineLimits};
use tiller_protocol::{COMMANDS, EVENTS, Hello};

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::Handled;
use crate::lines::LINE_MAX_BYTES;
use crate::server::version;
use crate::state::SessionState;

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
    data(&HelloData {
        server: "tiller".into(),
        version: version().into(),
        wire,
        stream,
        commands: names(COMMANDS),
        events: names(EVENTS),
        limits: LineLimits { line_bytes: LINE_MAX_BYTES },
        diagnostics: state.project.diagnostics().map(Cow::Borrowed).collect(),
    })
}

fn names(names: &'static [&'static str]) -> Vec<Cow<'static, str>> {
    names.iter().copied().map(Cow::Borrowed).collect()
}
