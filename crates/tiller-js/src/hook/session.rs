//! Hooks before the session changes.

use super::*;

/// Whether to trust a folder's resources.
#[derive(Clone, Debug, Serialize)]
pub struct ProjectTrust {
    pub cwd: String,
}

impl Hook for ProjectTrust {
    const NAME: &'static str = "project_trust";
    type Outcome = Trust;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Trust {
    #[serde(default)]
    pub trusted: Trusted,
    #[serde(default)]
    pub remember: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trusted {
    Yes,
    No,
    #[default]
    Undecided,
}

/// Additional paths of skills, prompts and themes.
#[derive(Clone, Debug, Serialize)]
pub struct ResourcesDiscover {
    pub cwd: String,
    /// `startup` or `reload`.
    pub reason: String,
}

impl Hook for ResourcesDiscover {
    const NAME: &'static str = "resources_discover";
    type Outcome = DiscoveredPaths;
}

/// Paths as the extensions gave them, each with the extension's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveredPaths {
    pub skill_paths: Vec<(String, String)>,
    pub prompt_paths: Vec<(String, String)>,
    pub theme_paths: Vec<(String, String)>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBeforeSwitch {
    pub reason: SwitchReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_session_file: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchReason {
    New,
    Resume,
}

impl Hook for SessionBeforeSwitch {
    const NAME: &'static str = "session_before_switch";
    type Outcome = Cancel;
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBeforeFork {
    pub entry_id: String,
    pub position: ForkPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkPosition {
    Before,
    At,
}

impl Hook for SessionBeforeFork {
    const NAME: &'static str = "session_before_fork";
    type Outcome = Cancel;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cancel {
    pub cancel: bool,
    /// Used by forks only.
    pub skip_conversation_restore: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBeforeCompact {
    pub preparation: Value,
    pub branch_entries: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_instructions: Option<String>,
    pub reason: CompactReason,
    pub will_retry: bool,
}

impl Hook for SessionBeforeCompact {
    const NAME: &'static str = "session_before_compact";
    type Outcome = Compaction;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Compaction {
    pub cancel: bool,
    /// `{summary, firstKeptEntryId, tokensBefore, details?, …}` instead of the model's summary.
    pub compaction: Option<Value>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SessionBeforeTree {
    pub preparation: Value,
}

impl Hook for SessionBeforeTree {
    const NAME: &'static str = "session_before_tree";
    type Outcome = TreeChange;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TreeChange {
    pub cancel: bool,
    pub summary: Option<TreeSummary>,
    pub custom_instructions: Option<String>,
    pub replace_instructions: Option<bool>,
    pub label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TreeSummary {
    pub summary: String,
    #[serde(default)]
    pub details: Option<Value>,
    #[serde(default)]
    pub usage: Option<Value>,
}
