//! Turns records into what the chat prints. Pure: nothing is printed here.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use tiller_agent::limits::ReachedLimit;
use tiller_agent::message::StopReason;
use tiller_protocol::{
    AssistantMessage, Block, Message, Notice, Record, Step, ToolOutput, UiRequest,
};

use super::diff::EditSummary;
use super::line_flow::{Output, TextStream};
use super::paint::{InertText, Paint, Tone, inert};
use crate::print_mode::screen::{one_line, summary};
use crate::print_mode::wording::readable;

/// What the chat shows of a session, with what it needs to remember for that.
pub(super) struct ChatView {
    paint: Paint,
    /// The text of the model's thinking is shown.
    shows_thinking: bool,
    /// The lines of the tool calls that run, by the ids of the calls.
    calls: HashMap<String, String>,
    /// The messages of this chat that were queued, by `clientMessageId`.
    queued: HashSet<String>,
    answer: InertText,
    thinking: InertText,
    shell: InertText,
    /// The current answer has shown some text.
    has_text: bool,
}

impl ChatView {
    pub(super) fn new(paint: Paint, shows_thinking: bool) -> ChatView {
        ChatView {
            paint,
            shows_thinking,
            calls: HashMap::new(),
            queued: HashSet::new(),
            answer: InertText::default(),
            thinking: InertText::default(),
            shell: InertText::default(),
            has_text: false,
        }
    }

    pub(super) fn show_thinking(&mut self, shows_thinking: bool) {
        self.shows_thinking = shows_thinking;
    }

    /// A note beside the conversation.
    pub(super) fn note(&self, text: &str) -> Output {
        Output::Lines(self.paint.apply(Tone::Dim, &inert(text)))
    }

    pub(super) fn plain(&self, text: &str) -> Output {
        Output::Lines(inert(text))
    }

    pub(super) fn error(&self, text: &str) -> Output {
        let text = inert(text);
        let text = text.strip_prefix("Error: ").unwrap_or(&text);
        Output::Error(self.paint.apply(Tone::Red, &format!("Error: {text}")))
    }

    pub(super) fn warning(&self, text: &str) -> Output {
        Output::Error(self.paint.apply(Tone::Yellow, &format!("Warning: {}", inert(text))))
    }

    /// A question of a dialog or a list: its title stands out.
    pub(super) fn question(&self, lines: &[String]) -> Output {
        let shown = lines.iter().enumerate().map(|(at, line)| {
            let tone = if at == 0 { Tone::Bold } else { Tone::Plain };
            self.paint.apply(tone, &inert(line))
        });
        Output::Lines(shown.collect::<Vec<_>>().join("\n"))
    }

    /// A message of the user waits in a queue.
    pub(super) fn message_queued(&mut self, id: String, text: &str) -> Output {
        self.queued.insert(id);
        self.note(&format!("[queued] {}", one_line(text)))
    }

    /// What a record shows.
    pub(super) fn record(&mut self, record: &Record<'_>) -> Vec<Output> {
        match record {
            Record::MessageStart { message, client_message_id } => {
                self.message_start(message, client_message_id.as_deref())
            }
            Record::MessageUpdate { assistant_message_event, .. } => {
                self.step(&assistant_message_event.step).into_iter().collect()
            }
            Record::MessageEnd { message } => self.message_end(message),
            Record::ToolExecutionStart { tool_call_id, tool_name, args } => {
                let arguments = serde_json::to_value(args.as_ref()).unwrap_or_default();
                vec![self.call_start(tool_call_id, tool_name, &arguments)]
            }
            Record::ToolExecutionEnd { tool_call_id, tool_name, result, is_error, duration_ms } => {
                self.call_end(tool_call_id, tool_name, result, *is_error, *duration_ms)
            }
            Record::BashExecutionUpdate { delta, .. } => {
                vec![Output::Text { stream: TextStream::Shell, text: self.shell.push(delta) }]
            }
            Record::ExtensionUiRequest { request, .. } => match request.as_ref() {
                UiRequest::Notice(notice) => self.notice(notice).into_iter().collect(),
                // The loop asks the question.
                UiRequest::Dialog(_) => Vec::new(),
            },
            record => self.event(record).into_iter().collect(),
        }
    }

