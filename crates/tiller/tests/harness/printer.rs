//! What tiller said, one short line a record, and laws that hold in every conversation.
//!
//! Steps of a growing message are printed as one line per block unless a transcript says
//! `updates all`; that each snapshot is exactly the message after its step is checked always.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::message::Message;
use tiller_agent::provider::Request;

pub struct Printer {
    out: String,
    folder: String,
    all_updates: bool,
    show_requests: bool,
    pub said_exit: bool,
    /// A record that is not whole yet.
    partial: Vec<u8>,
    /// Ids that were sent and not answered.
    open: Vec<String>,
    /// The message under way, by our own reckoning from the steps.
    growing: Option<Vec<Value>>,
    /// Steps not printed yet.
    steps: Vec<String>,
    /// A user message or tool result that has started.
    started: Option<Value>,
    /// Messages that ended since `agent_start`.
    ended: Vec<Value>,
    seen_requests: usize,
}

impl Printer {
    pub fn new(options: &BTreeMap<String, String>, folder: &Path) -> Printer {
        let is = |name: &str, value: &str| options.get(name).is_some_and(|is| is == value);
        Printer {
            out: String::new(),
            folder: folder.to_string_lossy().into_owned(),
            all_updates: is("updates", "all"),
            show_requests: is("show", "requests"),
            said_exit: false,
            partial: Vec::new(),
            open: Vec::new(),
            growing: None,
            steps: Vec::new(),
            started: None,
            ended: Vec::new(),
            seen_requests: 0,
        }
    }

