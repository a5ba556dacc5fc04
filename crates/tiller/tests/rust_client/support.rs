//! A folder for one test, clients in it, and a tool that waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tiller_client::protocol::{Record, ToolOutput};
use tiller_client::{Builder, Client, Event, EventStream, Tool, Turn};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::timeout;

/// No test takes this long; one that does waits for something that will not come.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn bounded<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(async { timeout(PATIENCE, test).await.expect("the test waits in vain") })
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A folder that is also the home of the user.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Place { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// tiller without the environment of this test, and without a model.
    pub fn builder(&self) -> Builder {
        Client::builder()
            .program(env!("CARGO_BIN_EXE_tiller"))
            .cwd(self.path().join("work"))
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PI_OFFLINE", "1")
            .start_timeout(PATIENCE)
    }

    /// tiller with a model that does what the script says.
    pub fn scripted(&self, script: &str) -> Builder {
        let path = self.write("model.script", script);
        self.builder().model("tiller/script").arg("--script").arg(path)
    }

    pub async fn client(&self, script: &str) -> Client {
        self.scripted(script).start().await.unwrap()
    }
}

/// A tool without arguments that waits: it keeps a run where the test wants it.
#[derive(Clone, Default)]
pub struct Gate {
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

impl Gate {
    pub fn tool(&self) -> Tool {
        let gate = self.clone();
        Tool::new("gate", "Waits", json!({"type": "object"}), move |_: Value, _| {
            let gate = gate.clone();
            async move {
                gate.entered.notify_one();
                gate.open.notified().await;
                Ok(ToolOutput::text("open"))
            }
        })
    }

    /// Waits until the tool is called.
    pub async fn entered(&self) {
        self.entered.notified().await;
    }

    pub fn open(&self) {
        self.open.notify_one();
    }
}

/// The name of an event on the wire.
pub fn kind(event: &Event) -> String {
    let record = serde_json::to_value(event.record()).unwrap();
    record["type"].as_str().unwrap().to_owned()
}

/// The remaining events of a turn, without the steps of answers.
pub async fn kinds(turn: &mut Turn) -> Vec<String> {
    let mut kinds = Vec::new();
    while let Some(event) = turn.next().await.unwrap() {
        if !matches!(event.record(), Record::MessageUpdate { .. }) {
            kinds.push(kind(&event));
        }
    }
    kinds
}

/// The first event of a turn that is wanted.
pub async fn until(turn: &mut Turn, wanted: impl Fn(&Record<'static>) -> bool) -> Event {
    loop {
        let event = turn.next().await.unwrap().expect("the turn ended before the event");
        if wanted(event.record()) {
            return event;
        }
    }
}

/// The same for a stream.
pub async fn until_in(
    stream: &mut EventStream,
    wanted: impl Fn(&Record<'static>) -> bool,
) -> Event {
    loop {
        let event = stream.next().await.unwrap().expect("the stream ended before the event");
        if wanted(event.record()) {
            return event;
        }
    }
}
