//! One run without a host: `-p` prints the answer, `--mode json` prints the events.
//!
//! Both are clients of the same server in the same process: they send prompts as lines and read the
//! records, like any other client.

pub(crate) mod screen;
pub(crate) mod wording;

use std::io::{ErrorKind, IsTerminal, Read, Stderr, Stdout, Write};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tiller_agent::limits::{LimitName, ReachedLimit};
use tiller_agent::message::{AssistantMessage, Block, StopReason};
use tokio::sync::mpsc;

use crate::args::RunMode;
use crate::attachments::InitialMessage;
use crate::stdio::listen_for_signals;
use crate::usage::USAGE;
use screen::Screen;
use tiller_server::ServerConfig;
use tiller_server::connection::{Channels, ClientInput};
use tiller_server::lines::{LINE_MAX_BYTES, Line, Lines};
use tiller_server::out::{Drain, pipe};
use tiller_server::server::{INPUTS_MAX, OnEof, serve};
use wording::readable;

/// Sends the messages one after the other and prints the results. Returns the exit code.
pub async fn run(mode: RunMode, mut launch: ServerConfig, messages: Vec<InitialMessage>) -> u8 {
    launch.on_eof = OnEof::Finish;
    if mode == RunMode::Json
        && let Err(why) = print(&session_header(&launch))
    {
        print_stderr(&why);
        return 1;
    }
    let (lines_sender, lines) = mpsc::channel(INPUTS_MAX);
    let (control_sender, control) = mpsc::channel(INPUTS_MAX);
    let (pipe, drain, caught_up) = pipe();
    listen_for_signals(control_sender);
    let channels = Channels { lines, control, pipe, caught_up };
    let model = launch.model.as_ref();
    let model = model.map(|model| format!("{}/{}", model.provider, model.id)).unwrap_or_default();
    let server = serve(launch, channels);
    let screen = match mode {
        RunMode::Text => screen_of_process(model),
        RunMode::Json | RunMode::Rpc | RunMode::Acp => {
            Screen::new(std::io::stdout(), std::io::stderr(), model)
        }
    };
    let client = Client {
        mode,
        lines: lines_sender,
        drain,
        screen,
        outcome: Outcome::default(),
        failure: None,
        unwritable: None,
        retries: 0,
        prompts_sent: 0,
    };
    let (code, outcome) = tokio::join!(server, client.talk(messages));
    match outcome {
        Ok(outcome) if code == 0 => outcome.print(),
        Ok(_) => code,
        // A start-up error was already printed, and explains why there is no answer.
        Err(_) if code == 1 || code == USAGE => code,
        Err(why) => {
            print_stderr(&why);
            code.max(1)
        }
    }
}

/// The exit code if an answer was cut off at the output limit.
const CUT_OFF: u8 = 3;
/// The exit code if a limit of the session ended a run.
const LIMIT_REACHED: u8 = 4;

/// On a terminal the answer is printed as it streams, and progress goes to stderr.
fn screen_of_process(model: String) -> Screen<Stdout, Stderr> {
    let out = std::io::stdout();
    let err = std::io::stderr();
    let streams = out.is_terminal();
    let erases = err.is_terminal();
    let mut screen = Screen::new(out, err, model);
    (screen.streams, screen.erases, screen.shows_notes) = (streams, erases, streams || erases);
    screen
}

/// The result of all messages.
#[derive(Default)]
struct Outcome {
    /// The last answer, unless it was already shown.
    answer: Option<String>,
    /// Tokens of the last answer, if it was cut off at the output limit.
    cut: Option<u64>,
    /// Whether any answer was cut off.
    any_cut: bool,
    /// The limit that ended the current run.
    limit: Option<ReachedLimit>,
    /// Whether a limit ended any run.
    any_limit: bool,
}

