//! Writes the server's records as lines of JSON, at one level.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use tiller_agent::event::{Event, Update};
use tiller_agent::limits::ReachedLimit;
use tiller_agent::message::{self as agent, Block, ToolCall};
use tiller_agent::todo::TodoItem;
use tiller_agent::tool::ToolOutput;

use crate::compaction;
use crate::json::Json;
use crate::message::{Message, text, tool_call, usage};
use crate::record::{OpenTodo, Record, Step};
use crate::reply::{Label, Reply, Response};
use crate::request::Refusal;
use crate::sessions::ServerRecord;
use crate::snapshot::{Snapshot, write_json};
use crate::{Level, Stream, ToolUpdates};

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
    /// The newest output of each running tool; nothing if updates carry all of it.
    tool_outputs: Option<HashMap<String, ToolOutput>>,
}

impl RecordWriter {
    pub fn new(level: Level) -> RecordWriter {
        RecordWriter { level, stream: level.stream(), growing: None, tool_outputs: None }
    }

    /// Changes the level and the form of updates, also in the middle of a message. A tool's next
    /// update then carries its whole output.
    pub fn change(&mut self, level: Level, stream: Stream, tool_updates: ToolUpdates) {
        self.level = level;
        self.stream = stream;
        self.tool_outputs = (tool_updates == ToolUpdates::Deltas).then(HashMap::new);
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
            line(out, &Record::Ready { version: version.into() });
        }
    }

    pub fn reply(&self, label: &Label, reply: Reply, out: &mut Vec<u8>) {
        write(out, &Response::success(label.id.as_deref(), label.command));
        if let Some(data) = reply.into_json() {
            out.pop();
            out.extend_from_slice(br#","data":"#);
            out.extend_from_slice(&data);
            out.push(b'}');
        }
        out.push(b'\n');
    }

    pub fn refuse(&self, id: Option<&RawValue>, refusal: &Refusal, out: &mut Vec<u8>) {
        let id = id.filter(|_| self.level.labels(refusal.kind));
        let response = Response::refusal(id, &refusal.command, &refusal.error);
        line(out, &response.with_code(refusal.code));
    }

    /// A record of a server with many sessions.
    pub fn server_record(&self, record: &ServerRecord<'_>, out: &mut Vec<u8>) {
        line(out, record);
    }

    pub fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::MessageUpdate(update) => return self.update(update, Detail::Snapshot, out),
            Event::MessageStart { message, .. } => {
                self.growing = message.as_assistant().map(|m| Snapshot::new(m, self.level));
            }
            Event::MessageEnd { .. } => self.growing = None,
            Event::ToolUpdate { call, partial } if self.tool_outputs.is_some() => {
                return self.tool_delta(call, partial, out);
            }
            Event::ToolEnd { call, .. } => {
                if let Some(outputs) = &mut self.tool_outputs {
                    outputs.remove(&call.id);
                }
            }
            _ => {}
        }
        if let Some(record) = self.record(event) {
            line(out, &record);
        }
    }

    /// Writes what a tool has added to its output, or all of it if it has changed otherwise.
    fn tool_delta(&mut self, call: &ToolCall, output: &ToolOutput, out: &mut Vec<u8>) {
        let Some(outputs) = &mut self.tool_outputs else { return };
        let delta = outputs.get(&call.id).and_then(|before| added_text(before, output));
        let record = Record::ToolExecutionUpdate {
            tool_call_id: Cow::Borrowed(&call.id),
            tool_name: Cow::Borrowed(&call.name),
            args: None,
            partial_result: delta.is_none().then_some(Cow::Borrowed(output)),
            delta: delta.map(Cow::Borrowed),
        };
        line(out, &record);
        outputs.insert(call.id.clone(), output.clone());
    }

    /// The record of an event; `None` for updates, which are not written as a whole.
    fn record<'a>(&self, event: &'a Event) -> Option<Record<'a>> {
        Some(match event {
            Event::MessageUpdate(_) => return None,
            Event::AgentStart => Record::AgentStart,
            Event::TurnStart => Record::TurnStart,
            Event::AgentSettled { aborted } => Record::AgentSettled { aborted: *aborted },
            Event::MessageStart { message, client_message_id, .. } => Record::MessageStart {
                message: self.message(message),
                client_message_id: client_message_id.as_deref().map(Cow::Borrowed),
            },
            Event::MessageEnd { message } => Record::MessageEnd { message: self.message(message) },
            Event::TurnEnd { message, results } => Record::TurnEnd {
                message: self.message(message),
                tool_results: self.messages(results),
            },
            Event::AgentEnd { messages, will_retry } => {
                Record::AgentEnd { messages: self.messages(messages), will_retry: *will_retry }
            }
            Event::ToolStart { .. }
            | Event::ToolUpdate { .. }
            | Event::ToolEnd { .. }
            | Event::HostToolCall { .. }
            | Event::HostToolCancel { .. } => return self.tool_record(event),
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                Record::AutoRetryStart {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay_ms: *delay_ms,
                    error_message: error_message.into(),
                }
            }
            Event::AutoRetryEnd { success, attempt, final_error } => Record::AutoRetryEnd {
                success: *success,
                attempt: *attempt,
                final_error: text(final_error),
            },
            Event::TtsrTriggered { rules } => {
                let rules = rules.iter().map(|rule| Cow::Borrowed(&**rule)).collect();
                Record::TtsrTriggered { rules }
            }
            Event::CompactionStart { reason } => compaction::start(*reason, self.level),
            Event::CompactionEnd { reason, result, aborted, will_retry, error_message } => {
                let level = self.level;
                let result = result.as_deref();
                compaction::end(level, *reason, result, *aborted, *will_retry, error_message)
            }
            Event::Summarization { reason, progress } => {
                compaction::summarization(*reason, progress)
            }
            Event::ExtensionUi { id, request } => {
                Record::ExtensionUiRequest { id: id.into(), request: Cow::Borrowed(request) }
            }
            Event::ExtensionError { path, event, error } => Record::ExtensionError {
                extension_path: path.into(),
                event: event.into(),
                error: error.into(),
            },
            Event::EntryAppended { entry } => Record::EntryAppended { entry: Json::from(&**entry) },
            Event::TodoReminder { todos, attempt, max_attempts } => Record::TodoReminder {
                todos: todos.iter().map(open_todo).collect(),
                attempt: *attempt,
                max_attempts: *max_attempts,
            },
            Event::TodoAutoClear => Record::TodoAutoClear,
            Event::QueueUpdate { steering, follow_up, client_message_ids } => {
                let ids = client_message_ids.as_deref();
                Record::QueueUpdate {
                    steering: steering.into(),
                    follow_up: follow_up.into(),
                    steering_ids: ids.map(|ids| Cow::Borrowed(&*ids.steering)),
                    follow_up_ids: ids.map(|ids| Cow::Borrowed(&*ids.follow_up)),
                }
            }
            Event::PromptResult(result) => Record::PromptResult {
                id: result.id.as_deref().map(Json::from),
                client_message_id: text(&result.client_message_id),
                command: Cow::Borrowed(result.command),
                status: result.status,
                reason: result.reason,
                runs: result.runs,
                turns: result.turns,
                messages: result.messages,
                usage: usage(&result.usage, self.level),
                cost: result.usage.cost.total,
                duration_ms: result.duration_ms,
                error: text(&result.error),
            },
            Event::LimitReached(ReachedLimit { limit, max, used }) => {
                Record::LimitReached { limit: *limit, max: *max, used: *used }
            }
            Event::BashUpdate { id, delta } => Record::BashExecutionUpdate {
                id: id.as_deref().map(Json::from),
                delta: delta.into(),
            },
            Event::SessionInfoChanged { name } => Record::SessionInfoChanged { name: text(name) },
            Event::SessionError { error } => Record::SessionError { error: error.into() },
            Event::McpServersChange { servers } => {
                Record::McpServersChange { servers: Cow::Borrowed(servers) }
            }
            Event::ThinkingLevelChanged { level } => Record::ThinkingLevelChanged {
                level: *level,
                thinking_level: (self.level == Level::Xcsh).then_some(*level),
            },
        })
    }

    /// The record of an event about a tool call.
    fn tool_record<'a>(&self, event: &'a Event) -> Option<Record<'a>> {
        let ids = |call: &'a ToolCall| (Cow::Borrowed(&*call.id), Cow::Borrowed(&*call.name));
        Some(match event {
            Event::ToolStart { call } => {
                let (tool_call_id, tool_name) = ids(call);
                let args = Cow::Borrowed(&call.arguments);
                Record::ToolExecutionStart { tool_call_id, tool_name, args }
            }
            Event::ToolUpdate { call, partial } => {
                let (tool_call_id, tool_name) = ids(call);
                Record::ToolExecutionUpdate {
                    tool_call_id,
                    tool_name,
                    args: Some(Cow::Borrowed(&call.arguments)),
                    partial_result: Some(Cow::Borrowed(&**partial)),
                    delta: None,
                }
            }
            Event::ToolEnd { call, result, is_error, duration_ms } => {
                let (tool_call_id, tool_name) = ids(call);
                Record::ToolExecutionEnd {
                    tool_call_id,
                    tool_name,
                    result: Cow::Borrowed(result),
                    is_error: *is_error,
                    duration_ms: duration_ms.filter(|_| self.level == Level::PiDelta),
                }
            }
            Event::HostToolCall { id, tool_call_id, tool_name, arguments } => {
                Record::HostToolCall {
                    id: id.into(),
                    tool_call_id: tool_call_id.into(),
                    tool_name: tool_name.into(),
                    arguments: Cow::Borrowed(arguments),
                }
            }
            Event::HostToolCancel { id, target_id } => {
                Record::HostToolCancel { id: id.into(), target_id: target_id.into() }
            }
            _ => return None,
        })
    }

    /// Applies an update to the current message and, unless it is a silent one, writes it. There
    /// are very many of them, so the bytes of [`Record::MessageUpdate`] are copied together here.
    pub fn update(&mut self, update: &Update, detail: Detail, out: &mut Vec<u8>) {
        let Some(growing) = &mut self.growing else { return };
        growing.fold(update);
        let names_calls = self.level == Level::PiDelta || detail == Detail::Step;
        let Some(step) = step(update, names_calls, self.level) else { return };
        let stream = if detail == Detail::Step { Stream::Deltas } else { self.stream };
        match stream {
            Stream::Deltas => {
                out.extend_from_slice(br#"{"type":"message_update","usage":"#);
                out.extend_from_slice(growing.usage());
                out.extend_from_slice(br#","assistantMessageEvent":"#);
                write_step(&step, out);
                out.extend_from_slice(b"}\n");
            }
            Stream::Snapshots => {
                out.extend_from_slice(br#"{"type":"message_update","assistantMessageEvent":"#);
                write_step(&step, out);
                out.pop();
                out.extend_from_slice(br#","partial":"#);
                growing.write(out);
                out.extend_from_slice(br#"},"message":"#);
                growing.write(out);
                out.extend_from_slice(b"}\n");
            }
        }
    }

    fn message<'a>(&self, message: &'a agent::Message) -> Message<'a> {
        Message::new(message, self.level)
    }

    fn messages<'a>(&self, messages: &'a [Arc<agent::Message>]) -> Vec<Message<'a>> {
        messages.iter().map(|message| self.message(message)).collect()
    }
}

