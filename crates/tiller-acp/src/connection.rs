//! A client's connection: its requests to the sessions that they name, and the server's records back.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AuthenticateRequest, CancelNotification, CancelRequestNotification,
    CloseSessionRequest, Error, ErrorCode, InitializeRequest, ListSessionsRequest,
    ListSessionsResponse, LoadSessionRequest, NewSessionRequest, PROTOCOL_LEVEL_METHOD_NAMES,
    PromptRequest, RequestId, ResumeSessionRequest, SessionId, SessionInfo,
    SetSessionConfigOptionRequest,
};
use serde::Deserialize;
use serde_json::Value;
use tiller_protocol::data::{SessionSummary, SessionsData, StateData};
use tiller_protocol::{
    Command, Hello, LINE_MAX_BYTES, Level, ListSessions, OpenedData, Record, Response,
    ServerCommand, ServerRecord, SessionTarget, ToolUpdates,
};

use crate::initialize::{self, ClientOffer, KEY_METHOD, TERMINAL_METHOD};
use crate::json_rpc::{Message, Params, error, internal, invalid_params, invalid_request};
use crate::link::{Expected, Link, Output};
use crate::opening::{OpenRequest, not_found};
use crate::prompt_content::PromptContent;
use crate::session::{Awaited, Session};
use crate::sessions::Sessions;
use crate::updates::title_of;

/// A client of the Agent Client Protocol, and a tiller server behind it.
#[derive(Debug)]
pub struct Connection {
    version: &'static str,
    /// The folder in which tiller was started.
    cwd: PathBuf,
    phase: Phase,
    sessions: Sessions,
    link: Link,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The client has not sent `initialize`.
    New,
    Ready(ClientOffer),
}

/// What is read of a record before it is known whose it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Routed {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    session_id: Option<String>,
    /// The tool call that a dialog is about.
    #[serde(default)]
    tool_call_id: Option<String>,
}

impl Connection {
    /// A connection of a client that has not said anything. `version` is tiller's, and `cwd` the folder
    /// in which it was started.
    pub fn new(version: &'static str, cwd: impl Into<PathBuf>) -> Connection {
        let mut link = Link::default();
        let hello = Command::Hello(Hello {
            client: Some("acp".into()),
            stream: None,
            wire: Some(Level::PiDelta),
            prompt_results: Some(true),
            sequence: None,
            max_frame_bytes: None,
            tool_updates: Some(ToolUpdates::Snapshots),
        });
        link.command(None, &hello, Expected::Ignored);
        let (cwd, sessions) = (cwd.into(), Sessions::default());
        Connection { version, cwd, phase: Phase::New, sessions, link }
    }

    /// The lines that have come together since the last call.
    pub fn take_output(&mut self) -> Output {
        self.link.take_output()
    }

    /// Whether the server must not learn yet that the client has closed its input, because it would
    /// not answer the client's last requests.
    pub fn needs_server(&self) -> bool {
        self.link.awaits_list()
    }

    /// A line of the client, without its end.
    pub fn client_line(&mut self, line: &[u8]) {
        if let Some(message) = Message::read(line) {
            self.message(message);
        }
    }

