//! What a session's servers have in common: the folder, the environment of programs, how configured
//! values are resolved, and who is told about changes.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tiller_agent::mcp::{McpServer, McpTransport};

use crate::connection::Target;
use crate::stdio::ChildSpec;

/// Fills in the variables and commands of a server's values, and the home folder in paths.
pub type Resolve = dyn Fn(McpServer) -> BoxFuture<'static, Result<McpServer, String>> + Send + Sync;

pub struct Environment {
    /// The folder of the session.
    pub cwd: PathBuf,
    /// The environment of programs, without what a server's entry adds.
    pub variables: Arc<[(String, String)]>,
    pub resolve: Arc<Resolve>,
    /// Called after each change of a server that others can see. Must not block.
    pub on_change: Arc<dyn Fn() + Send + Sync>,
    /// In tests: the clock of a paused runtime stands still while a server works.
    pub holds_clock: bool,
}

impl Environment {
    /// Where a server is, with all values filled in.
    pub(crate) async fn target(&self, server: &McpServer) -> Result<Target, String> {
        let server = (self.resolve)(server.clone()).await?;
        Ok(match server.transport {
            McpTransport::Http { url, headers } => Target::Http { url, headers },
            McpTransport::Stdio { command, args, env: own, cwd } => {
                let mut env: Vec<(String, String)> = self.variables.to_vec();
                env.retain(|(name, _)| !own.iter().any(|(other, _)| other == name));
                env.extend(own);
                let cwd = cwd.map_or_else(|| self.cwd.clone(), |cwd| self.cwd.join(cwd));
                // A path with a folder is relative to the session's folder, not to tiller's own.
                let command = if command.contains('/') {
                    self.cwd.join(&command).to_string_lossy().into_owned()
                } else {
                    command
                };
                Target::Stdio(ChildSpec { command, args, cwd, env })
            }
        })
    }
}
