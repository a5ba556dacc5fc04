//! The server under test: its process, what is written to it, and what it has written.
//!
//! Every line of the server is kept. A wait looks at the lines from a mark on, so that the order in
//! which a check asks does not matter. Every wait has a limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tiller_agent::mutex;

use super::bench::Bench;
use super::check::{NotMet, expect};
use super::home::Home;
use super::line::{ServerLine, cut};
use super::model::Model;
use super::processes::{self, Servers};

/// A start may take this many times the limit of a wait: several servers start at once.
const START_FACTOR: u32 = 3;
/// The pause between two looks at something that has no event.
const POLL: Duration = Duration::from_millis(10);
/// How much of stderr is kept.
const STDERR_MAX_BYTES: usize = 64 << 10;
/// How long a killed process may take to disappear.
const KILL_MAX: Duration = Duration::from_secs(2);

pub(super) struct Peer {
    /// Taken when the process moves to another owner.
    process: Process,
    home: Option<Home>,
    model: Option<Model>,
    /// Dropped to close stdin.
    input: Option<Sender<Vec<u8>>>,
    output: Receiver<Vec<u8>>,
    lines: Vec<ServerLine>,
    /// Lines on stdout that are no records, with the reason.
    malformed: Vec<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    requests: usize,
    wait: Duration,
    end: Instant,
    settles: bool,
}

/// The process; killed with its group when dropped.
struct Process {
    child: Child,
    servers: Arc<Servers>,
    folder: PathBuf,
}

impl Peer {
    pub(super) fn spawn(bench: &Bench, home: Home, model: Model) -> Result<Peer, NotMet> {
        let mut command = home.command(&bench.command_line, bench.level);
        let child = bench.servers.spawn(&mut command)?;
        let folder = home.root().to_owned();
        let mut process = Process { child, servers: Arc::clone(&bench.servers), folder };
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let input = process.child.stdin.take().map(write_from);
        let output = process.child.stdout.take().map(lines_of);
        if let Some(pipe) = process.child.stderr.take() {
            collect(pipe, Arc::clone(&stderr));
        }
        Ok(Peer {
            process,
            home: Some(home),
            model: Some(model),
            input,
            output: output.expect("stdout is a pipe"),
            lines: Vec::new(),
            malformed: Vec::new(),
            stderr,
            requests: 0,
            wait: bench.wait,
            end: bench.end,
            settles: bench.settles,
        })
    }