impl Outcome {
    /// Returns the exit code.
    fn print(self) -> u8 {
        match print(self.answer.unwrap_or_default().as_bytes()) {
            Ok(()) if self.any_limit => LIMIT_REACHED,
            Ok(()) if self.any_cut => CUT_OFF,
            Ok(()) => 0,
            Err(why) => {
                print_stderr(&why);
                1
            }
        }
    }
}

/// Reads stdin to its end.
pub fn piped() -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Client {
    mode: RunMode,
    lines: mpsc::Sender<ClientInput>,
    drain: Drain,
    screen: Screen<Stdout, Stderr>,
    outcome: Outcome,
    failure: Option<String>,
    /// Why stdout cannot be written any more.
    unwritable: Option<String>,
    /// How often the failed request was retried.
    retries: u64,
    /// The number of messages sent, which numbers the requests.
    prompts_sent: usize,
}

/// The fields of a record that are used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    success: Option<bool>,
    error: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    data: Option<State>,
    assistant_message_event: Option<PrintStep>,
    tool_name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    is_error: Option<bool>,
    attempt: Option<u64>,
    max_attempts: Option<u64>,
    delay_ms: Option<u64>,
    error_message: Option<String>,
    limit: Option<LimitName>,
    max: Option<f64>,
    used: Option<f64>,
}

impl Record<'_> {
    fn reached_limit(&self) -> Option<ReachedLimit> {
        Some(ReachedLimit { limit: self.limit?, max: self.max?, used: self.used? })
    }
}

/// A delta of an answer.
#[derive(Deserialize)]
struct PrintStep {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<String>,
}

/// The fields of the state that are used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    is_streaming: Option<bool>,
}