    /// A line of the client that is longer than tiller reads.
    pub fn client_line_too_long(&mut self) {
        self.message(Message::too_long(LINE_MAX_BYTES));
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Invalid { id, error } => self.link.refuse_line(&id, &error),
            Message::Request { id, method, params } => {
                if !self.link.open(&id) {
                    return self.link.refuse_duplicate(&id);
                }
                if let Err(why) = self.request(&id, &method, &params) {
                    self.link.refuse(&id, &why);
                }
            }
            // A notification has no answer, so what is wrong with one is not reported.
            Message::Notification { method, params } => {
                self.notification(&method, &params).unwrap_or_default();
            }
            Message::Answer { id, result } => self.answer(&id, result),
        }
    }

    fn request(&mut self, id: &RequestId, method: &str, params: &Params) -> Result<(), Error> {
        let names = &AGENT_METHOD_NAMES;
        if method == names.initialize {
            return self.initialize(id, &params.read()?);
        }
        let Phase::Ready(_) = self.phase else {
            return Err(invalid_request(format!("send `initialize` before `{method}`")));
        };
        if method == names.authenticate {
            return self.authenticate(id, &params.read()?);
        }
        if method == names.session_new {
            let params: NewSessionRequest = params.read()?;
            self.open(OpenRequest::new(id, params, &self.cwd)?);
        } else if method == names.session_load {
            let params: LoadSessionRequest = params.read()?;
            self.open(OpenRequest::load(id, params, &self.cwd)?);
        } else if method == names.session_resume {
            let params: ResumeSessionRequest = params.read()?;
            self.open(OpenRequest::resume(id, params, &self.cwd)?);
        } else if method == names.session_list {
            return self.list(id, params.read()?);
        } else if method == names.session_prompt {
            let PromptRequest { session_id, prompt, .. } = params.read()?;
            let content = PromptContent::new(prompt)?;
            let (session, link) = self.session(&session_id)?;
            session.prompt(id.clone(), content, link);
        } else if method == names.session_close {
            let CloseSessionRequest { session_id, .. } = params.read()?;
            let (session, link) = self.session(&session_id)?;
            session.close(id.clone(), link);
        } else if method == names.session_set_config_option {
            let params: SetSessionConfigOptionRequest = params.read()?;
            let (session, link) = self.session(&params.session_id)?;
            session.set_option(id.clone(), &params.config_id.0, &params.value, link);
        } else {
            let why = format!("tiller has no method `{method}`");
            return Err(error(ErrorCode::MethodNotFound, why));
        }
        Ok(())
    }

    fn notification(&mut self, method: &str, params: &Params) -> Result<(), Error> {
        if method == AGENT_METHOD_NAMES.session_cancel {
            let CancelNotification { session_id, .. } = params.read()?;
            let (session, link) = self.session(&session_id)?;
            session.cancel(link);
        } else if method == PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            let CancelRequestNotification { request_id, .. } = params.read()?;
            let link = &mut self.link;
            let is_its = |session: &mut Session| session.cancel_request(&request_id, link);
            if !self.sessions.iter_mut().any(is_its) {
                self.link.cancel_opening(&request_id);
            }
        }
        Ok(())
    }

    /// The client answers a question.
    fn answer(&mut self, id: &RequestId, result: Result<Value, Error>) {
        let RequestId::Number(question) = *id else { return };
        let asked = self.link.take_question(question);
        if let Some(session) = asked.and_then(|handle| self.sessions.by_handle(&handle)) {
            session.answered(question, result, &mut self.link);
        }
    }

    fn session(&mut self, id: &SessionId) -> Result<(&mut Session, &mut Link), Error> {
        let Some(session) = self.sessions.by_id(id) else {
            let why = format!("no session {id} is open; `session/load` opens a stored one");
            return Err(error(ErrorCode::ResourceNotFound, why));
        };
        Ok((session, &mut self.link))
    }

    fn initialize(&mut self, id: &RequestId, request: &InitializeRequest) -> Result<(), Error> {
        if let Phase::Ready(_) = self.phase {
            return Err(invalid_request("the connection is initialized already"));
        }
        self.phase = Phase::Ready(ClientOffer::new(&request.client_capabilities));
        self.link.answer(id, &initialize::answer(request, self.version));
        Ok(())
    }

    fn authenticate(&mut self, id: &RequestId, request: &AuthenticateRequest) -> Result<(), Error> {
        // The second one is not for this request, but a client that sends it learns the same.
        if ![KEY_METHOD, TERMINAL_METHOD].contains(&&*request.method_id.0) {
            let why = format!("`authenticate` has no method {:?}", &*request.method_id.0);
            return Err(invalid_params(why));
        }
        self.open(OpenRequest::authenticate(id));
        Ok(())
    }

    fn open(&mut self, open: OpenRequest) {
        if let Some(session) = open.stored_session().and_then(|id| self.sessions.by_id(id)) {
            return session.open_again(open, &mut self.link);
        }
        if let Some(id) = open.stored_session().filter(|id| self.sessions.is_closing(id)) {
            let why = format!("the session {id} is about to end; wait for the answer to its end");
            return self.link.refuse(&open.request, &invalid_request(why));
        }
        let command = open.command();
        self.link.command(None, &command, Expected::Opened(open));
    }

    fn list(&mut self, id: &RequestId, request: ListSessionsRequest) -> Result<(), Error> {
        if request.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(invalid_params("cwd must be an absolute path"));
        }
        let list = ListSessions {
            all: request.cwd.is_none(),
            cwd: request.cwd,
            before: request.cursor.clone(),
            ..ListSessions::default()
        };
        let expected = Expected::Listed { request: id.clone(), cursor: request.cursor };
        self.link.command(None, &Command::ListSessions(list), expected);
        Ok(())
    }

    /// A line of the server, without its end.
    pub fn server_line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let Ok(routed) = serde_json::from_str::<Routed>(&text) else { return };
        let Routed { kind, session_id, tool_call_id } = routed;
        if kind == "response" {
            if let Ok(Record::Response(response)) = serde_json::from_str(&text) {
                self.response(&response);
            }
            return;
        }
        let Some(handle) = session_id else { return };
        if let Ok(record) = serde_json::from_str::<ServerRecord<'static>>(&text) {
            return self.server_record(&handle, &record);
        }
        let Some(session) = self.sessions.by_handle(&handle) else { return };
        if let Ok(record) = serde_json::from_str::<Record<'static>>(&text) {
            session.record(&record, tool_call_id.as_deref(), &mut self.link);
        }
    }

    fn server_record(&mut self, handle: &str, record: &ServerRecord<'_>) {
        match record {
            ServerRecord::SessionClosed { error, .. } => {
                let why = error.as_deref().unwrap_or("it was closed");
                self.session_ended(handle, why);
            }
            ServerRecord::SessionDetached { .. } => self.session_ended(handle, "it was taken over"),
            ServerRecord::ExtensionUiClosed { id } => {
                if let Some(session) = self.sessions.by_handle(handle) {
                    session.dialog_closed(id, &mut self.link);
                }
            }
            ServerRecord::ServerStopping { .. } | ServerRecord::Listening { .. } => {}
        }
    }

    fn session_ended(&mut self, handle: &str, why: &str) {
        if let Some(mut session) = self.sessions.remove(handle) {
            let why = internal(format!("the session {} has ended: {why}", session.id()));
            session.ended(&why, &mut self.link);
            self.link.session_ended(handle, &why);
        }
    }

    fn response(&mut self, response: &Response<'_>) {
        let id = response.id.as_ref().and_then(|id| id.read::<String>().ok());
        let expected = id.and_then(|id| id.parse().ok()).and_then(|id| self.link.take_expected(id));
        match expected {
            None | Some(Expected::Ignored) => {}
            Some(Expected::Opened(open)) => self.opened(open, response),
            Some(Expected::Listed { request, cursor }) => {
                match (response.read::<SessionsData>(), cursor) {
                    (Ok(data), _) => self.link.answer(&request, &listed(data)),
                    (Err(_), Some(cursor)) => {
                        let why =
                            format!("cursor {cursor:?} is no `nextCursor` of an earlier list");
                        self.link.refuse(&request, &invalid_params(why));
                    }
                    (Err(why), None) => self.link.refuse(&request, &internal(why)),
                }
            }
            // The session has ended in order; if its last record did not say so, this does.
            Some(Expected::OfSession(handle, Awaited::Closed)) => {
                self.session_ended(&handle, "it was closed");
            }
            Some(Expected::OfSession(handle, awaited)) => {
                if let Some(session) = self.sessions.by_handle(&handle) {
                    session.response(awaited, response, &mut self.link);
                }
            }
        }
    }

    fn opened(&mut self, open: OpenRequest, response: &Response<'_>) {
        if response.error.is_some() {
            return self.link.refuse(&open.request, &open.refusal(response));
        }
        let Phase::Ready(offer) = self.phase else { return };
        let data = response.read::<OpenedData<'static>>();
        let data = data.and_then(|data| {
            let state = data.state.read::<StateData<'static>>().map_err(|err| err.to_string())?;
            Ok((data, state))
        });
        let (data, state) = match data {
            Ok(read) => read,
            Err(why) => return self.link.refuse(&open.request, &internal(why)),
        };
        // The server takes the beginning of an id, and ACP does not.
        if let Some(id) = open.stored_session().filter(|id| *id.0 != *state.session_id) {
            self.link.refuse(&open.request, &not_found(id));
            let close = SessionTarget { session_id: data.session_id.into_owned() };
            self.link.command(None, &ServerCommand::CloseSession(close), Expected::Ignored);
            return;
        }
        let session = Session::opened(open, &data, &state, offer, &mut self.link);
        self.sessions.add(session);
    }
}

fn listed(data: SessionsData) -> ListSessionsResponse {
    let info = |session: SessionSummary| {
        let title = session.name.or_else(|| title_of(&session.first_message));
        SessionInfo::new(session.id, session.cwd).title(title).updated_at(session.modified)
    };
    let sessions = data.sessions.into_iter().map(info).collect();
    ListSessionsResponse::new(sessions).next_cursor(data.next)
}

#[cfg(test)]
mod tests;