/// One record, one line.
fn line(out: &mut Vec<u8>, record: &impl Serialize) {
    write(out, record);
    out.push(b'\n');
}

fn write(out: &mut Vec<u8>, record: &impl Serialize) {
    serde_json::to_writer(out, record).expect("our own types serialize to JSON");
}

/// The text that an output has more than an earlier one, if that is the only difference.
fn added_text<'a>(before: &ToolOutput, after: &'a ToolOutput) -> Option<&'a str> {
    let ([Block::Text { text: old, .. }], [Block::Text { text: new, .. }]) =
        (&*before.content, &*after.content)
    else {
        return None;
    };
    let has_same_rest = before.details == after.details && before.other == after.other;
    new.strip_prefix(old.as_str()).filter(|_| has_same_rest)
}

fn open_todo(item: &TodoItem) -> OpenTodo<'_> {
    let (id, content) = (Cow::Borrowed(&*item.id), Cow::Borrowed(&*item.content));
    OpenTodo { id, content, status: item.status }
}

/// The update on the wire; `None` for what only later snapshots show. `names_calls` is whether the
/// start of a call has its name.
fn step(update: &Update, names_calls: bool, level: Level) -> Option<Step<'_>> {
    Some(match update {
        Update::TextStart { index } => Step::TextStart { content_index: *index },
        Update::TextDelta { index, delta } => {
            Step::TextDelta { content_index: *index, delta: delta.into() }
        }
        Update::TextEnd { index, content, .. } => {
            Step::TextEnd { content_index: *index, content: content.into() }
        }
        Update::ThinkingStart { index } => Step::ThinkingStart { content_index: *index },
        Update::ThinkingDelta { index, delta } => {
            Step::ThinkingDelta { content_index: *index, delta: delta.into() }
        }
        Update::ThinkingEnd { index, content, .. } => {
            Step::ThinkingEnd { content_index: *index, content: content.into() }
        }
        Update::CallStart { index, id, name } => Step::CallStart {
            content_index: *index,
            id: names_calls.then(|| id.into()),
            tool_name: names_calls.then(|| name.into()),
        },
        Update::CallDelta { index, delta } => {
            Step::CallDelta { content_index: *index, delta: delta.into() }
        }
        Update::CallEnd { index, call } => {
            Step::CallEnd { content_index: *index, tool_call: tool_call(call, level) }
        }
        Update::Usage(_) | Update::ResponseId(_) | Update::ResponseModel(_) => return None,
    })
}

/// Writes a step as JSON. Almost all are pieces of text, so their fixed parts are copied and not
/// formatted.
fn write_step(step: &Step<'_>, out: &mut Vec<u8>) {
    let (head, index, delta) = match step {
        Step::TextDelta { content_index, delta } => (TEXT_DELTA, content_index, delta),
        Step::ThinkingDelta { content_index, delta } => (THINKING_DELTA, content_index, delta),
        Step::CallDelta { content_index, delta } => (CALL_DELTA, content_index, delta),
        _ => return serde_json::to_writer(out, step).expect("writing to a Vec cannot fail"),
    };
    out.extend_from_slice(head);
    serde_json::to_writer(&mut *out, index).expect("writing to a Vec cannot fail");
    out.extend_from_slice(br#","delta":"#);
    write_json(out, delta);
    out.push(b'}');
}

const TEXT_DELTA: &[u8] = br#"{"type":"text_delta","contentIndex":"#;
const THINKING_DELTA: &[u8] = br#"{"type":"thinking_delta","contentIndex":"#;
const CALL_DELTA: &[u8] = br#"{"type":"toolcall_delta","contentIndex":"#;
