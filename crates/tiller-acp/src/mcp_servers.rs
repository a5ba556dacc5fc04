//! The client's MCP servers, as the command `set_mcp_servers`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agent_client_protocol_schema::v1::{Error, McpServer};
use serde::Serialize;

use crate::json_rpc::invalid_params;

/// Sets the MCP servers of a session, in addition to those of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "set_mcp_servers")]
pub(crate) struct SetMcpServers {
    servers: BTreeMap<String, Server>,
}

/// A server as `mcpServers` of a configuration file has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Server {
    Stdio { command: PathBuf, args: Vec<String>, env: BTreeMap<String, String> },
    Http { url: String, headers: BTreeMap<String, String> },
}

impl SetMcpServers {
    /// The command for these servers. None: there are none.
    pub(crate) fn new(servers: Vec<McpServer>) -> Result<Option<SetMcpServers>, Error> {
        let mut named = BTreeMap::new();
        for server in servers {
            let (name, server) = read(server)?;
            if named.contains_key(&name) {
                return Err(invalid_params(format!("mcpServers has two servers named {name:?}")));
            }
            named.insert(name, server);
        }
        Ok((!named.is_empty()).then_some(SetMcpServers { servers: named }))
    }
}

fn read(server: McpServer) -> Result<(String, Server), Error> {
    match server {
        McpServer::Stdio(stdio) => {
            let env = stdio.env.into_iter().map(|variable| (variable.name, variable.value));
            let env = env.collect();
            Ok((stdio.name, Server::Stdio { command: stdio.command, args: stdio.args, env }))
        }
        McpServer::Http(http) => {
            let headers = http.headers.into_iter().map(|header| (header.name, header.value));
            Ok((http.name, Server::Http { url: http.url, headers: headers.collect() }))
        }
        McpServer::Sse(sse) => Err(invalid_params(format!(
            "the MCP server {:?} has the transport sse, which tiller does not support; use http",
            sse.name
        ))),
        _ => Err(invalid_params("mcpServers has a server with an unknown transport")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(servers: serde_json::Value, expected: Expect) {
        let servers = serde_json::from_value(servers).unwrap();
        expected.assert_eq(&match SetMcpServers::new(servers) {
            Ok(command) => serde_json::to_string(&command).unwrap(),
            Err(error) => error.message,
        });
    }

    #[test]
    fn servers_become_a_command() {
        check(json!([]), expect!["null"]);
        check(
            json!([
                {"name": "files", "command": "/bin/files", "args": ["-v"], "env": [{"name": "A", "value": "1"}]},
                {"type": "http", "name": "web", "url": "http://127.0.0.1/mcp", "headers": [{"name": "X", "value": "y"}]},
            ]),
            expect![[
                r#"{"type":"set_mcp_servers","servers":{"files":{"command":"/bin/files","args":["-v"],"env":{"A":"1"}},"web":{"url":"http://127.0.0.1/mcp","headers":{"X":"y"}}}}"#
            ]],
        );
    }

    #[test]
    fn servers_that_cannot_be_used_are_refused() {
        check(
            json!([{"type": "sse", "name": "old", "url": "http://127.0.0.1/sse", "headers": []}]),
            expect![[
                r#"the MCP server "old" has the transport sse, which tiller does not support; use http"#
            ]],
        );
        check(
            json!([
                {"name": "a", "command": "/bin/a", "args": [], "env": []},
                {"name": "a", "command": "/bin/b", "args": [], "env": []},
            ]),
            expect![[r#"mcpServers has two servers named "a""#]],
        );
    }
}
