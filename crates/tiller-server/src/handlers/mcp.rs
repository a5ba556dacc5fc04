//! `set_mcp_servers` and `get_mcp_servers`.

use tiller_protocol::{McpServersData, SetMcpServers};

use super::data;
use crate::dispatch::Handled;
use crate::mcp;
use crate::state::SessionState;

/// Later requests offer the tools of these servers. Calls to servers that stay are not affected.
pub(crate) fn set_mcp_servers(state: &mut SessionState, servers: SetMcpServers) -> Handled {
    mcp::set_client_servers(state, servers.servers()?)?;
    get_mcp_servers(state)
}

pub(crate) fn get_mcp_servers(state: &mut SessionState) -> Handled {
    data(&McpServersData { servers: mcp::server_infos(state) })
}
