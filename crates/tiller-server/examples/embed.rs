//! A session in the program's own process: asks the built-in model to look around in this folder, and
//! prints its answer as it arrives. `cargo run -p tiller-server --example embed`

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tiller_config::credentials::Credentials;
use tiller_config::models::Models;
use tiller_config::project::{Dirs, Project, ResourceFlags};
use tiller_demo::demo::Demo;
use tiller_llm::CacheRetention;
use tiller_protocol::{Command, Prompt, Record, Step};
use tiller_server::{ServerConfig, SessionEnded, SessionHandle};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::current_dir()?;
    answer(&folder, "List the files here.", &mut io::stdout()).await?;
    Ok(())
}

/// Runs one prompt in this folder, and writes the calls and the text of the answer.
pub async fn answer(folder: &Path, prompt: &str, out: &mut impl Write) -> io::Result<()> {
    let agent_dir = folder.join(".tiller");
    let dirs = Dirs { cwd: folder.to_owned(), agent_dir, home: None };
    let project = Project::find(dirs, ResourceFlags::default());
    let keys = Credentials::default();
    let mut models = Models::new(keys, &project.settings(), CacheRetention::Short);
    models.add_builtin(Demo::model(), Arc::new(Demo::new(Duration::ZERO)));
    let config = ServerConfig::new(project, models, Arc::new(Demo::model()));

    let mut session = SessionHandle::start(config);
    let prompt = Prompt { message: prompt.to_owned(), ..Prompt::default() };
    let ended = |SessionEnded| io::Error::other(SessionEnded);
    session.send(&Command::Prompt(prompt)).await.map_err(ended)?;
    while let Some(record) = session.next().await {
        match record {
            Record::MessageUpdate { assistant_message_event, .. } => {
                if let Step::TextDelta { delta, .. } = assistant_message_event.step {
                    write!(out, "{delta}")?;
                }
            }
            Record::ToolExecutionStart { tool_name, .. } => writeln!(out, "\n[{tool_name}]")?,
            Record::AgentSettled { .. } => break,
            _ => {}
        }
    }
    writeln!(out)?;
    session.close().await;
    Ok(())
}
