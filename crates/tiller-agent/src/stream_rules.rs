//! Stream rules: match an answer while it streams (xcsh calls them time travelling stream rules).
//!
//! A rule has conditions, which are JavaScript regular expressions, and a scope. When one matches,
//! the model can be stopped mid-sentence and the rule added to the conversation. This module only
//! matches: deltas in, rules out. When to interrupt, and how often, is up to the host.
//!
//! The cost is linear in the stream. All conditions form one automaton whose state is kept between
//! deltas, so no text is read twice.

mod pattern;
mod automaton;
mod backtracking;
mod scope;
mod paths;
mod set;
mod matcher;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use matcher::{RuleMatch, RuleMatcher, StreamKind};
pub use scope::split as split_list;
pub use set::{Compiled, RuleSet};

/// A rule as in its file, and as sent to clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The file's name without its extension.
    pub name: String,
    pub path: PathBuf,
    /// The text for the model.
    pub content: String,
    /// Matches only in a call that names a path like one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    pub always_apply: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Any of these must match.
    pub condition: Vec<String>,
    /// Where to match; empty means text and calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    /// Overrides the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_mode: Option<RuleInterruptMode>,
    #[serde(rename = "_source")]
    pub source: RuleSource,
}

/// Which matches stop the model. Other rules are added after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleInterruptMode {
    /// No matches.
    Never,
    /// Matches in text or thinking.
    ProseOnly,
    /// Matches in the arguments of calls.
    ToolOnly,
    /// All matches.
    Always,
}

impl RuleInterruptMode {
    /// Whether a match of this kind stops the model.
    pub fn stops(self, kind: StreamKind) -> bool {
        match self {
            RuleInterruptMode::Never => false,
            RuleInterruptMode::ProseOnly => kind == StreamKind::Prose,
            RuleInterruptMode::ToolOnly => kind == StreamKind::Call,
            RuleInterruptMode::Always => true,
        }
    }
}

/// Where a rule comes from, in xcsh's terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleSource {
    provider: Cow<'static, str>,
    provider_name: Cow<'static, str>,
    path: PathBuf,
    level: RuleLevel,
}

impl RuleSource {
    pub fn new(path: PathBuf, level: RuleLevel) -> RuleSource {
        RuleSource { provider: "native".into(), provider_name: "OMP".into(), path, level }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    Project,
    User,
}
