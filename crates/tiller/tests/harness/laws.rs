//! Laws that hold in every conversation. A transcript shows what is particular about one; what is
//! true of all is checked here with every record.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::approvals::ApprovalLaws;
use super::message::{Growing, Stream};
use super::wording::plain;

pub struct Laws {
    stream: Stream,
    /// Whether extensions replace messages when they end.
    replaces: bool,
    /// Ids that were sent and not answered.
    open: Vec<String>,
    run: Option<Run>,
    /// A run has ended, but `agent_settled` has not followed.
    unsettled: bool,
    /// A run has ended that will be retried, but the retry has not started.
    will_retry: bool,
    /// A rule has interrupted the model. An announced retry may then be dropped.
    interrupted: bool,
    /// Retries that have started and not ended.
    retries: bool,
    /// The number of queued messages, by the last `queue_update`.
    waiting: usize,
    /// The events that `hello` has listed.
    promised: Option<Vec<Value>>,
    /// Calls of host tools that neither side has ended.
    host_calls: BTreeSet<String>,
    /// A message outside of turns that has started.
    aside: Option<Value>,
    /// The ids of accepted prompts that have no result yet.
    prompts: Vec<String>,
    /// Whether every prompt has a result.
    has_results: bool,
    results: usize,
    /// The number of the newest record.
    last_seq: Option<u64>,
    /// The ids of requests to the client, and of entries that were announced.
    ui_requests: BTreeSet<String>,
    entries: BTreeSet<String>,
    pub approvals: ApprovalLaws,
}

/// What was seen since `agent_start`.
#[derive(Default)]
struct Run {
    ended: Vec<Value>,
    turn: Option<Turn>,
}

/// What was seen since `turn_start`.
#[derive(Default)]
struct Turn {
    growing: Option<Growing>,
    /// A message of another author that has started.
    started: Option<Value>,
    answer: Option<Value>,
    /// Tools by the id of their call, with their results.
    tools: BTreeMap<String, Option<Value>>,
    results: Vec<Value>,
    /// A message of this turn could not be stored.
    is_broken: bool,
}

impl Laws {
    pub fn new(wire: Option<&str>, replaces: bool) -> Laws {
        let stream = if matches!(wire, Some("pi-delta" | "pi@1")) {
            Stream::Deltas
        } else {
            Stream::Snapshots
        };
        let (open, run, promised, host_calls) = (Vec::new(), None, None, BTreeSet::new());
        let (unsettled, will_retry, interrupted, retries) = (false, false, false, false);
        Laws {
            stream,
            replaces,
            open,
            run,
            unsettled,
            will_retry,
            interrupted,
            retries,
            waiting: 0,
            promised,
            host_calls,
            aside: None,
            prompts: Vec::new(),
            has_results: false,
            results: 0,
            last_seq: None,
            ui_requests: BTreeSet::new(),
            entries: BTreeSet::new(),
            approvals: ApprovalLaws::default(),
        }
    }

    /// Notes a line of the client, because it must be answered.
    pub fn sent(&mut self, line: &str) {
        let Ok(Value::Object(request)) = serde_json::from_str(line) else { return };
        let Some(id) = request.get("id") else { return };
        match request.get("type").and_then(Value::as_str) {
            Some("extension_ui_response") => self.approvals.sent(&request),
            Some("host_tool_update") => {}
            Some("host_tool_result") => {
                if request.get("result").is_some_and(|result| result["content"].is_array()) {
                    self.host_calls.remove(&plain(id));
                }
            }
            _ => self.open.push(id.to_string()),
        }
    }

    pub fn results(&self) -> usize {
        self.results
    }

    /// Numbers follow each other.
    fn number(&mut self, record: &Value) -> Result<(), String> {
        let seq = record["seq"].as_u64();
        if let (Some(seq), Some(last)) = (seq, self.last_seq)
            && seq != last + 1
        {
            return Err(format!("after record {last} comes: {record}"));
        }
        self.last_seq = seq;
        Ok(())
    }

    /// A result belongs to a prompt that was accepted and has none yet.
    fn prompt_result(&mut self, record: &Value) -> Result<(), String> {
        let id = record["id"].to_string();
        match self.prompts.iter().position(|prompt| *prompt == id) {
            Some(at) => drop(self.prompts.remove(at)),
            None => return Err(format!("a second result, or one without a prompt: {record}")),
        }
        self.results += 1;
        let has_error = record.get("error").is_some();
        if has_error != (record["status"] == "error") {
            return Err(format!("an error and its status go together: {record}"));
        }
        Ok(())
    }

    pub fn watch(&mut self, record: &Value) -> Result<(), String> {
        self.number(record)?;
        let mut record = record.clone();
        for stamp in ["seq", "epoch", "cut"] {
            record.as_object_mut().ok_or("not an object")?.shift_remove(stamp);
        }
        self.watch_unstamped(&record)
    }

