//! MCP servers on the wire: those that a client sets, and what a session says about all of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tiller_agent::mcp::{
    Exposure, McpServer, McpServerEntry, McpServerState, McpSource, same_name,
};

use crate::request::Refusal;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetMcpServers {
    /// By name, in the format of `mcp.json`. An empty object removes all.
    pub mcp_servers: BTreeMap<String, McpServerEntry>,
}

impl SetMcpServers {
    /// If one server is invalid, none is set.
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        self.servers().map(|_| ()).map_err(|why| Refusal::invalid(command, why))
    }

    /// The servers that the entries describe.
    pub fn servers(&self) -> Result<Vec<McpServer>, String> {
        let mut servers: Vec<McpServer> = Vec::new();
        for (name, entry) in &self.mcp_servers {
            let server = entry.clone().check(name);
            let server = server.map_err(|why| format!("field `mcpServers.{name}`: {why}"))?;
            if let Some(other) = servers.iter().find(|other| same_name(&other.name, name)) {
                let first = &other.name;
                return Err(format!(
                    "field `mcpServers.{name}`: its tools would have the names of those of {first:?}"
                ));
            }
            servers.push(server);
        }
        Ok(servers)
    }
}

/// The data of the responses to `set_mcp_servers` and `get_mcp_servers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct McpServersData<'a> {
    pub servers: Vec<McpServerInfo<'a>>,
}

/// An MCP server of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerInfo<'a> {
    pub name: Cow<'a, str>,
    pub source: McpSource,
    pub transport: McpTransportKind,
    pub state: McpServerState,
    /// The name and the version of the server, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'a, str>>,
    /// The revision of the protocol that tiller and the server speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Cow<'a, str>>,
    /// Why it does not work, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// What is wrong with tools that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// All tools of the server, hidden ones included.
    pub tools: Vec<McpToolInfo<'a>>,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpTransportKind {
    Stdio,
    Http,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolInfo<'a> {
    /// The name that the model calls.
    pub name: Cow<'a, str>,
    /// The server's own name.
    pub tool: Cow<'a, str>,
    pub description: Cow<'a, str>,
    /// How the model reaches it now.
    pub exposure: Exposure,
}
