//! The rules of `permissions` in the settings: which calls are always allowed, asked about or
//! refused.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::command::{Shape, is_runner};
use super::{CallFacts, CallTarget};

/// The rules of all settings files.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    allow: Vec<CallRule>,
    ask: Vec<CallRule>,
    deny: Vec<CallRule>,
}

/// `TOOL`, or `TOOL(PATTERN)`.
#[derive(Clone, Debug)]
struct CallRule {
    /// As it is written in the settings.
    text: String,
    tool: GlobMatcher,
    pattern: CallPattern,
}

/// What a rule says about the target of a call.
#[derive(Clone, Debug)]
enum CallPattern {
    Any,
    /// These words, or with `is_prefix` any command that begins with them.
    Command {
        words: Vec<String>,
        is_prefix: bool,
    },
    Path(GlobMatcher),
}

/// The folders that the patterns of paths start at.
#[derive(Clone, Copy, Debug)]
pub struct RuleBases<'a> {
    pub cwd: &'a Path,
    pub home: Option<&'a Path>,
}

/// What a list of rules does. It decides how a rule that cannot be read is taken.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Allow,
    Restrict,
}

impl Rules {
    /// Reads the three lists. A rule that cannot be read is reported: in `allow` it allows nothing,
    /// in the others it counts for every call of the tools that its beginning names.
    pub fn read(
        allow: &[String],
        ask: &[String],
        deny: &[String],
        bases: RuleBases<'_>,
        problems: &mut Vec<String>,
    ) -> Rules {
        let mut list = |name: &str, texts: &[String], purpose| {
            let read = |text: &String| match CallRule::read(text, bases) {
                Ok(rule) => Some(rule),
                Err(why) => {
                    let effect = match purpose {
                        Purpose::Allow => "it allows nothing",
                        Purpose::Restrict => "it counts for every call of the tool",
                    };
                    problems.push(format!("permissions.{name}: rule `{text}` {why}; {effect}"));
                    (purpose == Purpose::Restrict).then(|| CallRule::of_whole_tool(text))
                }
            };
            texts.iter().filter_map(read).collect()
        };
        Rules {
            allow: list("allow", allow, Purpose::Allow),
            ask: list("ask", ask, Purpose::Restrict),
            deny: list("deny", deny, Purpose::Restrict),
        }
    }

    /// Whether any rule can keep a call from running at once.
    pub fn restrict(&self) -> bool {
        !self.ask.is_empty() || !self.deny.is_empty()
    }

    /// The rule that refuses the call.
    pub(super) fn refusing(&self, call: &CallFacts) -> Option<&str> {
        let rule = self.deny.iter().find(|rule| rule.touches(call))?;
        Some(&rule.text)
    }

    /// Whether a rule wants the user to be asked. So it is with a command that cannot be taken
    /// apart where rules restrict commands: it may contain one of them.
    pub(super) fn ask_about(&self, call: &CallFacts) -> bool {
        let mut restricting = self.ask.iter().chain(&self.deny);
        self.ask.iter().any(|rule| rule.touches(call))
            || restricting.any(|rule| rule.may_be_hidden_in(call))
    }

    pub(super) fn allow(&self, call: &CallFacts) -> bool {
        self.allow.iter().any(|rule| rule.covers(call))
    }
}

