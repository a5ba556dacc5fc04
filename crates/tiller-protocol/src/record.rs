//! Responses and events as lines of JSON.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use tiller_agent::event::{Event, Update};
use tiller_agent::message::{Arguments, Message, ToolCall};
use tiller_agent::stream_rules::Rule;
use tiller_agent::tool::ToolOutput;

use crate::compaction;
use crate::host_tools;
use crate::message::{Shaped, ShapedCall, tool_call};
use crate::reply::{Label, Reply};
use crate::request::Refusal;
use crate::snapshot::{Snapshot, write_json};
use crate::todos;
use crate::{Level, Stream};

/// The events that `hello` lists.
pub const EVENTS: &[&str] = &[
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "host_tool_call",
    "host_tool_cancel",
    "compaction_start",
    "compaction_end",
    "auto_compaction_start",
    "auto_compaction_end",
    "summarization_retry_scheduled",
    "summarization_retry_attempt_start",
    "summarization_retry_finished",
    "auto_retry_start",
    "auto_retry_end",
    "extension_ui_request",
    "extension_error",
    "ttsr_triggered",
    "entry_appended",
    "todo_reminder",
    "todo_auto_clear",
    "queue_update",
    "bash_execution_update",
    "session_info_changed",
    "session_error",
    "thinking_level_changed",
];

/// What a record about an update carries at levels that write whole messages.
#[derive(Clone, Copy, PartialEq)]
pub enum Detail {
    /// The update and the message after it.
    Snapshot,
    /// The update alone, as where only deltas are written, with the name of the call.
    Step,
}

/// Writes records at one level.
pub struct RecordWriter {
    level: Level,
    stream: Stream,
    /// The current message.
    growing: Option<Snapshot>,
}

impl RecordWriter {
    pub fn new(level: Level) -> RecordWriter {
        RecordWriter { level, stream: level.stream(), growing: None }
    }

    /// Changes the level, also in the middle of a message.
    pub fn change(&mut self, level: Level, stream: Stream) {
        self.level = level;
        self.stream = stream;
        if let Some(growing) = &mut self.growing {
            growing.change_level(level);
        }
    }

    /// The approximate length of a record with the current message.
    pub fn update_len(&self) -> usize {
        match (&self.growing, self.stream) {
            (Some(growing), Stream::Snapshots) => 2 * growing.len() + 128,
            _ => 0,
        }
    }

    pub fn ready(&self, version: &str, out: &mut Vec<u8>) {
        if self.level == Level::Xcsh {
            line(out, &Ready { kind: "ready", version });
        }
    }