    /// Waits until the server answers its first request.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), NotMet> {
        let default = self.wait;
        self.wait = default * START_FACTOR;
        let ready = self.ask(json!({"type": "get_state"}));
        self.wait = default;
        ready.map(|_| ())
    }

    pub(super) fn model(&self) -> &Model {
        self.model.as_ref().expect("taken only by `restart`")
    }

    pub(super) fn project(&self) -> PathBuf {
        self.home.as_ref().expect("taken only by `restart`").project()
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Everything that the server has written so far.
    pub(super) fn lines(&self) -> &[ServerLine] {
        &self.lines
    }

    /// The lines from a mark on.
    pub(super) fn since(&self, mark: usize) -> &[ServerLine] {
        &self.lines[mark..]
    }

    /// The place behind the last line that was received.
    pub(super) fn mark(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn malformed(&self) -> &[String] {
        &self.malformed
    }

    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&mutex::lock(&self.stderr)).into_owned()
    }

    /// When a wait that begins now gives up.
    pub(super) fn limit(&self) -> Instant {
        (Instant::now() + self.wait).min(self.end)
    }

    /// Writes these bytes at once.
    pub(super) fn write(&mut self, bytes: impl Into<Vec<u8>>) {
        if let Some(input) = &self.input {
            // The thread ends if the server does; the next wait notices that.
            input.send(bytes.into()).ok();
        }
    }

    pub(super) fn send(&mut self, request: &Value) {
        self.write(format!("{request}\n"));
    }

    pub(super) fn close_stdin(&mut self) {
        self.input = None;
    }

    /// Waits for a line from the mark on, and returns its index.
    pub(super) fn wait(
        &mut self,
        mark: usize,
        what: &str,
        is_met: impl Fn(&ServerLine) -> bool,
    ) -> Result<usize, NotMet> {
        let limit = self.limit();
        let mut next = mark;
        loop {
            if let Some(at) = self.lines[next..].iter().position(&is_met) {
                return Ok(next + at);
            }
            next = self.lines.len();
            let left = limit.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(line) => self.receive(&line),
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.wait.as_secs_f32();
                    let why = format!("expected {what} within {seconds} s; {}", self.came(mark));
                    return Err(NotMet::Failed(why));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let why = format!("expected {what}; the server ended, {}", self.came(mark));
                    return Err(NotMet::Failed(why + &self.last_words()));
                }
            }
        }
    }

    pub(super) fn wait_kind(&mut self, mark: usize, kind: &str) -> Result<usize, NotMet> {
        self.wait(mark, kind, |line| line.is(kind))
    }

    fn receive(&mut self, line: &[u8]) {
        match ServerLine::read(line) {
            Ok(line) => self.lines.push(line),
            Err(why) => {
                let shown = cut(&String::from_utf8_lossy(line), 80);
                self.malformed.push(format!("{shown:?} {why}"));
            }
        }
    }

    /// The end of what came, for a sentence.
    fn came(&self, mark: usize) -> String {
        let lines = &self.lines[mark..];
        let last = &lines[lines.len().saturating_sub(4)..];
        let last: Vec<String> = last.iter().map(ServerLine::summary).collect();
        match (last.is_empty(), self.malformed.first()) {
            (false, _) => format!("last came {}", last.join(", ")),
            (true, Some(line)) => format!("the line {line} came"),
            (true, None) => "nothing came".to_owned(),
        }
    }

    /// The last line of stderr, for a sentence.
    fn last_words(&self) -> String {
        let stderr = self.stderr();
        let last = stderr.lines().rfind(|line| !line.trim().is_empty());
        last.map(|line| format!(" (stderr: {})", cut(line.trim(), 120))).unwrap_or_default()
    }

    /// Sends a request with a new id, and waits for its response.
    pub(super) fn ask(&mut self, request: Value) -> Result<ServerLine, NotMet> {
        let (mark, id) = self.post(request);
        self.response(mark, &id)
    }

    /// Sends a request with a new id. Returns the mark before it, and the id.
    pub(super) fn post(&mut self, mut request: Value) -> (usize, Value) {
        self.requests += 1;
        let id = json!(format!("request-{}", self.requests));
        request["id"] = id.clone();
        let mark = self.mark();
        self.send(&request);
        (mark, id)
    }

    /// Waits for the response to a request.
    pub(super) fn response(&mut self, mark: usize, id: &Value) -> Result<ServerLine, NotMet> {
        let what = format!("the response to {id}");
        let at = self.wait(mark, &what, |line| line.answers(id))?;
        Ok(self.lines[at].clone())
    }

    /// Sends a request that must succeed. Returns the data of its response.
    pub(super) fn must(&mut self, request: Value) -> Result<Value, NotMet> {
        let name = request["type"].as_str().unwrap_or_default().to_owned();
        let response = self.ask(request)?;
        expect(response.succeeded(), &format!("success of {name}"), || response.summary())?;
        Ok(response.data().clone())
    }

    /// The same for a command that a server need not have: without it the check is skipped.
    pub(super) fn must_if_known(&mut self, request: Value) -> Result<Value, NotMet> {
        let name = request["type"].as_str().unwrap_or_default().to_owned();
        let response = self.ask(request)?;
        if response.lacks_command() {
            return Err(NotMet::Skipped(format!("the server has no {name}")));
        }
        expect(response.succeeded(), &format!("success of {name}"), || response.summary())?;
        Ok(response.data().clone())
    }

    /// Sends a prompt that must be accepted. Returns the mark before it.
    pub(super) fn prompt(&mut self, message: &str) -> Result<usize, NotMet> {
        let mark = self.mark();
        self.must(json!({"type": "prompt", "message": message}))?;
        Ok(mark)
    }

    /// Sends a prompt and waits until the server is idle again. Returns the lines of the run.
    pub(super) fn run(&mut self, message: &str) -> Result<Vec<ServerLine>, NotMet> {
        let mark = self.prompt(message)?;
        let end = self.settle(mark)?;
        Ok(self.lines[mark..=end].to_vec())
    }

    /// Waits until nothing is left to do. Returns the index of the record that says so:
    /// `agent_settled`, or for a server without it the response to a `get_state`.
    pub(super) fn settle(&mut self, mark: usize) -> Result<usize, NotMet> {
        if self.settles {
            return self.wait_kind(mark, "agent_settled");
        }
        let limit = self.limit();
        loop {
            self.wait_kind(mark, "agent_end")?;
            let state = self.must(json!({"type": "get_state"}))?;
            let (last, follows) = last_end(&self.lines);
            if !follows && state["isStreaming"] != true && last >= mark {
                return Ok(self.lines.len() - 1);
            }
            let expected = "the end of the run";
            expect(Instant::now() < limit, expected, || "nothing for the limit of a wait".into())?;
            thread::sleep(POLL);
        }
    }

    /// Polls a condition that has no event.
    pub(super) fn poll(&self, what: &str, is_met: impl Fn() -> bool) -> Result<(), NotMet> {
        let limit = self.limit();
        while !is_met() {
            let seconds = self.wait.as_secs_f32();
            let late = || format!("nothing like it within {seconds} s");
            expect(Instant::now() < limit, what, late)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until a tool has created this file in the project.
    pub(super) fn wait_for_file(&self, name: &str) -> Result<(), NotMet> {
        let path = self.project().join(name);
        self.poll(&format!("that the tool creates {name}"), || path.exists())
    }

    /// Creates a file in the project, for which a tool waits.
    pub(super) fn create_file(&self, name: &str) -> Result<(), NotMet> {
        let created = std::fs::write(self.project().join(name), "");
        created.map_err(|err| NotMet::Failed(format!("cannot create {name}: {err}")))
    }

    pub(super) fn signal(&self, signal: Signal) {
        processes::signal(self.pid(), signal);
    }

    /// Waits until the process has ended and its output is read.
    pub(super) fn wait_for_exit(&mut self) -> Result<ExitStatus, NotMet> {
        let limit = self.limit();
        let status = loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < limit => thread::sleep(POLL),
                _ => {
                    let seconds = self.wait.as_secs_f32();
                    let why = format!("expected that the process ends within {seconds} s; it runs");
                    return Err(NotMet::Failed(why));
                }
            }
        };
        // A child of the server may still hold the pipe, so this has a limit, too.
        while let Ok(line) =
            self.output.recv_timeout(limit.saturating_duration_since(Instant::now()))
        {
            self.receive(&line);
        }
        Ok(status)
    }

    /// Kills the server with SIGKILL, and starts another one in the same home.
    pub(super) fn restart(mut self, bench: &Bench) -> Result<Peer, NotMet> {
        self.signal(Signal::SIGKILL);
        self.wait_for_exit()?;
        let home = self.home.take().expect("taken only here");
        let model = self.model.take().expect("taken only here");
        drop(self);
        bench.start_in(home, model)
    }
}

