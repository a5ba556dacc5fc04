//! The sessions that are measured: in one server, or each in a process of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::process::{MODEL, PROVIDER, Usage, spawn};

/// How many connections to the server there are.
const CONNECTIONS: usize = 4;
/// How long the server may take to listen, and each process to end.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Host {
    name: &'static str,
    processes: Vec<Child>,
    clients: Vec<Client>,
    sessions: Vec<Session>,
}

/// A session, and the client that it belongs to.
struct Session {
    client: usize,
    /// The only session of a process has none.
    handle: Option<String>,
}

impl Session {
    fn command(&self, fields: &str) -> String {
        match &self.handle {
            Some(handle) => format!("{{{fields},\"sessionId\":\"{handle}\"}}\n"),
            None => format!("{{{fields}}}\n"),
        }
    }
}

impl Host {
    /// A process for each session. Returns when all have answered.
    pub async fn classic(folder: &Path, count: usize) -> Host {
        let model = format!("{PROVIDER}/{MODEL}");
        let arguments = ["--mode", "rpc", "--wire", "pi-delta", "--model", &model];
        let mut processes: Vec<Child> = (0..count).map(|_| spawn(folder, &arguments)).collect();
        let mut clients = Vec::new();
        for process in &mut processes {
            let stdout = process.stdout.take().expect("it was piped");
            let stdin = process.stdin.take().expect("it was piped");
            clients.push(Client::connect(stdout, stdin).await);
        }
        let sessions = (0..count).map(|client| Session { client, handle: None }).collect();
        Host { name: "--mode rpc", processes, clients, sessions }
    }

    /// A server without sessions, on a Unix socket.
    pub async fn serve(folder: &Path, max_sessions: usize) -> Host {
        let socket = folder.join("bench.sock");
        let address = format!("unix:{}", socket.display());
        let max = max_sessions.to_string();
        let process = spawn(folder, &["serve", "--listen", &address, "--max-sessions", &max]);
        let since = Instant::now();
        let mut clients = Vec::new();
        while clients.len() < CONNECTIONS {
            match UnixStream::connect(&socket).await {
                Ok(stream) => {
                    let (read, write) = stream.into_split();
                    clients.push(Client::connect(read, write).await);
                }
                Err(err) => {
                    assert!(since.elapsed() < LIMIT, "cannot connect to the server: {err}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        Host { name: "serve", processes: vec![process], clients, sessions: Vec::new() }
    }

    /// Opens sessions over all connections, without waiting for each response.
    pub async fn open(&mut self, count: usize) {
        let command = format!(
            "{{\"type\":\"open_session\",\"provider\":\"{PROVIDER}\",\"modelId\":\"{MODEL}\"}}\n"
        );
        let connections = self.clients.len();
        let opened = self
            .on_each_client(move |index, mut client| {
                let command = command.clone();
                let own = count / connections + usize::from(index < count % connections);
                async move {
                    let handles = client.open(own, &command).await;
                    (client, handles)
                }
            })
            .await;
        for (client, handles) in opened.into_iter().enumerate() {
            let session = |handle| Session { client, handle: Some(handle) };
            self.sessions.extend(handles.into_iter().map(session));
        }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The records that all clients have read.
    pub fn records(&self) -> u64 {
        self.clients.iter().map(|client| client.records).sum()
    }

    pub fn usage(&self) -> Usage {
        Usage::of_all(self.processes.iter().filter_map(Child::id))
    }

    /// How long `get_state` takes in sessions all over the server, one after the other.
    pub async fn state_latencies(&mut self, count: usize) -> Vec<Duration> {
        /// Coprime to the number of sessions, so that the order is mixed and all have their turn.
        const STRIDE: usize = 7_919;
        let mut latencies = Vec::with_capacity(count);
        for turn in 0..count {
            let session = &self.sessions[turn * STRIDE % self.sessions.len()];
            let command = session.command("\"type\":\"get_state\"");
            let client = &mut self.clients[session.client];
            let since = Instant::now();
            client.send(&command).await;
            client.response().await;
            latencies.push(since.elapsed());
        }
        latencies
    }

    /// Sends a prompt to so many sessions and reads their answers.
    pub async fn prompt(&mut self, count: usize) -> Vec<Answer> {
        let mut lines = vec![(String::new(), 0); self.clients.len()];
        for turn in 0..count {
            let session = &self.sessions[turn * self.sessions.len() / count];
            let (own, prompts) = &mut lines[session.client];
            own.push_str(&session.command("\"type\":\"prompt\",\"message\":\"Go\""));
            *prompts += 1;
        }
        let answers = self
            .on_each_client(move |index, mut client| {
                let (lines, prompts) = lines[index].clone();
                async move {
                    client.send(&lines).await;
                    let answers = client.answers(prompts).await;
                    (client, answers)
                }
            })
            .await;
        answers.into_iter().flatten().collect()
    }

    /// Lets all clients work at the same time. Returns the results in the order of the clients.
    async fn on_each_client<T: Send + 'static, F>(
        &mut self,
        work: impl Fn(usize, Client) -> F,
    ) -> Vec<T>
    where
        F: Future<Output = (Client, T)> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for (index, client) in self.clients.drain(..).enumerate() {
            let work = work(index, client);
            tasks.spawn(async move { (index, work.await) });
        }
        let mut done = tasks.join_all().await;
        done.sort_by_key(|(index, _)| *index);
        let (clients, results) = done.into_iter().map(|(_, done)| done).unzip();
        self.clients = clients;
        results
    }

    /// Ends all processes.
    pub async fn end(mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            process.start_kill().ok();
        }
        for process in &mut self.processes {
            tokio::time::timeout(LIMIT, process.wait()).await.expect("a killed process ends").ok();
        }
    }
}
