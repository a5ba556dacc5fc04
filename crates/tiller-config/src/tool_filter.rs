//! Which tools the command line and the settings allow: ours, and those that a host or an extension
//! brings later.

use crate::models::glob;
use crate::settings::Settings;

/// Tool flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct ToolFlags {
    /// Names and patterns, or `+name` and `-name`.
    pub tools: Option<Vec<String>>,
    pub exclude_tools: Vec<String>,
    pub no_tools: bool,
    pub no_builtin_tools: bool,
}

/// The tools that may be used, and those that are used from the start.
#[derive(Default)]
pub struct ToolRules {
    /// Only these: names, or patterns with `*`.
    only: Option<Vec<String>>,
    excluded: Vec<String>,
    none: bool,
    no_builtin: bool,
    /// The built-in tools that are used from the start.
    defaults: DefaultTools,
    /// Names of no built-in tool.
    pub unknown: Vec<String>,
}

/// Which built-in tools are used from the start.
#[derive(Default)]
struct DefaultTools {
    /// These instead of the default ones.
    names: Option<Vec<String>>,
    added: Vec<String>,
    removed: Vec<String>,
}

/// A list of tools: names and patterns that replace the selection, or `+name` and `-name` that
/// change it.
enum Selection<'a> {
    Names(&'a [String]),
    Changes { added: Vec<String>, removed: Vec<String> },
}

impl<'a> Selection<'a> {
    fn of(list: &'a [String]) -> Selection<'a> {
        if list.is_empty() || !list.iter().all(|entry| is_change(entry)) {
            return Selection::Names(list);
        }
        let signed = |sign| {
            let names = list.iter().filter_map(move |entry| entry.strip_prefix(sign));
            names.map(str::to_owned).collect()
        };
        Selection::Changes { added: signed('+'), removed: signed('-') }
    }
}

fn is_change(entry: &str) -> bool {
    entry.starts_with(['+', '-'])
}

/// What is wrong with a list of tools, if anything is.
pub fn list_error(list: &[String]) -> Option<String> {
    let changes = list.iter().filter(|entry| is_change(entry)).count();
    let is_mixed = changes > 0 && changes < list.len();
    is_mixed.then(|| {
        "--tools takes names, or +name and -name, which change the default tools; not both"
            .to_owned()
    })
}

impl DefaultTools {
    fn apply(&mut self, selection: Selection<'_>) {
        match selection {
            Selection::Names(names) => {
                *self = DefaultTools { names: Some(names.to_vec()), ..DefaultTools::default() };
            }
            Selection::Changes { added, removed } => {
                self.removed.retain(|name| !added.contains(name));
                self.added.retain(|name| !removed.contains(name));
                self.added.extend(added);
                self.removed.extend(removed);
            }
        }
    }

    /// None if no list names the tool.
    fn selects(&self, name: &str) -> Option<bool> {
        match &self.names {
            _ if has(&self.removed, name) => Some(false),
            _ if has(&self.added, name) => Some(true),
            Some(names) => Some(has(names, name)),
            None => None,
        }
    }
}

impl ToolRules {
    pub fn of(flags: ToolFlags, settings: &Settings) -> ToolRules {
        let builtin = tiller_tools::builtin();
        let is_builtin = |name: &&String| builtin.iter().any(|tool| tool.name() == *name);
        let ToolFlags { tools, exclude_tools: mut excluded, no_tools, no_builtin_tools } = flags;
        let mut defaults = DefaultTools::default();
        if let Some(list) = &settings.default_tools {
            defaults.apply(Selection::of(list));
        }
        let is_none = no_tools || no_builtin_tools;
        let typed = tools.as_deref().map(Selection::of);
        let only = match typed {
            None if is_none => {
                defaults = DefaultTools { names: Some(Vec::new()), ..DefaultTools::default() };
                None
            }
            None => None,
            Some(Selection::Names(names)) => {
                defaults.apply(Selection::Names(names));
                Some(names.to_vec())
            }
            Some(Selection::Changes { added, removed }) => {
                excluded.extend(removed.iter().cloned());
                let only = no_tools.then(|| added.clone());
                if is_none {
                    defaults = DefaultTools { names: Some(Vec::new()), ..DefaultTools::default() };
                }
                defaults.apply(Selection::Changes { added, removed });
                only
            }
        };
        let named = defaults.names.iter().flatten().chain(&defaults.added).chain(&excluded);
        let unknown = named.filter(|name| !is_builtin(name) && !glob::is_pattern(name));
        ToolRules {
            // A tool that `--tools` names may be used, even with `--no-tools`.
            none: no_tools && tools.is_none(),
            no_builtin: no_builtin_tools && tools.is_none(),
            unknown: unknown.cloned().collect(),
            only,
            excluded,
            defaults,
        }
    }

