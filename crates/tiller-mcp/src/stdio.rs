//! A server that is a program with JSON lines on its stdin and stdout. It runs under a guardian, so
//! nothing that it starts outlives tiller, however tiller ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tiller_agent::mutex;
use tiller_agent::program::{Program, ProgramEvent};
use tiller_tools::ansi::AnsiStripper;
use tiller_tools::child::{self, Handle};
use tokio::sync::{mpsc, watch};

use crate::frames::{Frame, FrameReader};
use crate::traffic::SendError;

/// How long a server may take to end after its stdin was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// Much more than a model's arguments. A server that does not read is not sent more.
const UNWRITTEN_MAX_BYTES: usize = 64 << 20;
/// How much of the end of stderr an error quotes.
const STDERR_TAIL_BYTES: usize = 2048;

const SIGTERM: i32 = 15;

pub(crate) struct Child {
    handle: Handle,
    /// Bytes on their way to stdin.
    unwritten: Arc<AtomicUsize>,
    output: Arc<Mutex<Output>>,
    /// How it has ended.
    exit: watch::Receiver<Option<Exit>>,
}

/// What a server has written beside messages.
#[derive(Default)]
struct Output {
    stderr: Vec<u8>,
    /// The first line on stdout that is no message.
    noise: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
}

/// Counts bytes as unwritten until they were written or never will be.
struct Unwritten(Arc<AtomicUsize>, usize);

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// What to start.
pub(crate) struct ChildSpec {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: Vec<(String, String)>,
}

impl Child {
    /// Starts a server. Its messages go to `incoming`, whose other end is closed when it has ended.
    pub(crate) async fn start(
        spec: ChildSpec,
        incoming: mpsc::Sender<ServerJsonRpcMessage>,
    ) -> Result<Child, String> {
        let ChildSpec { command, args, cwd, env } = spec;
        if !cwd.is_dir() {
            return Err(format!("its folder {} does not exist", cwd.display()));
        }
        let shown = command.clone();
        let program =
            Program { command, args, cwd, env, stdin: true, argv0: None, inherited: Vec::new() };
        let output = Arc::<Mutex<Output>>::default();
        let (exited, exit) = watch::channel(None);
        let mut reader = Reader {
            frames: FrameReader::default(),
            incoming: Some(incoming),
            output: output.clone(),
            exited,
        };
        let spawned = tokio::task::spawn_blocking(move || {
            child::spawn(program, Box::new(move |event| reader.handle(event)))
        });
        let handle = match spawned.await {
            Ok(Ok(handle)) => handle,
            Ok(Err(err)) if err.kind() == std::io::ErrorKind::NotFound => {
                return Err(format!(
                    "the program {shown} was not found: install it, or write its full path in `command`"
                ));
            }
            Ok(Err(err)) => return Err(format!("the program {shown} cannot be started: {err}")),
            Err(crash) => return Err(format!("internal error: {crash}")),
        };
        Ok(Child { handle, unwritten: Arc::default(), output, exit })
    }

    /// Queues a message.
    pub(crate) fn write(&self, message: &ClientJsonRpcMessage) -> Result<(), SendError> {
        let mut line = serde_json::to_vec(message).map_err(|err| SendError(err.to_string()))?;
        line.push(b'\n');
        let length = line.len();
        if self.unwritten.load(Ordering::Relaxed) + length > UNWRITTEN_MAX_BYTES {
            return Err(SendError("the server does not read its stdin".to_owned()));
        }
        self.unwritten.fetch_add(length, Ordering::Relaxed);
        let hold = Unwritten(self.unwritten.clone(), length);
        self.handle.write_holding(line, Box::new(hold));
        Ok(())
    }

    /// How the server has ended, in words, with what it has written to stderr last.
    pub(crate) async fn ending(&self) -> String {
        let mut exit = self.exit.clone();
        // The pipes of a server close at the moment it ends, or before.
        let waited = tokio::time::timeout(GRACE, exit.wait_for(Option::is_some)).await;
        let exit = waited.ok().and_then(Result::ok).and_then(|exit| *exit);
        let how = match exit {
            Some(Exit { code: Some(code), .. }) => format!("it has ended with exit code {code}"),
            Some(Exit { signal: Some(signal), .. }) => {
                format!("it was ended by signal {signal}")
            }
            Some(_) => "it has ended".to_owned(),
            None => "it has closed its stdout".to_owned(),
        };
        match self.last_words() {
            Some(words) => format!("{how}: {words}"),
            None => how,
        }
    }

    /// The end of stderr, or what it has printed to stdout in place of messages.
    pub(crate) fn last_words(&self) -> Option<String> {
        let output = mutex::lock(&self.output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut plain = AnsiStripper::default();
        let text = plain.push(stderr.as_bytes()) + &plain.finish();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match lines.len() {
            0 => output.noise.as_ref().map(|noise| format!("it has printed {noise:?}")),
            count => Some(lines[count.saturating_sub(5)..].join(" | ")),
        }
    }

    /// Ends the server: closes its stdin, then SIGTERM, then kills what is left of it and of
    /// everything it has started.
    pub(crate) async fn stop(&self) {
        self.handle.close_stdin();
        if !self.ends_within(GRACE).await {
            self.handle.kill(SIGTERM);
            self.ends_within(GRACE).await;
        }
        self.handle.end();
    }

    async fn ends_within(&self, limit: Duration) -> bool {
        let mut exit = self.exit.clone();
        tokio::time::timeout(limit, exit.wait_for(Option::is_some)).await.is_ok()
    }
}

impl Drop for Child {
    /// Kills what is left, also if `stop` was not called or did not finish.
    fn drop(&mut self) {
        self.handle.end();
    }
}

/// Runs on the thread that reads the server's pipes.
struct Reader {
    frames: FrameReader,
    /// Taken at the end.
    incoming: Option<mpsc::Sender<ServerJsonRpcMessage>>,
    output: Arc<Mutex<Output>>,
    exited: watch::Sender<Option<Exit>>,
}

impl Reader {
    fn handle(&mut self, event: ProgramEvent) {
        match event {
            ProgramEvent::Stdout(bytes) => {
                let (incoming, output) = (&self.incoming, &self.output);
                self.frames.push(&bytes, |frame| match frame {
                    Frame::Message(message) => {
                        if let Some(incoming) = incoming {
                            // Fails once the connection is closed; the rest is discarded.
                            incoming.blocking_send(*message).ok();
                        }
                    }
                    Frame::Noise(text) => {
                        mutex::lock(output).noise.get_or_insert(text);
                    }
                });
            }
            ProgramEvent::Stderr(bytes) => {
                let mut output = mutex::lock(&self.output);
                output.stderr.extend_from_slice(&bytes);
                let excess = output.stderr.len().saturating_sub(STDERR_TAIL_BYTES);
                output.stderr.drain(..excess);
            }
            ProgramEvent::Exit { code, signal } => {
                self.exited.send_replace(Some(Exit { code, signal }));
                // Children of the server may hold its pipes open.
                self.incoming = None;
            }
            ProgramEvent::Closed => self.incoming = None,
        }
    }
}
