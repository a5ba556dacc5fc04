//! `set_host_tools`, and updates and results of the client's tools.

use tiller_agent::tool::{ToolOutput, ToolResult};
use tiller_protocol::data::HostToolsData;
use tiller_protocol::{ClientId, HostTool};

use super::data;
use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

pub(crate) fn set_host_tools(
    state: &mut SessionState,
    client: ClientId,
    tools: Vec<HostTool>,
) -> Handled {
    let tool_names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let mut reserved = state.tools.reserved_names();
    reserved.extend(state.mcp.tool_names().map(str::to_owned));
    if let Some(name) = tool_names.iter().find(|name| reserved.contains(*name)) {
        return Err(format!("RPC host tool \"{name}\" conflicts with an existing tool"));
    }
    state.tools.host_mut().register(client, tools, &state.tasks);
    data(&HostToolsData { tool_names })
}

pub(crate) fn update(state: &mut SessionState, id: &str, partial: ToolOutput) -> Handled {
    state.tools.host().update(id, partial);
    Ok(Response::Never)
}

pub(crate) fn result(state: &mut SessionState, id: &str, result: ToolResult) -> Handled {
    state.tools.host_mut().finish(id, result);
    Ok(Response::Never)
}
