//! A client that drives tiller. It waits for expected records, and fails with details if they do
//! not arrive.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes this long; a test that waits longer waits for something that will not come.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder to work in that is also the program's home.
#[derive(Clone)]
pub struct Place {
    folder: Arc<TempDir>,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: Arc::new(tempfile::tempdir().unwrap()) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn with(self, name: &str, content: &str) -> Place {
        std::fs::write(self.path().join(name), content).unwrap();
        self
    }

    /// The program without the environment of this test.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_tiller")), arguments)
    }

    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end with this on stdin.
    pub fn output(&self, arguments: &[&str], stdin: &str) -> Output {
        finish(self.command(arguments), stdin)
    }

    /// Starts it as a host would, with a script for a model.
    pub fn rpc(self, script: &str, arguments: &[&str]) -> Client {
        let place = self.with("talk.script", script);
        let mut all = vec!["--mode", "rpc", "--no-session", "--script", "talk.script"];
        all.extend(arguments);
        let command = place.command(&all);
        Client::start(command, place)
    }
}

pub fn finish(mut command: Command, stdin: &str) -> Output {
    let mut child = command.spawn().unwrap();
    // A program that does not read its input may have closed it.
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
    within_patience(move || child.wait_with_output().unwrap())
}

pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Set until the first line is read.
    unread: Option<ChildStdout>,
    lines: Option<Receiver<String>>,
    /// The last records, for the message of a failing test.
    last: VecDeque<String>,
    stderr: Tail,
    _place: Place,
}

/// How many of the last records a failure prints, and how much of each.
pub const LAST_RECORDS: usize = 10;
pub const RECORD_MAX_CHARS: usize = 400;
/// How many of the last lines of stderr it prints.
const LAST_LINES: usize = 40;

/// The last lines of stderr, read by a thread so that the pipe does not fill.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    pub fn read(&self, stderr: ChildStderr) {
        let tail = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                push(&mut tail.0.lock().unwrap(), line, LAST_LINES);
            }
        });
    }

    /// The lines, indented for the message of a failing test.
    pub fn text(&self) -> String {
        let lines = self.0.lock().unwrap();
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}

pub fn push(last: &mut VecDeque<String>, line: String, max: usize) {
    last.push_back(line);
    if last.len() > max {
        last.pop_front();
    }
}

impl Client {
    pub fn start(mut command: Command, place: Place) -> Client {
        let mut child = command.spawn().unwrap();
        let (stdin, unread) = (child.stdin.take(), child.stdout.take());
        let stderr = Tail::default();
        stderr.read(child.stderr.take().unwrap());
        let (lines, last) = (None, VecDeque::new());
        Client { child, stdin, unread, lines, last, stderr, _place: place }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub fn say(&mut self, record: &Value) {
        self.write(&format!("{record}\n"));
    }

    /// Writes from another thread, for more than a pipe holds.
    pub fn write_beside(&mut self, bytes: Vec<u8>) -> thread::JoinHandle<ChildStdin> {
        let mut stdin = self.stdin.take().unwrap();
        thread::spawn(move || {
            stdin.write_all(&bytes).unwrap();
            stdin
        })
    }

    pub fn take_back(&mut self, writing: thread::JoinHandle<ChildStdin>) {
        self.stdin = Some(writing.join().unwrap());
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes the reading end of its stdout.
    pub fn close_stdout(&mut self) {
        self.unread = None;
        self.lines = None;
    }

    /// The next line. Reading begins with the first call.
    pub fn line(&mut self) -> Option<String> {
        self.line_of("a line")
    }

    /// The next line; `awaited` describes it in a failure.
    fn line_of(&mut self, awaited: &str) -> Option<String> {
        if let Some(stdout) = self.unread.take() {
            let (sender, lines) = channel();
            thread::spawn(move || {
                // The receiver is dropped when the test ends.
                BufReader::new(stdout)
                    .lines()
                    .map_while(Result::ok)
                    .try_for_each(|line| sender.send(line))
                    .ok();
            });
            self.lines = Some(lines);
        }
        match self.lines.as_ref().unwrap().recv_timeout(PATIENCE) {
            Ok(line) => {
                let shown = line.chars().take(RECORD_MAX_CHARS).collect();
                push(&mut self.last, shown, LAST_RECORDS);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => self.fail("tiller says nothing more", awaited),
        }
    }

    /// Fails the test with what it waited for and what had arrived.
    fn fail(&self, what: &str, awaited: &str) -> ! {
        let last: Vec<String> = self.last.iter().map(|line| format!("  {line}\n")).collect();
        let (last, stderr) = (last.concat(), self.stderr.text());
        panic!("{what}; awaited: {awaited}\nlast records:\n{last}stderr:\n{stderr}");
    }

    pub fn record(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Reads until a record matches, and returns everything up to it.
    #[track_caller]
    pub fn until(&mut self, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let caller = std::panic::Location::caller();
        self.until_awaited(&format!("the condition at {caller}"), last)
    }

    fn until_awaited(&mut self, awaited: &str, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut records = Vec::new();
        loop {
            let Some(line) = self.line_of(awaited) else {
                self.fail("tiller ended too early", awaited)
            };
            records.push(serde_json::from_str(&line).unwrap());
            if last(&records[records.len() - 1]) {
                return records;
            }
        }
    }

    pub fn until_type(&mut self, kind: &str) -> Vec<Value> {
        self.until_awaited(&format!("a record of type {kind}"), |record| record["type"] == kind)
    }

    pub fn response(&mut self, id: &str) -> Value {
        let awaited = format!("the response {id}");
        self.until_awaited(&awaited, |record| record["id"] == id).pop().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Reads the remaining records and waits for the exit code.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>) {
        let mut records = Vec::new();
        while let Some(record) = self.record() {
            records.push(record);
        }
        let code = self.exit_code();
        (records, code)
    }

    pub fn stderr_text(&self) -> String {
        self.stderr.text()
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            if Instant::now() > deadline {
                self.fail("tiller does not end", "its exit");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It has usually ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The types of the records, without message and tool updates.
pub fn types(records: &[Value]) -> Vec<&str> {
    let types = records.iter().map(|record| record["type"].as_str().unwrap());
    types.filter(|kind| !matches!(*kind, "message_update" | "tool_execution_update")).collect()
}

pub fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = channel();
    thread::spawn(move || sender.send(work()).ok());
    done.recv_timeout(PATIENCE).expect("tiller does not end")
}
