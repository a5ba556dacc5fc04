//! Prints tiller's records, one short line each.
//!
//! Deltas of a message are printed as one line per block unless a transcript says `updates all`, or
//! `updates count` for their number. With `show records` the records themselves are printed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::provider::Request;

use super::laws::Laws;
use super::names::Names;
use super::schema;
use super::typed;
use super::wording::{brief, content, data, details, ending, plain, quoted, rules};

pub struct Printer {
    out: String,
    laws: Laws,
    folder: String,
    level: String,
    updates: Updates,
    shows_records: bool,
    /// Leave out what `hello` adds to every conversation: numbers and results.
    hides_extras: bool,
    /// Print messages at their end, too.
    shows_messages: bool,
    shows_requests: bool,
    shows_system: bool,
    /// An incomplete record.
    partial: Vec<u8>,
    names: Names,
    /// Open blocks of the model, by index.
    open: BTreeMap<u64, OpenBlock>,
    seen_requests: usize,
    /// The system prompt of the last request.
    system: Option<Arc<str>>,
}

/// A block that has not ended.
#[derive(Default)]
struct OpenBlock {
    kind: String,
    text: String,
    /// More of it has arrived than was printed.
    is_fresh: bool,
    short: Deltas,
    long: Deltas,
}

/// Deltas in records of one kind: their number, text, and size on the wire.
#[derive(Default)]
struct Deltas {
    count: usize,
    text_bytes: usize,
    bytes: usize,
}

