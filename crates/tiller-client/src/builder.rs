//! Describes the process and the host's functions, and starts both.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiller_protocol::{Command, Dialog, Hello, HelloData, Level, UiAnswer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::ClientError;
use crate::client::Client;
use crate::connection::{Connection, ConnectionTask, INPUTS_MAX, InvalidLines};
use crate::framing::{LineReader, Outbox, Writer};
use crate::host_calls::{DialogHandler, HostCalls};
use crate::process::{Peer, Program, StderrTail};
use crate::requester::{Requester, Shared};
use crate::tools::Tool;

/// How long a start may take by default.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A client to be started, from [`Client::builder`].
pub struct Builder {
    program: PathBuf,
    model: Option<String>,
    arguments: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    has_empty_env: bool,
    wire: Level,
    name: String,
    start_timeout: Duration,
    tools: Vec<Tool>,
    on_dialog: Option<DialogHandler>,
}

/// The lines of a session in both directions.
pub(crate) struct SessionLines {
    lines: LineReader,
    outbox: Outbox,
}

impl SessionLines {
    /// The connection carries this session alone.
    pub(crate) fn dedicated(lines: LineReader, writer: Writer) -> SessionLines {
        SessionLines { lines, outbox: Outbox::new(writer) }
    }

    /// The commands name the session.
    pub(crate) fn shared(lines: LineReader, writer: Writer, session_id: String) -> SessionLines {
        SessionLines { lines, outbox: Outbox::new(writer).for_session(session_id) }
    }
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            program: PathBuf::from("tiller"),
            model: None,
            arguments: Vec::new(),
            cwd: None,
            env: Vec::new(),
            has_empty_env: false,
            wire: Level::PiDelta,
            name: "tiller-client".to_owned(),
            start_timeout: START_LIMIT,
            tools: Vec::new(),
            on_dialog: None,
        }
    }

    /// The program; by default `tiller`, found in `PATH`.
    pub fn program(mut self, program: impl AsRef<Path>) -> Builder {
        self.program = program.as_ref().to_owned();
        self
    }

    /// The model, such as `tiller/demo`. By default the user's settings decide.
    pub fn model(mut self, model: impl Into<String>) -> Builder {
        self.model = Some(model.into());
        self
    }

    /// One more argument.
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

    /// The level of the records. The default, [`Level::PiDelta`], writes the least.
    pub fn wire(mut self, wire: Level) -> Builder {
        self.wire = wire;
        self
    }

    /// The name of the host, for tiller's logs.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// How long tiller may take until it answers for the first time; by default 30 seconds.
    pub fn start_timeout(mut self, limit: Duration) -> Builder {
        self.start_timeout = limit;
        self
    }

    /// Offers the model a tool that the host runs.
    pub fn tool(mut self, tool: Tool) -> Builder {
        self.tools.push(tool);
        self
    }

    /// Answers dialogs of extensions. Each runs in a task of its own. Without this they are
    /// cancelled.
    pub fn on_dialog<F, R>(mut self, handler: F) -> Builder
    where
        F: Fn(Dialog) -> R + Send + Sync + 'static,
        R: Future<Output = UiAnswer> + Send + 'static,
    {
        self.on_dialog = Some(Arc::new(move |dialog| Box::pin(handler(dialog))));
        self
    }

    /// Starts the process on the current Tokio runtime.
    pub async fn start(self) -> Result<Client, ClientError> {
        let (process, stdin, stdout) = self.to_program().start()?;
        let lines = SessionLines::dedicated(LineReader::new(Box::new(stdout)), Box::new(stdin));
        self.open(lines, Peer::Process(Box::new(process)), InvalidLines::Refuse).await
    }

    /// Connects to a tiller that runs elsewhere, such as in a container, by its stdout and stdin. It
    /// was started with `--mode rpc`; arguments, folder and environment of the builder have no
    /// effect.
    ///
    /// After a lost connection to a tiller that still runs, [`Client::replay`] returns the events
    /// that were missed. Calls of host tools that were open have no result then.
    pub async fn attach(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Client, ClientError> {
        let lines = SessionLines::dedicated(LineReader::new(Box::new(reader)), Box::new(writer));
        self.open(lines, Peer::Attached, InvalidLines::IgnoreAtStart).await
    }

    /// Uses a session of a server that has been opened.
    pub(crate) async fn open_on_server(self, lines: SessionLines) -> Result<Client, ClientError> {
        self.open(lines, Peer::Attached, InvalidLines::Refuse).await
    }

    fn to_program(&self) -> Program {
        let mut arguments: Vec<OsString> =
            ["--mode", "rpc", "--wire", self.wire.name()].map(OsString::from).into();
        if let Some(model) = &self.model {
            arguments.extend(["--model", model.as_str()].map(OsString::from));
        }
        arguments.extend_from_slice(&self.arguments);
        Program {
            path: self.program.clone(),
            arguments,
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            has_empty_env: self.has_empty_env,
        }
    }

    async fn open(
        self,
        session: SessionLines,
        peer: Peer,
        invalid_lines: InvalidLines,
    ) -> Result<Client, ClientError> {
        let (pid, stderr) = match &peer {
            Peer::Process(process) => (process.id(), process.stderr_tail()),
            Peer::Attached => (None, StderrTail::empty()),
        };
        let shared = Arc::new(Shared::new());
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let host = HostCalls::new(self.on_dialog, sender.clone());
        let SessionLines { lines, mut outbox } = session;
        if invalid_lines == InvalidLines::IgnoreAtStart {
            // Ends a line that an earlier connection may have begun.
            outbox.push("");
        }
        let connection =
            Connection::new(shared.clone(), host, lines, outbox, inputs, invalid_lines);
        let task = ConnectionTask::spawn(connection, peer);
        let requester = Requester::new(sender, shared);

        let hello = Command::Hello(Hello {
            client: Some(Value::String(self.name)),
            stream: None,
            wire: Some(self.wire),
            prompt_results: Some(true),
            sequence: Some(true),
            max_frame_bytes: None,
            tool_updates: None,
        });
        let limit = self.start_timeout;
        let answer = timeout(limit, requester.request::<HelloData<'static>>(hello)).await;
        let server = answer.map_err(|_| ClientError::StartTimeout { limit })??;
        check_hello(&server)?;
        let client = Client::new(requester, task, pid, stderr, server);
        if !self.tools.is_empty() {
            client.add_tools(self.tools).await?;
        }
        Ok(client)
    }
}

/// tiller must have granted what `hello` asked for.
fn check_hello(server: &HelloData<'_>) -> Result<(), ClientError> {
    let missing = match (server.prompt_results, &server.sequence) {
        (Some(true), Some(_)) => return Ok(()),
        (Some(true), None) => "numbers of records",
        _ => "prompt results",
    };
    let HelloData { server, version, .. } = server;
    Err(ClientError::protocol(format!(
        "this client needs a newer tiller: {server} {version} has no {missing}"
    )))
}
