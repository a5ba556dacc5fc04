//! One line from the client: its id, and its command or why it is refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::command::Command;
use crate::json::present;
use crate::sessions::ErrorCode;
use crate::{ClientId, Label};

/// A longer line is refused as a whole; no command needs more.
pub const LINE_MAX_BYTES: usize = 64 << 20;

/// One line from the client, without its end.
#[derive(Debug, PartialEq)]
pub enum Line {
    Text(Vec<u8>),
    /// More than [`LINE_MAX_BYTES`]. It was read to its end and dropped.
    TooLong,
}

/// One parsed line from the client.
#[derive(Debug)]
pub struct Request {
    /// The client that sent it.
    pub client: ClientId,
    /// The client's id, as it was spelled. It is echoed and never parsed.
    pub id: Option<Box<RawValue>>,
    pub command: Result<Command, Refusal>,
    /// The length of the line.
    pub line_bytes: usize,
}

/// A command that is refused, with an error text for the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The command's name in the response.
    pub command: String,
    pub kind: RefusalKind,
    pub error: String,
    pub code: Option<ErrorCode>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RefusalKind {
    /// The line is not a command.
    Parse,
    /// Unknown command.
    Unknown,
    /// A command with invalid fields, or one that is refused now.
    Refused,
}

impl Refusal {
    pub fn parse(why: impl std::fmt::Display) -> Refusal {
        Refusal {
            command: "parse".into(),
            kind: RefusalKind::Parse,
            error: format!("Failed to parse command: {why}"),
            code: None,
        }
    }

    /// A valid command that cannot be run.
    pub fn of(label: &Label, error: String) -> Refusal {
        Refusal { command: label.command.to_owned(), kind: RefusalKind::Refused, error, code: None }
    }

    pub fn unknown(command: &str) -> Refusal {
        Refusal {
            command: command.into(),
            kind: RefusalKind::Unknown,
            error: format!("Unknown command: {command}"),
            code: None,
        }
    }

    /// A command that other programs have. The refusal has its `id` at every level, so that the
    /// client does not wait.
    pub(crate) fn unsupported(command: &str) -> Refusal {
        Refusal {
            command: command.into(),
            kind: RefusalKind::Refused,
            error: format!("Not supported: {command}"),
            code: None,
        }
    }

    pub fn invalid(command: &str, why: impl std::fmt::Display) -> Refusal {
        Refusal {
            command: command.into(),
            kind: RefusalKind::Refused,
            error: format!("Invalid command {command:?}: {why}"),
            code: None,
        }
    }
}

impl Request {
    /// Parses the id before the command, so that a refused line is still answered with it. A blank
    /// line is ignored.
    pub fn read(line: Line) -> Option<Request> {
        let bytes = match line {
            Line::Text(bytes) => bytes,
            Line::TooLong => {
                let why = format!("the line is longer than {} MiB", LINE_MAX_BYTES >> 20);
                return Some(Request::refused(Refusal::parse(why)));
            }
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let line_bytes = bytes.len();
        // Invalid UTF-8 inside a string costs the client that character, not the command.
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(err) => String::from_utf8_lossy(err.as_bytes()).into_owned(),
        };
        // JavaScript writes half of a surrogate pair as an escape where a text was cut.
        let text = mend_surrogates(&text).unwrap_or(text);
        let request = Request::parse(&text);
        let request = request.unwrap_or_else(|err| Request::refused(Refusal::parse(plain(&err))));
        Some(Request { line_bytes, ..request })
    }

    /// A line without an id.
    fn refused(refusal: Refusal) -> Request {
        Request { client: ClientId::default(), id: None, command: Err(refusal), line_bytes: 0 }
    }

    pub(crate) fn parse(text: &str) -> Result<Request, serde_json::Error> {
        if let Ok(Envelope { id, kind }) = serde_json::from_str(text) {
            let command = Command::read(&kind, text);
            return Ok(Request { client: ClientId::default(), id, command, line_bytes: 0 });
        }
        // Strict about the shape, lenient about the rest: of a repeated key the last one counts,
        // and no value is parsed, so that a number like 1e400 does not hide the id.
        if let Ok(fields) = serde_json::from_str::<RequestFields>(text) {
            return Ok(Request::from_fields(fields));
        }
        serde_json::from_str::<IgnoredAny>(text)?;
        Ok(Request::refused(Refusal::parse("expected a JSON object")))
    }

    fn from_fields(fields: RequestFields) -> Request {
        let id = fields.get("id").cloned();
        let kind = fields.get("type").map(|kind| serde_json::from_str::<String>(kind.get()));
        let command = match kind {
            Some(Ok(kind)) => {
                let text = serde_json::to_string(&fields).expect("what was read can be written");
                Command::read(&kind, &text)
            }
            Some(Err(_)) => Err(Refusal::parse("field `type`: expected a string")),
            None => Err(Refusal::parse("missing field `type`")),
        };
        Request { client: ClientId::default(), id, command, line_bytes: 0 }
    }
}

/// The values of a line as they were spelled.
type RequestFields = BTreeMap<String, Box<RawValue>>;

#[derive(Deserialize)]
struct Envelope {
    /// An `id` that is `null` is an `id` and comes back as `null`.
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(rename = "type")]
    kind: String,
}

