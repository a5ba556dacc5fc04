//! Plays a conversation of an editor: the whole server behind the Agent Client Protocol, as text.
//!
//! ```text
//! client> {"id":1,"method":"initialize","params":{"protocolVersion":1}}
//! tiller> answer 1 {…}
//! client> {"method":"session/cancel","params":{"sessionId":"session-1"}}
//! tiller> session-1 agent_message_chunk m1 "Hello."
//! tiller> request 1 session/request_permission {…}
//! client> {"id":1,"result":{"outcome":{"outcome":"cancelled"}}}
//! ```
//!
//! `jsonrpc` is added to the client's lines and left out of tiller's. Sessions are `session-1` and so
//! on, stored in the scratch folder. Adjacent chunks of a message are printed as one. With the option
//! `show records`, answers are printed whole.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tiller::acp::Bridge;
use tiller_demo::script::{ScriptFeeder, ScriptProvider};
use tiller_protocol::{Level, OpenSession};
use tiller_server::conversation::Conversation;
use tiller_server::lines::Line as WireLine;
use tiller_server::session_store::SessionStore;
use tiller_server::{OpenError, Router, RouterConfig, RouterEnd, ServerConfig, SessionOpener};
use tiller_session::{Durability, SessionId};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::acp_laws::AcpLaws;
use super::acp_printer::AcpPrinter;
use super::faulty::Faulty;
use super::launch::launch;
use super::server::scratch_folder;
use super::transcript::{Line, Transcript};
use super::{difference, last_lines};

/// Plays the file and compares. Returns a description of the difference.
pub fn check(path: &Path, update: bool) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = match Transcript::parse(&text) {
        Ok(transcript) => transcript,
        Err(why) => return Some(format!("{name}: {why}")),
    };
    let mut played = String::new();
    if let Err(why) = play(&transcript, &mut played) {
        return Some(format!("{name}: {why}\n{}", last_lines(&played, 12)));
    }
    let actual = format!("{}{played}", transcript.head);
    if actual == text {
        return None;
    }
    if update {
        std::fs::write(path, actual).unwrap();
        return None;
    }
    Some(format!("{name} differs:\n{}", difference(&text, &actual)))
}

fn play(transcript: &Transcript, played: &mut String) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut editor = Editor::start(transcript)?;
        for group in &transcript.groups {
            for line in group {
                played.push_str(&line.text());
                played.push('\n');
            }
            editor.take(group)?;
            editor.settle(played).await?;
        }
        editor.finish(played).await
    })
}

/// Opens the sessions of a transcript, all with the same scripted model.
struct Sessions {
    transcript: Transcript,
    folder: Arc<TempDir>,
    model: Arc<ScriptProvider>,
    opened: AtomicUsize,
    /// The sessions that were begun, by their ids.
    store: Mutex<Option<SessionStore>>,
}

impl Sessions {
    fn config(&self, request: &OpenSession) -> Result<ServerConfig, String> {
        let files = Faulty::new(None).files();
        let mut config = launch(&self.transcript, &self.folder, self.model.clone(), files, None)?;
        self.store.lock().unwrap().get_or_insert_with(|| config.store.clone());
        let cwd = request.cwd.clone().unwrap_or_else(|| self.folder.path().to_owned());
        let session = match &request.session_id {
            Some(id) => {
                let path = config.store.store.find(id, &cwd).map_err(|err| err.to_string())?;
                config.store.store.open(&path).map_err(|err| err.to_string())?
            }
            None => {
                let number = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
                let id = SessionId::read(&format!("session-{number}")).unwrap();
                config.store.begin(id, &cwd, None, config.clock.now())
            }
        };
        let conversation = Conversation::resume(session, Durability::Os, config.clock.now());
        config.conversation = conversation.map_err(|err| err.to_string())?;
        Ok(config)
    }
}

impl SessionOpener for Sessions {
    fn open(&self, request: &OpenSession) -> Result<ServerConfig, OpenError> {
        self.config(request).map_err(|error| OpenError { error, in_use: None })
    }

    fn location(&self, request: &OpenSession) -> Option<PathBuf> {
        let store = self.store.lock().unwrap();
        let id = request.session_id.as_ref()?;
        store.as_ref()?.store.find(id, self.folder.path()).ok()
    }

    fn store(&self) -> Result<SessionStore, String> {
        self.store.lock().unwrap().clone().ok_or_else(|| "no session was opened".to_owned())
    }
}

/// The editor: it writes the client's lines, and prints and checks tiller's.
struct Editor {
    lines: Option<mpsc::Sender<Vec<WireLine>>>,
    read: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
    feeder: ScriptFeeder,
    model: Arc<ScriptProvider>,
    printer: AcpPrinter,
    laws: AcpLaws,
    wait: Duration,
    folder: Arc<TempDir>,
}