    pub fn reply(&self, label: &Label, reply: Reply, out: &mut Vec<u8>) {
        write_id(label.id.as_deref(), out);
        out.extend_from_slice(br#""type":"response","command":"#);
        write_json(out, label.command);
        out.extend_from_slice(br#","success":true"#);
        if let Some(data) = reply.into_json() {
            out.extend_from_slice(br#","data":"#);
            out.extend_from_slice(&data);
        }
        out.extend_from_slice(b"}\n");
    }

    pub fn refuse(&self, id: Option<&RawValue>, refusal: &Refusal, out: &mut Vec<u8>) {
        write_id(id.filter(|_| self.level.labels(refusal.kind)), out);
        out.extend_from_slice(br#""type":"response","command":"#);
        write_json(out, &refusal.command);
        out.extend_from_slice(br#","success":false,"error":"#);
        write_json(out, &refusal.error);
        out.extend_from_slice(b"}\n");
    }

    pub fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::AgentStart => line(out, &Bare { kind: "agent_start" }),
            Event::TurnStart => line(out, &Bare { kind: "turn_start" }),
            Event::AgentSettled { aborted } => {
                line(out, &Settled { kind: "agent_settled", aborted: *aborted });
            }
            Event::MessageStart { message, .. } => {
                self.growing = message.as_assistant().map(|m| Snapshot::new(m, self.level));
                line(out, &About { kind: "message_start", message: self.shaped(message) });
            }
            Event::MessageUpdate(update) => self.update(update, Detail::Snapshot, out),
            Event::MessageEnd { message } => {
                self.growing = None;
                line(out, &About { kind: "message_end", message: self.shaped(message) });
            }
            Event::ToolStart { call } => {
                let args = &call.arguments;
                line(out, &ToolStart { tool: Tool::about("tool_execution_start", call), args });
            }
            Event::ToolUpdate { call, partial } => {
                let tool = Tool::about("tool_execution_update", call);
                line(out, &ToolUpdate { tool, args: &call.arguments, partial_result: partial });
            }
            Event::ToolEnd { call, result, is_error, duration_ms } => {
                let tool = Tool::about("tool_execution_end", call);
                let duration_ms = duration_ms.filter(|_| self.level == Level::PiDelta);
                line(out, &ToolEnd { tool, result, is_error: *is_error, duration_ms });
            }
            Event::HostToolCall { id, tool_call_id, tool_name, arguments } => {
                let kind = "host_tool_call";
                line(out, &host_tools::Call { kind, id, tool_call_id, tool_name, arguments });
            }
            Event::HostToolCancel { id, target_id } => {
                line(out, &host_tools::Cancel { kind: "host_tool_cancel", id, target_id });
            }
            Event::TurnEnd { message, results } => {
                let (message, tool_results) = (self.shaped(message), self.all_shaped(results));
                line(out, &TurnEnd { kind: "turn_end", message, tool_results });
            }
            Event::AgentEnd { messages, will_retry } => {
                let messages = self.all_shaped(messages);
                line(out, &AgentEnd { kind: "agent_end", messages, will_retry: *will_retry });
            }
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                let kind = "auto_retry_start";
                let (max_attempts, delay_ms) = (*max_attempts, *delay_ms);
                let attempt = *attempt;
                line(out, &RetryStart { kind, attempt, max_attempts, delay_ms, error_message });
            }
            Event::AutoRetryEnd { success, attempt, final_error } => {
                let (kind, success, attempt) = ("auto_retry_end", *success, *attempt);
                let final_error = final_error.as_deref();
                line(out, &RetryEnd { kind, success, attempt, final_error });
            }
            Event::TtsrTriggered { rules } => {
                let rules = rules.iter().map(|rule| &**rule).collect();
                line(out, &TtsrTriggered { kind: "ttsr_triggered", rules });
            }
            Event::CompactionStart { reason } => {
                line(out, &compaction::Start::of(*reason, self.level));
            }
            Event::CompactionEnd { reason, result, aborted, will_retry, error_message } => {
                let (result, error) = (result.as_deref(), error_message.as_deref());
                let (level, reason) = (self.level, *reason);
                let end = compaction::End::of(level, reason, result, *aborted, *will_retry, error);
                line(out, &end);
            }
            Event::Summarization { reason, progress } => {
                line(out, &compaction::Summarization::of(*reason, progress));
            }
            Event::ExtensionUi { id, request } => {
                // The fields of the request stand beside ours.
                out.extend_from_slice(br#"{"type":"extension_ui_request","id":"#);
                write_json(out, id);
                out.push(b',');
                out.extend_from_slice(&request.get().as_bytes()[1..]);
                out.push(b'\n');
            }
            Event::ExtensionError { path, event, error } => {
                let kind = "extension_error";
                line(out, &ExtensionError { kind, extension_path: path, event, error });
            }
            Event::EntryAppended { entry } => {
                line(out, &EntryAppended { kind: "entry_appended", entry });
            }
            Event::TodoReminder { todos, attempt, max_attempts } => {
                line(out, &todos::Reminder::of(todos, *attempt, *max_attempts));
            }
            Event::TodoAutoClear => line(out, &Bare { kind: "todo_auto_clear" }),
            Event::QueueUpdate { steering, follow_up } => {
                line(out, &QueueUpdate { kind: "queue_update", steering, follow_up });
            }
            Event::BashUpdate { id, delta } => {
                let kind = "bash_execution_update";
                line(out, &BashUpdate { kind, id: id.as_deref(), delta });
            }
            Event::SessionInfoChanged { name } => {
                line(out, &SessionInfo { kind: "session_info_changed", name: name.as_deref() });
            }
            Event::SessionError { error } => {
                line(out, &SessionError { kind: "session_error", error });
            }
            Event::ThinkingLevelChanged { level } => {
                let (kind, level) = ("thinking_level_changed", level.name());
                let thinking_level = (self.level == Level::Xcsh).then_some(level);
                line(out, &ThinkingLevel { kind, level, thinking_level });
            }
        }
    }

    /// Applies an update to the current message and, unless it is a silent one, writes it.
    pub fn update(&mut self, update: &Update, detail: Detail, out: &mut Vec<u8>) {
        let Some(growing) = &mut self.growing else { return };
        growing.fold(update);
        let names_calls = self.level == Level::PiDelta || detail == Detail::Step;
        let Some(step) = Step::of(update, names_calls, self.level) else { return };
        let stream = if detail == Detail::Step { Stream::Deltas } else { self.stream };
        match stream {
            Stream::Deltas => {
                out.extend_from_slice(br#"{"type":"message_update","usage":"#);
                out.extend_from_slice(growing.usage());
                out.extend_from_slice(br#","assistantMessageEvent":"#);
                step.write(out);
                out.extend_from_slice(b"}\n");
            }
            Stream::Snapshots => {
                out.extend_from_slice(br#"{"type":"message_update","assistantMessageEvent":"#);
                step.write(out);
                out.pop();
                out.extend_from_slice(br#","partial":"#);
                growing.write(out);
                out.extend_from_slice(br#"},"message":"#);
                growing.write(out);
                out.extend_from_slice(b"}\n");
            }
        }
    }

    fn shaped<'a>(&self, message: &'a Message) -> Shaped<'a> {
        Shaped { message, level: self.level }
    }

    fn all_shaped<'a>(&self, messages: &'a [Arc<Message>]) -> Vec<Shaped<'a>> {
        messages.iter().map(|message| self.shaped(message)).collect()
    }
}

/// One record, one line.
fn line(out: &mut Vec<u8>, record: &impl Serialize) {
    serde_json::to_writer(&mut *out, record).expect("our own shapes can be written");
    out.push(b'\n');
}

fn write_id(id: Option<&RawValue>, out: &mut Vec<u8>) {
    out.push(b'{');
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        out.extend_from_slice(id.get().as_bytes());
        out.push(b',');
    }
}

#[derive(Serialize)]
struct Bare {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Settled {
    #[serde(rename = "type")]
    kind: &'static str,
    aborted: bool,
}

#[derive(Serialize)]
struct Ready<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'a str,
}

#[derive(Serialize)]
struct About<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Shaped<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnEnd<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Shaped<'a>,
    tool_results: Vec<Shaped<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentEnd<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    messages: Vec<Shaped<'a>>,
    will_retry: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryStart<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    attempt: u32,
    max_attempts: u32,
    delay_ms: u64,
    error_message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryEnd<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    success: bool,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExtensionError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    extension_path: &'a str,
    event: &'a str,
    error: &'a str,
}

#[derive(Serialize)]
struct TtsrTriggered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    rules: Vec<&'a Rule>,
}

#[derive(Serialize)]
struct EntryAppended<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    entry: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueueUpdate<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    steering: &'a [String],
    follow_up: &'a [String],
}

