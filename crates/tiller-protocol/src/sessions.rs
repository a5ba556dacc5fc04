//! The commands and records of a server with many sessions, beside those of each session.
//!
//! A command for a session names it in `sessionId`, and so does every record of a session. The prose
//! version is docs/serve.md.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiller_agent::model::ThinkingLevel;

use crate::fields::{body, is_default};
use crate::json::{Json, present};
use crate::request::{Refusal, plain};

/// A line from a client of many sessions, read only as far as needed to know where it goes.
#[derive(Debug)]
pub struct ServerRequest<'a> {
    /// The client's id, as it was spelled.
    pub id: Option<Box<RawValue>>,
    /// The name of the command.
    pub command: Cow<'a, str>,
    /// The session that the command is for.
    pub session_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoutedLine<'a> {
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    session_id: Option<Cow<'a, str>>,
}

impl<'a> ServerRequest<'a> {
    /// Reads where a line goes. A line that is no object with a `type` is refused.
    pub fn read(text: &'a str) -> Result<ServerRequest<'a>, Refusal> {
        if let Ok(RoutedLine { id, kind, session_id }) = serde_json::from_str(text) {
            return Ok(ServerRequest { id, command: kind, session_id });
        }
        // Of repeated keys the last one counts.
        let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
            let parsed = serde_json::from_str::<IgnoredAny>(text);
            let why =
                parsed.map_or_else(|err| plain(&err), |_| "expected a JSON object".to_owned());
            return Err(Refusal::parse(why));
        };
        let text_of = |value: Box<RawValue>| serde_json::from_str::<String>(value.get()).ok();
        let Some(kind) = fields.remove("type").and_then(text_of) else {
            return Err(Refusal::parse("field `type`: expected a string"));
        };
        let session_id = fields.remove("sessionId").and_then(text_of).map(Cow::Owned);
        Ok(ServerRequest { id: fields.remove("id"), command: Cow::Owned(kind), session_id })
    }
}

/// A command that the server itself handles.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerCommand {
    /// Opens a session and attaches the client to it.
    OpenSession(OpenSession),
    /// Ends a session. The response comes when it has ended.
    CloseSession(SessionTarget),
    /// The open sessions.
    ListOpenSessions,
    /// Attaches the client to an open session.
    Attach(Attach),
    /// Ends the client's attachment. The session goes on.
    Detach(SessionTarget),
}

/// The names of these commands.
pub const SERVER_COMMANDS: &[&str] =
    &["open_session", "close_session", "list_open_sessions", "attach", "detach"];

impl ServerCommand {
    /// Parses the command with this name. None: it is not one of the server's.
    pub fn read(name: &str, text: &str) -> Option<Result<ServerCommand, Refusal>> {
        Some(match name {
            "open_session" => body(name, text).map(ServerCommand::OpenSession),
            "close_session" => body(name, text).map(ServerCommand::CloseSession),
            "list_open_sessions" => Ok(ServerCommand::ListOpenSessions),
            "attach" => body(name, text).map(ServerCommand::Attach),
            "detach" => body(name, text).map(ServerCommand::Detach),
            _ => return None,
        })
        .map(|command| command.and_then(ServerCommand::check))
    }

    /// Checks what the types do not say.
    fn check(self) -> Result<ServerCommand, Refusal> {
        if let ServerCommand::OpenSession(open) = &self {
            let refuse = |why: &str| Err(Refusal::invalid("open_session", why));
            if open.provider.is_some() != open.model_id.is_some() {
                return refuse("`provider` and `modelId` belong together");
            }
            if open.session_path.is_some() && open.session_id.is_some() {
                return refuse("only one of `sessionPath` and `sessionId` can be given");
            }
            if open.is_stored_session() && open.in_memory {
                return refuse("a stored session cannot be opened with `inMemory`");
            }
            if open.read_only && !open.is_stored_session() {
                return refuse("`readOnly` needs a stored session: `sessionPath` or `sessionId`");
            }
            if open.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
                return refuse("field `cwd`: expected an absolute path");
            }
        }
        Ok(self)
    }
}

