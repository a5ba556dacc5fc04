//! Rules that watch an answer while it streams (xcsh calls them time travelling stream rules).
//!
//! A rule has conditions, regular expressions as JavaScript writes them, and says where they are
//! looked for. When one matches, the model can be stopped in mid-sentence and told the rule. This
//! room reads and decides nothing else: deltas in, rules out. Who interrupts whom, and how often,
//! is the host's affair.
//!
//! The cost is linear in the stream. All conditions are one automaton whose state is carried from
//! delta to delta, so no text is looked at twice.

mod pattern;
mod automaton;
mod backtracking;
mod scope;
mod paths;
mod set;
mod matcher;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use matcher::{RuleMatch, RuleMatcher, StreamKind};
pub use scope::split as split_list;
pub use set::{Compiled, RuleSet};

/// A rule as its file has it, and as clients are told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The file's name without its extension.
    pub name: String,
    pub path: PathBuf,
    /// What the model is told.
    pub content: String,
    /// Only with a call that names a path like one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    pub always_apply: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Any of them.
    pub condition: Vec<String>,
    /// Where to look; nothing means the text and the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    /// Its own, whatever the settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_mode: Option<InterruptMode>,
    #[serde(rename = "_source")]
    pub source: RuleSource,
}

/// Which matches stop the model. The others are told when it has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptMode {
    Never,
    /// Those in text or thinking.
    ProseOnly,
    /// Those in the arguments of calls.
    ToolOnly,
    Always,
}

impl InterruptMode {
    /// Whether a match in this place stops the model.
    pub fn stops(self, place: StreamKind) -> bool {
        match self {
            InterruptMode::Never => false,
            InterruptMode::ProseOnly => place == StreamKind::Prose,
            InterruptMode::ToolOnly => place == StreamKind::Call,
            InterruptMode::Always => true,
        }
    }
}

/// Where a rule comes from, in the words clients of xcsh know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleSource {
    provider: &'static str,
    provider_name: &'static str,
    path: PathBuf,
    level: RuleLevel,
}

impl RuleSource {
    pub fn new(path: PathBuf, level: RuleLevel) -> RuleSource {
        RuleSource { provider: "native", provider_name: "OMP", path, level }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    Project,
    User,
}
