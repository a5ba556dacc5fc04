//! The task between the host and tiller: it writes commands, passes records on, and starts the
//! host's functions. It is the only owner of the connection's state.

use std::sync::Arc;
use std::time::Duration;

use tiller_protocol::{Command, Record, Response, Stamp, UiRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::ClientError;
use crate::events::{Event, EventSender};
use crate::framing::{LineReader, Outbox};
use crate::host_calls::{HostCalls, error_result};
use crate::process::{Exit, Peer};
use crate::requester::Shared;
use crate::routes::{Routes, TurnRoute};
use crate::tools::Tool;

/// How many inputs may wait for the task. Callers wait if there are more.
pub(crate) const INPUTS_MAX: usize = 64;
/// How long a process may run after it has closed its stdout or stdin.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// How much of an invalid line its error quotes.
const QUOTED_CHARS: usize = 200;

/// What the host and its functions send to the task.
pub(crate) enum Input {
    /// A command whose response is awaited.
    Request(Box<Request>),
    /// A command without a response.
    Send(Command),
    /// A new receiver of all events. The sender tells the caller that it is added.
    Subscribe(EventSender, oneshot::Sender<()>),
    /// The tools that can be called from now on.
    SetTools(Vec<Tool>),
}

pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Response<'static>>,
    /// For a command that gets a `prompt_result`.
    pub(crate) turn: Option<TurnRoute>,
}

/// What to do with lines that are not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidLines {
    /// They are an error.
    Refuse,
    /// They are ignored until the first response: the connection may begin in the middle of a line,
    /// or behind a greeting.
    IgnoreAtStart,
}

pub(crate) struct Connection {
    shared: Arc<Shared>,
    routes: Routes,
    host: HostCalls,
    lines: LineReader,
    outbox: Outbox,
    inputs: mpsc::Receiver<Input>,
    invalid_lines: InvalidLines,
    is_closing: bool,
    /// When the connection ends at the latest, once it is ending.
    deadline: Option<Instant>,
}