    /// Takes note of a line the client sent, because it must be answered.
    pub fn sent(&mut self, line: &str) {
        if let Ok(Value::Object(request)) = serde_json::from_str(line)
            && let Some(id) = request.get("id")
            && request.get("type").is_none_or(|kind| kind != "extension_ui_response")
        {
            self.open.push(id.to_string());
        }
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
            self.record(&record)?;
        }
        Ok(())
    }

    pub fn take(&mut self) -> String {
        self.print_steps();
        std::mem::take(&mut self.out)
    }

    /// Every request was answered, and nothing was begun that did not end.
    pub fn finish(&self) -> Result<(), String> {
        if !self.open.is_empty() {
            return Err(format!("never answered: {}", self.open.join(", ")));
        }
        if !self.partial.is_empty() || self.growing.is_some() || self.started.is_some() {
            return Err("a message or a record never ended".into());
        }
        Ok(())
    }

    pub fn requests(&mut self, requests: &[Arc<Request>]) {
        for request in requests.iter().skip(self.seen_requests) {
            if self.show_requests {
                self.print_steps();
                let messages: Vec<String> = request.messages.iter().map(|m| brief(m)).collect();
                let tools: Vec<&str> =
                    request.tools.iter().map(|tool| tool.name.as_str()).collect();
                let (model, level) = (&request.model.id, request.thinking.name());
                let line =
                    format!("asks {model} {level} [{}]: {}", tools.join(" "), messages.join("; "));
                self.line(&line);
            }
        }
        self.seen_requests = requests.len();
    }

    fn record(&mut self, record: &Value) -> Result<(), String> {
        let kind = record["type"].as_str().ok_or("a record without type")?;
        if kind != "message_update" {
            self.print_steps();
        }
        match kind {
            "response" => self.response(record)?,
            "message_start" => return self.message_start(&record["message"]),
            "message_update" => return self.message_update(record),
            "message_end" => return self.message_end(&record["message"]),
            "agent_start" => {
                self.ended.clear();
                self.line("agent_start");
            }
            "agent_end" => {
                if record["messages"] != json!(self.ended) {
                    return Err(format!("agent_end lists other messages: {}", record["messages"]));
                }
                let retry = if record["willRetry"] == true { " will retry" } else { "" };
                self.line(&format!("agent_end{retry}"));
            }
            "turn_end" => self.turn_end(record)?,
            "tool_execution_start" => {
                let (name, args) = (&record["toolName"], &record["args"]);
                self.line(&format!("{kind} {} {args}", plain(name)));
            }
            "tool_execution_update" => {
                let shown = content(&record["partialResult"]["content"]);
                self.line(&format!("{kind} {} {shown}", plain(&record["toolName"])));
            }
            "tool_execution_end" => {
                let result = &record["result"];
                let verdict = if record["isError"] == true { "error" } else { "ok" };
                let details = details(result);
                let shown = content(&result["content"]);
                let name = plain(&record["toolName"]);
                self.line(&format!("{kind} {name} {verdict} {shown}{details}"));
            }
            _ => {
                let mut rest = record.clone();
                rest.as_object_mut().unwrap().remove("type");
                let rest = if rest == json!({}) { String::new() } else { format!(" {rest}") };
                self.line(&format!("{kind}{rest}"));
            }
        }
        Ok(())
    }

    fn response(&mut self, record: &Value) -> Result<(), String> {
        let mut line = "response".to_owned();
        if let Some(id) = record.get("id") {
            let id = id.to_string();
            match self.open.iter().position(|open| *open == id) {
                Some(at) => drop(self.open.remove(at)),
                None => return Err(format!("answered twice or never asked: {record}")),
            }
            write!(line, " {}", id.trim_matches('"')).unwrap();
        } else if record["command"] == "parse" || record["success"] == false {
            // Some refusals carry no label; then it was the oldest line that had one.
            if record["command"] != "parse" && !self.open.is_empty() {
                self.open.remove(0);
            }
        }
        write!(line, " {}", plain(&record["command"])).unwrap();
        if record["success"] == true {
            line.push_str(" ok");
            if let Some(data) = record.get("data") {
                write!(line, " {}", shortened(data.clone())).unwrap();
            }
        } else {
            write!(line, " refused: {}", plain(&record["error"])).unwrap();
        }
        let line = line.replace('\n', "\\n");
        self.line(&line);
        Ok(())
    }

    fn message_start(&mut self, message: &Value) -> Result<(), String> {
        if self.growing.is_some() || self.started.is_some() {
            return Err("a message starts inside another".into());
        }
        if message["role"] == "assistant" {
            self.growing = Some(message["content"].as_array().cloned().unwrap_or_default());
        } else {
            self.started = Some(message.clone());
        }
        Ok(())
    }

    fn message_update(&mut self, record: &Value) -> Result<(), String> {
        let event = &record["assistantMessageEvent"];
        let blocks = self.growing.as_mut().ok_or("an update outside of a message")?;
        fold(blocks, event)?;
        if let Some(partial) = event.get("partial") {
            if partial != &record["message"] {
                return Err(format!("partial and message differ: {record}"));
            }
            let shown = partial["content"].as_array().cloned().unwrap_or_default();
            if !same_so_far(&shown, blocks) {
                return Err(format!("the snapshot is not the message after its step: {record}"));
            }
            // Signatures come with the last step of a block.
            *blocks = shown;
        }
        let kind = plain(&event["type"]);
        let at = &event["contentIndex"];
        let (family, step) = kind.rsplit_once('_').ok_or("a step without a kind")?;
        if self.all_updates {
            let more = match step {
                "delta" => event["delta"].to_string(),
                "end" if family == "toolcall" => event["toolCall"]["arguments"].to_string(),
                "end" => event["content"].to_string(),
                _ => event.get("toolName").map(plain).unwrap_or_default(),
            };
            self.steps.push(format!("{kind} {at} {more}").trim_end().to_owned());
        } else if step == "end" {
            let whole = match family {
                "toolcall" => {
                    let call = &event["toolCall"];
                    format!("{} {}", plain(&call["name"]), call["arguments"])
                }
                _ => event["content"].to_string(),
            };
            self.steps.push(format!("… {family} {whole}"));
        }
        Ok(())
    }

    fn print_steps(&mut self) {
        for step in std::mem::take(&mut self.steps) {
            self.line(&step);
        }
    }

    fn message_end(&mut self, message: &Value) -> Result<(), String> {
        self.ended.push(message.clone());
        if message["role"] != "assistant" {
            if self.started.take().as_ref() != Some(message) {
                return Err(format!("a message ended differently from how it started: {message}"));
            }
            let shown = content(&message["content"]);
            let line = match plain(&message["role"]).as_str() {
                "toolResult" => {
                    let verdict = if message["isError"] == true { "error" } else { "ok" };
                    format!("tool_result {verdict} {shown}{}", details(message))
                }
                role => format!("{role} {shown}"),
            };
            self.line(&line);
            return Ok(());
        }
        let blocks = self.growing.take().ok_or("an answer ended that never started")?;
        let whole = message["content"].as_array().cloned().unwrap_or_default();
        if !same_so_far(&whole, &blocks) {
            return Err(format!("message_end is not what the steps add up to: {message}"));
        }
        let mut line = format!("assistant {}", plain(&message["stopReason"]));
        if let Some(error) = message.get("errorMessage") {
            write!(line, " {error}").unwrap();
        }
        let shown = content(&message["content"]);
        if message.get("errorMessage").is_some() && shown != "" {
            write!(line, " after {shown}").unwrap();
        }
        self.line(&line);
        Ok(())
    }

    fn turn_end(&mut self, record: &Value) -> Result<(), String> {
        let is_result = |message: &&Value| message["role"] == "toolResult";
        let results: Vec<&Value> = self.ended.iter().rev().take_while(is_result).collect();
        let results: Vec<&Value> = results.into_iter().rev().collect();
        if record["toolResults"] != json!(results) {
            return Err(format!("turn_end lists other results: {}", record["toolResults"]));
        }
        let answer = self.ended.iter().rev().find(|message| message["role"] == "assistant");
        if answer != Some(&record["message"]) {
            return Err(format!("turn_end shows another answer: {}", record["message"]));
        }
        self.line("turn_end");
        Ok(())
    }

    fn line(&mut self, text: &str) {
        let text = text.replace(&self.folder, "FOLDER");
        writeln!(self.out, "tiller> {text}").unwrap();
    }
}

