//! The rules of the Agent Client Protocol, checked on every line of every transcript. docs/acp.md
//! states them for clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::Value;

/// Every line that tiller has written in a transcript, with the method that it answers.
pub static WRITTEN: Mutex<Vec<(Value, Option<String>)>> = Mutex::new(Vec::new());

/// What happens only in a run, and so before the answer to its prompt.
const OF_A_RUN: [&str; 5] =
    ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"];

#[derive(Default)]
pub struct AcpLaws {
    /// `initialize` was answered.
    is_ready: bool,
    /// Requests without an answer, by their ids.
    open: BTreeMap<String, Request>,
    /// The ids of requests in the order in which they were sent.
    order: Vec<String>,
    sessions: BTreeMap<String, Session>,
}

struct Request {
    method: String,
    session: String,
    is_cancelled: bool,
}

#[derive(Default)]
struct Session {
    /// The calls, and whether they have ended.
    calls: BTreeMap<String, bool>,
}

impl AcpLaws {
    /// A line of the client.
    pub fn sent(&mut self, message: &Value) {
        let session = message["params"]["sessionId"].as_str().unwrap_or_default().to_owned();
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                if method == "session/close" {
                    self.cancel_prompts(&session);
                }
                let id = id.to_string();
                let request = Request { method: method.to_owned(), session, is_cancelled: false };
                if !self.open.contains_key(&id) {
                    self.order.push(id.clone());
                    self.open.insert(id, request);
                }
            }
            (Some("session/cancel"), None) => self.cancel_prompts(&session),
            (Some("$/cancel_request"), None) => {
                let id = message["params"]["requestId"].to_string();
                if let Some(request) = self.open.get_mut(&id) {
                    request.is_cancelled = true;
                }
            }
            _ => {}
        }
    }

    fn cancel_prompts(&mut self, session: &str) {
        let is_it = |request: &&mut Request| {
            request.session == session && request.method == "session/prompt"
        };
        for request in self.open.values_mut().filter(is_it) {
            request.is_cancelled = true;
        }
    }

    /// A line of tiller.
    pub fn written(&mut self, message: &Value) -> Result<(), String> {
        if message["jsonrpc"] != "2.0" {
            return Err(format!("not JSON-RPC 2.0: {message}"));
        }
        let answered = match (message["method"].as_str(), message.get("id")) {
            (None, Some(id)) => self.answered(&id.to_string(), message)?,
            (Some("session/update"), None) => {
                self.updated(&message["params"])?;
                None
            }
            (Some(method), _) => {
                self.asked(method, &message["params"])?;
                None
            }
            (None, None) => return Err(format!("neither a call nor an answer: {message}")),
        };
        WRITTEN.lock().unwrap().push((message.clone(), answered));
        Ok(())
    }

    fn answered(&mut self, id: &str, message: &Value) -> Result<Option<String>, String> {
        let error = message.get("error");
        let Some(request) = self.open.get(id) else {
            // A line that is no request is refused with what can be read of its id.
            return error
                .map(|_| None)
                .ok_or(format!("nothing is open that this answers: {message}"));
        };
        let is_duplicate = error.is_some_and(|error| {
            error["message"].as_str().is_some_and(|text| text.starts_with("a request with the id"))
        });
        if is_duplicate {
            return Ok(None);
        }
        if !self.is_ready && error.is_none() && request.method != "initialize" {
            return Err(format!("more than an error before `initialize`: {message}"));
        }
        let method = request.method.clone();
        match method.as_str() {
            "initialize" => self.is_ready |= error.is_none(),
            "session/new" => {
                let id = message["result"]["sessionId"].as_str().unwrap_or_default();
                self.sessions.entry(id.to_owned()).or_default();
            }
            "session/prompt" => self.prompt_answered(id, message)?,
            _ => {}
        }
        self.open.remove(id);
        Ok(Some(method))
    }

    fn prompt_answered(&self, id: &str, message: &Value) -> Result<(), String> {
        let Some(request) = self.open.get(id) else { return Ok(()) };
        if request.is_cancelled && message["result"]["stopReason"] != "cancelled" {
            return Err(format!("a prompt that was cancelled is answered otherwise: {message}"));
        }
        let is_before = |other: &&String| {
            let other_request = self.open.get(*other);
            other_request.is_some_and(|other| {
                other.method == "session/prompt" && other.session == request.session
            })
        };
        let first = self.order.iter().find(is_before);
        if first.is_some_and(|first| first != id)
            && !request.is_cancelled
            && message.get("error").is_none()
        {
            return Err(format!("a prompt is answered before an earlier one: {message}"));
        }
        let session = self.sessions.get(&request.session);
        let open =
            session.into_iter().flat_map(|session| &session.calls).find(|(_, ended)| !**ended);
        if let (Some((call, _)), true) = (open, first.is_some_and(|first| first == id)) {
            return Err(format!("the call {call} has no end when its prompt is answered"));
        }
        Ok(())
    }

    fn updated(&mut self, params: &Value) -> Result<(), String> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let opens = |request: &&Request| {
            request.session == id && matches!(&*request.method, "session/load" | "session/resume")
        };
        let is_opening = self.open.values().any(|request| opens(&request));
        if is_opening {
            self.sessions.entry(id.to_owned()).or_default();
        }
        let prompts: BTreeSet<&str> = self
            .open
            .values()
            .filter(|request| request.method == "session/prompt")
            .map(|request| request.session.as_str())
            .collect();
        if OF_A_RUN.contains(&kind) && !is_opening && !prompts.contains(id) {
            return Err(format!("an update of a run without a prompt: {update}"));
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return Err(format!("an update of a session that the client does not know: {params}"));
        };
        let Some(call) = update["toolCallId"].as_str() else { return Ok(()) };
        let has_ended = matches!(update["status"].as_str(), Some("completed" | "failed"));
        match (kind, session.calls.get(call)) {
            ("tool_call", Some(false)) => return Err(format!("a call begins twice: {update}")),
            ("tool_call_update", None) => return Err(format!("an unknown call: {update}")),
            ("tool_call_update", Some(true)) => {
                return Err(format!("more of a call that has ended: {update}"));
            }
            _ => {}
        }
        session.calls.insert(call.to_owned(), has_ended);
        Ok(())
    }

    /// A request or notification of tiller.
    fn asked(&self, method: &str, params: &Value) -> Result<(), String> {
        if !self.is_ready {
            return Err(format!("{method} before `initialize`"));
        }
        let session = params["sessionId"].as_str().unwrap_or_default();
        let is_cancelled = |request: &Request| request.is_cancelled && request.session == session;
        if method != "$/cancel_request" && self.open.values().any(is_cancelled) {
            return Err(format!("{method} after the prompt was cancelled"));
        }
        let known = method == "$/cancel_request" || self.sessions.contains_key(session);
        known.then_some(()).ok_or(format!("{method} for an unknown session: {params}"))
    }

    /// Every request was answered.
    pub fn finish(&self) -> Result<(), String> {
        if self.open.is_empty() {
            return Ok(());
        }
        let open: Vec<&str> = self.open.values().map(|request| request.method.as_str()).collect();
        Err(format!("requests without an answer: {}", open.join(", ")))
    }
}