/// The fields of `open_session`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenSession {
    /// The file of a stored session.
    #[serde(skip_serializing_if = "is_default")]
    pub session_path: Option<PathBuf>,
    /// The durable id of a stored session, or its beginning.
    #[serde(skip_serializing_if = "is_default")]
    pub session_id: Option<String>,
    /// The working directory. By default that of the server, or the one that the stored session has.
    #[serde(skip_serializing_if = "is_default")]
    pub cwd: Option<PathBuf>,
    /// The provider of the model.
    #[serde(skip_serializing_if = "is_default")]
    pub provider: Option<String>,
    /// The id of the model.
    #[serde(skip_serializing_if = "is_default")]
    pub model_id: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub thinking_level: Option<ThinkingLevel>,
    /// The name of the session.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// The names of the tools that the model may use.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: Option<Vec<String>>,
    /// The session is not stored.
    #[serde(skip_serializing_if = "is_default")]
    pub in_memory: bool,
    /// The session is opened for reading. Where sessions are in a database, it follows the process
    /// that writes it.
    #[serde(skip_serializing_if = "is_default")]
    pub read_only: bool,
    /// The connection carries this session alone from the response on.
    #[serde(skip_serializing_if = "is_default")]
    pub dedicated: bool,
}

impl OpenSession {
    /// Whether a stored session is opened.
    pub fn is_stored_session(&self) -> bool {
        self.session_path.is_some() || self.session_id.is_some()
    }
}

/// The fields of `close_session` and `detach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTarget {
    /// The handle of the session.
    pub session_id: String,
}

/// The fields of `attach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attach {
    /// The handle of the session. Where sessions are in a database, also the durable id of one that
    /// another process has open: it is followed.
    pub session_id: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: AttachMode,
    /// The `seq` of the last record that the client has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub since: Option<u64>,
    /// The `epoch` of that record.
    #[serde(default, skip_serializing_if = "is_default")]
    pub epoch: Option<String>,
}

/// What an attached client may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// It may send every command.
    #[default]
    Control,
    /// It may send commands that change nothing.
    Watch,
    /// Like `control`, and all other clients are detached.
    Takeover,
}

/// The data of the responses to `open_session` and `attach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenedData<'a> {
    /// The handle of the session.
    pub session_id: Cow<'a, str>,
    /// The data of `get_state`.
    pub state: Json<'a>,
    /// With `since` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayData>,
}

/// What is sent again after an `attach` with `since`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayData {
    /// How many records follow.
    pub records: usize,
    /// The records are no longer there; none follows.
    pub truncated: bool,
}

/// The data of `list_open_sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSessionsData {
    pub sessions: Vec<OpenSessionSummary>,
}

/// An open session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenSessionSummary {
    /// The handle.
    pub session_id: String,
    /// The id of the stored conversation.
    pub durable_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_file: Option<PathBuf>,
    pub cwd: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub status: OpenSessionStatus,
    /// Whether this client is attached.
    pub attached: bool,
    /// How many clients are attached.
    pub clients: usize,
    pub message_count: usize,
    pub queued_message_count: usize,
    /// The model as `provider/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the session last did something, in milliseconds since 1970.
    pub last_active: u64,
}

/// What an open session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenSessionStatus {
    Running,
    #[default]
    Idle,
    /// Dropped from memory; the next command wakes it.
    Asleep,
    Closing,
}

/// The data of a refusal with the code `session_in_use`: who has the session open, if that is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InUseData {
    /// The handle of the session, if this server has it.
    #[serde(skip_serializing_if = "is_default")]
    pub session_id: Option<String>,
    /// The process that has it, if it is another one.
    #[serde(skip_serializing_if = "is_default")]
    pub owner: Option<SessionOwner>,
}