/// Adds one step to the blocks, as a client that has only the steps would.
fn fold(blocks: &mut Vec<Value>, event: &Value) -> Result<(), String> {
    let index = event["contentIndex"].as_u64().ok_or("a step without contentIndex")? as usize;
    let kind = plain(&event["type"]);
    let new = match kind.as_str() {
        "text_start" => Some(json!({"type": "text", "text": ""})),
        "thinking_start" => Some(json!({"type": "thinking", "thinking": ""})),
        "toolcall_start" => Some(json!({"type": "toolCall"})),
        _ => None,
    };
    if let Some(new) = new {
        if index != blocks.len() {
            return Err(format!("block {index} starts out of order"));
        }
        blocks.push(new);
        return Ok(());
    }
    let block = blocks.get_mut(index).ok_or_else(|| format!("a step in no block: {event}"))?;
    match kind.as_str() {
        "text_delta" | "thinking_delta" => {
            let field = kind.trim_end_matches("_delta");
            let text = plain(&block[field]) + &plain(&event["delta"]);
            block[field] = json!(text);
        }
        "text_end" | "thinking_end" => {
            let field = kind.trim_end_matches("_end");
            if block[field] != event["content"] {
                return Err(format!(
                    "the deltas add up to {}, not to {}",
                    block[field], event["content"]
                ));
            }
        }
        "toolcall_delta" => {}
        "toolcall_end" => *block = event["toolCall"].clone(),
        _ => return Err(format!("an unknown step: {event}")),
    }
    Ok(())
}

/// Whether the words agree. A call's arguments are only known by their end, signatures too.
fn same_so_far(shown: &[Value], ours: &[Value]) -> bool {
    shown.len() == ours.len()
        && shown.iter().zip(ours).all(|(shown, ours)| {
            ["type", "text", "thinking"].iter().all(|field| shown[*field] == ours[*field])
        })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Content in one line.
fn content(content: &Value) -> String {
    let blocks = match content {
        Value::String(_) => return content.to_string(),
        _ => content.as_array().cloned().unwrap_or_default(),
    };
    let shown = blocks.iter().map(|block| match plain(&block["type"]).as_str() {
        "text" => block["text"].to_string(),
        "thinking" => format!("(thinking {})", block["thinking"]),
        "image" => format!("(image {})", plain(&block["mimeType"])),
        "toolCall" => format!("(call {} {})", plain(&block["name"]), block["arguments"]),
        other => format!("({other})"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn details(value: &Value) -> String {
    match value.get("details") {
        None => String::new(),
        Some(details) if details == &json!({}) => String::new(),
        Some(details) => format!(" details {details}"),
    }
}

/// Response data without what is always the same.
fn shortened(mut data: Value) -> String {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("timestamp");
                if object.contains_key("contextWindow") && object.contains_key("provider") {
                    let name = format!("{}/{}", plain(&object["provider"]), plain(&object["id"]));
                    *value = json!(name);
                    return;
                }
                if object.get("totalTokens").is_some_and(|total| total == 0) {
                    *value = json!(0);
                    return;
                }
                object.values_mut().for_each(walk);
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut data);
    data.to_string()
}

/// A message as the model is shown it, in a few words.
fn brief(message: &Message) -> String {
    let message = serde_json::to_value(message).unwrap();
    format!("{} {}", plain(&message["role"]), content(&message["content"]))
}
