//! The server under test, and the hands that move it.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tiller::clock::Clock;
use tiller::credentials::Credentials;
use tiller::launch::{Launch, Workplace};
use tiller::models::Models;
use tiller::rpc::lines::Line as WireLine;
use tiller::rpc::out::{Drain, pipe};
use tiller::rpc::server::{Channels, INPUTS_MAX, Input, OnEof, Signal, serve};
use tiller::rpc::wire::Level;
use tiller::settings::Settings;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_llm::CacheRetention;
use tiller_llm::script::{Script, ScriptFeeder, ScriptProvider};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::printer::Printer;
use super::tools;
use super::transcript::{Line, Transcript};

pub struct TestServer {
    lines: mpsc::Sender<Input>,
    control: mpsc::Sender<Input>,
    drain: Drain,
    task: JoinHandle<u8>,
    model: Arc<ScriptProvider>,
    feeder: ScriptFeeder,
    printer: Printer,
    reads: bool,
    wait: Duration,
    _folder: TempDir,
}

impl TestServer {
    pub fn start(transcript: &Transcript) -> Result<TestServer, String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in &transcript.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let (model, feeder) = ScriptProvider::live();
        let launch = launch(transcript, &folder, model.clone())?;
        let (lines, lines_receiver) = mpsc::channel(INPUTS_MAX);
        let (control, control_receiver) = mpsc::channel(INPUTS_MAX);
        let (pipe, drain, caught_up) = pipe();
        let channels =
            Channels { lines: lines_receiver, control: control_receiver, pipe, caught_up };
        let printer = Printer::new(&transcript.options, folder.path());
        let task = tokio::spawn(serve(launch, channels));
        let wait = Duration::ZERO;
        Ok(TestServer {
            lines,
            control,
            drain,
            task,
            model,
            feeder,
            printer,
            reads: true,
            wait,
            _folder: folder,
        })
    }

    /// Lets something happen.
    pub fn take(&mut self, group: &[Line]) -> Result<(), String> {
        let mut said = Vec::new();
        let mut closes = false;
        for line in group {
            match line {
                Line::Client(text) => {
                    self.printer.sent(text);
                    said.push(WireLine::Text(text.clone().into_bytes()));
                }
                Line::Eof => closes = true,
                Line::Model(text) => self.feeder.feed(text).map_err(|err| err.to_string())?,
                Line::Clock(ms) => self.wait = Duration::from_millis(*ms),
                Line::Reader { reads } => self.reads = *reads,
                Line::Signal(name) => {
                    let signal = match name.as_str() {
                        "SIGINT" => Signal::Interrupt,
                        "SIGTERM" => Signal::Terminate,
                        "SIGHUP" => Signal::HangUp,
                        _ => return Err(format!("{name} is no signal we know")),
                    };
                    self.control.try_send(Input::Signal(signal)).ok();
                }
            }
        }
        if !said.is_empty() {
            self.lines.try_send(Input::Lines(said)).ok();
        }
        if closes {
            self.lines.try_send(Input::EndOfInput).ok();
        }
        Ok(())
    }

    /// Waits until nobody moves any more, and prints what was said.
    pub async fn settle(&mut self, played: &mut String) -> Result<(), String> {
        // The clock stands still while anyone is at work, blocking threads included; a sleep
        // ends only when all others wait too.
        let wait = std::mem::take(&mut self.wait);
        tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
        if !self.reads {
            return Ok(());
        }
        loop {
            let mut chunks = Vec::new();
            while let Some(chunk) = self.drain.try_next() {
                self.drain.wrote(chunk.len());
                chunks.extend(chunk);
            }
            if chunks.is_empty() {
                break;
            }
            self.printer.print(&chunks)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.printer.requests(&self.model.requests());
        played.push_str(&self.printer.take());
        if self.task.is_finished() && !self.printer.said_exit {
            self.printer.said_exit = true;
            let code = (&mut self.task).await.map_err(|err| err.to_string())?;
            played.push_str(&format!("tiller> exit {code}\n"));
        }
        Ok(())
    }

    /// The client hangs up. By now nothing may be left to say, and no line of the model unheard.
    pub async fn finish(mut self, played: &mut String) -> Result<(), String> {
        if !self.printer.said_exit {
            self.lines.try_send(Input::EndOfInput).ok();
            let deadline = Instant::now() + Duration::from_secs(10);
            while !self.task.is_finished() {
                if Instant::now() > deadline {
                    return Err("the server does not end".into());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let before = played.len();
            self.printer.said_exit = true;
            self.settle(played).await?;
            if played.len() > before {
                return Ok(());
            }
        }
        match self.model.unused().as_slice() {
            [] => {}
            lines => return Err(format!("the model was not asked for its lines {lines:?}")),
        }
        match self.model.complaints().as_slice() {
            [] => {}
            complaints => return Err(complaints.join("; ")),
        }
        self.printer.finish()
    }
}

fn launch(
    transcript: &Transcript,
    folder: &TempDir,
    model: Arc<ScriptProvider>,
) -> Result<Launch, String> {
    let option = |name: &str| transcript.options.get(name).map(String::as_str);
    let level = match option("wire") {
        None | Some("pi") => Level::Pi,
        Some("pi-delta") => Level::PiDelta,
        Some("xcsh") => Level::Xcsh,
        Some(other) => return Err(format!("{other} is no wire level")),
    };
    let on_eof = if option("on-eof") == Some("finish") { OnEof::Finish } else { OnEof::Abort };
    let settings = Settings::default();
    let mut models = Models::new(Credentials::default(), &settings, CacheRetention::Short);
    let scripted = Script::model();
    let plain = Model { id: "plain".into(), reasoning: false, ..scripted.clone() };
    models.add_builtin(scripted, model.clone());
    models.add_builtin(plain, model);
    let chosen = match option("model") {
        Some("none") => None,
        Some(pattern) => Some(models.resolve(None, pattern)?.0),
        None => Some(models.resolve(None, "tiller/script")?.0),
    };
    let known = tiller_tools::builtin().into_iter().chain(tools::all());
    let names: Vec<&str> = option("tools").unwrap_or("read ls").split(' ').collect();
    let tools = known.filter(|tool| names.contains(&tool.name())).collect();
    Ok(Launch {
        level,
        on_eof,
        settings,
        models,
        model: chosen,
        thinking: ThinkingLevel::Medium,
        workplace: Workplace::new(folder.path().to_owned(), tools),
        session_id: "the-session".into(),
        name: None,
        clock: Clock::From { start: 1_700_000_000_000, since: Instant::now() },
        diagnostics: Vec::new(),
    })
}
