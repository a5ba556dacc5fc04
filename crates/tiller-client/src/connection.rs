//! The task between the host and tiller: it numbers commands, passes records on, and starts the
//! host's functions. It is the only owner of the connection's state.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tiller_protocol::{Command, Record, Response, Stamp, UiRequest};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::ClientError;
use crate::events::StampedRecord;
use crate::host_tools::Handlers;

/// How much of an invalid line its error quotes.
const QUOTED_CHARS: usize = 200;

/// What the host and its functions send to the task.
pub(crate) enum Input {
    /// A command whose response is awaited.
    Request(Box<Request>),
    /// A command without a response.
    Send(Command),
    /// A new receiver of all records.
    Subscribe(mpsc::UnboundedSender<StampedRecord>),
    /// Closes tiller's stdin. Records are read until tiller ends.
    Close,
}

pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Response<'static>>,
    /// For a prompt: receives the records from its response to its result.
    pub(crate) run: Option<mpsc::UnboundedSender<Record<'static>>>,
}

/// How tiller ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) stderr_tail: String,
}

/// Why the connection ended. It is set before waiting callers notice the end.
pub(crate) type EndReason = Arc<OnceLock<ClientError>>;

pub(crate) struct Connection {
    handlers: Handlers,
    /// For the host's functions.
    inputs: mpsc::UnboundedSender<Input>,
    /// Lines for the writer; absent once the client is closing.
    lines: Option<mpsc::UnboundedSender<String>>,
    /// The number of commands with a response that were sent.
    sent: u64,
    /// Requests without a response, by the `id` of their command.
    waiting: HashMap<String, Request>,
    /// Prompts without a result, by the `id` of their command.
    runs: HashMap<String, mpsc::UnboundedSender<Record<'static>>>,
    subscribers: Vec<mpsc::UnboundedSender<StampedRecord>>,
    /// Cancels the open calls of host tools, by the `id` of the call.
    calls: HashMap<String, watch::Sender<bool>>,
    /// The writer and the host's functions. They end with the connection.
    tasks: JoinSet<()>,
}

impl Connection {
    pub(crate) fn new(
        handlers: Handlers,
        inputs: mpsc::UnboundedSender<Input>,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Connection {
        let (lines, receiver) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(write_lines(receiver, writer));
        Connection {
            handlers,
            inputs,
            lines: Some(lines),
            sent: 0,
            waiting: HashMap::new(),
            runs: HashMap::new(),
            subscribers: Vec::new(),
            calls: HashMap::new(),
            tasks,
        }
    }

    /// Runs until tiller closes its stdout. `exit` then waits for its end.
    pub(crate) async fn run(
        mut self,
        reader: impl AsyncRead + Unpin,
        mut inputs: mpsc::UnboundedReceiver<Input>,
        exit: impl Future<Output = Exit>,
        reason: EndReason,
    ) -> Exit {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        let mut invalid = None;
        loop {
            tokio::select! {
                // Cancelled reads leave what they have read in `line`.
                read = reader.read_until(b'\n', &mut line) => {
                    // A pipe that cannot be read has ended. So has a last line without its end.
                    if read.is_err() || line.last() != Some(&b'\n') {
                        break;
                    }
                    if let Err(error) = self.receive(&line) {
                        invalid = Some(error);
                        break;
                    }
                    line.clear();
                }
                Some(input) = inputs.recv() => self.handle(input),
            }
        }
        self.lines = None;
        let exit = exit.await;
        let Exit { code, stderr_tail } = exit.clone();
        let ended = invalid.unwrap_or(ClientError::Exited { code, stderr_tail });
        // Only this task sets the reason, once.
        reason.set(ended).ok();
        exit
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Request(request) => {
                self.sent += 1;
                let id = self.sent.to_string();
                if self.write(&request.command, Some(&id)) {
                    self.waiting.insert(id, *request);
                }
            }
            Input::Send(command) => {
                self.write(&command, None);
            }
            Input::Subscribe(subscriber) => self.subscribers.push(subscriber),
            Input::Close => self.lines = None,
        }
    }

    /// Passes a command to the writer. Returns false if the client is closing.
    fn write(&self, command: &Command, id: Option<&str>) -> bool {
        let Some(lines) = &self.lines else { return false };
        // A writer that has ended means that tiller is ending: its stdout closes next.
        lines.send(command.to_line(id)).ok();
        true
    }

    fn receive(&mut self, line: &[u8]) -> Result<(), ClientError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let invalid = |_| {
            let text = String::from_utf8_lossy(line);
            let line = text.trim_end().chars().take(QUOTED_CHARS).collect();
            ClientError::InvalidLine { line }
        };
        let record: Record<'static> = serde_json::from_slice(line).map_err(invalid)?;
        // A record of an unknown shape may have no stamp that can be parsed.
        let stamp: Stamp = serde_json::from_slice(line).unwrap_or_default();
        let stamped = StampedRecord::new(record, stamp);
        self.subscribers.retain(|subscriber| subscriber.send(stamped.clone()).is_ok());
        self.dispatch(stamped.into_record());
        Ok(())
    }

    fn dispatch(&mut self, record: Record<'static>) {
        match &record {
            Record::Response(_) => {}
            _ => self.runs.retain(|_, run| run.send(record.clone()).is_ok()),
        }
        match record {
            Record::Response(response) => self.respond(response),
            Record::PromptResult { id: Some(id), .. } => {
                if let Ok(id) = id.read::<String>() {
                    self.runs.remove(&id);
                }
            }
            Record::HostToolCall { id, tool_call_id, tool_name, arguments } => {
                let id = id.into_owned();
                let (cancel, work) = self.handlers.call(
                    id.clone(),
                    &tool_name,
                    tool_call_id.into_owned(),
                    arguments.into_owned(),
                    self.inputs.clone(),
                );
                self.calls.retain(|_, cancel| !cancel.is_closed());
                self.calls.insert(id, cancel);
                self.spawn(work);
            }
            Record::HostToolCancel { target_id, .. } => {
                if let Some(cancel) = self.calls.remove(target_id.as_ref()) {
                    cancel.send_replace(true);
                }
            }
            Record::ExtensionUiRequest { id, request } => {
                if let UiRequest::Dialog(dialog) = request.into_owned() {
                    let work = self.handlers.answer(id.into_owned(), dialog, self.inputs.clone());
                    self.spawn(work);
                }
            }
            _ => {}
        }
    }

    fn respond(&mut self, response: Response<'static>) {
        let id = response.id.as_ref().and_then(|id| id.read::<Value>().ok());
        let Some(id) = id.as_ref().and_then(Value::as_str) else { return };
        let Some(request) = self.waiting.remove(id) else { return };
        if let Some(run) = request.run.filter(|_| response.success) {
            self.runs.insert(id.to_owned(), run);
        }
        // The caller may have stopped waiting.
        request.reply.send(response).ok();
    }

    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        // A function that panicked has sent its result.
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(work);
    }
}

/// Writes lines until the connection closes, or tiller no longer reads.
async fn write_lines(
    mut lines: mpsc::UnboundedReceiver<String>,
    mut writer: impl AsyncWrite + Unpin,
) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    // An error means that the pipe is closed already.
    writer.shutdown().await.ok();
}
