//! The lines that the server itself writes to a client, and what it needs to know of a client's.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tiller_protocol::{
    COMMANDS, ClientId, ErrorCode, Json, Label, Refusal, Response, SERVER_COMMANDS, ServerRequest,
};

use crate::handlers::hello::names;
use crate::lines::Line;

/// Why a command for a session that has ended is refused.
pub(super) const CLOSING: &str = "The session has ended or is about to";

/// Whether a line ends the only session of its connection, where nothing else can say so.
pub(super) fn is_close(line: &Line) -> bool {
    let Line::Text(bytes) = line else { return false };
    memchr::memmem::find(bytes, b"close_session").is_some()
        && std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| ServerRequest::read(text).ok())
            .is_some_and(|request| request.command == "close_session")
}

/// Whether a client that watches may send the command.
pub(super) fn changes_nothing(command: &str) -> bool {
    command.starts_with("get_") || command == "hello" || command == "list_sessions"
}

/// The commands that a client of many sessions can send.
pub(super) fn commands() -> Vec<Cow<'static, str>> {
    let mut all = names(SERVER_COMMANDS);
    all.extend(names(COMMANDS));
    all
}

pub(super) fn label(id: Option<&RawValue>, command: &'static str) -> Label {
    Label { client: ClientId::default(), id: id.map(ToOwned::to_owned), command }
}

pub(super) fn success(id: Option<&RawValue>, command: &str, data: &impl Serialize) -> String {
    let mut response = Response::success(id, command);
    response.data = Some(raw(data));
    json(&response)
}

pub(super) fn success_without_data(label: &Label) -> String {
    json(&Response::success(label.id.as_deref(), label.command))
}

pub(super) fn closing_line(label: &Label) -> String {
    let response = Response::refusal(label.id.as_deref(), label.command, CLOSING);
    json(&response.with_code(Some(ErrorCode::SessionClosing)))
}

pub(super) fn refusal_line(id: Option<&RawValue>, refusal: &Refusal) -> String {
    let response = Response::refusal(id, &refusal.command, &refusal.error);
    json(&response.with_code(refusal.code))
}

pub(super) fn raw(data: &impl Serialize) -> Json<'static> {
    Json::from(to_raw_value(data).expect("our own types serialize to JSON"))
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own types serialize to JSON")
}
