//! JSON-RPC 2.0: a line of the client to a message, and our messages to lines.

use agent_client_protocol_schema::v1::{Error, ErrorCode, RequestId};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A line of the client.
#[derive(Debug)]
pub(crate) enum Message {
    Request {
        id: RequestId,
        method: String,
        params: Params,
    },
    Notification {
        method: String,
        params: Params,
    },
    /// The answer to one of our requests.
    Answer {
        id: RequestId,
        result: Result<Value, Error>,
    },
    /// Not a message. The error is the answer.
    Invalid {
        id: RequestId,
        error: Error,
    },
}

/// The parameters of a request or notification.
#[derive(Debug)]
pub(crate) struct Params(Option<Box<RawValue>>);

impl Params {
    /// The parameters as the type of their method. Absent ones count as an empty object.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let text = self.0.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(text).map_err(|err| invalid_params(format!("params: {err}")))
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Fields {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Error>,
}

/// For a field whose `null` is not the same as its absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Message {
    /// Reads a line. None: the line is blank.
    pub(crate) fn read(line: &[u8]) -> Option<Message> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let text = String::from_utf8_lossy(line);
        Some(match serde_json::from_str::<Fields>(&text) {
            Ok(fields) => Message::from_fields(fields),
            Err(err) if serde_json::from_str::<IgnoredAny>(&text).is_err() => Message::invalid(
                error(ErrorCode::ParseError, format!("the line is no JSON: {err}")),
            ),
            Err(_) if text.trim_start().starts_with('[') => Message::invalid(invalid_request(
                "a batch is not supported: write one message per line",
            )),
            Err(err) => {
                Message::invalid(invalid_request(format!("the line is no JSON-RPC message: {err}")))
            }
        })
    }

    /// The answer to a line that is longer than tiller reads.
    pub(crate) fn too_long(max_bytes: usize) -> Message {
        let why = format!("the line is longer than {} MiB", max_bytes >> 20);
        Message::invalid(error(ErrorCode::ParseError, why))
    }

    fn invalid(error: Error) -> Message {
        Message::Invalid { id: RequestId::Null, error }
    }

    fn from_fields(fields: Fields) -> Message {
        let Fields { jsonrpc, id, method, params, result, error } = fields;
        let params = Params(params);
        let id = match id.map(serde_json::from_value::<RequestId>) {
            Some(Err(_)) => {
                return Message::invalid(invalid_request("`id` must be an integer or a string"));
            }
            Some(Ok(id)) => Some(id),
            None => None,
        };
        if jsonrpc.as_deref() != Some("2.0") {
            let error = invalid_request("`jsonrpc` must be \"2.0\"");
            return Message::Invalid { id: id.unwrap_or(RequestId::Null), error };
        }
        match (method, id) {
            (Some(method), Some(id)) => Message::Request { id, method, params },
            (Some(method), None) => Message::Notification { method, params },
            (None, Some(id)) => match (result, error) {
                (_, Some(error)) => Message::Answer { id, result: Err(error) },
                (Some(result), None) => Message::Answer { id, result: Ok(result) },
                (None, None) => Message::Invalid {
                    id,
                    error: invalid_request("the message has neither `method` nor `result`"),
                },
            },
            (None, None) => {
                Message::invalid(invalid_request("the message has neither `method` nor `id`"))
            }
        }
    }
}

/// An error with a sentence for people.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code.into(), message)
}

pub(crate) fn invalid_request(message: impl Into<String>) -> Error {
    error(ErrorCode::InvalidRequest, message)
}

pub(crate) fn invalid_params(message: impl Into<String>) -> Error {
    error(ErrorCode::InvalidParams, message)
}

pub(crate) fn internal(message: impl Into<String>) -> Error {
    error(ErrorCode::InternalError, message)
}

/// A line of ours, without its end.
#[derive(Serialize)]
struct Line<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(flatten)]
    body: Body<'a, T>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a, T> {
    Call { method: &'a str, params: &'a T },
    Result { result: &'a T },
    Error { error: &'a Error },
}

pub(crate) fn request_line(id: &RequestId, method: &str, params: &impl Serialize) -> String {
    line(Some(id), Body::Call { method, params })
}

pub(crate) fn notification_line(method: &str, params: &impl Serialize) -> String {
    line(None, Body::Call { method, params })
}

pub(crate) fn result_line(id: &RequestId, result: &impl Serialize) -> String {
    line(Some(id), Body::Result { result })
}

pub(crate) fn error_line(id: &RequestId, error: &Error) -> String {
    line::<()>(Some(id), Body::Error { error })
}

fn line<T: Serialize>(id: Option<&RequestId>, body: Body<'_, T>) -> String {
    let line = Line { jsonrpc: "2.0", id, body };
    serde_json::to_string(&line).expect("our own types serialize to JSON")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(line: &str, expected: Expect) {
        let text = match Message::read(line.as_bytes()) {
            None => "nothing".to_owned(),
            Some(Message::Invalid { id, error }) => error_line(&id, &error),
            Some(Message::Request { id, method, .. }) => format!("request {id} {method}"),
            Some(Message::Notification { method, .. }) => format!("notification {method}"),
            Some(Message::Answer { id, result: Ok(result) }) => format!("answer {id} {result}"),
            Some(Message::Answer { id, result: Err(error) }) => {
                format!("answer {id} error {}", error.message)
            }
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn lines_are_requests_notifications_or_answers() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, expect!["request 1 m"]);
        check(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{}}"#, expect!["request a m"]);
        check(r#"{"jsonrpc":"2.0","method":"m"}"#, expect!["notification m"]);
        check(r#"{"jsonrpc":"2.0","id":7,"result":null}"#, expect!["answer 7 null"]);
        check(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#,
            expect!["answer 7 error no"],
        );
        check("  ", expect!["nothing"]);
    }

    #[test]
    fn lines_that_are_no_message_are_refused() {
        check(
            "{",
            expect![[
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is no JSON: EOF while parsing an object at line 1 column 1"}}"#
            ]],
        );
        check(
            "[]",
            expect![[
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}"#
            ]],
        );
        check(
            "3",
            expect![[
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the line is no JSON-RPC message: invalid type: integer `3`, expected an object at line 1 column 1"}}"#
            ]],
        );
        check(
            r#"{"id":1,"method":"m"}"#,
            expect![[
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}"#
            ]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
            expect![[
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`id` must be an integer or a string"}}"#
            ]],
        );
        check(
            r#"{"jsonrpc":"2.0"}"#,
            expect![[
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message has neither `method` nor `id`"}}"#
            ]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":2}"#,
            expect![[
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"the message has neither `method` nor `result`"}}"#
            ]],
        );
    }
}
