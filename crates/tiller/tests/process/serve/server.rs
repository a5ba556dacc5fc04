//! Starts `tiller serve` with an agent folder of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::ServeClient;
use crate::client::{Client, Place, Tail};

/// Nothing here takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, which is killed when it is dropped.
pub struct ServeProcess {
    child: Child,
    place: Place,
    addresses: Vec<String>,
    stderr: Tail,
}

/// `tiller` with the agent folder of this place.
pub fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("PI_CODING_AGENT_DIR", place.path().join("agent"));
    command
}

impl ServeProcess {
    /// Starts a server on its Unix socket, whose sessions play this script.
    pub fn script(script: &str, options: &[&str]) -> ServeProcess {
        ServeProcess::script_in(Place::new(), script, options)
    }

    /// The same in a folder that may have files already.
    pub fn script_in(place: Place, script: &str, options: &[&str]) -> ServeProcess {
        let place = place.with("talk.script", script);
        let mut all = options.to_vec();
        if !options.contains(&"--") {
            all.push("--");
        }
        all.extend(["--script", "talk.script", "--model", "tiller/script"]);
        ServeProcess::start(place, &all)
    }

    /// The same on a WebSocket with a free port.
    pub fn web_socket_script(script: &str, options: &[&str]) -> ServeProcess {
        let mut all = vec!["--listen", "ws://127.0.0.1:0"];
        all.extend(options);
        ServeProcess::script(script, &all)
    }

    /// Starts a server, and waits until it listens on all its addresses.
    pub fn start(place: Place, options: &[&str]) -> ServeProcess {
        let mut all = vec!["serve"];
        all.extend(options);
        let before = options.iter().take_while(|option| **option != "--");
        let expected = before.filter(|option| **option == "--listen").count().max(1);
        let mut child = command(&place, &all).spawn().unwrap();
        drop(child.stdin.take());
        let stderr = Tail::default();
        stderr.read(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            // The receiver is dropped when the server listens.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        let mut server = ServeProcess { child, place, addresses: Vec::new(), stderr };
        while server.addresses.len() < expected {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                server.fail("the server does not listen", "a record of type listening")
            };
            let record: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(record["type"], "listening", "{record}");
            server.addresses.push(record["address"].as_str().unwrap().to_owned());
        }
        server
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Changes the script of sessions that are opened from now on.
    pub fn set_script(&self, script: &str) {
        std::fs::write(self.path("talk.script"), script).unwrap();
    }

    pub fn socket(&self) -> PathBuf {
        let path = self.addresses.iter().find_map(|address| address.strip_prefix("unix:"));
        self.path(path.expect("the server has a Unix socket"))
    }

    /// `127.0.0.1:PORT`.
    pub fn tcp_address(&self) -> String {
        let address = self.addresses.iter().find_map(|address| address.strip_prefix("ws://"));
        address.expect("the server has a TCP address").to_owned()
    }

    pub fn token(&self) -> String {
        std::fs::read_to_string(self.path("agent/serve-token")).unwrap().trim().to_owned()
    }

    /// A new client on the Unix socket, or on the WebSocket if there is no other.
    pub fn connect(&self) -> ServeClient {
        match self.addresses[0].strip_prefix("unix:") {
            Some(path) => ServeClient::unix(&self.path(path), self.stderr.clone()),
            None => self.connect_web_socket(),
        }
    }

    pub fn connect_web_socket(&self) -> ServeClient {
        ServeClient::web_socket(&self.tcp_address(), &self.token(), self.stderr.clone())
    }

    /// Sends an HTTP request, and returns the status and the response.
    pub fn http(&self, head: &str) -> (u16, String) {
        http(&mut TcpStream::connect(self.tcp_address()).unwrap(), head)
    }

    /// `GET` with the right `Host` and this further header.
    pub fn get(&self, path: &str, header: &str) -> (u16, String) {
        let address = self.tcp_address();
        self.http(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}").trim_end())
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token())
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            if Instant::now() > deadline {
                self.fail("the server does not end", "its exit");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server by SIGTERM, and expects that it ends in order.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.exit_code(), Some(0));
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    fn fail(&self, what: &str, awaited: &str) -> ! {
        panic!("{what}; awaited: {awaited}\nstderr:\n{}", self.stderr.text());
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // It has usually ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends an HTTP request, and returns the status and the response.
pub fn http(stream: &mut TcpStream, head: &str) -> (u16, String) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("{head}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    // The server may close the connection before it has read everything.
    stream.read_to_end(&mut response).ok();
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), response)
}

/// Waits until this is the case.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the program has written these words to stderr.
#[track_caller]
pub fn wait_for_stderr(client: &Client, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !client.stderr_text().contains(words) {
        assert!(Instant::now() < deadline, "no {words:?} in:\n{}", client.stderr_text());
        thread::sleep(Duration::from_millis(10));
    }
}

/// The processes whose command line contains this word.
pub fn processes_with(word: &str) -> Vec<u32> {
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    let entries = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_it).collect()
}

/// A word that no other process has on its command line.
pub fn unique_word() -> String {
    format!("tiller-test-{}", uuid::Uuid::new_v4().simple())
}
