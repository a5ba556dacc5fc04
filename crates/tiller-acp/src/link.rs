//! What a connection writes to both sides, and what it waits for from them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, CancelRequestNotification, Error, PROTOCOL_LEVEL_METHOD_NAMES, RequestId,
    SessionId, SessionNotification, SessionUpdate,
};
use serde::Serialize;

use crate::json_rpc::{error_line, invalid_request, notification_line, request_line, result_line};
use crate::opening::OpenRequest;
use crate::session::Awaited;

/// Lines without their ends, in the order in which they are written.
#[derive(Debug, Default)]
pub struct Output {
    pub to_client: Vec<String>,
    pub to_server: Vec<String>,
}

/// The response to a command that is waited for.
#[derive(Debug)]
pub(crate) enum Expected {
    /// Its outcome changes nothing here.
    Ignored,
    /// `open_session` for a request of the client.
    Opened(OpenRequest),
    /// `list_sessions` for this request, from the client's cursor if it has one.
    Listed { request: RequestId, cursor: Option<String> },
    /// A command of the session with this handle.
    OfSession(Arc<str>, Awaited),
}

/// The only way out of a connection: it counts commands and questions, and knows which requests of
/// the client are open, so that each is answered exactly once.
#[derive(Debug, Default)]
pub(crate) struct Link {
    output: Output,
    last_command: u64,
    expected: HashMap<u64, Expected>,
    open_requests: HashSet<RequestId>,
    last_question: i64,
    /// The sessions whose questions the client has not answered, by their handles.
    questions: HashMap<i64, Arc<str>>,
}

/// A command for a session, or for the server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandLine<'a, C> {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(flatten)]
    command: &'a C,
}

impl Link {
    pub(crate) fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// Notes a request that must be answered. False: a request with this id is open already.
    pub(crate) fn open(&mut self, id: &RequestId) -> bool {
        self.open_requests.insert(id.clone())
    }

    /// Answers an open request.
    pub(crate) fn answer(&mut self, id: &RequestId, result: &impl Serialize) {
        if self.open_requests.remove(id) {
            self.output.to_client.push(result_line(id, result));
        }
    }

    /// Answers an open request with an error.
    pub(crate) fn refuse(&mut self, id: &RequestId, error: &Error) {
        if self.open_requests.remove(id) {
            self.output.to_client.push(error_line(id, error));
        }
    }

    /// Answers a line that opened no request.
    pub(crate) fn refuse_line(&mut self, id: &RequestId, error: &Error) {
        self.output.to_client.push(error_line(id, error));
    }

    pub(crate) fn refuse_duplicate(&mut self, id: &RequestId) {
        self.refuse_line(id, &invalid_request(format!("a request with the id {id} is open")));
    }

    pub(crate) fn update(&mut self, session: &SessionId, update: SessionUpdate) {
        let update = SessionNotification::new(session.clone(), update);
        let line = notification_line(CLIENT_METHOD_NAMES.session_update, &update);
        self.output.to_client.push(line);
    }

    /// Sends the client a question of a session. The result names it.
    pub(crate) fn ask(&mut self, handle: &Arc<str>, method: &str, params: &impl Serialize) -> i64 {
        self.last_question += 1;
        self.questions.insert(self.last_question, handle.clone());
        let id = RequestId::Number(self.last_question);
        self.output.to_client.push(request_line(&id, method, params));
        self.last_question
    }

    /// The session that has asked, when the client answers.
    pub(crate) fn take_question(&mut self, question: i64) -> Option<Arc<str>> {
        self.questions.remove(&question)
    }

    /// Tells the client that the answer to a question is no longer needed.
    pub(crate) fn withdraw(&mut self, question: i64) {
        self.questions.remove(&question);
        let params = CancelRequestNotification::new(RequestId::Number(question));
        let method = PROTOCOL_LEVEL_METHOD_NAMES.cancel_request;
        self.output.to_client.push(notification_line(method, &params));
    }

    /// Sends the server a command. The result is its id.
    pub(crate) fn command(
        &mut self,
        handle: Option<&str>,
        command: &impl Serialize,
        expected: Expected,
    ) -> u64 {
        let id = self.send(handle, command);
        self.expected.insert(id, expected);
        id
    }

    /// Sends a session a command that has no response, and perhaps an `id` of its own.
    pub(crate) fn send_unlabelled(&mut self, handle: &str, command: &impl Serialize) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a, C> {
            session_id: &'a str,
            #[serde(flatten)]
            command: &'a C,
        }
        let line = serde_json::to_string(&Line { session_id: handle, command });
        self.output.to_server.push(line.expect("our own types serialize to JSON"));
    }

    fn send(&mut self, handle: Option<&str>, command: &impl Serialize) -> u64 {
        self.last_command += 1;
        let id = self.last_command.to_string();
        let line = CommandLine { id, session_id: handle, command };
        let line = serde_json::to_string(&line).expect("our own types serialize to JSON");
        self.output.to_server.push(line);
        self.last_command
    }

    /// The client no longer needs the session that is being opened for this request.
    pub(crate) fn cancel_opening(&mut self, request: &RequestId) {
        for expected in self.expected.values_mut() {
            if let Expected::Opened(open) = expected
                && open.request == *request
            {
                open.is_cancelled = true;
            }
        }
    }

    /// What the response with this id was waited for.
    pub(crate) fn take_expected(&mut self, id: u64) -> Option<Expected> {
        self.expected.remove(&id)
    }

    /// Whether a list of sessions is waited for. No session answers it, so it would be lost at the end
    /// of the input.
    pub(crate) fn awaits_list(&self) -> bool {
        self.expected.values().any(|expected| matches!(expected, Expected::Listed { .. }))
    }

    /// Forgets the responses that a session that has ended does not write any more, and refuses the
    /// requests that wait for them.
    pub(crate) fn session_ended(&mut self, handle: &str, why: &Error) {
        let is_of_it = |expected: &Expected| matches!(expected, Expected::OfSession(owner, _) if **owner == *handle);
        let forgotten: Vec<Expected> =
            self.expected.extract_if(|_, expected| is_of_it(expected)).map(|(_, it)| it).collect();
        for expected in &forgotten {
            if let Expected::OfSession(_, awaited) = expected
                && let Some(request) = awaited.request()
            {
                self.refuse(request, why);
            }
        }
    }
}
