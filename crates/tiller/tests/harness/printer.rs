//! What tiller said, one short line a record.
//!
//! Steps of a growing message are printed as one line per block unless a transcript says
//! `updates all`, or `updates count` for how many there were. With `show records` the records
//! themselves are printed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::provider::Request;

use super::laws::Laws;
use super::wording::{brief, content, data, details, plain, quoted};

pub struct Printer {
    out: String,
    laws: Laws,
    folder: String,
    updates: Updates,
    shows_records: bool,
    shows_requests: bool,
    /// A record that is not whole yet.
    partial: Vec<u8>,
    /// Sessions in the order we heard of them.
    sessions: Vec<String>,
    /// Updates of the open block, and their bytes.
    steps: (usize, usize),
    seen_requests: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Updates {
    Blocks,
    Count,
    All,
}

impl Printer {
    pub fn new(options: &BTreeMap<String, String>, folder: &Path) -> Printer {
        let option = |name: &str| options.get(name).map(String::as_str);
        Printer {
            out: String::new(),
            laws: Laws::new(option("wire")),
            folder: folder.to_string_lossy().into_owned(),
            updates: match option("updates") {
                Some("all") => Updates::All,
                Some("count") => Updates::Count,
                _ => Updates::Blocks,
            },
            shows_records: option("show") == Some("records"),
            shows_requests: option("show") == Some("requests"),
            partial: Vec::new(),
            sessions: vec!["the-session".into()],
            steps: (0, 0),
            seen_requests: 0,
        }
    }

    pub fn sent(&mut self, line: &str) {
        self.laws.sent(line);
    }

    pub fn print(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.partial.extend_from_slice(chunk);
        let bytes = std::mem::take(&mut self.partial);
        let mut lines = bytes.split(|&byte| byte == b'\n');
        self.partial = lines.next_back().unwrap_or_default().to_vec();
        for line in lines {
            let text = std::str::from_utf8(line).map_err(|err| err.to_string())?;
            let record: Value =
                serde_json::from_str(text).map_err(|err| format!("not JSON: {text}: {err}"))?;
            if self.shows_records {
                self.line(text);
            } else {
                self.record(&record, text.len());
            }
            self.laws.watch(&record)?;
        }
        Ok(())
    }

    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    pub fn finish(&self) -> Result<(), String> {
        if !self.partial.is_empty() {
            return Err("the last record never ended".into());
        }
        self.laws.finish()
    }

    /// What the model was asked since the last time.
    pub fn requests(&mut self, requests: &[Arc<Request>]) {
        for request in requests.iter().skip(self.seen_requests) {
            if self.shows_requests {
                let messages: Vec<String> = request.messages.iter().map(|m| brief(m)).collect();
                let (model, level) = (&request.model.id, request.thinking.name());
                self.line(&format!("asks {model} {level}: {}", messages.join("; ")));
            }
        }
        self.seen_requests = requests.len();
    }

    fn record(&mut self, record: &Value, bytes: usize) {
        let kind = plain(&record["type"]);
        let line = match kind.as_str() {
            "response" => self.response(record),
            "message_start" => return,
            "message_update" => match self.update(&record["assistantMessageEvent"], bytes) {
                Some(line) => line,
                None => return,
            },
            "message_end" => message(&record["message"]),
            "turn_end" => kind,
            "agent_end" if record["willRetry"] == true => "agent_end will retry".to_owned(),
            "agent_end" => kind,
            "tool_execution_start" => {
                format!("{kind} {} {}", plain(&record["toolName"]), record["args"])
            }
            "tool_execution_update" => {
                let shown = content(&record["partialResult"]["content"]);
                format!("{kind} {} {shown}", plain(&record["toolName"]))
            }
            "tool_execution_end" => {
                let (name, result) = (plain(&record["toolName"]), &record["result"]);
                let shown = content(&result["content"]);
                format!("{kind} {name} {} {shown}{}", verdict(record), details(result))
            }
            _ => {
                let mut rest = record.clone();
                rest.as_object_mut().unwrap().remove("type");
                if rest == json!({}) { kind } else { format!("{kind} {rest}") }
            }
        };
        self.line(&line);
    }

    fn response(&mut self, record: &Value) -> String {
        let mut line = "response".to_owned();
        if let Some(id) = record.get("id") {
            write!(line, " {}", plain(id)).unwrap();
        }
        let command = plain(&record["command"]);
        write!(line, " {command}").unwrap();
        if record["success"] == false {
            write!(line, " refused: {}", plain(&record["error"]).replace('\n', "\\n")).unwrap();
            return line;
        }
        line.push_str(" ok");
        if let Some(given) = record.get("data") {
            self.meet_session(&given["sessionId"]);
            write!(line, " {}", data(&command, given.clone())).unwrap();
        }
        line
    }

    /// Ids of sessions are random, so they are numbered as they are met.
    fn meet_session(&mut self, id: &Value) {
        if let Some(id) = id.as_str()
            && !self.sessions.iter().any(|known| known == id)
        {
            self.sessions.push(id.to_owned());
        }
    }

    fn update(&mut self, event: &Value, bytes: usize) -> Option<String> {
        let kind = plain(&event["type"]);
        let (family, step) = kind.rsplit_once('_').unwrap_or((&kind, ""));
        if self.updates == Updates::All {
            let at = &event["contentIndex"];
            let more = match step {
                "delta" => quoted(&event["delta"]),
                "end" if family == "toolcall" => event["toolCall"]["arguments"].to_string(),
                "end" => quoted(&event["content"]),
                _ => event.get("toolName").map(plain).unwrap_or_default(),
            };
            return Some(format!("{kind} {at} {more}").trim_end().to_owned());
        }
        if step == "delta" {
            self.steps = (self.steps.0 + 1, self.steps.1 + bytes);
        }
        if step != "end" {
            return None;
        }
        let whole = match family {
            "toolcall" => {
                let call = &event["toolCall"];
                format!("{} {}", plain(&call["name"]), call["arguments"])
            }
            _ => quoted(&event["content"]),
        };
        let (count, cost) = std::mem::take(&mut self.steps);
        Some(match self.updates {
            Updates::Count => {
                let size = plain(&event["content"]).len().max(1);
                let times = cost / size;
                format!("… {family} {whole} in {count} deltas, {times} times its size")
            }
            _ => format!("… {family} {whole}"),
        })
    }

    fn line(&mut self, text: &str) {
        let mut text = text.replace(&self.folder, "FOLDER");
        for (index, id) in self.sessions.iter().enumerate().skip(1) {
            text = text.replace(id, &format!("session-{}", index + 1));
        }
        writeln!(self.out, "tiller> {text}").unwrap();
    }
}

/// A whole message.
fn message(message: &Value) -> String {
    let shown = content(&message["content"]);
    match plain(&message["role"]).as_str() {
        "toolResult" => format!("tool_result {} {shown}{}", verdict(message), details(message)),
        "assistant" => {
            let mut line = format!("assistant {}", plain(&message["stopReason"]));
            if let Some(error) = message.get("errorMessage") {
                write!(line, " {error}").unwrap();
                if !shown.is_empty() {
                    write!(line, " after {shown}").unwrap();
                }
            }
            line
        }
        role => format!("{role} {shown}"),
    }
}

fn verdict(record: &Value) -> &'static str {
    if record["isError"] == true { "error" } else { "ok" }
}