/// The length limit of a short record.
const SHORT_RECORD_BYTES: usize = 16 << 10;

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
            laws: Laws::new(option("wire"), option("messages") == Some("replaced")),
            shows_messages: option("messages") == Some("replaced"),
            folder: folder.to_string_lossy().into_owned(),
            level: option("wire").unwrap_or("pi").replace("pi@1", "pi-delta"),
            updates: match option("updates") {
                Some("all") => Updates::All,
                Some("count") => Updates::Count,
                _ => Updates::Blocks,
            },
            shows_records: option("show") == Some("records"),
            hides_extras: false,
            shows_requests: matches!(option("show"), Some("requests" | "system")),
            shows_system: option("show") == Some("system"),
            system: None,
            partial: Vec::new(),
            names: Names::new(),
            open: BTreeMap::new(),
            seen_requests: 0,
        }
    }

    pub fn sent(&mut self, line: &str) -> Result<(), String> {
        self.laws.sent(line);
        schema::check_command(&self.level, line)?;
        typed::check_command(line)
    }

    /// No call of these tools may run without an approval.
    pub fn guard(&mut self, tools: &'static [&'static str]) {
        self.laws.approvals.guard(tools);
    }

    /// How many calls the client has allowed.
    pub fn allowed_calls(&self) -> usize {
        self.laws.approvals.allowed()
    }

    /// How many requests to the user there were.
    pub fn ui_requests(&self) -> usize {
        self.names.ui_requests()
    }

    /// A line of the client with ids and the scratch folder in place of their names.
    pub fn with_ids(&self, line: &str) -> String {
        self.names.replace_names_in(line).replace("FOLDER", &self.folder)
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
            self.names.meet(&record);
            self.laws.watch(&record)?;
            typed::check_record(text)?;
            if record["command"] == "hello" && record["success"] == true {
                self.level = plain(&record["data"]["wire"]);
            }
            schema::check_record(&self.level, &record)?;
            if self.hides_extras && is_extra(&record) {
                // Only the laws see it.
            } else if self.shows_records {
                let shown = if self.hides_extras { typed::unstamped(text) } else { text.into() };
                self.line(&timeless(&shown));
            } else if self.hides_extras {
                self.record(&without_extras(record), text.len());
            } else {
                self.record(&record, text.len());
            }
        }
        Ok(())
    }

    /// How many prompts have a result.
    pub fn results(&self) -> usize {
        self.laws.results()
    }

    pub fn hide_extras(&mut self) {
        self.hides_extras = true;
    }

    pub fn take(&mut self) -> String {
        self.print_unended();
        std::mem::take(&mut self.out)
    }

    pub fn finish(&self) -> Result<(), String> {
        if !self.partial.is_empty() {
            return Err("the last record never ended".into());
        }
        self.laws.finish()
    }

    /// Prints the requests to the model since the last call.
    pub fn requests(&mut self, requests: &[Arc<Request>]) {
        for request in requests.iter().skip(self.seen_requests) {
            self.system(request);
            if self.shows_requests {
                let messages: Vec<String> = request.messages.iter().map(|m| brief(m)).collect();
                let (model, level) = (&request.model.id, request.thinking.name());
                let forced = request.forced_tool.iter();
                let forced: String = forced.map(|tool| format!(" to call {tool}")).collect();
                self.line(&format!("asks {model} {level}{forced}: {}", messages.join("; ")));
            }
        }
        self.seen_requests = requests.len();
    }

    /// A changed system prompt invalidates the provider's cache, so every transcript shows it.
    fn system(&mut self, request: &Request) {
        // A summary is requested without tools, in a separate conversation.
        if request.tools.is_empty() {
            return;
        }
        let before = self.system.replace(request.system.clone());
        match before {
            Some(before) if before == request.system => return,
            Some(_) => self.line("the system prompt is another one"),
            None => {}
        }
        if self.shows_system {
            request.system.lines().for_each(|line| self.line(format!("| {line}").trim_end()));
        }
    }

    /// Prints what has arrived of an open block.
    fn print_unended(&mut self) {
        let mut unended = Vec::new();
        for block in self.open.values_mut().filter(|block| block.is_fresh) {
            block.is_fresh = false;
            unended.push(format!("… {} {} …", block.kind, quoted(&json!(block.text))));
        }
        unended.iter().for_each(|line| self.line(line));
    }

    fn record(&mut self, record: &Value, bytes: usize) {
        let kind = plain(&record["type"]);
        if kind != "message_update" {
            self.print_unended();
        }
        let line = match kind.as_str() {
            "response" => response(record),
            "prompt_result" => prompt_result(record),
            "message_start" => match record.get("clientMessageId") {
                Some(name) => format!("{kind} {}", plain(name)),
                None => return,
            },
            "message_update" => match self.update(&record["assistantMessageEvent"], bytes) {
                Some(line) => line,
                None => return,
            },
            "message_end" => {
                self.open.clear();
                message(&record["message"], self.shows_messages)
            }
            "turn_end" => kind,
            "agent_end" if record["willRetry"] == true => "agent_end will retry".to_owned(),
            "agent_end" => kind,
            "agent_settled" if record["aborted"] == true => "agent_settled aborted".to_owned(),
            "agent_settled" if record["aborted"] == false => kind,
            "tool_execution_start" => {
                format!("{kind} {} {}", plain(&record["toolName"]), record["args"])
            }
            "extension_ui_request" if record.get("cut").is_some() => {
                format!("{kind} {} cut {}", quoted(&record["message"]), record["cut"])
            }
            "tool_execution_update" if record.get("delta").is_some() => {
                format!("{kind} {} + {}", plain(&record["toolName"]), quoted(&record["delta"]))
            }
            "tool_execution_update" => {
                let shown = content(&record["partialResult"]["content"]);
                format!("{kind} {} {shown}", plain(&record["toolName"]))
            }
            "tool_execution_end" => {
                let (name, result) = (plain(&record["toolName"]), &record["result"]);
                let shown = content(&result["content"]);
                let more = format!("{}{}", details(result), ending(result));
                format!("{kind} {name} {} {shown}{more}", verdict(record))
            }
            _ => {
                let mut rest = record.clone();
                for name in ["type", "seq", "epoch"] {
                    rest.as_object_mut().unwrap().shift_remove(name);
                }
                if let Some(entry) = rest.get_mut("entry").and_then(Value::as_object_mut) {
                    entry.shift_remove("timestamp");
                }
                if rest == json!({}) { kind } else { format!("{kind} {rest}") }
            }
        };
        match record.get("seq").filter(|_| !self.hides_extras) {
            Some(seq) => self.line(&format!("{line} #{seq}")),
            None => self.line(&line),
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
        let block = self.open.entry(event["contentIndex"].as_u64().unwrap_or(0)).or_default();
        match step {
            "delta" => {
                block.text.push_str(&plain(&event["delta"]));
                block.is_fresh = true;
                let is_short = bytes <= SHORT_RECORD_BYTES;
                let deltas = if is_short { &mut block.short } else { &mut block.long };
                deltas.count += 1;
                deltas.text_bytes += plain(&event["delta"]).len();
                deltas.bytes += bytes;
                return None;
            }
            "end" => {}
            _ => {
                block.kind = family.to_owned();
                return None;
            }
        }
        let whole = match family {
            "toolcall" => {
                let call = &event["toolCall"];
                format!("{} {}", plain(&call["name"]), call["arguments"])
            }
            _ => quoted(&event["content"]),
        };
        let block = self.open.remove(&event["contentIndex"].as_u64().unwrap_or(0))?;
        Some(match self.updates {
            Updates::Count if block.long.count == 0 => {
                format!("… {family} {whole} in {} deltas", block.short.count)
            }
            Updates::Count => {
                let (short, long) = (block.short.count, block.long.count);
                let times = block.long.bytes / block.long.text_bytes.max(1);
                let how = format!("{short} short and {long} long deltas");
                format!("… {family} {whole} in {how}, the long at {times} times their text")
            }
            _ => format!("… {family} {whole}"),
        })
    }

    fn line(&mut self, text: &str) {
        let text = self.names.replace_in(text).replace(&self.folder, "FOLDER");
        // The session folder of a project is named after the project.
        let named = format!("-{}-", self.folder.replace('/', "-"));
        let text = text.replace(&named, "--FOLDER-");
        writeln!(self.out, "tiller> {}", visible(&text)).unwrap();
    }
}

