//! Carries lines between a client, the translation and the router.
//!
//! A client that does not read is not listened to, and its sessions are not either: then the server
//! merges their records.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tiller_acp::{Connection, Output};
use tiller_server::ClientInputs;
use tiller_server::connection::ClientInput;
use tiller_server::lines::Line;
use tiller_server::out::OutputQueue;
use tokio::sync::mpsc;

/// A client of the Agent Client Protocol at a router.
pub struct Bridge {
    connection: Connection,
    inputs: Arc<ClientInputs>,
    output: Arc<OutputQueue>,
    client: ClientLines,
    to_client: mpsc::Sender<Vec<u8>>,
    /// What waits for the client.
    for_client: Vec<u8>,
    /// What waits for the router.
    for_server: Vec<Line>,
    /// Lines on their way to the router, which waits while much is unread.
    sending: Option<Sending>,
}

type Sending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The input of the client.
enum ClientLines {
    Open(mpsc::Receiver<Vec<Line>>),
    /// The router does not know yet that it has ended.
    Ended,
    Closed,
}

impl ClientLines {
    /// The lines of the next read. None: the input has ended.
    async fn next(&mut self) -> Option<Vec<Line>> {
        match self {
            ClientLines::Open(lines) => lines.recv().await,
            ClientLines::Ended | ClientLines::Closed => std::future::pending().await,
        }
    }
}

impl Bridge {
    /// A bridge between a client's lines and chunks of output, and a client of the router. `cwd` is the
    /// folder in which the process was started.
    pub fn new(
        inputs: ClientInputs,
        output: Arc<OutputQueue>,
        lines: mpsc::Receiver<Vec<Line>>,
        to_client: mpsc::Sender<Vec<u8>>,
        cwd: PathBuf,
    ) -> Bridge {
        Bridge {
            connection: Connection::new(env!("CARGO_PKG_VERSION"), cwd),
            inputs: Arc::new(inputs),
            output,
            client: ClientLines::Open(lines),
            to_client,
            for_client: Vec::new(),
            for_server: Vec::new(),
            sending: None,
        }
    }

    /// Runs until the router has written its last record, or the client has closed its output. May be
    /// dropped and called again.
    pub async fn run(&mut self) {
        loop {
            self.collect();
            self.begin_sending();
            let Bridge { connection, output, client, to_client, for_client, sending, .. } = self;
            let is_caught_up = for_client.is_empty();
            let is_idle = is_caught_up && sending.is_none();
            tokio::select! {
                biased;
                () = finished(sending), if sending.is_some() => *sending = None,
                permit = to_client.reserve(), if !is_caught_up => match permit {
                    Ok(permit) => permit.send(std::mem::take(for_client)),
                    Err(_) => return,
                },
                chunk = output.next(), if is_caught_up => match chunk {
                    Some(chunk) => {
                        for line in chunk.bytes().split(|&byte| byte == b'\n') {
                            connection.server_line(line);
                        }
                        chunk.written();
                    }
                    None => return,
                },
                lines = client.next(), if is_idle => match lines {
                    Some(lines) => lines.into_iter().for_each(|line| take(connection, line)),
                    None => *client = ClientLines::Ended,
                },
            }
        }
    }

    fn collect(&mut self) {
        let Output { to_client, to_server } = self.connection.take_output();
        for line in to_client {
            self.for_client.extend_from_slice(line.as_bytes());
            self.for_client.push(b'\n');
        }
        self.for_server.extend(to_server.into_iter().map(|line| Line::Text(line.into_bytes())));
    }

    fn begin_sending(&mut self) {
        if self.sending.is_some() {
            return;
        }
        let input = if !self.for_server.is_empty() {
            ClientInput::Lines(std::mem::take(&mut self.for_server))
        } else if matches!(self.client, ClientLines::Ended) && !self.connection.needs_server() {
            self.client = ClientLines::Closed;
            ClientInput::EndOfInput
        } else {
            return;
        };
        let inputs = self.inputs.clone();
        self.sending = Some(Box::pin(async move {
            // If the router's task has ended, its output ends, too.
            inputs.send(input).await;
        }));
    }
}

fn take(connection: &mut Connection, line: Line) {
    match line {
        Line::Text(text) => connection.client_line(&text),
        Line::TooLong => connection.client_line_too_long(),
    }
}

async fn finished(sending: &mut Option<Sending>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}
