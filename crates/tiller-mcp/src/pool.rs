//! The servers of a session: which there are, their tools as the model is offered them, and their
//! end.

use std::sync::Arc;

use futures_util::future::join_all;
use tiller_agent::mcp::{Exposure, McpServer};
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::Tool;

use crate::environment::Environment;
use crate::exposure::{configured, effective, is_reachable, may_be_direct};
use crate::names::tool_names;
use crate::server::{Server, ServerHandle, Status};

pub struct Pool {
    environment: Arc<Environment>,
    servers: Vec<Server>,
    /// Those of all servers, in the order of the servers.
    tools: Vec<McpTool>,
}

/// A tool of a server.
#[derive(Clone)]
pub struct McpTool {
    /// The name of the server.
    pub server: String,
    /// The server's own name of the tool.
    pub name: String,
    pub tool: Tool,
    /// As the server's entry says; by default it depends on how many tools there are.
    pub exposure: Option<Exposure>,
}

impl McpTool {
    /// The exposure in force, where this many tools would be offered at once.
    pub fn effective(&self, total: usize) -> Exposure {
        effective(self.exposure, total)
    }
}

impl Pool {
    pub fn new(environment: Environment) -> Pool {
        Pool { environment: Arc::new(environment), servers: Vec::new(), tools: Vec::new() }
    }

    /// Replaces the servers. Those that stay the same keep running; the others are ended.
    pub fn set(&mut self, servers: Vec<McpServer>) {
        let mut before = std::mem::take(&mut self.servers);
        for config in servers {
            let same = before.iter().position(|server| *server.config == config);
            self.servers.push(match same {
                Some(at) => before.swap_remove(at),
                None => Server::new(config),
            });
        }
        for server in before {
            tokio::spawn(server.stop());
        }
        self.refresh();
    }

    /// Starts all servers that are enabled and have tools that the model can reach.
    pub fn start(&mut self) {
        for server in &mut self.servers {
            if server.config.is_enabled && is_reachable(&server.config) {
                server.start(&self.environment);
            }
        }
    }

    /// Resolves when every server whose tools are offered without a search has started, or has
    /// failed to. The caller limits the time.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let first = |server: &&Server| server.config.is_enabled && may_be_direct(&server.config);
        attempted(self.servers.iter().filter(first).map(|server| server.handle.clone()).collect())
    }

    /// The same for all servers, for a search.
    pub fn all_ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let started = |server: &&Server| server.config.is_enabled && is_reachable(&server.config);
        attempted(self.servers.iter().filter(started).map(|server| server.handle.clone()).collect())
    }

    /// The configuration and the status of each server.
    pub fn statuses(&self) -> impl Iterator<Item = (&McpServer, Status)> {
        self.servers.iter().map(|server| (&*server.config, server.status()))
    }

    /// The tools of all servers, in their order. Those of servers that are restarted are among them.
    pub fn tools(&self) -> &[McpTool] {
        &self.tools
    }

    /// Takes in the servers' lists of tools. Returns whether the tools have changed.
    pub fn refresh(&mut self) -> bool {
        let all = |server: &Server| {
            let status = server.status();
            tools_of(server, &status)
        };
        let tools: Vec<McpTool> = self.servers.iter().flat_map(all).collect();
        let is_same = tools.len() == self.tools.len()
            && tools.iter().zip(&self.tools).all(|(one, other)| {
                one.server == other.server
                    && one.exposure == other.exposure
                    && same_spec(&one.tool.spec, &other.tool.spec)
            });
        if is_same {
            return false;
        }
        self.tools = tools;
        true
    }

    /// Ends all servers. The future resolves when they have ended.
    pub fn stop(self) -> impl Future<Output = ()> + Send + 'static {
        let ends: Vec<_> = self.servers.into_iter().map(Server::stop).collect();
        async move {
            join_all(ends).await;
        }
    }
}

fn same_spec(one: &ToolSpec, other: &ToolSpec) -> bool {
    one.name == other.name
        && one.description == other.description
        && one.parameters == other.parameters
}

async fn attempted(servers: Vec<ServerHandle>) {
    join_all(servers.iter().map(ServerHandle::attempted)).await;
}

fn tools_of(server: &Server, status: &Status) -> Vec<McpTool> {
    if !server.config.is_enabled {
        return Vec::new();
    }
    let names = tool_names(&server.config.name, status.tools.iter().map(|tool| tool.name.as_str()));
    let make = |(remote, called): (&crate::connection::RemoteTool, String)| {
        let spec = ToolSpec {
            name: called.clone(),
            description: remote.description.clone(),
            parameters: remote.parameters.clone(),
        };
        let handle = server.handle.clone();
        let name: Arc<str> = remote.name.as_str().into();
        let called: Arc<str> = called.into();
        let tool = Tool::new(spec, move |arguments, cx| {
            let (handle, name, called) = (handle.clone(), name.clone(), called.clone());
            async move { handle.call(&name, &called, arguments, cx).await }
        });
        McpTool {
            server: server.config.name.clone(),
            name: remote.name.clone(),
            tool,
            exposure: configured(&server.config, &remote.name),
        }
    };
    status.tools.iter().zip(names).map(make).collect()
}
