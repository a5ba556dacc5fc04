//! `tiller mcp list`: connects to the MCP servers of the files, and prints their states, their tools
//! and what is wrong.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use futures_util::FutureExt as _;
use tiller_agent::mcp::{Exposure, McpServer, McpSource, McpTransport};
use tiller_config::mcp::{ConfiguredServer, resolve};
use tiller_config::project::ResourceFlags;
use tiller_mcp::{Environment, McpTool, Pool, Status, Step};

use crate::launch::ProcessEnv;
use crate::session_command::print;

/// Connect to the configured MCP servers, and show their tools and errors
#[derive(Debug, Parser)]
#[command(
    name = "tiller mcp",
    disable_version_flag = true,
    after_help = include_str!("../texts/mcp-examples.md")
)]
pub enum McpCommand {
    /// Start every enabled server; exits with 1 if one does not work
    List {
        /// Also use the servers of this file
        #[arg(long, value_name = "FILE")]
        mcp_config: Option<PathBuf>,
        /// Trust the project in this folder
        #[arg(long)]
        approve: bool,
    },
}

impl McpCommand {
    /// Runs the command. Returns the exit code.
    pub fn run(self, env: &ProcessEnv) -> Result<u8, String> {
        let McpCommand::List { mcp_config, approve } = self;
        let approve = approve.then_some(true);
        let flags = ResourceFlags { mcp_config, approve, ..ResourceFlags::default() };
        let (servers, mut problems) = env.mcp_servers(flags);
        if servers.is_empty() && problems.is_empty() {
            let path = env.agent_dir().join("mcp.json");
            print(
                [format!("There are no MCP servers. Add one to {}", path.display())].into_iter(),
            )?;
            return Ok(0);
        }
        tiller_tools::process::install();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| format!("cannot start the runtime: {err}"))?;
        let (lines, is_well) = runtime.block_on(list(servers, env));
        let is_well = is_well && problems.is_empty();
        for problem in &mut problems {
            problem.insert_str(0, "! ");
        }
        print(lines.into_iter().chain(problems))?;
        Ok(u8::from(!is_well))
    }
}

/// Connects to all servers. Returns the lines about them, and whether all of them work.
async fn list(servers: Vec<ConfiguredServer>, env: &ProcessEnv) -> (Vec<String>, bool) {
    let variables = env.variables.clone();
    let environment = Environment {
        cwd: env.cwd.clone(),
        variables: env.child_variables(),
        resolve: Arc::new(move |server| {
            let variables = variables.clone();
            async move { resolve(server, &variables).await }.boxed()
        }),
        on_change: Arc::new(|| {}),
        holds_clock: false,
    };
    let mut pool = Pool::new(environment);
    let sources: Vec<McpSource> = servers.iter().map(|server| server.source).collect();
    pool.set(servers.into_iter().map(|server| server.server).collect());
    pool.start();
    // Each attempt has the time limit of its server.
    pool.all_ready().await;
    pool.refresh();
    let mut lines = Vec::new();
    let mut is_well = true;
    for ((server, status), source) in pool.statuses().zip(sources) {
        lines.push(headline(server, &status, source));
        is_well &= status.error().is_none() && status.problems.is_empty();
        lines.extend(status.problems.iter().map(|problem| format!("  ! {problem}")));
        let tools = pool.tools().iter().filter(|tool| tool.server == server.name);
        lines.extend(tools.map(tool_line));
    }
    pool.stop().await;
    (lines, is_well)
}

fn headline(server: &McpServer, status: &Status, source: McpSource) -> String {
    let state = match &status.step {
        _ if !server.is_enabled => "disabled".to_owned(),
        Step::Idle => "hidden".to_owned(),
        Step::Starting => "starting".to_owned(),
        Step::Ready => match &status.version {
            Some(version) => format!("ready, {version}"),
            None => "ready".to_owned(),
        },
        Step::Restarting { why } | Step::Failed { why } => format!("failed: {why}"),
    };
    let transport = match &server.transport {
        McpTransport::Stdio { command, .. } => command,
        McpTransport::Http { url, .. } => url,
    };
    let file = match source {
        McpSource::User => "user",
        McpSource::Project => "project",
        McpSource::File => "--mcp-config",
        McpSource::Client => "client",
    };
    format!("{} ({file}, {transport}): {state}", server.name)
}

fn tool_line(tool: &McpTool) -> String {
    let exposure = match tool.exposure {
        Some(Exposure::Hidden) => " [hidden]",
        Some(Exposure::Deferred) => " [deferred]",
        _ => "",
    };
    let description = tool.tool.spec.description.lines().next().unwrap_or_default();
    format!("  {}{exposure}  {description}", tool.tool.name()).trim_end().to_owned()
}