impl Editor {
    fn start(transcript: &Transcript) -> Result<Editor, String> {
        let folder = Arc::new(scratch_folder());
        for (path, content) in &transcript.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let (model, feeder) = ScriptProvider::live();
        let sessions = Sessions {
            transcript: transcript.clone(),
            folder: folder.clone(),
            model: model.clone(),
            opened: AtomicUsize::new(0),
            store: Mutex::new(None),
        };
        let config = RouterConfig {
            level: Level::PiDelta,
            idle_limit: None,
            max_sessions: 10,
            max_extensions: 100,
        };
        let router = Router::new(config, Arc::new(sessions));
        let (inputs, output) = router.connect_only_client();
        let (lines, lines_receiver) = mpsc::channel(100);
        let (chunks, mut chunks_receiver) = mpsc::channel::<Vec<u8>>(100);
        let cwd = folder.path().to_owned();
        let task = tokio::spawn(async move {
            Bridge::new(inputs, output, lines_receiver, chunks, cwd).run().await;
            router.end(RouterEnd::EndOfInput).await;
        });
        let read = Arc::new(Mutex::new(Vec::new()));
        let written = read.clone();
        tokio::spawn(async move {
            while let Some(chunk) = chunks_receiver.recv().await {
                written.lock().unwrap().extend(chunk);
            }
        });
        let shows_all = transcript.options.get("show").is_some_and(|what| what == "records");
        Ok(Editor {
            lines: Some(lines),
            read,
            task,
            feeder,
            model,
            printer: AcpPrinter::new(folder.path(), shows_all),
            laws: AcpLaws::default(),
            wait: Duration::ZERO,
            folder,
        })
    }

    /// Applies a group of transcript lines.
    fn take(&mut self, group: &[Line]) -> Result<(), String> {
        let mut said = Vec::new();
        for line in group {
            match line {
                Line::Client(text) => said.push(self.client_line(text)),
                Line::Bytes(text) => said.push(WireLine::Text(super::transcript::unescape(text)?)),
                Line::Model(text) => self.feeder.feed(text).map_err(|err| err.to_string())?,
                Line::Clock(ms) => self.wait = Duration::from_millis(*ms),
                Line::Eof => {
                    self.send(std::mem::take(&mut said));
                    self.lines = None;
                }
                Line::Reader(_) | Line::Signal(_) => {
                    return Err("an editor has neither a slow reader nor signals".to_owned());
                }
            }
        }
        self.send(said);
        Ok(())
    }

    /// A line of the client, with what transcripts leave out.
    fn client_line(&mut self, text: &str) -> WireLine {
        let text = text.replace("FOLDER", &self.folder.path().to_string_lossy());
        let text = self.printer.with_ids(&text);
        let text = match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(mut message)) => {
                message.entry("jsonrpc").or_insert(json!("2.0"));
                let message = Value::Object(message);
                self.laws.sent(&message);
                message.to_string()
            }
            _ => text,
        };
        WireLine::Text(text.into_bytes())
    }

    fn send(&self, lines: Vec<WireLine>) {
        if let Some(sender) = self.lines.as_ref().filter(|_| !lines.is_empty()) {
            sender.try_send(lines).unwrap();
        }
    }

    /// Waits until every task is idle, and prints the output.
    async fn settle(&mut self, played: &mut String) -> Result<(), String> {
        let wait = std::mem::take(&mut self.wait);
        tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
        loop {
            let read = std::mem::take(&mut *self.read.lock().unwrap());
            if read.is_empty() {
                break;
            }
            for line in String::from_utf8(read).unwrap().lines() {
                let message: Value = serde_json::from_str(line).map_err(|err| err.to_string())?;
                self.printer.print(&message);
                self.laws.written(&message)?;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        played.push_str(&self.printer.take());
        Ok(())
    }

    /// Closes the client's input. Every request must have its answer now.
    async fn finish(mut self, played: &mut String) -> Result<(), String> {
        let left_early = self.lines.is_none();
        self.lines = None;
        let ended = tokio::time::timeout(Duration::from_secs(10), &mut self.task).await;
        ended.map_err(|_| "the server does not end".to_owned())?.map_err(|err| err.to_string())?;
        let before = played.len();
        self.settle(played).await?;
        if played.len() > before && !left_early {
            return Err("there was more to say when the client hung up".to_owned());
        }
        match (self.model.unused().as_slice(), self.model.errors().as_slice()) {
            ([], []) => self.laws.finish(),
            ([], errors) => Err(errors.join("; ")),
            (lines, _) => Err(format!("the model was not asked for its lines {lines:?}")),
        }
    }
}