    /// Whether a tool of this name may be used at all.
    pub fn allows(&self, name: &str) -> bool {
        let is_named = self.only.as_deref().is_none_or(|only| has(only, name));
        !self.none && !has(&self.excluded, name) && is_named
    }

    /// The same for a tool of an MCP server: a list of other tools says nothing about them.
    pub fn allows_mcp(&self, name: &str) -> bool {
        let names_mcp = |only: &[String]| only.iter().any(|entry| entry.starts_with("mcp__"));
        let is_named = self.only.as_deref().is_none_or(|only| !names_mcp(only) || has(only, name));
        !self.none && !has(&self.excluded, name) && is_named
    }

    /// The same for a built-in tool.
    pub fn allows_builtin(&self, name: &str) -> bool {
        !self.no_builtin && self.allows(name)
    }

    /// Whether a built-in tool is used from the start. None if neither the command line nor the
    /// settings say so.
    pub fn selects(&self, name: &str) -> Option<bool> {
        if self.allows_builtin(name) { self.defaults.selects(name) } else { Some(false) }
    }

    /// Puts tools into the order in which `--tools` names them.
    pub fn sort<T>(&self, tools: &mut [T], name: impl Fn(&T) -> &str) {
        if let Some(names) = &self.only {
            tools.sort_by_key(|tool| names.iter().position(|one| is_called(one, name(tool))));
        }
    }
}

fn has(list: &[String], name: &str) -> bool {
    list.iter().any(|one| is_called(one, name))
}

fn is_called(pattern: &str, name: &str) -> bool {
    pattern == name || (glob::is_pattern(pattern) && glob::matches(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(options: &[&str]) -> ToolFlags {
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        let mut flags = ToolFlags::default();
        for option in options {
            match option.split_once('=') {
                Some(("tools", names)) => flags.tools = Some(list(names)),
                Some(("exclude-tools", names)) => flags.exclude_tools = list(names),
                _ if *option == "no-tools" => flags.no_tools = true,
                _ if *option == "no-builtin-tools" => flags.no_builtin_tools = true,
                _ => panic!("{option}"),
            }
        }
        flags
    }

    /// The tools of ours that these options and this setting choose.
    fn check(options: &[&str], default_tools: Option<&[&str]>, expected: &str) {
        let default_tools = default_tools.map(|list| list.iter().map(|s| (*s).into()).collect());
        let settings = Settings { default_tools, ..Settings::default() };
        let rules = ToolRules::of(flags(options), &settings);
        let is_chosen =
            |name: &&str| rules.selects(name).unwrap_or(tiller_tools::DEFAULT.contains(name));
        let builtin = tiller_tools::builtin();
        let mut chosen: Vec<&str> =
            builtin.iter().map(|tool| tool.name()).filter(is_chosen).collect();
        rules.sort(&mut chosen, |name| name);
        assert_eq!(chosen.join(" "), expected, "{options:?} {:?}", settings.default_tools);
    }

    #[test]
    fn lists_replace_or_change_the_default_tools() {
        check(&[], None, "read bash edit write");
        check(&["tools=ls,read"], None, "ls read");
        check(&["tools=*"], None, "read bash edit write grep find ls");
        check(&["tools=l*,read"], None, "ls read");
        check(&["tools=+ls,-write"], None, "read bash edit ls");
        check(&["tools=-bash"], None, "read edit write");
        check(&["exclude-tools=*"], None, "");
        check(&["exclude-tools=e*"], None, "read bash write");
        check(&[], Some(&["read", "ls"]), "read ls");
        check(&[], Some(&["+grep", "-bash"]), "read edit write grep");
        check(&["tools=+find,-grep"], Some(&["+grep", "-bash"]), "read edit write find");
        check(&["tools=bash"], Some(&["+grep", "-bash"]), "bash");
        check(&["no-tools"], None, "");
        check(&["no-builtin-tools"], None, "");
        check(&["no-tools", "tools=ls,read"], None, "ls read");
        check(&["no-tools", "tools=+ls"], None, "ls");
    }

    #[test]
    fn names_and_changes_are_not_mixed() {
        let list = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
        assert_eq!(list_error(&list("read,ls")), None);
        assert_eq!(list_error(&list("+read,-ls")), None);
        assert!(list_error(&list("read,+ls")).is_some());
    }
}