/// The index of the last `agent_end`, and whether something follows it by itself.
fn last_end(lines: &[ServerLine]) -> (usize, bool) {
    let last = lines.iter().rposition(|line| line.is("agent_end")).unwrap_or(0);
    let Some(after) = lines.get(last..).filter(|after| !after.is_empty()) else {
        return (0, false);
    };
    let pauses = after.iter().rposition(|line| line.is("auto_retry_start"));
    let ends = after.iter().rposition(|line| line.is("auto_retry_end"));
    let starts = after.iter().any(|line| line.is("agent_start"));
    let announced = after[0].field("willRetry") == true && ends.is_none();
    (last, starts || pauses > ends || announced)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.servers.end(self.child.id());
        // Children that have left the group.
        for pid in processes::working_in(&self.folder) {
            processes::signal(pid, Signal::SIGKILL);
        }
        let limit = Instant::now() + KILL_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
            thread::sleep(POLL);
        }
    }
}

/// Writes what is sent from another thread, so that a server that does not read blocks no check.
fn write_from(mut pipe: impl Write + Send + 'static) -> Sender<Vec<u8>> {
    let (sender, receiver) = channel::<Vec<u8>>();
    thread::spawn(move || receiver.iter().try_for_each(|bytes| pipe.write_all(&bytes)));
    sender
}

/// Reads lines on another thread. Only LF ends a line; the last one may lack it.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe).split(b'\n').map_while(Result::ok);
        // The receiver is dropped when the check ends.
        lines.try_for_each(|line| sender.send(line)).ok();
    });
    receiver
}

/// Reads to the end on another thread, and keeps the beginning.
fn collect(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut bytes) {
            let mut kept = mutex::lock(&into);
            let room = STDERR_MAX_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..count.min(room)]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_over_when_nothing_follows_its_last_end() {
        let line = |kind: &&str| {
            let (kind, more) = kind.split_once(' ').unwrap_or((kind, ""));
            ServerLine::read(format!("{{\"type\":\"{kind}\"{more}}}").as_bytes())
        };
        for (kinds, expected) in [
            (&["agent_start", "agent_end"][..], (1, false)),
            (&[][..], (0, false)),
            (&["agent_end", "agent_start"][..], (0, true)),
            (&["agent_end ,\"willRetry\":true"][..], (0, true)),
            (&["agent_end ,\"willRetry\":true", "auto_retry_end"][..], (0, false)),
            (&["agent_end", "auto_retry_start"][..], (0, true)),
            (&["agent_end", "auto_retry_start", "auto_retry_end"][..], (0, false)),
            (&["agent_end", "agent_start", "agent_end", "queue_update"][..], (2, false)),
        ] {
            let lines: Vec<ServerLine> = kinds.iter().map(|kind| line(kind).unwrap()).collect();
            assert_eq!(last_end(&lines), expected, "{kinds:?}");
        }
    }
}