/// Why no more lines are read.
enum ReadEnd {
    /// tiller has closed its stdout.
    EndOfOutput,
    /// tiller did not end in time.
    Deadline,
    Invalid(ClientError),
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        host: HostCalls,
        lines: LineReader,
        outbox: Outbox,
        inputs: mpsc::Receiver<Input>,
        invalid_lines: InvalidLines,
    ) -> Connection {
        Connection {
            routes: Routes::new(shared.clone()),
            shared,
            host,
            lines,
            outbox,
            inputs,
            invalid_lines,
            is_closing: false,
            deadline: None,
        }
    }

    /// Runs until tiller has ended. Dropping the future kills the process.
    async fn run(mut self, peer: Peer, close: oneshot::Receiver<Duration>) -> Exit {
        let read_end = self.relay(close).await;
        self.outbox.abandon();
        let limit = match read_end {
            ReadEnd::EndOfOutput => EXIT_LIMIT,
            ReadEnd::Deadline | ReadEnd::Invalid(_) => Duration::ZERO,
        };
        let exit = peer.end(limit).await;
        self.shared.end(match read_end {
            _ if self.is_closing => ClientError::Closed,
            ReadEnd::Invalid(error) => error,
            ReadEnd::EndOfOutput | ReadEnd::Deadline => {
                let Exit { status, stderr_tail } = exit.clone();
                ClientError::ServerExited { status, stderr_tail }
            }
        });
        exit
    }

    async fn relay(&mut self, mut close: oneshot::Receiver<Duration>) -> ReadEnd {
        loop {
            let deadline = self.deadline;
            // Without room in the outbox, callers and functions wait; lines are read in any case,
            // because tiller may wait for that.
            let has_room = self.outbox.has_room();
            tokio::select! {
                line = self.lines.next() => match line {
                    Ok(Some(line)) => {
                        if let Err(error) = self.receive(&line) {
                            return ReadEnd::Invalid(error);
                        }
                    }
                    // A pipe that cannot be read has ended.
                    Ok(None) | Err(_) => return ReadEnd::EndOfOutput,
                },
                written = self.outbox.write(), if self.outbox.is_pending() => {
                    if written.is_err() {
                        // tiller no longer reads, so it is ending. Its last records are read.
                        self.outbox.abandon();
                        self.deadline.get_or_insert(Instant::now() + EXIT_LIMIT);
                    }
                }
                Some(input) = self.inputs.recv(), if has_room => self.handle(input),
                Some(answer) = self.host.next(), if has_room => self.write(answer),
                Ok(limit) = &mut close, if !self.is_closing => self.close(limit),
                () = wait_until(deadline) => return ReadEnd::Deadline,
            }
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Request(request) => {
                let Request { number, command, reply, turn } = *request;
                let line = command.to_line(Some(&self.shared.id(number)));
                // Once the client is closing, dropping the reply fails the request.
                if self.outbox.push(&line) {
                    self.routes.add_request(number, command.name(), reply, turn);
                }
            }
            Input::Send(command) => self.write(Some(command)),
            Input::Subscribe(stream, added) => {
                self.routes.add_stream(stream);
                // The caller may have stopped waiting.
                added.send(()).ok();
            }
            Input::SetTools(tools) => self.host.set_tools(tools),
        }
    }

    /// Closes tiller's stdin. Records are read until tiller ends, or until the limit is over.
    fn close(&mut self, limit: Duration) {
        self.is_closing = true;
        self.outbox.close();
        self.deadline.get_or_insert(Instant::now() + limit);
    }

    /// Writes a command without a response. Once the client is closing, it is not needed.
    fn write(&mut self, command: Option<Command>) {
        if let Some(command) = command {
            self.outbox.push(&command.to_line(None));
        }
    }

    fn receive(&mut self, line: &[u8]) -> Result<(), ClientError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let record: Record<'static> = match serde_json::from_slice(line) {
            Ok(record) => record,
            Err(_) if self.invalid_lines == InvalidLines::IgnoreAtStart => return Ok(()),
            Err(_) => return Err(invalid_line(line)),
        };
        // A record of an unknown shape may have no stamp that can be parsed.
        let stamp: Stamp = serde_json::from_slice(line).unwrap_or_default();
        if let Some(seq) = stamp.seq {
            self.shared.set_last_seq(seq);
        }
        match record {
            Record::Response(response) => self.respond(&response),
            record => {
                let event = Event::new(record, stamp);
                // Events come before the results that they cause.
                self.routes.publish(&event);
                let answer = self.start_host_function(event.record());
                self.write(answer);
            }
        }
        Ok(())
    }

    fn respond(&mut self, response: &Response<'static>) {
        if self.routes.respond(response) {
            self.invalid_lines = InvalidLines::Refuse;
        } else if !response.success && response.command == "host_tool_result" {
            // The call still waits for a result that tiller accepts.
            let id = response.id.as_ref().and_then(|id| id.read::<String>().ok());
            let error = response.error.clone().unwrap_or_default().into_owned();
            self.write(id.map(|id| error_result(id, error)));
        }
    }

    /// Returns an answer that is known at once.
    fn start_host_function(&mut self, record: &Record<'static>) -> Option<Command> {
        match record {
            Record::HostToolCall { id, tool_call_id, tool_name, arguments } => self.host.call(
                id.to_string(),
                tool_call_id.to_string(),
                tool_name,
                arguments.as_ref().clone(),
            ),
            Record::HostToolCancel { target_id, .. } => {
                self.host.cancel(target_id);
                None
            }
            Record::ExtensionUiRequest { id, request } => match request.as_ref() {
                UiRequest::Dialog(dialog) => self.host.show(id.to_string(), dialog.clone()),
                UiRequest::Notice(_) => None,
            },
            _ => None,
        }
    }
}

/// The task of a connection, which owns the process. Dropping this ends the task, and the end of the
/// task kills the process.
pub(crate) struct ConnectionTask {
    handle: JoinHandle<Exit>,
    /// Not an input, because those wait while tiller does not read.
    close: Option<oneshot::Sender<Duration>>,
}

impl ConnectionTask {
    pub(crate) fn spawn(connection: Connection, peer: Peer) -> ConnectionTask {
        let (close, receiver) = oneshot::channel();
        let handle = tokio::spawn(connection.run(peer, receiver));
        ConnectionTask { handle, close: Some(close) }
    }

    /// Closes tiller's stdin and waits this long for its end. Returns nothing if the runtime has
    /// ended before.
    pub(crate) async fn close(mut self, limit: Duration) -> Option<Exit> {
        if let Some(close) = self.close.take() {
            // The task may have ended by itself.
            close.send(limit).ok();
        }
        (&mut self.handle).await.ok()
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn invalid_line(line: &[u8]) -> ClientError {
    let text = String::from_utf8_lossy(line);
    let start: String = text.trim_end().chars().take(QUOTED_CHARS).collect();
    ClientError::protocol(format!("expected a record in JSON from tiller, got: {start}"))
}