/// The process that has a session open for writing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionOwner {
    /// Its program and version, such as `tiller 1.0.0`.
    pub program: String,
    pub pid: u32,
    /// The name of its machine.
    pub host: String,
    /// When it started, as ISO time.
    pub started: String,
    /// Where clients reach it, if it is a server of many sessions.
    #[serde(skip_serializing_if = "is_default")]
    pub address: Option<String>,
}

/// Why a server of many sessions refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The command needs a `sessionId`.
    MissingSessionId,
    /// No open session has this handle, or the client is not attached to it.
    UnknownSession,
    /// The session is about to end.
    SessionClosing,
    /// The session is open already, here or in another process.
    SessionInUse,
    /// Too many commands wait for the session.
    SessionBusy,
    /// The server has as many sessions as it may have.
    TooManySessions,
    /// The client watches, and the command would change something.
    Watching,
    /// The server is about to end.
    ServerStopping,
    /// The session cannot be opened.
    CannotOpen,
}

/// A record of the server itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ServerRecord<'a> {
    /// The session has ended.
    SessionClosed {
        session_id: Cow<'a, str>,
        reason: ClosedReason,
        /// What went wrong, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Cow<'a, str>>,
    },
    /// The client no longer gets records of the session.
    SessionDetached { session_id: Cow<'a, str>, reason: DetachedReason },
    /// A dialog was answered by another client, or is no longer open.
    ExtensionUiClosed {
        /// The `id` of the `extension_ui_request`.
        id: Cow<'a, str>,
    },
    /// The server ends. No new run starts.
    ServerStopping {
        /// How long running ones have to finish.
        seconds: u64,
    },
    /// The server accepts connections at this address. Written to the stdout of `tiller serve`.
    Listening { address: Cow<'a, str> },
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClosedReason {
    /// A client has closed it, or it was idle and not stored.
    Closed,
    /// It has ended itself.
    Ended,
    /// It failed.
    Crashed,
    ServerStopping,
}

/// Why a client no longer gets the records of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetachedReason {
    TakenOver,
    /// It did not read while others did.
    TooSlow,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerCommand, String> {
        let request = ServerRequest::read(text).map_err(|refusal| refusal.error)?;
        let command = ServerCommand::read(&request.command, text).unwrap();
        command.map_err(|refusal| refusal.error)
    }

    #[test]
    fn commands_of_the_server_are_read() {
        assert_eq!(
            read(r#"{"type":"open_session","cwd":"/w","provider":"tiller","modelId":"demo"}"#),
            Ok(ServerCommand::OpenSession(OpenSession {
                cwd: Some("/w".into()),
                provider: Some("tiller".into()),
                model_id: Some("demo".into()),
                ..OpenSession::default()
            }))
        );
        assert_eq!(read(r#"{"type":"list_open_sessions"}"#), Ok(ServerCommand::ListOpenSessions));
        assert_eq!(
            read(r#"{"type":"attach","sessionId":"s1-a","mode":"watch","since":3}"#),
            Ok(ServerCommand::Attach(Attach {
                session_id: "s1-a".into(),
                mode: AttachMode::Watch,
                since: Some(3),
                epoch: None,
            }))
        );
        let all = SERVER_COMMANDS.iter().filter(|name| ServerCommand::read(name, "{}").is_some());
        assert_eq!(all.count(), SERVER_COMMANDS.len());
        assert!(ServerCommand::read("prompt", "{}").is_none());
    }

    #[test]
    fn contradictions_are_refused() {
        for (fields, expected) in [
            (r#""provider":"a""#, "`provider` and `modelId` belong together"),
            (r#""sessionPath":"/a","sessionId":"b""#, "only one of `sessionPath` and `sessionId`"),
            (r#""sessionId":"b","inMemory":true"#, "a stored session cannot be opened with"),
            (r#""cwd":"w""#, "field `cwd`: expected an absolute path"),
            (r#""thinkingLevel":"most""#, "field `thinkingLevel`: unknown variant `most`"),
        ] {
            let error = read(&format!(r#"{{"type":"open_session",{fields}}}"#)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(read(r#"{"type":"detach"}"#).unwrap_err().contains("missing field `sessionId`"));
    }
}
