//! The server under test, and the controls to drive it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use tiller_demo::script::{ScriptFeeder, ScriptProvider};
use tiller_server::connection::{ClientInput, Signal};
use tiller_server::lines::{LINE_MAX_BYTES, Line as WireLine, Lines};
use tiller_server::session_store::SessionStore;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::disk;
use super::door::{Door, Entrance, enter};
use super::faulty::Faulty;
use super::launch::launch;
use super::printer::{EXTRAS, Printer};
use super::reader::ClientReader;
use super::transcript::{Line, Transcript, unescape};

/// A folder whose path always has the same number of tokens: the path is part of the prompt, and
/// tiller's estimates count it.
pub fn scratch_folder() -> TempDir {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let name = format!("tiller-{now:020}");
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in("/tmp").unwrap()
}

/// How long the exit may take when nothing is left to do.
const END_MAX: Duration = Duration::from_secs(10);

pub struct TestServer {
    lines: mpsc::Sender<ClientInput>,
    control: mpsc::Sender<ClientInput>,
    framing: Lines,
    reader: ClientReader,
    task: JoinHandle<u8>,
    ended: bool,
    model: Arc<ScriptProvider>,
    feeder: ScriptFeeder,
    printer: Printer,
    wait: Duration,
    disk: Arc<Faulty>,
    /// The server's last write, record by record.
    records: Vec<Value>,
    /// The messages whose `message_end` was emitted.
    ended_messages: Vec<Value>,
    folder: TempDir,
}

impl TestServer {
    pub fn start(transcript: &Transcript, door: Door) -> Result<TestServer, String> {
        TestServer::start_behind(door, transcript, Faulty::new(None), None)
    }

    /// The same with sessions in a database.
    pub fn start_in(transcript: &Transcript, database: SessionStore) -> Result<TestServer, String> {
        TestServer::start_behind(Door::Direct, transcript, Faulty::new(None), Some(database))
    }

    /// The same on a disk that may fail.
    pub fn start_on(transcript: &Transcript, disk: Arc<Faulty>) -> Result<TestServer, String> {
        TestServer::start_behind(Door::Direct, transcript, disk, None)
    }

