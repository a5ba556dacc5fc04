//! One client: its lines, the format of its records, and how far it is behind in reading them.
//!
//! A connection knows no session. It hands over what the client sends, and writes what the session
//! emits.

use std::sync::Arc;

use tiller_protocol::{Level, Stream, ToolUpdates};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use uuid::Uuid;

use crate::lines::Line;
use crate::out::{Out, Pipe};
use crate::outbox::{Outbox, Outgoing};

/// What arrives from a client, or from the process on its behalf.
pub enum ClientInput {
    /// Lines that arrived in one read. They are handled together, so that an `abort` in the same
    /// write as its `prompt` is handled before the run has started.
    Lines(Vec<Line>),
    /// The client sends nothing more; sent behind the last lines.
    EndOfInput,
    /// The client sends nothing more; sent on the control channel, so that the last lines are read
    /// even while output is flooded.
    LastLines,
    /// The client reads nothing more.
    OutputClosed,
    /// A signal asks the process to end.
    Signal(Signal),
}

/// The signals that end tiller in an orderly way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    Interrupt,
    Terminate,
    HangUp,
}

impl Signal {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
            Signal::HangUp => 129,
        }
    }
}

/// The server's ends of a client's channels.
pub struct Channels {
    /// From the client.
    pub lines: mpsc::Receiver<ClientInput>,
    /// Handled even while the client's lines are not.
    pub control: mpsc::Receiver<ClientInput>,
    /// Takes the records for the client.
    pub pipe: Pipe,
    /// Notified when a writer that was behind has caught up.
    pub caught_up: Arc<Notify>,
}

/// How records are written, and which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WireFormat {
    pub(crate) level: Level,
    pub(crate) stream: Stream,
    pub(crate) tool_updates: ToolUpdates,
    /// Whether `prompt_result` is written.
    pub(crate) prompt_results: bool,
    /// If records are numbered, the name of this count.
    pub(crate) epoch: Option<Uuid>,
    /// The length of the longest line.
    pub(crate) max_frame_bytes: Option<usize>,
}

impl WireFormat {
    pub(crate) fn new(level: Level) -> WireFormat {
        WireFormat {
            level,
            stream: level.stream(),
            tool_updates: ToolUpdates::default(),
            prompt_results: false,
            epoch: None,
            max_frame_bytes: None,
        }
    }
}

pub(crate) struct Connection {
    lines: mpsc::Receiver<ClientInput>,
    control: mpsc::Receiver<ClientInput>,
    caught_up: Arc<Notify>,
    out: Out,
    format: WireFormat,
    /// The lines that are left are few, and are read even while output is flooded.
    ignores_flood: bool,
}

impl Connection {
    pub(crate) fn new(level: Level, channels: Channels) -> Connection {
        let Channels { lines, control, pipe, caught_up } = channels;
        Connection {
            lines,
            control,
            caught_up,
            out: Out::new(level, pipe),
            format: WireFormat::new(level),
            ignores_flood: false,
        }
    }

    /// The format of the records from here on.
    pub(crate) fn format(&self) -> WireFormat {
        self.format
    }

    /// Greets a client whose level has a greeting.
    pub(crate) fn greet(&mut self, version: &str) {
        self.out.ready(version);
    }

    /// Waits for the client. Nothing means that held output is due or that the client has caught
    /// up. Once both channels are closed, only the client's reading is waited for.
    pub(crate) async fn next(&mut self) -> Option<ClientInput> {
        let accepts_lines = self.accepts_lines();
        tokio::select! {
            biased;
            Some(input) = self.control.recv() => Some(input),
            Some(input) = self.lines.recv(), if accepts_lines => Some(input),
            () = self.caught_up.notified() => None,
            () = at(self.out.due()) => None,
        }
    }

    /// The next lines, if they are there already.
    pub(crate) fn try_next(&mut self) -> Option<ClientInput> {
        if self.accepts_lines() { self.lines.try_recv().ok() } else { None }
    }

    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The last lines are read even while output is flooded.
    pub(crate) fn ignore_flood(&mut self) {
        self.ignores_flood = true;
    }

    /// The client is far behind; more output would only fill memory.
    pub(crate) fn is_flooded(&self) -> bool {
        self.out.is_flooded()
    }

    /// Writes what a session has emitted.
    pub(crate) fn write(&mut self, outbox: &mut Outbox) {
        for outgoing in outbox.drain() {
            if let Outgoing::Format(format) = outgoing {
                self.format = format;
            }
            self.out.write(outgoing);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.out.flush();
    }

    /// Writes everything, because the connection is about to end.
    pub(crate) fn close(self) {
        self.out.close();
    }

    fn accepts_lines(&self) -> bool {
        self.ignores_flood || !self.is_flooded()
    }
}

/// Waits until then; for ever if there is no such time.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