impl Client {
    /// Ends by dropping its sender, which the server takes as the end of input.
    async fn talk(mut self, messages: Vec<InitialMessage>) -> Result<Outcome, String> {
        let mut records = Lines::new(LINE_MAX_BYTES * 16);
        for InitialMessage { text, images } in messages {
            self.prompts_sent += 1;
            let id = format!("prompt-{}", self.prompts_sent);
            let prompt = json!({"id": id, "type": "prompt", "message": text, "images": images});
            let line = Line::Text(prompt.to_string().into_bytes());
            // If the server is gone, the record channel is closed too, and read() notices.
            self.lines.send(ClientInput::Lines(vec![line])).await.ok();
            while !self.read(&mut records).await {}
            if self.unwritable.is_some() {
                // Later messages would fail too.
                let abort = Line::Text(br#"{"type":"abort"}"#.to_vec());
                self.lines.send(ClientInput::Lines(vec![abort])).await.ok();
            }
            self.warn_if_limited();
            if self.failure.is_some() || self.unwritable.is_some() {
                break;
            }
            self.warn_if_cut();
        }
        self.lines.send(ClientInput::EndOfInput).await.ok();
        while self.drain.next().await.is_some() {}
        match self.unwritable.or(self.failure) {
            Some(why) if self.retries > 0 => {
                let times = if self.retries == 1 { "retry" } else { "retries" };
                Err(format!("{why}\n\nGave up after {} {times}.", self.retries))
            }
            Some(why) => Err(why),
            None => Ok(self.outcome),
        }
    }

    /// Handles the next chunk. Returns true when the run has ended, or the server has.
    async fn read(&mut self, records: &mut Lines) -> bool {
        let Some(chunk) = self.drain.next().await else { return true };
        let mut lines = Vec::new();
        records.push(&chunk, |line| lines.push(line));
        self.drain.wrote(chunk.len());
        let mut settled = false;
        for line in lines {
            if let Line::Text(line) = line {
                settled |= self.record(&line);
            }
        }
        settled
    }

    fn record(&mut self, line: &[u8]) -> bool {
        let Ok(record) = serde_json::from_slice::<Record>(line) else { return false };
        match record.kind.as_str() {
            "response" => {
                if record.success == Some(false) {
                    self.failure = record.error;
                    return true;
                }
                return self.response(record.id.as_deref(), record.data);
            }
            "message_end" => self.note_answer(record.message),
            "limit_reached" => self.outcome.limit = record.reached_limit(),
            "auto_retry_end" if record.success == Some(false) => {
                self.retries = record.attempt.unwrap_or_default();
            }
            _ => self.screen.show(&record),
        }
        if self.mode == RunMode::Json
            && let Err(why) = print(line)
        {
            self.unwritable = Some(why);
        }
        record.kind == "agent_settled" || self.unwritable.is_some()
    }

    /// A prompt that an extension handles starts no run. So the client asks for the state: if
    /// nothing runs, there is nothing to wait for.
    fn response(&mut self, id: Option<&str>, state: Option<State>) -> bool {
        let (prompt, question) =
            (format!("prompt-{}", self.prompts_sent), format!("state-{}", self.prompts_sent));
        if id == Some(&prompt) {
            let line = json!({"id": question, "type": "get_state"}).to_string().into_bytes();
            // If the server is gone, the record channel is closed too, and read() notices.
            self.lines.try_send(ClientInput::Lines(vec![Line::Text(line)])).ok();
            return false;
        }
        let is_idle = state.is_some_and(|state| state.is_streaming == Some(false));
        id == Some(&question) && is_idle
    }

    fn note_answer(&mut self, message: Option<&RawValue>) {
        let message = message.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let is_answer = |message: &Value| message["role"] == "assistant";
        let Some(message) = message.filter(is_answer) else { return };
        let Ok(message) = AssistantMessage::deserialize(&message) else { return };
        self.failure = match message.stop_reason {
            StopReason::Error | StopReason::Aborted => {
                let why = message.error_message.as_deref().map(readable);
                let why = why.unwrap_or_else(|| "the request failed".to_owned());
                let hint = message.error_hint.map(|hint| format!("\n\n{hint}"));
                Some(why + &hint.unwrap_or_default())
            }
            _ => None,
        };
        self.outcome.cut =
            (message.stop_reason == StopReason::Length).then_some(message.usage.output);
        if self.mode == RunMode::Text {
            let answer = texts(&message.content);
            self.screen.show_message(&answer);
            self.outcome.answer = (!self.screen.streams).then_some(answer);
        }
    }

    fn warn_if_limited(&mut self) {
        let Some(reached) = self.outcome.limit.take() else { return };
        self.outcome.any_limit = true;
        if self.mode == RunMode::Text {
            print_stderr(&format!("Stopped: {reached}"));
        }
    }

    fn warn_if_cut(&mut self) {
        let Some(tokens) = self.outcome.cut.take().filter(|_| self.mode == RunMode::Text) else {
            return;
        };
        self.outcome.any_cut = true;
        let after = if tokens > 0 { format!(" after {tokens} tokens") } else { String::new() };
        print_stderr(&format!(
            "Warning: the answer was cut off at the model's output limit{after}"
        ));
    }
}

/// The text of an answer, each block on its own lines.
fn texts(content: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.clone()),
        _ => None,
    };
    content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

fn session_header(launch: &ServerConfig) -> Vec<u8> {
    let header = launch.conversation.session().header();
    let header = json!({
        "type": "session",
        "version": 3,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    });
    header.to_string().into_bytes()
}

/// Prints a line to stdout, if there is one. A closed pipe is not an error; a full disk is one.
fn print(line: &[u8]) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let newline: &[u8] = if line.is_empty() || line.ends_with(b"\n") { b"" } else { b"\n" };
    let written = stdout.write_all(line).and_then(|()| stdout.write_all(newline));
    match written.and_then(|()| stdout.flush()) {
        Err(err) if err.kind() != ErrorKind::BrokenPipe => {
            Err(format!("Error: cannot write to stdout: {err}"))
        }
        _ => Ok(()),
    }
}

/// Prints one line to stderr.
pub fn print_stderr(why: &str) {
    // There is no way to report that stderr is closed.
    writeln!(std::io::stderr().lock(), "{why}").ok();
}
