//! A temporary directory for tests, and tool calls in it, printed as text.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::test_runner::Config as ProptestConfig;
use serde_json::Value;
use tiller_agent::message::Block;
use tiller_agent::tool::{Tool, ToolContext, ToolOutput, ToolResult};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Scratch {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn context(&self) -> ToolContext {
        self.watched().0
    }

    /// A context, and the updates emitted through it.
    pub(crate) fn watched(&self) -> (ToolContext, watch::Receiver<Option<ToolOutput>>) {
        let cwd = Arc::new(self.dir.path().to_owned());
        ToolContext::new(cwd, CancellationToken::new(), true, Arc::from([]))
    }

    /// Calls the tool as the agent loop does.
    pub(crate) async fn result(&self, tool: Tool, arguments: Value) -> ToolResult {
        let Value::Object(mut arguments) = arguments else { panic!("arguments are an object") };
        if let Some(mend) = tool.repair {
            mend(&mut arguments);
        }
        tool.run(arguments, self.context()).await
    }

    /// Makes the calls one after the other and prints each result.
    pub(crate) async fn report(&self, tool: Tool, calls: &[Value]) -> String {
        let mut report = String::new();
        for arguments in calls {
            let result = self.call(tool.clone(), arguments.clone()).await;
            let hidden = arguments.to_string().replace(self.dir.path().to_str().unwrap(), "$CWD");
            report += &format!("> {hidden}\n{result}");
        }
        report
    }

    /// The result as text, with the directory's path replaced.
    pub(crate) async fn call(&self, tool: Tool, arguments: Value) -> String {
        let (mut text, details) = match self.result(tool, arguments).await {
            Ok(output) => {
                let blocks = output.content.iter().map(|block| match block {
                    Block::Text { text, .. } => text.clone(),
                    Block::Image { data, mime_type } => {
                        format!("\nimage {mime_type}, {} bytes of base64", data.len())
                    }
                    other => panic!("a tool answered {other:?}"),
                });
                (blocks.collect::<String>(), output.details)
            }
            Err(failure) => (format!("error: {}", failure.message), failure.details),
        };
        text.push('\n');
        if let Some(details) = details {
            text += &format!("details {details}\n");
        }
        text.replace(self.dir.path().to_str().unwrap(), "$CWD").replace('\u{1b}', "␛")
    }
}

/// This many cases, and no regression file when one fails: such a case becomes a test.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