    fn watch_unstamped(&mut self, record: &Value) -> Result<(), String> {
        let kind = record["type"].as_str().ok_or("a record without type")?;
        if kind != "response"
            && let Some(promised) = &self.promised
            && !promised.contains(&record["type"])
        {
            return Err(format!("hello did not promise the event {kind}"));
        }
        self.approvals.watch(kind, record)?;
        match kind {
            "response" => self.response(record),
            "agent_start" => match self.run.replace(Run::default()) {
                None => Ok(()),
                Some(_) => Err("a run starts inside another".into()),
            },
            "agent_end" => {
                self.unsettled = true;
                self.will_retry = record["willRetry"] == true;
                self.run.take().ok_or("a run ended that never started")?.end(record)
            }
            "agent_settled" if self.run.is_some() || !self.unsettled => {
                Err("settled, though no run has just ended".into())
            }
            "ttsr_triggered" => {
                self.interrupted = true;
                Ok(())
            }
            "agent_settled" if self.will_retry && !self.interrupted || self.retries => {
                Err("settled, though a retry was promised or has not ended".into())
            }
            "auto_retry_start" => {
                self.retries = true;
                if std::mem::take(&mut self.will_retry) {
                    Ok(())
                } else {
                    Err("a retry that was not promised".into())
                }
            }
            "auto_retry_end" => {
                if std::mem::take(&mut self.retries) {
                    Ok(())
                } else {
                    Err("a retry ended that never started".into())
                }
            }
            "agent_settled" if !record["aborted"].is_boolean() => {
                Err("settled without saying whether it was aborted".into())
            }
            "agent_settled" => {
                self.unsettled = false;
                self.interrupted = false;
                Ok(())
            }
            "prompt_result" => self.prompt_result(record),
            "host_tool_call" => {
                if self.host_calls.insert(plain(&record["id"])) {
                    Ok(())
                } else {
                    Err(format!("a host call with an id that is taken: {record}"))
                }
            }
            "host_tool_cancel" => {
                if self.host_calls.remove(&plain(&record["targetId"])) {
                    Ok(())
                } else {
                    Err(format!("no such host call is open: {record}"))
                }
            }
            "queue_update" => {
                let length = |queue: &str| record[queue].as_array().map_or(0, Vec::len);
                self.waiting = length("steering") + length("followUp");
                Ok(())
            }
            "session_error" => {
                // A message may be left open, and the turn may end incomplete.
                if let Some(turn) = self.run.as_mut().and_then(|run| run.turn.as_mut()) {
                    turn.is_broken = true;
                }
                Ok(())
            }
            // Outside of turns a result that was stored after its run is announced, or a message of
            // an extension that starts no run.
            "message_start" if !self.in_turn() && is_aside(&record["message"]) => {
                match self.aside.replace(record["message"].clone()) {
                    None => Ok(()),
                    Some(_) => Err("a message starts inside another".into()),
                }
            }
            "message_end" if self.aside.is_some() => match self.aside.take() {
                Some(started) if started == record["message"] => Ok(()),
                _ => Err(format!("a message ended that never started: {record}")),
            },
            "extension_ui_request" => self.ui_request(record),
            "extension_error" => extension_error(record),
            "entry_appended" => {
                if self.entries.insert(plain(&record["entry"]["id"])) {
                    Ok(())
                } else {
                    Err(format!("an entry was announced twice: {record}"))
                }
            }
            "turn_start"
            | "turn_end"
            | "message_start"
            | "message_update"
            | "message_end"
            | "tool_execution_start"
            | "tool_execution_update"
            | "tool_execution_end" => {
                let run = self.run.as_mut().ok_or_else(|| format!("{kind} outside of a run"))?;
                if kind == "message_end" && self.replaces {
                    run.replace(&record["message"]);
                }
                run.watch(kind, record, self.stream)
            }
            _ => Ok(()),
        }
    }

