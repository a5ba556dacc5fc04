//! A server with many sessions in the test's own process: a session that fails is contained.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_demo::demo::Demo;
use tiller_llm::CacheRetention;
use tiller_protocol::{Level, OpenSession};
use tiller_server::connection::ClientInput;
use tiller_server::conversation::Conversation;
use tiller_server::lines::Line;
use tiller_server::out::OutputQueue;
use tiller_server::session_store::SessionStore;
use tiller_server::{
    ClientInputs, OpenError, Router, RouterConfig, RouterEnd, ServerConfig, SessionOpener,
};
use tiller_session::{FileStore, FileSystem, Files, Owner, SessionId};

const PATIENCE: Duration = Duration::from_secs(60);

/// A disk whose writes panic from the moment that the test chooses.
#[derive(Default)]
struct PanickingDisk {
    panics: AtomicBool,
}

impl FileSystem for PanickingDisk {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        assert!(!self.panics.load(Ordering::Acquire), "this panic is a part of the test");
        file.write_all(bytes)
    }
}

/// Opens sessions of the built-in model. Those named `breaks` are stored on the panicking disk.
struct Opener {
    folder: PathBuf,
    disk: Arc<PanickingDisk>,
}

impl SessionOpener for Opener {
    fn open(&self, request: &OpenSession) -> Result<ServerConfig, OpenError> {
        let agent_dir = self.folder.join("agent");
        let dirs = Dirs { cwd: self.folder.clone(), agent_dir, home: None };
        let project = Project::find(dirs, ResourceFlags::default());
        let keys = Credentials::default();
        let mut models = Models::new(keys, &project.settings(), CacheRetention::Short);
        models.add_builtin(Demo::model(), Arc::new(Demo::new(Duration::ZERO)));
        let mut config = ServerConfig::new(project, models, Arc::new(Demo::model()));
        if request.name.as_deref() == Some("breaks") {
            config.store = self.store().unwrap();
            let now = config.clock.now();
            let session = config.store.begin(SessionId::fresh(), &self.folder, None, now);
            config.conversation = Conversation::new(session, config.settings.session.durability);
        }
        Ok(config)
    }

    fn location(&self, _: &OpenSession) -> Option<PathBuf> {
        None
    }

    fn store(&self) -> Result<SessionStore, String> {
        Ok(SessionStore::files(FileStore {
            root: self.folder.join("sessions"),
            chosen: None,
            owner: Owner {
                program: "test".to_owned(),
                pid: std::process::id(),
                host: "localhost".to_owned(),
                started: "2026-01-01T00:00:00.000Z".to_owned(),
                address: None,
            },
            files: Files::new(self.disk.clone()),
        }))
    }
}

fn router(folder: &Path, disk: Arc<PanickingDisk>) -> Router {
    let config = RouterConfig {
        level: Level::PiDelta,
        idle_limit: None,
        max_sessions: 10,
        max_extensions: 10,
    };
    Router::new(config, Arc::new(Opener { folder: folder.to_owned(), disk }))
}

struct Client {
    inputs: ClientInputs,
    output: Arc<OutputQueue>,
    read: Vec<Value>,
}

impl Client {
    fn new(router: &Router) -> Client {
        let (inputs, output) = router.connect();
        Client { inputs, output, read: Vec::new() }
    }

    async fn say(&self, record: Value) {
        let line = Line::Text(record.to_string().into_bytes());
        assert!(self.inputs.send(ClientInput::Lines(vec![line])).await);
    }

    /// Takes the first record that matches.
    async fn take(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(place) = self.read.iter().position(&matches) {
                return self.read.remove(place);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.output.next()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("not among {:#?}", self.read)).unwrap();
            let lines = chunk.bytes().split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
            self.read.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
            chunk.written();
        }
    }

    async fn request(&mut self, id: &str, mut command: Value) -> Value {
        command["id"] = json!(id);
        self.say(command).await;
        self.take(|record| record["id"] == id && record["type"] == "response").await
    }

    async fn open(&mut self, name: &str) -> String {
        let response = self.request("open", json!({"type": "open_session", "name": name})).await;
        response["data"]["sessionId"].as_str().unwrap().to_owned()
    }
}

/// Prompts for a command that writes its process id and goes on for long. Returns its process.
async fn start_command(client: &mut Client, handle: &str, folder: &Path, file: &str) -> PathBuf {
    let message = format!("run `echo $$ > {file}; exec sleep 300`");
    let prompt = json!({"type": "prompt", "message": message, "sessionId": handle});
    assert_eq!(client.request("prompt", prompt).await["success"], true);
    let started = async {
        loop {
            let written = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            if let Some(pid) = written.strip_suffix('\n') {
                return PathBuf::from(format!("/proc/{pid}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, started).await.expect("the command starts")
}

#[tokio::test]
async fn session_that_panics_is_closed_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(PanickingDisk::default());
    let router = router(folder.path(), disk.clone());
    let (mut first, mut second) = (Client::new(&router), Client::new(&router));
    let breaks = first.open("breaks").await;
    let goes_on = first.open("goes on").await;
    let attach = json!({"type": "attach", "sessionId": breaks});
    assert_eq!(second.request("attach", attach).await["success"], true);
    let doomed = start_command(&mut first, &breaks, folder.path(), "doomed").await;
    let spared = start_command(&mut first, &goes_on, folder.path(), "spared").await;

    disk.panics.store(true, Ordering::Release);
    let rename = json!({"type": "set_session_name", "name": "Harbour", "sessionId": breaks});
    first.say(rename).await;
    for client in [&mut first, &mut second] {
        let closed = client.take(|record| record["type"] == "session_closed").await;
        assert_eq!((&closed["sessionId"], &closed["reason"]), (&json!(breaks), &json!("crashed")));
        assert!(closed["error"].is_string(), "{closed}");
        let state = json!({"type": "get_state", "sessionId": breaks});
        assert_eq!(client.request("gone", state).await["code"], "unknown_session");
    }
    let gone = async {
        while doomed.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the command ends with its session");

    let state = json!({"type": "get_state", "sessionId": goes_on});
    assert_eq!(first.request("state", state).await["data"]["isStreaming"], true);
    assert!(spared.exists());
    let listed = second.request("list", json!({"type": "list_open_sessions"})).await;
    let sessions = listed["data"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["sessionId"], goes_on.as_str());
    let page = router.metrics_page();
    assert!(page.contains("\ntiller_sessions_crashed_total 1\n"), "{page}");
    let end = router.end(RouterEnd::Stop { within: Duration::ZERO });
    tokio::time::timeout(PATIENCE, end).await.expect("the server ends");
    assert!(!spared.exists());
}

/// A client that closes a session while it fails is answered.
#[tokio::test]
async fn close_of_a_session_that_panics_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(PanickingDisk::default());
    let router = router(folder.path(), disk.clone());
    let mut client = Client::new(&router);
    let handle = client.open("breaks").await;
    start_command(&mut client, &handle, folder.path(), "pid").await;
    disk.panics.store(true, Ordering::Release);
    // The end of the run is stored, which panics.
    let close = json!({"type": "close_session", "sessionId": handle});
    assert_eq!(client.request("close", close).await["success"], true);
    let closed = client.take(|record| record["type"] == "session_closed").await;
    assert_eq!(closed["reason"], "crashed");
}