    fn message_start(&mut self, message: &Message<'_>, id: Option<&str>) -> Vec<Output> {
        match message {
            Message::Assistant(_) => {
                self.has_text = false;
                Vec::new()
            }
            Message::User(user) if id.is_some_and(|id| self.queued.remove(id)) => {
                let text = one_line(&inert(&user.content.text()));
                vec![self.note(&format!("[sent] {text}"))]
            }
            _ => Vec::new(),
        }
    }

    fn step(&mut self, step: &Step<'_>) -> Option<Output> {
        match step {
            Step::TextStart { .. } => {
                self.answer = InertText::default();
                Some(Output::EndOfText)
            }
            Step::TextDelta { delta, .. } => {
                let text = self.answer.push(delta);
                self.has_text |= !text.is_empty();
                Some(Output::Text { stream: TextStream::Answer, text })
            }
            Step::ThinkingStart { .. } if self.shows_thinking => {
                self.thinking = InertText::default();
                Some(Output::EndOfText)
            }
            Step::ThinkingDelta { delta, .. } if self.shows_thinking => {
                let text = self.thinking.push(delta);
                Some(Output::Text { stream: TextStream::Thinking, text })
            }
            Step::TextEnd { .. } | Step::ThinkingEnd { .. } => Some(Output::EndOfText),
            _ => None,
        }
    }

    fn message_end(&mut self, message: &Message<'_>) -> Vec<Output> {
        match message {
            Message::Assistant(answer) => self.answer_end(answer),
            Message::Custom(custom) if custom.display => {
                let text = custom.content.text();
                if text.trim().is_empty() { Vec::new() } else { vec![self.plain(text.trim_end())] }
            }
            _ => Vec::new(),
        }
    }

    fn answer_end(&mut self, answer: &AssistantMessage<'_>) -> Vec<Output> {
        let mut outputs = vec![Output::EndOfText];
        let text = texts(&answer.content);
        if !self.has_text && !text.trim().is_empty() {
            outputs.push(self.plain(text.trim_end()));
        }
        match answer.stop_reason {
            StopReason::Error => {
                let why = answer.error_message.as_deref().map(readable);
                outputs.push(self.error(why.as_deref().unwrap_or("the request failed")));
                outputs.extend(answer.error_hint.as_deref().map(|hint| self.note(hint)));
            }
            StopReason::Length => {
                outputs.push(self.warning("the answer was cut off at the model's output limit"));
            }
            _ => {}
        }
        outputs
    }

    fn call_start(&mut self, id: &str, tool: &str, arguments: &Value) -> Output {
        let about = match arguments["path"].as_str().filter(|_| tool == "edit") {
            Some(path) => one_line(path),
            None => summary(arguments),
        };
        let name = self.paint.apply(Tone::Cyan, &format!("[{}]", one_line(&inert(tool))));
        let line = format!("{name} {}", one_line(&inert(&about))).trim_end().to_owned();
        self.calls.insert(id.to_owned(), line.clone());
        Output::CallStart { id: id.to_owned(), line }
    }

    fn call_end(
        &mut self,
        id: &str,
        tool: &str,
        result: &ToolOutput,
        is_error: bool,
        duration_ms: Option<u64>,
    ) -> Vec<Output> {
        let line = self.calls.remove(id).unwrap_or_else(|| format!("[{}]", inert(tool)));
        let edit = EditSummary::of(result).filter(|_| !is_error);
        let tail = match &edit {
            _ if is_error => {
                let why = error_line(tool, &inert(&texts(&result.content)));
                self.paint.apply(Tone::Red, &format!(" failed: {why}"))
            }
            Some(edit) => format!(" {}", edit.counts()),
            None => {
                let time = duration_ms.map(|ms| format!(" {}", duration(ms))).unwrap_or_default();
                self.paint.apply(Tone::Dim, &format!(" ok{time}"))
            }
        };
        let whole = format!("{line}{tail}");
        let mut outputs = vec![Output::CallEnd { id: id.to_owned(), tail, line: whole }];
        if let Some(edit) = edit {
            let shown = edit.first_lines();
            let lines = shown
                .iter()
                .map(|(tone, line)| self.paint.apply(*tone, &format!("  {}", cut(&inert(line)))));
            outputs.extend(lines.map(Output::Lines));
        }
        outputs
    }

