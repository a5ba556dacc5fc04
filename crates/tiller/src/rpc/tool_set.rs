//! The current tools: our own, the todo list, and those of the client.

use std::collections::HashSet;
use std::sync::Arc;

use tiller_agent::tool::ToolSet;

use super::state::SessionState;
use super::todo_tool;

/// The last tool set, and what it was made of. The same tools give the same set, so that what is
/// derived from it is not computed again.
#[derive(Default)]
pub(crate) struct ToolSetCache {
    own: Option<Arc<ToolSet>>,
    has_todos: bool,
    host_version: u64,
    tools: Arc<ToolSet>,
}

impl SessionState {
    /// The tools for the next request.
    pub(crate) fn tools(&mut self) -> Arc<ToolSet> {
        let (own, host) = (&self.workspace.tools, &self.host_tools);
        let has_todos = self.offers_todos();
        let before = &self.tool_set;
        let is_same = before.own.as_ref().is_some_and(|before| Arc::ptr_eq(before, own))
            && (before.has_todos, before.host_version) == (has_todos, host.version());
        if !is_same {
            let tools = if has_todos || !host.tools().is_empty() {
                let todos = has_todos.then(|| todo_tool::tool(&self.tasks));
                let all = own.iter().cloned().chain(todos).chain(host.tools().iter().cloned());
                Arc::new(ToolSet::new(all.collect()))
            } else {
                own.clone()
            };
            let (own, host_version) = (Some(own.clone()), host.version());
            self.tool_set = ToolSetCache { own, has_todos, host_version, tools };
        }
        self.tool_set.tools.clone()
    }

    /// The names of our own tools, active or not.
    pub(crate) fn own_tool_names(&self) -> HashSet<String> {
        let (builtin, own) = (tiller_tools::builtin(), &self.workspace.tools);
        let names = builtin.iter().chain(own.iter()).map(|tool| tool.name().to_owned());
        names.chain([todo_tool::NAME.to_owned()]).collect()
    }
}
