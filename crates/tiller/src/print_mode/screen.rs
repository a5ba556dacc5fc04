//! What a user at a terminal sees during a run: the streamed text, and progress notes about tools,
//! retries and waiting.
//!
//! Decides what goes where, and writes to the given writers.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::Value;

use super::Record;
use super::wording::readable;

/// What one record shows.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// A text block begins.
    Block,
    Text(String),
    /// A note beside the answer.
    Note(String),
    /// A waiting indicator, replaced by the next output.
    Waiting,
    MessageEnd,
}

pub(super) struct Screen<Out, Err> {
    pub(super) out: Out,
    pub(super) err: Err,
    /// stdout is a terminal, so the answer is shown as it streams.
    pub(super) streams: bool,
    pub(super) shows_notes: bool,
    /// stderr is a terminal, so a line can be erased.
    pub(super) erases: bool,
    /// The model that is waited for.
    pub(super) model: String,
    line: ScreenLine,
    /// Whether any text of this message was shown.
    has_text: bool,
}

/// Where the cursor is.
#[derive(Clone, Copy, PartialEq)]
enum ScreenLine {
    Start,
    InText,
    InWaiting,
}

impl<Out: Write, Err: Write> Screen<Out, Err> {
    pub(super) fn new(out: Out, err: Err, model: String) -> Screen<Out, Err> {
        let streams = false;
        let shows_notes = false;
        let erases = false;
        Screen {
            out,
            err,
            streams,
            shows_notes,
            erases,
            model,
            line: ScreenLine::Start,
            has_text: false,
        }
    }

    /// Shows a record. Write errors are ignored: the terminal is gone.
    pub(super) fn show(&mut self, record: &Record) {
        if let Some(shown) = shown(record) {
            self.write(&shown).ok();
        }
    }

    /// Shows a finished answer, unless it was streamed already.
    pub(super) fn show_message(&mut self, text: &str) {
        if self.streams && !self.has_text && !text.is_empty() {
            self.write(&Shown::Text(text.to_owned())).ok();
        }
        self.write(&Shown::MessageEnd).ok();
    }

    fn write(&mut self, shown: &Shown) -> io::Result<()> {
        match shown {
            Shown::Block if self.streams => self.begin_line(),
            Shown::Text(text) if self.streams => {
                if self.line == ScreenLine::InWaiting {
                    self.begin_line()?;
                }
                let text = printable(text);
                if !text.is_empty() {
                    self.out.write_all(text.as_bytes())?;
                    self.line =
                        if text.ends_with('\n') { ScreenLine::Start } else { ScreenLine::InText };
                    self.has_text = true;
                }
                self.out.flush()
            }
            Shown::Note(note) if self.shows_notes => {
                self.begin_line()?;
                writeln!(self.err, "{}", printable(note))
            }
            Shown::Waiting if self.shows_notes && self.erases => {
                self.begin_line()?;
                write!(self.err, "waiting for {} …", printable(&self.model))?;
                self.line = ScreenLine::InWaiting;
                self.err.flush()
            }
            Shown::MessageEnd => {
                self.has_text = false;
                self.begin_line()
            }
            Shown::Block | Shown::Text(_) | Shown::Note(_) | Shown::Waiting => Ok(()),
        }
    }

    fn begin_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.line, ScreenLine::Start) {
            ScreenLine::Start => Ok(()),
            ScreenLine::InText => {
                self.out.write_all(b"\n")?;
                self.out.flush()
            }
            ScreenLine::InWaiting => {
                self.err.write_all(b"\r\x1b[K")?;
                self.err.flush()
            }
        }
    }
}