/// The parser's message without its position, which does not help in a record of one line.
pub(crate) fn plain(err: &serde_json::Error) -> String {
    let text = err.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Replaces escapes of lone surrogates by U+FFFD; `None` when there are none.
fn mend_surrogates(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let escape = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut mended = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                mended.push_str(&text[done..at]);
                mended.push_str("\\ufffd");
                at += 6;
                done = at;
            }
            Some(_) => at += 6,
            // An escape of one character; what follows the backslash is not a new escape.
            None => at = text.ceil_char_boundary(at + 2),
        }
    }
    (done > 0).then(|| mended + &text[done..])
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(line: &str, expect: Expect) {
        let printed = match Request::read(Line::Text(line.as_bytes().to_vec())) {
            None => "nothing".to_owned(),
            Some(Request { id, command, .. }) => {
                let id = id.map_or("-".to_owned(), |id| id.to_string());
                match command {
                    Ok(command) => format!("{id} {command:?}"),
                    Err(Refusal { command, kind, error, .. }) => {
                        format!("{id} {kind:?} {command}: {error}")
                    }
                }
            }
        };
        expect.assert_eq(&printed);
    }

    #[test]
    fn ids_are_echoed_as_spelled() {
        check(r#"{"id":"a","type":"abort"}"#, expect![[r#""a" Abort"#]]);
        check(r#"{"type":"abort","id":1.50}"#, expect!["1.50 Abort"]);
        check(r#"{"id":null,"type":"abort"}"#, expect!["null Abort"]);
        check(r#"{"id":{"b": [1]},"type":"abort"}"#, expect![[r#"{"b": [1]} Abort"#]]);
        check(r#"{"type":"abort"}"#, expect!["- Abort"]);
    }

    #[test]
    fn line_that_is_no_command_is_a_parse_error() {
        check("null", expect!["- Parse parse: Failed to parse command: expected a JSON object"]);
        check("[1]", expect!["- Parse parse: Failed to parse command: expected a JSON object"]);
        check(
            r#"{"id":1}"#,
            expect!["1 Parse parse: Failed to parse command: missing field `type`"],
        );
        check(
            r#"{"id":1,"type":5}"#,
            expect!["1 Parse parse: Failed to parse command: field `type`: expected a string"],
        );
        check("nope", expect!["- Parse parse: Failed to parse command: expected ident"]);
        check(
            r#"{"type":"abort"} {"type":"abort"}"#,
            expect!["- Parse parse: Failed to parse command: trailing characters"],
        );
        check("  \t ", expect!["nothing"]);
    }

    #[test]
    fn number_out_of_range_is_refused_with_its_id() {
        check(
            r#"{"id":"1","type":1e400}"#,
            expect![[
                r#""1" Parse parse: Failed to parse command: field `type`: expected a string"#
            ]],
        );
        check(
            r#"{"id":"2","x":-1e400}"#,
            expect![[r#""2" Parse parse: Failed to parse command: missing field `type`"#]],
        );
        check(
            r#"{"id":"3","type":"set_todos","phases":[{"name":1e400}]}"#,
            expect![[
                r#""3" Refused set_todos: Invalid command "set_todos": field `phases[0].name`: number out of range"#
            ]],
        );
        check(r#"{"id":1e400,"type":"abort"}"#, expect!["1e400 Abort"]);
        check("[1e400]", expect!["- Parse parse: Failed to parse command: expected a JSON object"]);
    }

    #[test]
    fn refusals_name_the_command_the_field_and_the_expectation() {
        check(
            r#"{"id":"1","type":"set_model","modelId":"m"}"#,
            expect![[
                r#""1" Refused set_model: Invalid command "set_model": missing field `provider`"#
            ]],
        );
        check(
            r#"{"type":"prompt","message":5}"#,
            expect![[
                r#"- Refused prompt: Invalid command "prompt": field `message`: invalid type: integer `5`, expected a string"#
            ]],
        );
        check(
            r#"{"type":"prompt","message":"x","streamingBehavior":"zzz"}"#,
            expect![[
                r#"- Refused prompt: Invalid command "prompt": field `streamingBehavior`: unknown variant `zzz`, expected `steer` or `followUp`"#
            ]],
        );
        check(
            r#"{"type":"set_steering_mode","mode":"some"}"#,
            expect![[
                r#"- Refused set_steering_mode: Invalid command "set_steering_mode": field `mode`: unknown variant `some`, expected `all` or `one-at-a-time`"#
            ]],
        );
        check(
            r#"{"type":"prompt","message":"x","images":[{"type":"image","data":"%%","mimeType":"image/png"}]}"#,
            expect![[
                r#"- Refused prompt: Invalid command "prompt": field `images[0].data`: expected base64"#
            ]],
        );
        check(
            r#"{"type":"steer","message":" "}"#,
            expect![[
                r#"- Refused steer: Invalid command "steer": field `message`: expected some text, or images"#
            ]],
        );
        check(
            r#"{"id":"9","type":"frob"}"#,
            expect![[r#""9" Unknown frob: Unknown command: frob"#]],
        );
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        check(r#"{"type":"abort","id":1,"id":2,"type":"get_state"}"#, expect!["2 GetState"]);
        check(
            r#"{"type":"set_session_name","name":"a","name":"b"}"#,
            expect![[r#"- SetSessionName(SetSessionName { name: "b" })"#]],
        );
    }

    #[test]
    fn lone_surrogate_escape_is_replaced() {
        check(
            r#"{"type":"steer","message":"a\ud83d \ud83d\ude00 \\ud83d"}"#,
            expect![[
                r#"- Steer(TextAndImages { message: "a� 😀 \\ud83d", images: [], client_message_id: None })"#
            ]],
        );
    }
}
