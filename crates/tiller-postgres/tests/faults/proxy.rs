//! The network between a store and PostgreSQL: it can be cut, be silent, be slow, and deliver late.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::frames::Frames;
use crate::host::until;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// A TCP proxy before a PostgreSQL server.
pub struct Proxy {
    port: u16,
    network: Arc<Network>,
}

#[derive(Default)]
struct Network {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    connections: Vec<Connection>,
    /// Cuts a connection when this many more bytes have passed in this direction.
    cut: Option<(Direction, u64)>,
    /// Holds a connection from the statement on that contains this text: what the client sends, or
    /// what the server answers.
    hold_at: Option<(String, Direction)>,
    /// New connections are held from their beginning.
    holds_new: bool,
    delay: Duration,
    /// The statements of all connections, if they are recorded.
    statements: Option<Vec<String>>,
    cuts: u64,
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    holds_to_server: bool,
    holds_to_client: bool,
    /// What was held on its way to the server was released, and the server has not answered yet.
    waits_for_late_answer: bool,
}

impl Connection {
    fn holds(&mut self, direction: Direction) -> &mut bool {
        match direction {
            Direction::ToServer => &mut self.holds_to_server,
            Direction::ToClient => &mut self.holds_to_client,
        }
    }

    fn hold(&mut self, direction: Direction) {
        *self.holds(direction) = true;
    }

    fn release(&mut self) {
        self.waits_for_late_answer = self.holds_to_server;
        (self.holds_to_server, self.holds_to_client) = (false, false);
    }

    fn cut(&self) {
        // An error means that it is cut already.
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
    }
}

impl Proxy {
    /// Starts a proxy to this port of 127.0.0.1.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Arc::new(Network::default());
        let accepting = network.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state().is_closed {
                    return;
                }
                // A server that is down closes the connection.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    accepting.connect(client, server);
                }
            }
        });
        Proxy { port, network }
    }

    /// The URL with the address of the proxy.
    pub fn url(&self, url: &str) -> String {
        let (before, rest) = url.split_once("127.0.0.1:").unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        format!("{before}127.0.0.1:{}/{database}", self.port)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.network.state()
    }

    /// Cuts the connection on which the byte with this number passes.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.state().cut = Some((direction, bytes));
    }

    /// How many connections were cut by `cut_after`.
    pub fn cuts(&self) -> u64 {
        self.state().cuts
    }

    /// Holds what goes in these directions on the connections that exist.
    pub fn hold(&self, directions: &[Direction]) {
        let mut state = self.state();
        for connection in &mut state.connections {
            directions.iter().for_each(|direction| connection.hold(*direction));
        }
    }

    /// Holds everything, also on connections to come. They are accepted.
    pub fn hold_all(&self) {
        self.hold(&[Direction::ToServer, Direction::ToClient]);
        self.state().holds_new = true;
    }

    /// Holds the statements that contain this text, or their answers, on connections to come and on
    /// those that exist.
    pub fn hold_statements(&self, text: &str, direction: Direction) {
        self.state().hold_at = Some((text.to_owned(), direction));
    }

    /// How many connections are held.
    pub fn held(&self) -> usize {
        let is_held = |one: &&Connection| one.holds_to_server || one.holds_to_client;
        self.state().connections.iter().filter(is_held).count()
    }

    /// Holds nothing new.
    pub fn pass_statements(&self) {
        let mut state = self.state();
        (state.hold_at, state.holds_new) = (None, false);
    }

    /// Delivers what was held, though its client may be gone.
    pub fn release(&self) {
        self.pass_statements();
        let mut state = self.state();
        state.connections.iter_mut().for_each(Connection::release);
        drop(state);
        self.network.changed.notify_all();
    }

    /// Delivers statements that were held, and waits until the server has answered them.
    pub fn deliver_late(&self) {
        assert!(self.held() > 0, "nothing is held");
        self.release();
        until(|| {
            let state = self.state();
            let waits = state.connections.iter().any(|one| one.waits_for_late_answer);
            (!waits).then_some(())
        });
    }

    /// Waits before it passes anything on.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        self.state().connections.iter().for_each(Connection::cut);
    }

    /// Records statements from now on.
    pub fn record(&self) {
        self.state().statements = Some(Vec::new());
    }

    /// The recorded statements.
    pub fn statements(&self) -> Vec<String> {
        self.state().statements.take().unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.state();
        state.is_closed = true;
        state.connections.iter().for_each(Connection::cut);
        drop(state);
        self.network.changed.notify_all();
        // Wakes the thread that accepts.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
    }
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn connect(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let mut ends = Vec::new();
        for (from, to) in [(&client, &server), (&server, &client)] {
            from.set_nodelay(true).unwrap();
            ends.push((from.try_clone().unwrap(), to.try_clone().unwrap()));
        }
        let mut state = self.state();
        let number = state.connections.len();
        let holds = state.holds_new;
        state.connections.push(Connection {
            client,
            server,
            holds_to_server: holds,
            holds_to_client: holds,
            waits_for_late_answer: false,
        });
        drop(state);
        for (direction, (from, to)) in
            [Direction::ToServer, Direction::ToClient].into_iter().zip(ends)
        {
            let network = self.clone();
            thread::spawn(move || network.pass(number, direction, from, to));
        }
    }

    /// Passes bytes on in one direction until the connection ends.
    fn pass(&self, number: usize, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
        let mut frames = Frames::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // An error means that the connection was cut.
            let count = from.read(&mut buffer).unwrap_or(0);
            let bytes = &buffer[..count];
            let delay = self.state().delay;
            if !delay.is_zero() {
                thread::sleep(delay);
            }
            let mut state = self.state();
            if direction == Direction::ToServer {
                state.see(number, frames.read(bytes));
            }
            while *state.connections[number].holds(direction) && !state.is_closed {
                state = self.changed.wait(state).unwrap();
            }
            let passes = state.passes(direction, count as u64);
            if direction == Direction::ToClient {
                state.connections[number].waits_for_late_answer = false;
            }
            drop(state);
            // The other end may be gone. What the server sends is read all the same.
            let is_gone = to.write_all(&bytes[..passes as usize]).is_err();
            if passes < count as u64 {
                self.state().connections[number].cut();
            }
            if count == 0 || (is_gone && direction == Direction::ToServer) {
                to.shutdown(Shutdown::Write).ok();
                return;
            }
        }
    }
}

impl State {
    /// Looks at statements before they are passed on.
    fn see(&mut self, number: usize, statements: Vec<String>) {
        for statement in statements {
            if let Some((text, direction)) = &self.hold_at
                && statement.contains(text)
            {
                let direction = *direction;
                self.connections[number].hold(direction);
            }
            if let Some(statements) = &mut self.statements {
                statements.push(statement);
            }
        }
    }

    /// How many of the bytes pass before the connection is cut.
    fn passes(&mut self, direction: Direction, count: u64) -> u64 {
        match &mut self.cut {
            Some((cut, left)) if *cut == direction && count > 0 => {
                if *left >= count {
                    *left -= count;
                    return count;
                }
                let passes = *left;
                self.cut = None;
                self.cuts += 1;
                passes
            }
            _ => count,
        }
    }
}
