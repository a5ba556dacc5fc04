//! Describes the process and the host's functions, and starts both.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiller_protocol::{
    Command, Dialog, Hello, HelloData, HostTool, SetHostTools, ToolOutput, UiAnswer,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::process::{Child, ChildStderr};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::client::{Client, Requester};
use crate::connection::{Connection, EndReason, Exit};
use crate::host_tools::{Handlers, HostToolCall};
use crate::ClientError;

/// How much of stderr is kept.
const STDERR_TAIL_BYTES: usize = 8 << 10;
/// How long a process may run after it has closed its stdout.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// How long stderr is read after that: a child of the process may keep it open.
const STDERR_LIMIT: Duration = Duration::from_millis(500);

/// A client to be started, from [`Client::builder`].
pub struct Builder {
    program: PathBuf,
    arguments: Vec<OsString>,
    cwd: Option<PathBuf>,
    has_empty_env: bool,
    env: Vec<(OsString, OsString)>,
    name: String,
    handlers: Handlers,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            program: PathBuf::from("tiller"),
            arguments: Vec::new(),
            cwd: None,
            has_empty_env: false,
            env: Vec::new(),
            name: "tiller-client".to_owned(),
            handlers: Handlers::default(),
        }
    }

    /// The program; by default `tiller`, found in `PATH`.
    pub fn program(mut self, program: impl AsRef<Path>) -> Builder {
        self.program = program.as_ref().to_owned();
        self
    }

    /// One more argument, after `--mode rpc --wire pi-delta`.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Builder {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Builder {
        arguments.into_iter().fold(self, Builder::arg)
    }

    /// The working directory of tiller and its tools; by default the host's own.
    pub fn cwd(mut self, cwd: impl AsRef<Path>) -> Builder {
        self.cwd = Some(cwd.as_ref().to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Builder {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Leaves out the host's environment; only variables of [`Builder::env`] are set.
    pub fn env_clear(mut self) -> Builder {
        self.has_empty_env = true;
        self
    }

    /// The name of the host, for tiller's logs.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// Offers the model a tool that the host runs. An error is a text for the model.
    pub fn tool<F, R>(mut self, tool: HostTool, handler: F) -> Builder
    where
        F: Fn(HostToolCall) -> R + Send + 'static,
        R: Future<Output = Result<ToolOutput, String>> + Send + 'static,
    {
        self.handlers.add_tool(tool, handler);
        self
    }

    /// Answers dialogs of extensions. By default they are cancelled.
    pub fn on_dialog<F, R>(mut self, handler: F) -> Builder
    where
        F: Fn(Dialog) -> R + Send + 'static,
        R: Future<Output = UiAnswer> + Send + 'static,
    {
        self.handlers.set_dialog(handler);
        self
    }

    /// Starts the process on the current Tokio runtime.
    pub async fn start(self) -> Result<Client, ClientError> {
        let mut command = tokio::process::Command::new(&self.program);
        if self.has_empty_env {
            command.env_clear();
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
            .args(["--mode", "rpc", "--wire", "pi-delta"])
            .args(&self.arguments)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let failed = |reason: String| ClientError::Start {
            program: self.program.display().to_string(),
            reason,
        };
        let mut child = command.spawn().map_err(|err| failed(err.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed("it has no pipes".to_owned()));
        };
        self.open(stdout, stdin, wait(child, stderr)).await
    }

    /// Connects to a tiller that runs elsewhere, such as in a container, by its stdout and stdin. It
    /// was started with `--mode rpc --wire pi-delta`.
    pub async fn connect(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Client, ClientError> {
        self.open(reader, writer, std::future::ready(Exit::default())).await
    }

    async fn open(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        exit: impl Future<Output = Exit> + Send + 'static,
    ) -> Result<Client, ClientError> {
        let tools = self.handlers.tools.clone();
        let (inputs, receiver) = mpsc::unbounded_channel();
        let reason: EndReason = Arc::default();
        let connection = Connection::new(self.handlers, inputs.clone(), writer);
        let task = tokio::spawn(connection.run(reader, receiver, exit, reason.clone()));
        let client = Client::new(Requester::new(inputs, reason), task);

        let hello = Command::Hello(Hello {
            client: Some(Value::String(self.name)),
            stream: None,
            wire: None,
            prompt_results: Some(true),
            sequence: Some(true),
            max_frame_bytes: None,
            tool_updates: None,
        });
        let data: HelloData<'static> = client.request_data(hello).await?;
        if data.prompt_results != Some(true) || data.sequence.is_none() {
            let reason = "this version of tiller has no prompt results".to_owned();
            return Err(ClientError::Data { command: "hello".to_owned(), reason });
        }
        if !tools.is_empty() {
            client.request(Command::SetHostTools(SetHostTools { tools })).await?;
        }
        Ok(client)
    }
}

/// Waits for the end of a process that has closed its stdout. Dropping this kills the process.
fn wait(mut child: Child, stderr: ChildStderr) -> impl Future<Output = Exit> + Send {
    let (sender, tail) = watch::channel(Vec::new());
    let mut reading = tokio::spawn(read_tail(stderr, sender));
    async move {
        let code = match timeout(EXIT_LIMIT, child.wait()).await {
            Ok(status) => status.ok().and_then(|status| status.code()),
            Err(_) => {
                // It fails if the process has just ended.
                child.kill().await.ok();
                None
            }
        };
        if timeout(STDERR_LIMIT, &mut reading).await.is_err() {
            reading.abort();
        }
        let stderr_tail = String::from_utf8_lossy(&tail.borrow()).into_owned();
        Exit { code, stderr_tail }
    }
}

/// Reads stderr to its end, so that the pipe does not fill, and keeps its last bytes.
async fn read_tail(mut stderr: ChildStderr, tail: watch::Sender<Vec<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        tail.send_modify(|tail| {
            tail.extend_from_slice(&chunk[..length]);
            let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
            tail.drain(..excess);
        });
    }
}