    fn notice(&self, notice: &Notice) -> Option<Output> {
        Some(match notice {
            Notice::Notify { message, notify_type } => match notify_type.as_deref() {
                Some("error") => self.error(message),
                Some("warning") => self.warning(message),
                _ => self.plain(message),
            },
            Notice::SetStatus { status_key, status_text: Some(text) } => {
                self.note(&format!("[{status_key}] {}", one_line(text)))
            }
            Notice::SetWidget { widget_lines: Some(lines), .. } if !lines.is_empty() => {
                self.note(&lines.join("\n"))
            }
            Notice::SetEditorText { text } => self.note(&format!("[suggested input] {text}")),
            Notice::SetStatus { .. } | Notice::SetWidget { .. } | Notice::SetTitle { .. } => {
                return None;
            }
        })
    }

    /// Events that show one line.
    fn event(&self, record: &Record<'_>) -> Option<Output> {
        Some(match record {
            Record::AgentSettled { aborted: true } => self.note("[aborted]"),
            Record::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                let wait = duration(*delay_ms);
                let why = one_line(&readable(error_message));
                self.note(&format!("[retry {attempt} of {max_attempts} in {wait}] {why}"))
            }
            Record::AutoRetryEnd { success: false, attempt, .. } => {
                self.note(&format!("[retry] gave up after attempt {attempt}"))
            }
            Record::CompactionStart { .. } => {
                self.note("[compaction] summarizing the conversation …")
            }
            Record::CompactionEnd { result: Some(Some(result)), .. } => self.note(&format!(
                "[compaction] {} tokens became about {}",
                result.tokens_before, result.estimated_tokens_after
            )),
            Record::CompactionEnd { aborted: true, .. } => self.note("[compaction] aborted"),
            Record::CompactionEnd { error_message: Some(why), .. } => self.error(why),
            Record::SummarizationRetryScheduled {
                attempt, max_attempts, error_message, ..
            } => {
                let why = one_line(&readable(error_message));
                self.note(&format!("[compaction] retry {attempt} of {max_attempts}: {why}"))
            }
            Record::LimitReached { limit, max, used } => {
                let reached = ReachedLimit { limit: *limit, max: *max, used: *used };
                self.warning(&reached.to_string())
            }
            Record::TtsrTriggered { rules } => {
                let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
                self.note(&format!("[rule] {}", names.join(", ")))
            }
            Record::TodoReminder { todos, .. } => {
                self.note(&format!("[todo] {} open tasks; the model is reminded", todos.len()))
            }
            Record::ExtensionError { extension_path, error, .. } => {
                self.error(&format!("{extension_path}: {error}"))
            }
            Record::SessionError { error } => self.error(error),
            Record::SessionInfoChanged { name: Some(name) } => self.note(&format!("[name] {name}")),
            Record::ThinkingLevelChanged { level, .. } => {
                self.note(&format!("[thinking] {}", level.name()))
            }
            _ => return None,
        })
    }
}

/// The line of a failed call's result that says most: a command's output ends with its error.
fn error_line(tool: &str, text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let line = if tool == "bash" { lines.next_back() } else { lines.next() };
    one_line(line.unwrap_or("without a reason"))
}

fn texts(content: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.clone()),
        _ => None,
    };
    content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// A line of a file, cut to a usual width. Its indentation stays.
fn cut(line: &str) -> String {
    const CHARS_MAX: usize = 100;
    match line.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", Duration::from_millis(ms).as_secs_f64()),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

#[cfg(test)]
mod tests;