#[derive(Serialize)]
struct BashUpdate<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    delta: &'a str,
}

#[derive(Serialize)]
struct SessionInfo<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct SessionError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: &'a str,
}

#[derive(Serialize)]
struct ThinkingLevel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    level: &'a str,
    /// The same, under the name that xcsh and omp use.
    #[serde(rename = "thinkingLevel", skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_call_id: &'a str,
    tool_name: &'a str,
}

impl<'a> Tool<'a> {
    fn about(kind: &'static str, call: &'a ToolCall) -> Tool<'a> {
        Tool { kind, tool_call_id: &call.id, tool_name: &call.name }
    }
}

#[derive(Serialize)]
struct ToolStart<'a> {
    #[serde(flatten)]
    tool: Tool<'a>,
    args: &'a Arguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolUpdate<'a> {
    #[serde(flatten)]
    tool: Tool<'a>,
    args: &'a Arguments,
    partial_result: &'a ToolOutput,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolEnd<'a> {
    #[serde(flatten)]
    tool: Tool<'a>,
    result: &'a ToolOutput,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

/// An update of the current message, as clients expect it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Step<'a> {
    TextStart {
        content_index: usize,
    },
    TextDelta {
        content_index: usize,
        delta: &'a str,
    },
    TextEnd {
        content_index: usize,
        content: &'a str,
    },
    ThinkingStart {
        content_index: usize,
    },
    ThinkingDelta {
        content_index: usize,
        delta: &'a str,
    },
    ThinkingEnd {
        content_index: usize,
        content: &'a str,
    },
    #[serde(rename = "toolcall_start")]
    CallStart {
        content_index: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<&'a str>,
    },
    #[serde(rename = "toolcall_delta")]
    CallDelta {
        content_index: usize,
        delta: &'a str,
    },
    #[serde(rename = "toolcall_end")]
    CallEnd {
        content_index: usize,
        tool_call: ShapedCall<'a>,
    },
}

impl<'a> Step<'a> {
    /// The update on the wire; `None` for what only later snapshots show. `names_calls` is whether
    /// the start of a call has its name.
    fn of(update: &'a Update, names_calls: bool, level: Level) -> Option<Step<'a>> {
        Some(match update {
            Update::TextStart { index } => Step::TextStart { content_index: *index },
            Update::TextDelta { index, delta } => Step::TextDelta { content_index: *index, delta },
            Update::TextEnd { index, content, .. } => {
                Step::TextEnd { content_index: *index, content }
            }
            Update::ThinkingStart { index } => Step::ThinkingStart { content_index: *index },
            Update::ThinkingDelta { index, delta } => {
                Step::ThinkingDelta { content_index: *index, delta }
            }
            Update::ThinkingEnd { index, content, .. } => {
                Step::ThinkingEnd { content_index: *index, content }
            }
            Update::CallStart { index, id, name } => Step::CallStart {
                content_index: *index,
                id: names_calls.then_some(id),
                tool_name: names_calls.then_some(name),
            },
            Update::CallDelta { index, delta } => Step::CallDelta { content_index: *index, delta },
            Update::CallEnd { index, call } => {
                Step::CallEnd { content_index: *index, tool_call: tool_call(call, level) }
            }
            Update::Usage(_) | Update::ResponseId(_) | Update::ResponseModel(_) => return None,
        })
    }

    /// As JSON. Almost all updates are pieces of text, and there are very many, so their fixed
    /// parts are copied and not formatted.
    fn write(&self, out: &mut Vec<u8>) {
        let (head, index, delta) = match self {
            Step::TextDelta { content_index, delta } => (TEXT_DELTA, content_index, delta),
            Step::ThinkingDelta { content_index, delta } => (THINKING_DELTA, content_index, delta),
            Step::CallDelta { content_index, delta } => (CALL_DELTA, content_index, delta),
            _ => return serde_json::to_writer(out, self).expect("a vector takes every byte"),
        };
        out.extend_from_slice(head);
        serde_json::to_writer(&mut *out, index).expect("a vector takes every byte");
        out.extend_from_slice(br#","delta":"#);
        write_json(out, delta);
        out.push(b'}');
    }
}

const TEXT_DELTA: &[u8] = br#"{"type":"text_delta","contentIndex":"#;
const THINKING_DELTA: &[u8] = br#"{"type":"thinking_delta","contentIndex":"#;
const CALL_DELTA: &[u8] = br#"{"type":"toolcall_delta","contentIndex":"#;