/// The command that asks for numbers and results in every conversation.
pub const EXTRAS: &str = r#"{"id":"extras","type":"hello","promptResults":true,"sequence":true}"#;

fn is_extra(record: &Value) -> bool {
    record["type"] == "prompt_result" || record["id"] == "extras"
}

/// The response to `hello` as if nothing had been asked for.
fn without_extras(mut record: Value) -> Value {
    if let Some(data) = record.get_mut("data").and_then(Value::as_object_mut) {
        data.shift_remove("promptResults");
        data.shift_remove("sequence");
    }
    record
}

/// What became of a prompt, without the time it took.
fn prompt_result(record: &Value) -> String {
    let text = |field: &str| record.get(field).map(|value| format!(" {}", plain(value)));
    let words = ["command", "id", "clientMessageId", "status", "reason"].map(text);
    let counts = ["runs", "turns", "messages"].map(|field| format!(" {field} {}", record[field]));
    let tokens = format!(" tokens {}", record["usage"]["totalTokens"]);
    let error = record.get("error").map(|error| format!(" {error}"));
    let parts = words.into_iter().flatten().chain(counts).chain([tokens]).chain(error);
    format!("prompt_result{}", parts.collect::<String>())
}

fn response(record: &Value) -> String {
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
        write!(line, " {}", data(&command, given.clone())).unwrap();
    }
    if let Some(cut) = record.get("cut") {
        write!(line, " cut {cut}").unwrap();
    }
    line
}

/// A complete message.
fn message(message: &Value, is_whole: bool) -> String {
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
            } else if is_whole {
                write!(line, " {shown}").unwrap();
            }
            line
        }
        role => rules(message).unwrap_or_else(|| format!("{role} {shown}")),
    }
}

/// A record without timestamps.
fn timeless(record: &str) -> String {
    let mut parts = record.split("\"timestamp\":");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        write!(text, "\"timestamp\":0{rest}").unwrap();
    }
    let mut parts = text.split("\"durationMs\":");
    let mut timeless = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The duration of an answer depends on how often the harness polls. A tool's duration is
        // exact.
        let is_answer = timeless.rsplit_once(",\"thinkingLevel\":\"");
        let is_answer = is_answer.is_some_and(|(_, level)| !level.contains(':'));
        let rest = part.trim_start_matches(|c: char| is_answer && c.is_ascii_digit());
        write!(timeless, "\"durationMs\":{}{rest}", if is_answer { "0" } else { "" }).unwrap();
    }
    timeless
}

/// Spells out characters that an editor would hide or treat as a line break.
fn visible(text: &str) -> String {
    let hidden = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    text.chars().fold(String::new(), |mut shown, c| {
        if hidden(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        shown
    })
}

fn verdict(record: &Value) -> &'static str {
    if record["isError"] == true { "error" } else { "ok" }
}