    fn start_behind(
        door: Door,
        transcript: &Transcript,
        disk: Arc<Faulty>,
        database: Option<SessionStore>,
    ) -> Result<TestServer, String> {
        let folder = scratch_folder();
        for (path, content) in &transcript.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let content = content.replace("FOLDER", &folder.path().to_string_lossy());
            std::fs::write(path, content).unwrap();
        }
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/extensions");
        for name in transcript.options.get("examples").into_iter().flat_map(|all| all.split(' ')) {
            std::fs::copy(examples.join(name), folder.path().join(name)).unwrap();
        }
        let (model, feeder) = ScriptProvider::live();
        let launch = launch(transcript, &folder, model.clone(), disk.files(), database)?;
        let Entrance { lines, control, output, task } = enter(door, launch);
        let reader = ClientReader::new(output, control.clone());
        Ok(TestServer {
            lines,
            control,
            framing: Lines::new(LINE_MAX_BYTES),
            reader,
            task,
            ended: false,
            model,
            feeder,
            printer: Printer::new(&transcript.options, folder.path()),
            wait: Duration::ZERO,
            disk,
            records: Vec::new(),
            ended_messages: Vec::new(),
            folder,
        })
    }

    /// Asks for numbers and results, which are checked and not printed.
    pub fn ask_for_extras(&mut self) -> Result<(), String> {
        self.printer.hide_extras();
        self.take(&[Line::Client(EXTRAS.to_owned())])
    }

    /// No call of these tools may run without an approval.
    pub fn guard(&mut self, tools: &'static [&'static str]) {
        self.printer.guard(tools);
    }

    /// How many requests to the user there were.
    pub fn ui_requests(&self) -> usize {
        self.printer.ui_requests()
    }

    /// Applies a group of transcript lines.
    pub fn take(&mut self, group: &[Line]) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut closes = false;
        for line in group {
            match line {
                Line::Client(text) => {
                    bytes.extend_from_slice(self.printer.with_ids(text).as_bytes());
                    bytes.push(b'\n');
                }
                Line::Bytes(text) => bytes.extend(unescape(text)?),
                Line::Eof => closes = true,
                Line::Model(text) => self.feeder.feed(text).map_err(|err| err.to_string())?,
                Line::Clock(ms) => self.wait = Duration::from_millis(*ms),
                Line::Reader(mood) => self.reader.change(*mood),
                Line::Signal(name) => self.signal(name)?,
            }
        }
        let mut said = Vec::new();
        self.framing.push(&bytes, |line| said.push(line));
        if closes {
            self.control.try_send(ClientInput::LastLines).ok();
            let framing = std::mem::replace(&mut self.framing, Lines::new(LINE_MAX_BYTES));
            said.extend(framing.finish());
        }
        for line in &said {
            if let WireLine::Text(text) = line {
                self.printer.sent(&String::from_utf8_lossy(text))?;
            }
        }
        // A server that has ended receives nothing more; the transcript shows that.
        if !said.is_empty() {
            self.lines.try_send(ClientInput::Lines(said)).ok();
        }
        if closes {
            self.lines.try_send(ClientInput::EndOfInput).ok();
        }
        Ok(())
    }

    /// The same where a line of the model may not fit the answer in progress.
    pub fn take_leniently(&mut self, group: &[Line]) -> Result<(), String> {
        match group {
            [Line::Model(text)] => {
                self.feeder.feed(text).ok();
                Ok(())
            }
            other => self.take(other),
        }
    }

    /// Waits for the end after EOF or a signal. Returns how many prompts had a result, and how many
    /// calls the client has allowed.
    pub async fn end(mut self, played: &mut String) -> Result<(usize, usize), String> {
        let deadline = Instant::now() + END_MAX;
        while !self.task.is_finished() {
            if Instant::now() > deadline {
                return Err("the server does not end".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.settle(played).await?;
        self.printer.finish()?;
        Ok((self.printer.results(), self.printer.allowed_calls()))
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn ended_messages(&self) -> &[Value] {
        &self.ended_messages
    }

    /// The response to this command in the last write.
    pub fn answer(&self, command: &str) -> &Value {
        let answer = self.records.iter().rfind(|record| record["command"] == command);
        answer.unwrap_or(&Value::Null)
    }

    /// Stores complete records. A write ends with one.
    fn note(&mut self, read: &[u8]) {
        let lines = read.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        self.records = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let ended = self.records.iter().filter(|record| record["type"] == "message_end");
        self.ended_messages.extend(ended.map(|record| record["message"].clone()));
    }

    fn signal(&self, name: &str) -> Result<(), String> {
        if let Some(words) = name.strip_prefix("disk ") {
            return disk::change(&self.disk, words);
        }
        let path = |name: &str| self.folder().join(name);
        let words: Vec<&str> = name.split(' ').collect();
        match *words {
            ["move", from, to] => {
                return std::fs::rename(path(from), path(to)).map_err(|err| err.to_string());
            }
            ["remove", gone] => {
                return std::fs::remove_file(path(gone)).map_err(|err| err.to_string());
            }
            _ => {}
        }
        let signal = match name {
            "SIGINT" => Signal::Interrupt,
            "SIGTERM" => Signal::Terminate,
            "SIGHUP" => Signal::HangUp,
            _ => return Err(format!("{name} is no signal we know")),
        };
        self.control.try_send(ClientInput::Signal(signal)).ok();
        Ok(())
    }

    /// Waits until every task is idle, and prints the output.
    pub async fn settle(&mut self, played: &mut String) -> Result<(), String> {
        // The clock stands still while any task works, blocking threads included; a sleep ends only
        // when all others wait too.
        let wait = std::mem::take(&mut self.wait);
        tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
        let mut printed = Ok(());
        while printed.is_ok() {
            let read = self.reader.take();
            if read.is_empty() {
                break;
            }
            self.note(&read);
            printed = self.printer.print(&read);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.printer.requests(&self.model.requests());
        played.push_str(&self.printer.take());
        printed?;
        if self.task.is_finished() && !self.ended {
            self.ended = true;
            let code = (&mut self.task).await.map_err(|err| err.to_string())?;
            played.push_str(&format!("tiller> exit {code}\n"));
        }
        Ok(())
    }

    /// Closes the client's input. By now no output and no line of the model may be left.
    pub async fn finish(mut self, played: &mut String) -> Result<(), String> {
        if !self.ended {
            self.lines.try_send(ClientInput::EndOfInput).ok();
            let deadline = Instant::now() + END_MAX;
            while !self.task.is_finished() {
                if Instant::now() > deadline {
                    return Err("the server does not end".into());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.ended = true;
            let before = played.len();
            self.settle(played).await?;
            if played.len() > before {
                return Err("there was more to say when the client hung up".into());
            }
        }
        match self.model.unused().as_slice() {
            [] => {}
            lines => return Err(format!("the model was not asked for its lines {lines:?}")),
        }
        match self.model.errors().as_slice() {
            [] => {}
            errors => return Err(errors.join("; ")),
        }
        if self.reader.is_gone() {
            return Ok(());
        }
        self.printer.finish()
    }
}
