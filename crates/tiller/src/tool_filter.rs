//! Which tools the command line allows: ours, and those that somebody brings later.

use crate::args::Args;
use crate::rpc::TODO_TOOL;
use crate::settings::Settings;

#[derive(Default)]
pub struct ToolRules {
    /// Only these.
    only: Option<Vec<String>>,
    excluded: Vec<String>,
    none: bool,
    no_own: bool,
    /// Names that are none of ours.
    pub(crate) unknown: Vec<String>,
}

impl ToolRules {
    pub(crate) fn of(args: &Args, settings: &Settings) -> ToolRules {
        let own = tiller_tools::builtin();
        let is_own = |name: &&String| own.iter().any(|tool| tool.name() == *name);
        let named = args.tools.iter().chain(&settings.default_tools).flatten();
        let unknown = named.chain(&args.exclude_tools).filter(|name| !is_own(name));
        ToolRules {
            only: args.tools.clone(),
            excluded: args.exclude_tools.clone(),
            // What `--tools` names may be used, whatever else is said.
            none: args.no_tools && args.tools.is_none(),
            no_own: args.no_builtin_tools && args.tools.is_none(),
            unknown: unknown.filter(|name| *name != TODO_TOOL).cloned().collect(),
        }
    }

    /// Whether a tool of this name may be used at all.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|one| one == name);
        !self.none && !has(&self.excluded) && self.only.as_deref().is_none_or(has)
    }

    /// The same for one of ours.
    pub(crate) fn allows_own(&self, name: &str) -> bool {
        !self.no_own && self.allows(name)
    }

    /// Puts tools into the order in which `--tools` names them.
    pub(crate) fn sort<T>(&self, tools: &mut [T], name: impl Fn(&T) -> &str) {
        if let Some(names) = &self.only {
            tools.sort_by_key(|tool| names.iter().position(|one| one == name(tool)));
        }
    }
}
