//! The clients of one session: usually one, several if the session is shared.

use std::collections::VecDeque;

use futures_util::future::{FutureExt, select_all};
use tiller_agent::event::Event;
use tiller_protocol::{ClientId, Level};

use crate::connection::{ClientIdentity, ClientInput, Connection, WireFormat};
use crate::outbox::{Addressed, Outbox, Outgoing};
use crate::session_observer::SessionObserver;

/// How many streams of clients that are gone are kept.
const KEPT_STREAMS: usize = 4;

/// The clients of a session. A session of many clients may have none for a while.
pub(crate) struct Connections {
    attached: Vec<Connection>,
    /// The numbered streams of clients that are gone, for when they come back.
    detached: VecDeque<Connection>,
    last_id: u32,
    /// The level of requests whose client is gone.
    level: Level,
    /// Present if clients may join later.
    observer: Option<Box<SessionObserver>>,
}

impl Connections {
    /// The one client of a process.
    pub(crate) fn only(connection: Connection) -> Connections {
        let level = connection.format().level;
        Connections {
            attached: vec![connection],
            detached: VecDeque::new(),
            last_id: 0,
            level,
            observer: None,
        }
    }

    /// The clients of a session that others can join.
    pub(crate) fn shared(level: Level, observer: SessionObserver) -> Connections {
        Connections {
            attached: Vec::new(),
            detached: VecDeque::new(),
            last_id: 0,
            level,
            observer: Some(Box::new(observer)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.attached.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    pub(crate) fn observer(&self) -> Option<&SessionObserver> {
        self.observer.as_deref()
    }

    /// The format of a client's records. A client that is gone has the one of the session's level.
    pub(crate) fn format(&self, client: ClientId) -> WireFormat {
        let connection = self.attached.iter().find(|connection| connection.id() == client);
        connection.map_or_else(|| WireFormat::new(self.level), Connection::format)
    }

    pub(crate) fn find(&mut self, client: ClientId) -> Option<&mut Connection> {
        self.attached.iter_mut().find(|connection| connection.id() == client)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.attached.iter_mut()
    }

    /// The id of the next client that joins.
    pub(crate) fn next_id(&mut self) -> ClientId {
        self.last_id += 1;
        ClientId(self.last_id)
    }

    pub(crate) fn add(&mut self, connection: Connection) {
        // Most sessions have one client.
        self.attached.reserve_exact(1);
        self.attached.push(connection);
    }

    /// Removes a client. If its records are numbered, its stream is kept.
    pub(crate) fn remove(&mut self, client: ClientId) {
        let place = self.attached.iter().position(|connection| connection.id() == client);
        let Some(index) = place else { return };
        let mut connection = self.attached.remove(index);
        if connection.format().epoch.is_some() {
            connection.disconnect();
            self.detached.push_back(connection);
            if self.detached.len() > KEPT_STREAMS {
                self.detached.pop_front();
            }
        } else {
            connection.close();
        }
    }

    /// Takes the connection whose stream has the records after number `since`, and those records.
    pub(crate) fn take_stream(
        &mut self,
        epoch: &str,
        since: u64,
    ) -> Option<(Connection, Vec<Box<str>>)> {
        for index in 0..self.detached.len() {
            if let Some(lines) = self.detached[index].kept_since(epoch, since) {
                return self.detached.remove(index).map(|connection| (connection, lines));
            }
        }
        // The server has not noticed yet that the client's old connection is gone.
        for index in 0..self.attached.len() {
            if let Some(lines) = self.attached[index].kept_since(epoch, since) {
                return Some((self.attached.remove(index), lines));
            }
        }
        None
    }

    /// Forgets the streams of clients that are gone.
    pub(crate) fn forget_streams(&mut self) {
        self.detached.clear();
    }

    /// Waits for one of the clients.
    pub(crate) async fn next(&mut self) -> (ClientId, Option<ClientInput>) {
        match &mut self.attached[..] {
            [] => std::future::pending().await,
            [only] => (only.id(), only.next().await),
            several => {
                let waiting = several.iter_mut().map(|connection| {
                    let id = connection.id();
                    connection.next().map(move |input| (id, input)).boxed()
                });
                select_all(waiting).await.0
            }
        }
    }

    /// The next lines of the client at this place, if they are there already.
    #[inline]
    pub(crate) fn try_next(&mut self, place: usize) -> Option<(ClientId, ClientInput)> {
        let connection = self.attached.get_mut(place)?;
        let id = connection.id();
        connection.try_next().map(|input| (id, input))
    }

    pub(crate) fn has_lines(&self) -> bool {
        self.attached.iter().any(Connection::has_lines)
    }

    /// Every client is far behind; more output would only fill memory.
    pub(crate) fn is_flooded(&self) -> bool {
        !self.is_empty() && self.attached.iter().all(Connection::is_flooded)
    }

    /// The clients that are far behind while another is not.
    pub(crate) fn too_slow(&self) -> Vec<ClientId> {
        if self.attached.len() < 2 || self.is_flooded() {
            return Vec::new();
        }
        let slow = self.attached.iter().filter(|connection| connection.is_flooded());
        slow.map(Connection::id).collect()
    }

    /// Writes what the session has emitted.
    pub(crate) fn write(&mut self, outbox: &mut Outbox) {
        if let ([only], None) = (&mut self.attached[..], &self.observer) {
            for Addressed { to, outgoing } in outbox.drain() {
                if to.is_none_or(|client| client == only.id()) {
                    only.write(outgoing);
                }
            }
            return;
        }
        for Addressed { to, outgoing } in outbox.drain() {
            if let Some(observer) = &mut self.observer {
                observer.observe(&outgoing);
            }
            match (to, &mut self.attached[..]) {
                (None, [only]) if self.detached.is_empty() => only.write(outgoing),
                (Some(client), _) => {
                    let mut all = self.attached.iter_mut().chain(&mut self.detached);
                    if let Some(connection) = all.find(|one| one.id() == client) {
                        connection.write(outgoing);
                    }
                }
                (None, _) => {
                    for connection in self.attached.iter_mut().chain(&mut self.detached) {
                        if let Some(copy) = copy(&outgoing) {
                            connection.write(copy);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        for connection in &mut self.attached {
            connection.flush();
        }
    }

    /// Writes everything, because the session has ended. `last_line` makes the last line of each
    /// client that may have other sessions; the client that has closed this one gets a response.
    pub(crate) fn close(self, last_line: Option<&str>, closer: Option<&ClientIdentity>) {
        for mut connection in self.attached {
            let is_closer = closer.is_some_and(|closer| connection.is_of(closer));
            if let Some(line) = last_line.filter(|_| !connection.is_dedicated() && !is_closer) {
                connection.plain_line(line);
            }
            connection.close();
        }
    }
}

/// What all clients get. Responses have one recipient.
fn copy(outgoing: &Outgoing) -> Option<Outgoing> {
    match outgoing {
        Outgoing::Event(event) => Some(Outgoing::Event(Event::clone(event))),
        Outgoing::DialogClosed(id) => Some(Outgoing::DialogClosed(id.clone())),
        _ => None,
    }
}
