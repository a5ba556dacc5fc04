//! A pool of servers, driven as a session drives it.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tiller_agent::mcp::McpServerEntry;
use tiller_agent::message::Block;
use tiller_agent::tool::{ToolContext, ToolResult};
use tiller_mcp::{Environment, Pool, Status};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// For things that happen at once unless something is broken.
const SOON: Duration = Duration::from_secs(60);

pub struct Bench {
    pub pool: Pool,
    changed: Arc<Notify>,
}

impl Bench {
    /// Starts these servers, and waits until each is ready or has failed.
    pub async fn start(servers: Value) -> Bench {
        let changed = Arc::<Notify>::default();
        let notify = changed.clone();
        let environment = Environment {
            cwd: std::env::temp_dir(),
            variables: std::env::vars().collect(),
            resolve: Arc::new(|server| async move { Ok(server) }.boxed()),
            on_change: Arc::new(move || notify.notify_one()),
            holds_clock: false,
        };
        let mut pool = Pool::new(environment);
        let servers = servers.as_object().unwrap().iter().map(|(name, entry)| {
            let entry: McpServerEntry = serde_json::from_value(entry.clone()).unwrap();
            entry.check(name).unwrap()
        });
        pool.set(servers.collect());
        pool.start();
        within(pool.ready()).await;
        pool.refresh();
        Bench { pool, changed }
    }

    pub fn status(&self) -> Status {
        self.pool.statuses().next().unwrap().1
    }

    /// Waits until the first server is as expected.
    pub async fn until(&mut self, is_expected: impl Fn(&Status) -> bool) -> Status {
        within(async {
            loop {
                let status = self.status();
                if is_expected(&status) {
                    self.pool.refresh();
                    return status;
                }
                // Some steps are not announced.
                tokio::time::timeout(Duration::from_millis(50), self.changed.notified()).await.ok();
            }
        })
        .await
    }

    /// Calls a tool by the name that the model uses.
    pub fn call(
        &self,
        name: &str,
        arguments: Value,
        cancel: CancellationToken,
    ) -> impl Future<Output = ToolResult> + use<> {
        let tool = self.pool.tools().iter().find(|tool| tool.tool.name() == name);
        let tool = tool.unwrap_or_else(|| panic!("no tool {name}")).tool.clone();
        let (cx, _shown) = ToolContext::new(Arc::new(PathBuf::from("/")), cancel, true, [].into());
        let Value::Object(arguments) = arguments else { panic!("no arguments") };
        async move { within(tool.run(arguments, cx)).await }
    }

    /// The same as text; a failure begins with `!`.
    pub async fn text(&self, name: &str, arguments: Value) -> String {
        text(self.call(name, arguments, CancellationToken::new()).await)
    }
}

pub fn text(result: ToolResult) -> String {
    match result {
        Ok(output) => {
            let text = |block: &Block| match block {
                Block::Text { text, .. } => text.clone(),
                Block::Image { mime_type, .. } => format!("[{mime_type}]"),
                other => format!("{other:?}"),
            };
            output.content.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Err(failure) => format!("! {}", failure.message),
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("it takes too long")
}

/// Whether a process with this id lives.
pub fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub async fn until_gone(pid: &str) {
    within(async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// An entry for this test program as a server. Its test `name` plays the server.
pub fn own_server(name: &str, mode: &str, timeout: f64) -> Value {
    json!({
        "command": std::env::current_exe().unwrap(),
        "args": ["--exact", name, "--nocapture", "--test-threads=1"],
        "env": {"TILLER_TEST_SERVER": mode},
        "timeout": timeout,
    })
}