impl CallRule {
    fn read(text: &str, bases: RuleBases<'_>) -> Result<CallRule, &'static str> {
        let text = text.trim();
        let (tool, pattern) = match text.split_once('(') {
            None if text.contains(')') => return Err("has no `(`"),
            None => (text, CallPattern::Any),
            Some((tool, rest)) => {
                let pattern = rest.strip_suffix(')').ok_or("does not end with `)`")?;
                let tool = tool.trim();
                (tool, CallPattern::read(tool, pattern.trim(), bases)?)
            }
        };
        if tool.is_empty() {
            return Err("names no tool");
        }
        let tool = name_glob(tool).ok_or("has a tool name that is no valid pattern")?;
        Ok(CallRule { text: text.to_owned(), tool, pattern })
    }

    /// For a rule that cannot be read.
    fn of_whole_tool(text: &str) -> CallRule {
        let name = text.split(['(', ')']).next().unwrap_or_default().trim();
        let tool = name_glob(name).filter(|_| !name.is_empty()).or_else(|| name_glob("*"));
        let tool = tool.expect("`*` is a valid pattern");
        CallRule { text: text.to_owned(), tool, pattern: CallPattern::Any }
    }

    fn is_of(&self, call: &CallFacts) -> bool {
        self.tool.is_match(&call.tool)
    }

    /// Whether the whole call is what the rule describes. Strict: for rules that allow.
    fn covers(&self, call: &CallFacts) -> bool {
        self.is_of(call)
            && match (&self.pattern, &call.target) {
                (CallPattern::Any, _) => true,
                (CallPattern::Command { words, is_prefix }, CallTarget::Command(command)) => {
                    match Shape::of(command) {
                        Shape::Simple(given) => begins(&given, words, *is_prefix),
                        Shape::List(_) | Shape::Opaque => false,
                    }
                }
                (CallPattern::Path(glob), CallTarget::Path(path)) => glob.is_match(&path.real),
                _ => false,
            }
    }

    /// Whether a part of the call is what the rule describes. Generous: for rules that restrict.
    fn touches(&self, call: &CallFacts) -> bool {
        self.is_of(call)
            && match (&self.pattern, &call.target) {
                (CallPattern::Any, _) => true,
                (CallPattern::Command { words, is_prefix }, CallTarget::Command(command)) => {
                    let shape = Shape::of(command);
                    shape.commands().iter().any(|given| contains(given, words, *is_prefix))
                }
                (CallPattern::Path(glob), CallTarget::Path(path)) => {
                    glob.is_match(&path.real) || glob.is_match(&path.named)
                }
                _ => false,
            }
    }

    /// Whether the call is a command that may contain what the rule describes.
    fn may_be_hidden_in(&self, call: &CallFacts) -> bool {
        let (CallPattern::Command { .. }, CallTarget::Command(command)) =
            (&self.pattern, &call.target)
        else {
            return false;
        };
        let shape = Shape::of(command);
        let runs_others = |words: &Vec<String>| is_runner(&words[0]);
        self.is_of(call) && (shape == Shape::Opaque || shape.commands().iter().any(runs_others))
    }
}

impl CallPattern {
    fn read(tool: &str, pattern: &str, bases: RuleBases<'_>) -> Result<CallPattern, &'static str> {
        match tool {
            "" => Err("names no tool"),
            _ if pattern == "*" => Ok(CallPattern::Any),
            "bash" => CallPattern::of_command(pattern),
            "read" | "grep" | "find" | "ls" | "edit" | "write" => {
                CallPattern::of_path(pattern, bases)
            }
            _ => Err("has a pattern, which only rules for bash and the tools for files can have"),
        }
    }

    fn of_command(pattern: &str) -> Result<CallPattern, &'static str> {
        let begin = pattern.strip_suffix(" *").or_else(|| pattern.strip_suffix(":*"));
        match Shape::of(begin.unwrap_or(pattern)) {
            Shape::Simple(words) => Ok(CallPattern::Command { words, is_prefix: begin.is_some() }),
            _ => Err("is not the beginning of one plain command, such as `bash(git push *)`"),
        }
    }

    fn of_path(pattern: &str, bases: RuleBases<'_>) -> Result<CallPattern, &'static str> {
        const INVALID: &str = "has a pattern that is no valid path or glob";
        let (base, rest) = match (pattern.strip_prefix("~/"), bases.home) {
            (Some(rest), Some(home)) => (home, rest),
            (Some(_), None) => return Err("needs a home folder"),
            (None, _) => (bases.cwd, pattern.strip_prefix("./").unwrap_or(pattern)),
        };
        let base = globset::escape(base.to_str().ok_or(INVALID)?);
        let absolute = PathBuf::from(base).join(rest);
        let glob = GlobBuilder::new(absolute.to_str().ok_or(INVALID)?)
            .literal_separator(true)
            .build()
            .map_err(|_| INVALID)?;
        Ok(CallPattern::Path(glob.compile_matcher()))
    }
}

fn name_glob(name: &str) -> Option<GlobMatcher> {
    GlobBuilder::new(name).literal_separator(false).build().ok().map(|glob| glob.compile_matcher())
}

/// Whether these are the words of a command, or with `is_prefix` the first of them.
fn begins(given: &[String], words: &[String], is_prefix: bool) -> bool {
    if is_prefix { given.starts_with(words) } else { given == words }
}

/// The same for a rule that restricts: a program may be named by its path, and another program may
/// run the command.
fn contains(given: &[String], words: &[String], is_prefix: bool) -> bool {
    let runs_others = is_runner(&given[0]);
    (0..given.len()).any(|start| {
        let mut command = given[start..].to_vec();
        if !words[0].contains('/') {
            let name = command[0].rsplit('/').next().unwrap_or_default().to_owned();
            command[0] = name;
        }
        (start == 0 || runs_others) && begins(&command, words, is_prefix)
    })
}
