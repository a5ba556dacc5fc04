//! One client: its lines, the format of its records, and how far it is behind in reading them.
//!
//! A connection knows no session. It hands over what the client sends, and writes what the session
//! emits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tiller_protocol::{ClientId, Level, Stream, ToolUpdates};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use uuid::Uuid;

use crate::lines::Line;
use crate::out::{Out, Pipe};
use crate::outbox::Outgoing;

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
    /// The client leaves the session, which goes on.
    Detached,
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

/// What a client with many sessions has beside its channels.
pub(crate) struct Membership {
    pub(crate) link: ClientLink,
    /// The handle of the session, which every record names. None: the client has one session only.
    pub(crate) handle: Option<Arc<str>>,
    /// The bytes of lines that were sent to the session and not read yet.
    pub(crate) unread: Arc<AtomicUsize>,
}

/// Tells a client that a session has dropped its connection, and whether the client was told why.
pub(crate) struct ClientLink {
    ended: mpsc::UnboundedSender<ConnectionEnded>,
    attachment: u64,
    is_in_order: bool,
}

/// The connection of a client's attachment has ended.
pub(crate) struct ConnectionEnded {
    pub(crate) attachment: u64,
    /// False: the session has failed.
    pub(crate) is_in_order: bool,
}

impl ClientLink {
    pub(crate) fn new(
        ended: mpsc::UnboundedSender<ConnectionEnded>,
        attachment: u64,
    ) -> ClientLink {
        ClientLink { ended, attachment, is_in_order: false }
    }

    fn end(mut self) {
        self.is_in_order = true;
    }
}

/// Which client of the process a connection belongs to.
pub(crate) struct ClientIdentity(pub(crate) mpsc::UnboundedSender<ConnectionEnded>);

impl Drop for ClientLink {
    fn drop(&mut self) {
        let ClientLink { attachment, is_in_order, .. } = *self;
        // A client that is gone needs no notice.
        self.ended.send(ConnectionEnded { attachment, is_in_order }).ok();
    }
}

pub(crate) struct Connection {
    id: ClientId,
    lines: mpsc::Receiver<ClientInput>,
    control: mpsc::Receiver<ClientInput>,
    caught_up: Arc<Notify>,
    out: Out,
    format: WireFormat,
    /// The lines that are left are few, and are read even while output is flooded.
    ignores_flood: bool,
    unread: Option<Arc<AtomicUsize>>,
    /// Tells the client when the session drops this connection.
    link: Option<ClientLink>,
    /// The connection carries one session, whose end is its end.
    is_dedicated: bool,
}

impl Connection {
    /// The only client of a process.
    pub(crate) fn only(level: Level, channels: Channels) -> Connection {
        let Channels { lines, control, pipe, caught_up } = channels;
        Connection {
            id: ClientId::default(),
            lines,
            control,
            caught_up,
            out: Out::new(level, pipe),
            format: WireFormat::new(level),
            ignores_flood: false,
            unread: None,
            link: None,
            is_dedicated: true,
        }
    }

    /// One of several clients of a session, or a client with several sessions.
    pub(crate) fn member(
        format: WireFormat,
        channels: Channels,
        membership: Membership,
    ) -> Connection {
        let mut connection = Connection::only(format.level, channels);
        connection.is_dedicated = membership.handle.is_none();
        if let Some(handle) = &membership.handle {
            connection.out.name_session(handle);
        }
        connection.unread = Some(membership.unread);
        connection.link = Some(membership.link);
        connection.format = format;
        connection.out.write(Outgoing::Format(format));
        connection
    }

    pub(crate) fn id(&self) -> ClientId {
        self.id
    }

    pub(crate) fn set_id(&mut self, id: ClientId) {
        self.id = id;
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Whether this is a connection of the client.
    pub(crate) fn is_of(&self, client: &ClientIdentity) -> bool {
        self.link.as_ref().is_some_and(|link| link.ended.same_channel(&client.0))
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
            Some(input) = self.lines.recv(), if accepts_lines => {
                self.read(&input);
                Some(input)
            }
            () = self.caught_up.notified() => None,
            () = at(self.out.due()) => None,
        }
    }

    /// The next lines, if they are there already.
    pub(crate) fn try_next(&mut self) -> Option<ClientInput> {
        if !self.accepts_lines() {
            return None;
        }
        let input = self.lines.try_recv().ok()?;
        self.read(&input);
        Some(input)
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
    pub(crate) fn write(&mut self, outgoing: Outgoing) {
        if let Outgoing::Format(format) = outgoing {
            self.format = format;
        }
        self.out.write(outgoing);
    }

    /// Writes a line that is not a record of the session.
    pub(crate) fn plain_line(&mut self, line: &str) {
        self.out.plain_line(line);
    }

    pub(crate) fn flush(&mut self) {
        self.out.flush();
    }

    /// Writes everything, because the connection is about to end.
    pub(crate) fn close(self) {
        self.out.close();
        if let Some(link) = self.link {
            link.end();
        }
    }

    /// Writes nothing to the client any more, but keeps records for [`Connection::resume`].
    pub(crate) fn disconnect(&mut self) {
        self.out.disconnect();
        if let Some(link) = self.link.take() {
            link.end();
        }
    }

    /// The records after number `since` of this epoch, if the connection has kept all of them.
    pub(crate) fn kept_since(&mut self, epoch: &str, since: u64) -> Option<Vec<Box<str>>> {
        let own = self.format.epoch.map(|own| own.to_string());
        if own.as_deref() == Some(epoch) { self.out.kept_since(since) } else { None }
    }

    /// Continues the stream of this connection at the client of another one, whose response and
    /// replay come first. If the old client is still there, `detached` makes its last line.
    pub(crate) fn resume(
        self,
        new: Connection,
        detached: &str,
        response: &str,
        replay: &[Box<str>],
    ) -> Connection {
        let Connection { out: new_out, lines, control, caught_up, unread, link, .. } = new;
        let mut out = self.out;
        if let Some(link) = self.link {
            out.plain_line(detached);
            out.flush();
            link.end();
        }
        out.reconnect(new_out.into_pipe());
        out.plain_line(response);
        out.repeat(replay);
        Connection {
            id: self.id,
            lines,
            control,
            caught_up,
            unread,
            link,
            out,
            ignores_flood: false,
            format: self.format,
            is_dedicated: self.is_dedicated,
        }
    }

    fn read(&self, input: &ClientInput) {
        if let (Some(unread), ClientInput::Lines(lines)) = (&self.unread, input) {
            unread.fetch_sub(line_bytes(lines), Ordering::AcqRel);
        }
    }

    fn accepts_lines(&self) -> bool {
        self.ignores_flood || !self.is_flooded()
    }
}

/// What lines count for while they wait for a session.
pub(crate) fn line_bytes(lines: &[Line]) -> usize {
    /// What a line takes beside its bytes.
    const OVERHEAD: usize = 64;
    let bytes = |line: &Line| match line {
        Line::Text(text) => text.len() + OVERHEAD,
        Line::TooLong => OVERHEAD,
    };
    lines.iter().map(bytes).sum()
}

/// Waits until then; for ever if there is no such time.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
