//! The client's MCP servers, as the command `set_mcp_servers`.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{Error, McpServer};
use tiller_protocol::{McpServerEntry, SetMcpServers};

use crate::json_rpc::invalid_params;

/// Longer names are cut: tools are named after their server.
const NAME_MAX_CHARS: usize = 40;

/// The command for these servers. None: there are none.
pub(crate) fn set_mcp_servers(servers: Vec<McpServer>) -> Result<Option<SetMcpServers>, Error> {
    let mut mcp_servers = BTreeMap::new();
    for server in servers {
        let (name, mut entry) = read(server)?;
        let plain = plain_name(&name);
        if plain != name {
            entry.description = Some(name.clone());
        }
        if mcp_servers.insert(plain.clone(), entry).is_some() {
            return Err(invalid_params(format!(
                "mcpServers has two servers named {name:?}, or with names that differ only in \
                 characters other than letters and digits"
            )));
        }
    }
    Ok((!mcp_servers.is_empty()).then_some(SetMcpServers { mcp_servers }))
}

/// The name as tools can have it: a client's name may be a title.
fn plain_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = name.trim().chars().map(|c| if is_plain(c) { c } else { '_' });
    plain.take(NAME_MAX_CHARS).collect()
}

fn read(server: McpServer) -> Result<(String, McpServerEntry), Error> {
    match server {
        McpServer::Stdio(stdio) => {
            let env = stdio.env.into_iter().map(|variable| (variable.name, variable.value));
            let entry = McpServerEntry {
                command: Some(stdio.command.to_string_lossy().into_owned()),
                args: stdio.args,
                env: env.collect(),
                ..McpServerEntry::default()
            };
            Ok((stdio.name, entry))
        }
        McpServer::Http(http) => {
            let headers = http.headers.into_iter().map(|header| (header.name, header.value));
            let entry = McpServerEntry {
                url: Some(http.url),
                headers: headers.collect(),
                ..McpServerEntry::default()
            };
            Ok((http.name, entry))
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
        expected.assert_eq(&match set_mcp_servers(servers) {
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
                r#"{"mcpServers":{"files":{"command":"/bin/files","args":["-v"],"env":{"A":"1"}},"web":{"url":"http://127.0.0.1/mcp","headers":{"X":"y"}}}}"#
            ]],
        );
    }

    #[test]
    fn title_of_a_server_becomes_a_name_and_stays_its_description() {
        check(
            json!([{"name": "My Files (local)", "command": "/bin/files", "args": [], "env": []}]),
            expect![[
                r#"{"mcpServers":{"My_Files__local_":{"command":"/bin/files","description":"My Files (local)"}}}"#
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
                {"name": "a b", "command": "/bin/a", "args": [], "env": []},
                {"name": "a.b", "command": "/bin/b", "args": [], "env": []},
            ]),
            expect![[
                r#"mcpServers has two servers named "a.b", or with names that differ only in characters other than letters and digits"#
            ]],
        );
    }
}
