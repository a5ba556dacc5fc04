//! The tools of tiller and of extensions, as far as the command line allows them, and which of them
//! are active.

use std::collections::HashSet;
use std::sync::Arc;

use tiller_agent::tool::{Tool, ToolSet};
use tiller_js::RegisteredTool;

use super::SessionState;
use crate::launch::with_settings;

/// What extensions have changed about the tools.
#[derive(Default)]
pub(super) struct ToolSelection {
    /// Our tools that are active unless an extension selects others.
    usual: Vec<String>,
    /// The active tools, if an extension has selected them.
    chosen: Option<Vec<String>>,
    /// Tool names that extensions have registered so far. A new one is active at once.
    known: HashSet<String>,
}

/// A tool and its source.
pub(super) enum OfferedTool {
    Own(Tool),
    Brought(RegisteredTool),
}

impl OfferedTool {
    fn into_tool(self) -> Tool {
        match self {
            OfferedTool::Own(tool) => tool,
            OfferedTool::Brought(brought) => brought.tool,
        }
    }
}

impl ToolSelection {
    /// Starts with the tools that are active without extensions.
    pub(super) fn new(usual: &ToolSet) -> ToolSelection {
        let usual = usual.iter().map(|tool| tool.name().to_owned()).collect();
        ToolSelection { usual, ..ToolSelection::default() }
    }

    /// Forgets the selection of a session that was left.
    pub(super) fn forget(&mut self) {
        self.chosen = None;
        self.known.clear();
    }
}

impl SessionState {
    /// Activates these tools only. Unknown names are ignored.
    pub(super) fn choose_tools(&mut self, names: Vec<String>) {
        self.extensions.tool_selection.chosen = Some(names);
        self.update_tools();
    }

    /// Offers the current tools.
    pub(crate) fn update_tools(&mut self) {
        if self.extensions.host.is_none() {
            return;
        }
        let brought = self.brought();
        let stock = &mut self.extensions.tool_selection;
        for RegisteredTool { tool, .. } in &brought {
            let is_new = stock.known.insert(tool.name().to_owned());
            if let Some(chosen) = stock.chosen.as_mut().filter(|_| is_new) {
                chosen.push(tool.name().to_owned());
            }
        }
        let stock = &self.extensions.tool_selection;
        let is_active = |name: &str| match &stock.chosen {
            Some(chosen) => chosen.iter().any(|one| one == name),
            None => stock.usual.iter().any(|one| one == name) || stock.known.contains(name),
        };
        let all = self.merged(brought).into_iter().map(OfferedTool::into_tool);
        let mut tools: Vec<Tool> = all.filter(|tool| is_active(tool.name())).collect();
        self.workspace.tool_rules.sort(&mut tools, Tool::name);
        self.workspace.tools = Arc::new(ToolSet::new(tools));
    }

    /// All tools, active or not.
    pub(super) fn tools_at_hand(&self) -> impl Iterator<Item = Tool> + use<> {
        self.merged(self.brought()).into_iter().map(OfferedTool::into_tool)
    }

    /// The built-in tools in their order, each replaced in place by an extension's tool of the
    /// same name, then the other tools of extensions.
    pub(super) fn merged(&self, mut brought: Vec<RegisteredTool>) -> Vec<OfferedTool> {
        let mut tools = Vec::new();
        for own in tiller_tools::builtin() {
            match brought.iter().position(|brought| brought.tool.name() == own.name()) {
                Some(at) => tools.push(OfferedTool::Brought(brought.remove(at))),
                None if self.workspace.tool_rules.allows_own(own.name()) => {
                    tools.push(OfferedTool::Own(with_settings(own, &self.settings)));
                }
                None => {}
            }
        }
        tools.extend(brought.into_iter().map(OfferedTool::Brought));
        tools
    }

    /// The tools of extensions that the command line allows.
    pub(super) fn brought(&self) -> Vec<RegisteredTool> {
        let host = self.extensions.host.as_ref();
        let mut brought = host.map(|host| host.registrations().tools).unwrap_or_default();
        brought.retain(|brought| self.workspace.tool_rules.allows(brought.tool.name()));
        brought
    }

    /// Warns about `--tools` names that match no tool.
    pub(super) fn unknown_tools(&mut self) {
        let brought = self.brought();
        let is_known = |name: &String| brought.iter().any(|one| one.tool.name() == name);
        let unknown = std::mem::take(&mut self.workspace.tool_rules.unknown);
        for name in unknown.into_iter().filter(|name| !is_known(name)) {
            self.diagnostics.push(format!("there is no tool called `{name}`"));
        }
    }
}
