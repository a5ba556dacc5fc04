//! A client with one connection, to a server of many sessions or to a process with one. It checks
//! every record that it reads.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// No record takes longer than this to come.
const RECORD_LIMIT: Duration = Duration::from_secs(300);

pub struct Client {
    read: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    write: Box<dyn AsyncWrite + Send + Unpin>,
    line: Vec<u8>,
    sessions: HashMap<String, Received>,
    pub records: u64,
}

/// What has come from a session.
#[derive(Default)]
struct Received {
    last_number: u64,
    /// The text of the current answer, from its deltas.
    text: String,
}

/// An answer that has ended.
pub struct Answer {
    pub settled: Instant,
    pub text_bytes: usize,
}

/// A record, as far as the benchmark reads it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
    #[serde(default)]
    success: bool,
    seq: Option<u64>,
    #[serde(borrow)]
    data: Option<Opened<'a>>,
    #[serde(borrow)]
    assistant_message_event: Option<Step<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened<'a> {
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Step<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

impl Client {
    /// Asks for numbered records.
    pub async fn connect(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Client {
        let mut client = Client {
            read: BufReader::with_capacity(64 << 10, Box::new(read)),
            write: Box::new(write),
            line: Vec::new(),
            sessions: HashMap::new(),
            records: 0,
        };
        client.send("{\"type\":\"hello\",\"sequence\":true}\n").await;
        client.response().await;
        client
    }

    pub async fn send(&mut self, lines: &str) {
        self.write.write_all(lines.as_bytes()).await.expect("tiller listens");
        self.write.flush().await.expect("tiller listens");
    }

    /// Waits for the next response, which must be a success.
    pub async fn response(&mut self) {
        while self.next().await.kind != Kind::Response {}
    }

    /// Opens so many sessions with this command. Returns their handles.
    pub async fn open(&mut self, count: usize, command: &str) -> Vec<String> {
        let lines = command.repeat(count);
        let mut handles = Vec::with_capacity(count);
        self.send(&lines).await;
        while handles.len() < count {
            let next = self.next().await;
            if next.kind == Kind::Response {
                handles.push(next.opened);
            }
        }
        handles
    }

    /// Reads until so many answers have settled. Each must have the text of its deltas.
    pub async fn answers(&mut self, count: usize) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            if let Kind::Settled { text_bytes } = self.next().await.kind {
                answers.push(Answer { settled: Instant::now(), text_bytes });
            }
        }
        answers
    }

    /// Reads and checks a record.
    async fn next(&mut self) -> Checked {
        self.line.clear();
        let read = self.read.read_until(b'\n', &mut self.line);
        let read = tokio::time::timeout(RECORD_LIMIT, read).await.expect("a record in time");
        assert!(read.expect("tiller can be read") > 0, "tiller ended too early");
        self.records += 1;
        let text = std::str::from_utf8(&self.line).expect("records are text");
        let record: Record<'_> =
            serde_json::from_str(text).unwrap_or_else(|err| panic!("not a record ({err}): {text}"));
        let session = match self.sessions.get_mut(&*record.session_id) {
            Some(session) => session,
            None => self.sessions.entry(record.session_id.to_string()).or_default(),
        };
        if let Some(number) = record.seq {
            assert_eq!(number, session.last_number + 1, "a record is missing before: {text}");
            session.last_number = number;
        }
        let mut opened = String::new();
        let kind = match &*record.kind {
            "response" => {
                assert!(record.success, "a command failed: {text}");
                opened = record.data.map_or_else(String::new, |data| data.session_id.to_string());
                Kind::Response
            }
            "message_start" => {
                session.text.clear();
                Kind::Other
            }
            "message_update" => {
                let step = record.assistant_message_event.expect("an update has a step");
                if step.kind == "text_delta" {
                    session.text.push_str(&step.delta);
                }
                Kind::Other
            }
            "message_end" => {
                let message = record.message.expect("the end has the message");
                if message.role == "assistant" {
                    let whole: String = message.content.into_iter().map(|one| one.text).collect();
                    assert_eq!(whole, session.text, "the deltas are not the message");
                }
                Kind::Other
            }
            "agent_settled" => Kind::Settled { text_bytes: session.text.len() },
            _ => Kind::Other,
        };
        Checked { kind, opened }
    }
}

/// A record that was checked.
struct Checked {
    kind: Kind,
    /// The handle of the session that was opened, in its response.
    opened: String,
}

#[derive(PartialEq)]
enum Kind {
    Response,
    /// With the length of the session's last answer.
    Settled {
        text_bytes: usize,
    },
    Other,
}
