//! Responses, and the data of those that succeed.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{Json, present};
use crate::sessions::ErrorCode;

/// The one response to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response<'a> {
    /// As in the command; absent if it had none.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub id: Option<Json<'a>>,
    #[serde(rename = "type")]
    kind: ResponseKind,
    /// The command's name as the client wrote it, or `parse`.
    pub command: Cow<'a, str>,
    pub success: bool,
    /// On success, if the command returns something; may be `null`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Json<'a>>,
    /// On refusal, a text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// On refusal by a server of many sessions, a name for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ResponseKind {
    Response,
}

impl<'a> Response<'a> {
    /// The response to a command that succeeded, without data.
    pub fn success(id: Option<&'a RawValue>, command: &'a str) -> Response<'a> {
        Response {
            id: id.map(Json::from),
            kind: ResponseKind::Response,
            command: Cow::Borrowed(command),
            success: true,
            data: None,
            error: None,
            code: None,
        }
    }

    pub fn refusal(id: Option<&'a RawValue>, command: &'a str, error: &'a str) -> Response<'a> {
        let error = Some(Cow::Borrowed(error));
        Response { success: false, error, ..Response::success(id, command) }
    }

    /// The same refusal with a name for programs.
    pub fn with_code(self, code: Option<ErrorCode>) -> Response<'a> {
        Response { code, ..self }
    }

    /// Whether it answers the command that was sent with this `id`.
    pub fn answers(&self, id: &str) -> bool {
        let answered = self.id.as_ref().map(|own| own.read::<Cow<'_, str>>());
        answered.is_some_and(|own| own.is_ok_and(|own| own == id))
    }

    /// The data as a type of the caller's choice, or why there is none.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, String> {
        match (&self.error, &self.data) {
            (Some(error), _) => Err(error.clone().into_owned()),
            (None, Some(data)) => data.read().map_err(|err| err.to_string()),
            (None, None) => serde_json::from_str("null").map_err(|err| err.to_string()),
        }
    }
}

/// The command that a response belongs to.
#[derive(Clone, Debug)]
pub struct Label {
    /// The client that waits for the response.
    pub client: ClientId,
    pub id: Option<Box<RawValue>>,
    pub command: &'static str,
}

/// A client of a session. A process with one session has one client, the default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

/// The data of a successful response as JSON text, or nothing.
#[derive(Debug)]
pub struct Reply(Option<Vec<u8>>);

impl Reply {
    pub const DONE: Reply = Reply(None);

    pub fn data(data: &impl Serialize) -> Reply {
        Reply(Some(serde_json::to_vec(data).expect("our own types serialize to JSON")))
    }

    /// Data that is JSON text already.
    pub fn text(data: Vec<u8>) -> Reply {
        Reply(Some(data))
    }

    /// The data as JSON text.
    pub fn into_text(self) -> Option<String> {
        self.0.map(|data| String::from_utf8(data).expect("JSON is UTF-8"))
    }

    pub(crate) fn into_json(self) -> Option<Vec<u8>> {
        self.0
    }
}

/// What happened to a `prompt`, `steer` or `follow_up`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// A run starts with it: `agent_start` follows.
    Started,
    /// It waits in a queue.
    Queued,
    /// An extension has handled it. No run follows, and no `agent_settled`.
    Handled,
}

/// The data of the response to a `prompt`, `steer` or `follow_up`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DispositionData {
    pub disposition: Disposition,
}

impl From<Disposition> for Reply {
    fn from(disposition: Disposition) -> Reply {
        Reply::data(&DispositionData { disposition })
    }
}
