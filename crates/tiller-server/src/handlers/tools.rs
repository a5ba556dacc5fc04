//! `get_tools` and `set_active_tools`.

use std::borrow::Cow;

use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::Tool;
use tiller_protocol::{ActiveToolsData, ToolInfo, ToolSource, ToolsData};

use super::data;
use crate::dispatch::Handled;
use crate::mcp;
use crate::state::SessionState;
use crate::tools::{self, AvailableTool};

/// The tools of tiller and of extensions in their order, then those of the client and of MCP
/// servers.
pub(crate) fn get_tools(state: &SessionState) -> Handled {
    let available = state.tools.available(state.extensions.host(), state.project.settings());
    let is_active = |tool: &Tool| state.tools.active().iter().any(|one| one.name() == tool.name());
    let own = available.iter().map(|available| {
        let (tool, source) = match available {
            AvailableTool::Builtin(tool) => (tool, ToolSource::Builtin),
            AvailableTool::Registered(registered) => (&registered.tool, ToolSource::Extension),
        };
        info(tool, source, is_active(tool))
    });
    let host = state.tools.host().tools().iter().map(|tool| info(tool, ToolSource::Host, true));
    let known = mcp::listed_tools(state);
    let of_servers = known.iter().map(|(tool, is_active)| info(tool, ToolSource::Mcp, *is_active));
    data(&ToolsData { tools: own.chain(host).chain(of_servers).collect() })
}

fn info(tool: &Tool, source: ToolSource, is_active: bool) -> ToolInfo<'_> {
    let ToolSpec { name, description, parameters } = &*tool.spec;
    ToolInfo {
        name: Cow::Borrowed(name),
        description: Cow::Borrowed(description),
        parameters: Cow::Borrowed(parameters),
        source,
        is_active,
    }
}

/// Selects among the tools of tiller and of extensions. The client's own tools are not affected:
/// `set_host_tools` replaces them.
pub(crate) fn set_active_tools(state: &mut SessionState, names: Vec<String>) -> Handled {
    let all: Vec<Tool> = tools::all(state).collect();
    let is_known = |name: &String| all.iter().any(|tool| tool.name() == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        if state.mcp.tool_names().any(|tool| tool == name) {
            return Err(format!(
                "Tool {name} belongs to an MCP server. Its exposure in mcp.json says whether it is \
                 offered"
            ));
        }
        let is_host = state.tools.host().tools().iter().any(|tool| tool.name() == *name);
        return Err(if is_host {
            format!("Tool {name} is the client's own. Use set_host_tools to add or remove it")
        } else {
            format!("Tool not found: {name}")
        });
    }
    tools::select(state, names);
    let active = state.tools.active().iter().map(|tool| tool.name().to_owned());
    data(&ActiveToolsData { tools: active.collect() })
}