    fn in_turn(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.turn.is_some())
    }

    /// A request has its own id and the fields of its method; only the four dialogs are answered.
    fn ui_request(&mut self, record: &Value) -> Result<(), String> {
        let (required, optional): (&[&str], &[&str]) = match plain(&record["method"]).as_str() {
            "select" => (&["title", "options"], SELECT_OPTIONAL),
            "confirm" => (&["title", "message"], &["timeout"]),
            "input" => (&["title"], &["placeholder", "timeout"]),
            "editor" => (&["title"], &["prefill"]),
            "notify" => (&["message"], &["notifyType"]),
            "setStatus" => (&["statusKey"], &["statusText"]),
            "setWidget" => (&["widgetKey"], &["widgetLines", "widgetPlacement"]),
            "setTitle" => (&["title"], &[]),
            "set_editor_text" => (&["text"], &[]),
            _ => return Err(format!("a method of no kind: {record}")),
        };
        let fields = record.as_object().unwrap().keys().skip(3).map(String::as_str);
        let fields: Vec<&str> = fields.collect();
        let is_known = |field: &&str| required.contains(field) || optional.contains(field);
        let fits = required.iter().all(|field| fields.contains(field));
        if !fits || !fields.iter().all(is_known) {
            return Err(format!("a request with other fields than its method has: {record}"));
        }
        if self.ui_requests.insert(plain(&record["id"])) {
            Ok(())
        } else {
            Err(format!("a request with an id that is taken: {record}"))
        }
    }

    /// Every request was answered, and everything that started has ended.
    pub fn finish(&self) -> Result<(), String> {
        if !self.open.is_empty() {
            return Err(format!("never answered: {}", self.open.join(", ")));
        }
        if self.has_results && !self.prompts.is_empty() {
            return Err(format!("prompts without a result: {}", self.prompts.join(", ")));
        }
        if !self.host_calls.is_empty() {
            return Err(format!("host calls that nobody ended: {:?}", self.host_calls));
        }
        if self.run.is_some() || self.unsettled || self.aside.is_some() {
            return Err("a run or a message never ended, or a run never settled".into());
        }
        Ok(())
    }

    fn response(&mut self, record: &Value) -> Result<(), String> {
        let mut keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        if keys.first() == Some(&"id") {
            keys.remove(0);
        }
        let (success, last) = (&record["success"], keys.get(3).copied());
        let fits = matches!((success, last), (Value::Bool(true), None | Some("data")))
            || matches!((success, last), (Value::Bool(false), Some("error")));
        if !fits || keys.len() > 4 || keys[..3] != ["type", "command", "success"] {
            return Err(format!("not the shape of a response: {record}"));
        }
        match record.get("id").map(Value::to_string) {
            // Its `id` is that of the call, and only errors are answered.
            _ if plain(&record["command"]).starts_with("host_tool_") => {}
            Some(id) => match self.open.iter().position(|open| *open == id) {
                Some(at) => drop(self.open.remove(at)),
                None => return Err(format!("answered twice or never asked: {record}")),
            },
            // Some refusals have no id; then the oldest line with an id is meant.
            None if success == false && !self.open.is_empty() => drop(self.open.remove(0)),
            None => {}
        }
        let data = &record["data"];
        let is_prompt = matches!(
            record["command"].as_str(),
            Some("prompt" | "steer" | "follow_up" | "abort_and_prompt")
        );
        if is_prompt && success == true {
            self.prompts.push(record["id"].to_string());
        }
        match record["command"].as_str().filter(|_| success == true) {
            Some(command @ ("prompt" | "steer" | "follow_up")) => {
                let starts = command == "prompt" && data["disposition"] == "started";
                let fits = starts || data["disposition"] == "queued";
                if !fits && data["disposition"] != "handled" {
                    return Err(format!("what became of it? {record}"));
                }
            }
            Some("hello") => {
                let deltas = data["stream"] == "deltas";
                self.stream = if deltas { Stream::Deltas } else { Stream::Snapshots };
                self.promised = data["events"].as_array().cloned();
                self.has_results = data["promptResults"] == true;
            }
            Some("new_session" | "switch_session" | "fork" | "branch" | "clone") => {
                self.waiting = 0;
            }
            Some("get_state") => {
                for name in ["pendingMessageCount", "queuedMessageCount"] {
                    if data[name] != self.waiting {
                        return Err(format!("{name} is not {}: {record}", self.waiting));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// All but the first belong to a question about a tool call.
const SELECT_OPTIONAL: &[&str] = &["timeout", "toolCallId", "toolName", "args", "command", "diff"];

/// Whether a message may stand outside of turns.
fn is_aside(message: &Value) -> bool {
    matches!(message["role"].as_str(), Some("toolResult" | "custom"))
}

/// An error names the extension, what it was doing, and what is wrong; stacks stay inside.
fn extension_error(record: &Value) -> Result<(), String> {
    let keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let is_said = |field: &str| record[field].as_str().is_some_and(|text| !text.is_empty());
    let fits = keys == ["type", "extensionPath", "event", "error"];
    if fits && keys.iter().all(|key| is_said(key)) {
        Ok(())
    } else {
        Err(format!("not the shape of an extension's error: {record}"))
    }
}

impl Run {
    fn watch(&mut self, kind: &str, record: &Value, stream: Stream) -> Result<(), String> {
        if kind == "turn_start" {
            return match self.turn.replace(Turn::default()) {
                None => Ok(()),
                Some(_) => Err("a turn starts inside another".into()),
            };
        }
        let turn = self.turn.as_mut().ok_or_else(|| format!("{kind} outside of a turn"))?;
        match kind {
            "turn_end" => self.turn.take().unwrap().end(record),
            "message_start" => turn.message_start(&record["message"]),
            "message_update" => {
                let growing = turn.growing.as_mut().ok_or("an update outside of a message")?;
                growing.step(record, stream)
            }
            "message_end" => {
                self.ended.push(record["message"].clone());
                turn.message_end(&record["message"])
            }
            _ => turn.tool(kind, record),
        }
    }

    /// The message that has started is this one.
    fn replace(&mut self, message: &Value) {
        let Some(turn) = &mut self.turn else { return };
        turn.growing = turn.growing.take().map(|_| Growing::new(message));
        turn.started = turn.started.take().map(|_| message.clone());
    }

    fn end(self, record: &Value) -> Result<(), String> {
        if self.turn.is_some() {
            return Err("the run ends inside a turn".into());
        }
        if record["messages"] != json!(self.ended) {
            return Err(format!("agent_end lists other messages: {}", record["messages"]));
        }
        match record["willRetry"] {
            Value::Bool(_) => Ok(()),
            _ => Err("agent_end does not say whether a retry follows".into()),
        }
    }
}

impl Turn {
    fn message_start(&mut self, message: &Value) -> Result<(), String> {
        if self.growing.is_some() || self.started.is_some() {
            return Err("a message starts inside another".into());
        }
        match (plain(&message["role"]).as_str(), &self.answer) {
            ("assistant", None) => self.growing = Some(Growing::new(message)),
            ("assistant", Some(_)) => return Err("two answers in one turn".into()),
            ("user", Some(_)) => return Err("the user speaks behind the answer".into()),
            ("toolResult", None) => return Err("a result before the answer".into()),
            _ => self.started = Some(message.clone()),
        }
        Ok(())
    }

    fn message_end(&mut self, message: &Value) -> Result<(), String> {
        if let Some(growing) = self.growing.take() {
            self.answer = Some(message.clone());
            return growing.end(message);
        }
        if self.started.take().as_ref() != Some(message) {
            return Err(format!("a message ended differently from how it started: {message}"));
        }
        if message["role"] == "toolResult" {
            let answer = self.answer.as_ref();
            let was_aborted = answer.is_some_and(|answer| answer["stopReason"] == "aborted");
            let tool = self.tools.get(&plain(&message["toolCallId"])).cloned();
            let tool = match tool {
                // Calls of an aborted answer never start.
                None if was_aborted && message["isError"] == true => {
                    self.results.push(message.clone());
                    return Ok(());
                }
                tool => tool.flatten().ok_or("a result before its tool has ended")?,
            };
            let agree = tool["durationMs"] == message["durationMs"]
                && tool["result"]["content"] == message["content"]
                && tool["result"].get("details") == message.get("details")
                && tool["result"].get("usage") == message.get("usage")
                && tool["isError"] == message["isError"];
            if !agree {
                return Err(format!("the result is not what the tool ended with: {message}"));
            }
            self.results.push(message.clone());
        }
        Ok(())
    }

    fn tool(&mut self, kind: &str, record: &Value) -> Result<(), String> {
        let id = plain(&record["toolCallId"]);
        let state = self.tools.get(&id).cloned();
        match (kind, state) {
            ("tool_execution_start", None) => drop(self.tools.insert(id, None)),
            ("tool_execution_update", Some(None)) => {}
            ("tool_execution_end", Some(None)) => {
                self.tools.insert(id, Some(record.clone()));
            }
            _ => return Err(format!("{kind} of {id} out of place")),
        }
        Ok(())
    }

    /// Every call has a result, in order.
    fn end(self, record: &Value) -> Result<(), String> {
        if self.is_broken {
            let listed = record["toolResults"] == json!(self.results);
            return listed.then_some(()).ok_or("results that were not told".into());
        }
        let answer = self.answer.as_ref().ok_or("a turn without an answer")?;
        if answer != &record["message"] {
            return Err(format!("turn_end shows another answer: {}", record["message"]));
        }
        if record["toolResults"] != json!(self.results) {
            return Err(format!("turn_end lists other results: {}", record["toolResults"]));
        }
        let blocks = answer["content"].as_array().cloned().unwrap_or_default();
        let calls = blocks.iter().filter(|block| block["type"] == "toolCall");
        let calls: Vec<&Value> = calls.map(|call| &call["id"]).collect();
        let answered: Vec<&Value> =
            self.results.iter().map(|result| &result["toolCallId"]).collect();
        if calls != answered {
            return Err(format!("the calls {calls:?} were answered as {answered:?}"));
        }
        Ok(())
    }
}