fn shown(record: &Record) -> Option<Shown> {
    match &*record.kind {
        "turn_start" => Some(Shown::Waiting),
        "message_update" => {
            let step = record.assistant_message_event.as_ref()?;
            match &*step.kind {
                "text_start" => Some(Shown::Block),
                "text_delta" => Some(Shown::Text(step.delta.clone()?)),
                _ => None,
            }
        }
        "tool_execution_start" => {
            let arguments = record.args.and_then(|args| serde_json::from_str(args.get()).ok());
            let about = arguments.as_ref().map(summary).unwrap_or_default();
            let tool = record.tool_name.as_deref()?;
            Some(Shown::Note(format!("[{tool}] {about}").trim_end().to_owned()))
        }
        "tool_execution_end" if record.is_error == Some(true) => {
            Some(Shown::Note(format!("[{}] failed", record.tool_name.as_deref()?)))
        }
        "auto_retry_start" => {
            let attempt = record.attempt?;
            let of = record.max_attempts?;
            let seconds = record.delay_ms? as f64 / 1000.0;
            let why = readable(record.error_message.as_deref().unwrap_or_default());
            let why = one_line(&why);
            Some(Shown::Note(format!("[retry {attempt} of {of} in {seconds} s] {why}")))
        }
        "compaction_start" | "auto_compaction_start" => {
            Some(Shown::Note("[compaction] summarizing the conversation …".to_owned()))
        }
        _ => None,
    }
}

/// The most telling argument of a call.
pub(crate) fn summary(arguments: &Value) -> String {
    const MAIN_ARGUMENTS: [&str; 6] = ["command", "path", "pattern", "query", "url", "file_path"];
    let main_argument = MAIN_ARGUMENTS.iter().find_map(|name| arguments[*name].as_str());
    match (main_argument, arguments.as_object().is_some_and(|all| all.is_empty())) {
        (Some(text), _) => one_line(text),
        (None, true) => String::new(),
        (None, false) => one_line(&arguments.to_string()),
    }
}

/// A text without line breaks, cut to a usual width.
pub(crate) fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}

/// Removes control characters: a model or a file could move the cursor, or worse.
fn printable(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_obeyed) { text.replace(is_obeyed, "").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Both streams as one text; stderr is in angle brackets.
    fn check(records: &[&str], expect: Expect) {
        let mut screen = Screen::new(Vec::new(), Vec::new(), "p/m".to_owned());
        (screen.streams, screen.shows_notes, screen.erases) = (true, true, true);
        let mut seen = String::new();
        for line in records {
            let record: Record = serde_json::from_str(line).unwrap();
            match &*record.kind {
                "message_end" => screen.show_message("All of it."),
                _ => screen.show(&record),
            }
            let (out, err) = (std::mem::take(&mut screen.out), std::mem::take(&mut screen.err));
            seen += &String::from_utf8(out).unwrap();
            if !err.is_empty() {
                seen += &format!("<{}>", String::from_utf8(err).unwrap().escape_debug());
            }
        }
        expect.assert_eq(&seen);
    }

    fn delta(text: &str) -> String {
        let step = serde_json::json!({"type": "text_delta", "delta": text});
        serde_json::json!({"type": "message_update", "assistantMessageEvent": step}).to_string()
    }

    #[test]
    fn text_and_notes_never_share_a_line() {
        check(
            &[
                r#"{"type":"turn_start"}"#,
                &delta("Let me "),
                &delta("see."),
                r#"{"type":"message_end"}"#,
                r#"{"type":"tool_execution_start","toolName":"bash","args":{"command":"ls\n -l"}}"#,
                r#"{"type":"tool_execution_end","toolName":"bash","isError":true}"#,
                r#"{"type":"tool_execution_start","toolName":"todo","args":{"n":1}}"#,
                r#"{"type":"tool_execution_end","toolName":"todo","isError":false}"#,
                r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":1500,"errorMessage":"529 {\"error\":{\"message\":\"busy\"}}"}"#,
                r#"{"type":"compaction_start"}"#,
                r#"{"type":"turn_start"}"#,
                r#"{"type":"message_end"}"#,
            ],
            expect![[r#"
                <waiting for p/m …>Let me <\r\u{1b}[K>see.
                <[bash] ls -l\n><[bash] failed\n><[todo] {\"n\":1}\n><[retry 1 of 3 in 1.5 s] 529 busy\n><[compaction] summarizing the conversation …\n><waiting for p/m …>All of it.
                <\r\u{1b}[K>"#]],
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        check(
            &[&delta("a\u{1b}[2Jb\u{7}\tc\u{9b}d\r\n")],
            expect![[r#"
            a[2Jb	cd
        "#]],
        );
    }
}
