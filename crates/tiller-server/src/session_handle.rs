//! A session in the caller's own process: typed commands in, typed records out.

use std::collections::VecDeque;
use std::fmt;

use tiller_protocol::{Command, Line, Record};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::connection::{Channels, ClientInput, Signal};
use crate::lines::Lines;
use crate::out::{Drain, pipe};
use crate::server::{INPUTS_MAX, serve};

/// A running session. Dropping it ends the session as a signal ends tiller: a run is aborted, and its
/// child processes end. [`SessionHandle::close`] waits for the end.
pub struct SessionHandle {
    lines: mpsc::Sender<ClientInput>,
    control: mpsc::Sender<ClientInput>,
    drain: Drain,
    framing: Lines,
    /// Lines that were read and not returned yet.
    ready: VecDeque<Line>,
    server: JoinHandle<u8>,
    sent: u64,
}

/// The session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnded;

impl fmt::Display for SessionEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session has ended")
    }
}

impl std::error::Error for SessionEnded {}

impl SessionHandle {
    /// Starts a session on the current Tokio runtime.
    pub fn start(config: ServerConfig) -> SessionHandle {
        let (lines, lines_receiver) = mpsc::channel(INPUTS_MAX);
        let (control, control_receiver) = mpsc::channel(INPUTS_MAX);
        let (pipe, drain, caught_up) = pipe();
        let channels =
            Channels { lines: lines_receiver, control: control_receiver, pipe, caught_up };
        SessionHandle {
            lines,
            control,
            drain,
            // The limit is for clients; a response may be longer.
            framing: Lines::new(usize::MAX),
            ready: VecDeque::new(),
            server: tokio::spawn(serve(config, channels)),
            sent: 0,
        }
    }

    /// Sends a command. Returns the `id` of its response.
    pub async fn send(&mut self, command: &Command) -> Result<String, SessionEnded> {
        self.sent += 1;
        let id = self.sent.to_string();
        let line = Line::Text(command.to_line(Some(&id)).into_bytes());
        let sent = self.lines.send(ClientInput::Lines(vec![line])).await;
        sent.map(|()| id).map_err(|_| SessionEnded)
    }

    /// The next record, or nothing once the session has ended. A caller that does not read holds
    /// the session back, as a slow client does.
    pub async fn next(&mut self) -> Option<Record<'static>> {
        loop {
            if let Some(Line::Text(text)) = self.ready.pop_front() {
                let record = serde_json::from_slice(&text);
                return Some(record.expect("every record of the server is valid"));
            }
            let chunk = self.drain.next().await?;
            self.drain.wrote(chunk.len());
            self.framing.push(&chunk, |line| self.ready.push_back(line));
        }
    }

    /// Ends the session as a client does that closes its input: a run is aborted or finished, as
    /// the configuration says. Records that were not read are dropped. Returns the exit code.
    pub async fn close(mut self) -> u8 {
        // The send fails if the session has ended by itself.
        self.lines.send(ClientInput::EndOfInput).await.ok();
        while let Some(chunk) = self.drain.next().await {
            self.drain.wrote(chunk.len());
        }
        (&mut self.server).await.unwrap_or(1)
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // A session that has ended needs no signal.
        self.control.try_send(ClientInput::Signal(Signal::Terminate)).ok();
    }
}
