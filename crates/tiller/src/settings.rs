//! `settings.json`: what the user prefers, for everything and for a project.
//!
//! The types are the truth: `docs/settings.md` is made of their comments and defaults, and a test
//! compares the two. Files are read and never written, so whatever else they hold stays.

mod file;
mod layers;
mod extensions;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tiller_agent::compaction::Limits;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::retry::RetryPolicy;
use tiller_agent::stream_rules::InterruptMode as RuleInterruptMode;
use tiller_session::Durability;
use tiller_tools::Shell;
use tiller_tools::image::Resize;

pub use extensions::{
    ExtensionEngine, ExtensionPermissions, ExtensionSettings, Package, PackagePart,
};
pub(crate) use file::read_file;
pub(crate) use layers::{Layers, Places, Scope, resolve};

use crate::credentials::key_names;
use crate::models::glob::matches;
use crate::rpc::wire::{InterruptMode, QueueMode};

/// The settings tiller honours, with their defaults filled in.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Provider of the model that a new session begins with.
    pub default_provider: Option<String>,
    /// Id of that model.
    pub default_model: Option<String>,
    /// How hard a model thinks unless something else says so: `off`, `minimal`, `low`, `medium`,
    /// `high` or `xhigh`.
    #[schemars(with = "String")]
    pub default_thinking_level: ThinkingLevel,
    /// How hard single models think, by `provider/id`.
    #[schemars(with = "HashMap<String, String>")]
    pub model_thinking_levels: HashMap<String, ThinkingLevel>,
    /// Tokens a model may think at each level.
    pub thinking_budgets: ThinkingBudgets,
    /// Patterns of the models to cycle through; none means all. `--models` comes first.
    pub enabled_models: Vec<String>,
    /// How many steering messages are said at once.
    pub(crate) steering_mode: QueueMode,
    /// How many follow-up messages are said at once.
    pub(crate) follow_up_mode: QueueMode,
    /// Whether steering waits for the tools of a turn or ends them.
    pub(crate) interrupt_mode: InterruptMode,
    /// Tools a model gets unless `--tools` names others.
    pub default_tools: Option<Vec<String>>,
    /// The program that runs commands; bash unless told otherwise.
    pub shell_path: Option<PathBuf>,
    /// Put on a line before every command.
    pub shell_command_prefix: Option<String>,
    /// What tools may do.
    pub tools: ToolsSettings,
    /// What becomes of pictures.
    pub images: Images,
    /// How a run that failed in a way that may pass is tried again.
    pub retry: RetrySettings,
    /// When and how a long conversation is summed up.
    pub compaction: CompactionSettings,
    /// How a branch that is left behind is summed up.
    pub branch_summary: BranchSummarySettings,
    /// How sessions are kept.
    pub session: SessionSettings,
    /// Where sessions are kept, if not with all others. In a project's file this counts like
    /// everything else there: when the project is trusted.
    pub session_dir: Option<PathBuf>,
    /// Milliseconds a provider may stay silent; 0 waits for ever.
    pub http_idle_timeout_ms: u64,
    /// Whether the files of a project nobody has decided about are used. Counts in the user's
    /// own file only.
    pub default_project_trust: DefaultProjectTrust,
    /// More files or folders with skills. Relative ones start at the folder of the settings file.
    pub skills: Vec<String>,
    /// More files or folders with prompt templates, in the same way.
    pub prompts: Vec<String>,
    /// Files or folders with extensions, in the same way. `!PATTERN` and `-PATH` leave out what
    /// would be loaded, `+PATH` takes it in again.
    pub extensions: Vec<String>,
    /// Packages with extensions, as pi has installed them: `npm:NAME`, `git:HOST/PATH` or a path,
    /// or an object with that as its `source` and a list of `extensions`. Those of both files
    /// count; of one package the project's word does.
    pub packages: Vec<Package>,
    /// What single extensions may do, by the name of their file, folder or package, or by their
    /// path; names and paths may be patterns. What the user forbids, no project allows.
    pub extension_settings: HashMap<String, ExtensionSettings>,
    /// Whether an extension that needs what cannot run inside tiller may run in a `node` or `bun`
    /// beside it. If one of the two files says no, it is no.
    pub extension_sidecars: bool,
    /// xcsh's todo list.
    pub todo: TodoSettings,
    /// How xcsh's todo list is cleared.
    pub tasks: TasksSettings,
    /// xcsh's rules that interrupt an answer.
    pub ttsr: TtsrSettings,
    /// Everything the files say, also what tiller does not know.
    #[serde(skip)]
    pub raw: Map<String, Value>,
}

/// What tools may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct ToolsSettings {
    /// Variables with provider keys (`ANTHROPIC_API_KEY`, `AWS_SECRET_ACCESS_KEY` and so on) that
    /// commands may see all the same; `*` stands for any letters. Without it commands get all
    /// variables but these.
    pub pass_env: Vec<String>,
}

impl ToolsSettings {
    /// Whether commands may see a variable that holds a key.
    pub(crate) fn passes(&self, name: &str) -> bool {
        self.pass_env.iter().any(|pattern| matches(pattern, name))
    }
}

/// How a run that failed in a way that may pass is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct RetrySettings {
    /// Whether at all.
    pub enabled: bool,
    /// How often at most.
    pub max_retries: u32,
    /// The first pause; each further one is twice as long.
    pub base_delay_ms: u64,
    /// No pause is longer, whatever the provider asks for.
    pub max_agent_delay_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> RetrySettings {
        RetrySettings {
            enabled: true,
            max_retries: 3,
            base_delay_ms: 2000,
            max_agent_delay_ms: 60_000,
        }
    }
}

impl RetrySettings {
    pub(crate) fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            enabled: self.enabled,
            max_retries: self.max_retries,
            base_delay_ms: self.base_delay_ms,
            max_delay_ms: self.max_agent_delay_ms,
        }
    }
}

/// When and how a long conversation is summed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct CompactionSettings {
    /// Whether it happens by itself.
    pub enabled: bool,
    /// Tokens of the window that stay free: a conversation that needs them is summed up.
    #[serde(deserialize_with = "tokens")]
    pub reserve_tokens: u64,
    /// About how many tokens of the newest messages are kept as they are.
    #[serde(deserialize_with = "tokens")]
    pub keep_recent_tokens: u64,
    /// Other numbers for single models, by `provider/id`.
    pub model_overrides: HashMap<String, CompactionOverride>,
}

/// What is different for one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct CompactionOverride {
    /// Instead of `reserveTokens`.
    #[serde(deserialize_with = "some_tokens")]
    pub reserve_tokens: Option<u64>,
    /// Instead of `keepRecentTokens`.
    #[serde(deserialize_with = "some_tokens")]
    pub keep_recent_tokens: Option<u64>,
}

impl Default for CompactionSettings {
    fn default() -> CompactionSettings {
        CompactionSettings {
            enabled: true,
            reserve_tokens: 16_384,
            keep_recent_tokens: 20_000,
            model_overrides: HashMap::new(),
        }
    }
}

impl CompactionSettings {
    pub(crate) fn limits(&self, model: &Model) -> Limits {
        let name = format!("{}/{}", model.provider, model.id);
        let overrides = self.model_overrides.get(&name).copied().unwrap_or_default();
        let reserve = overrides.reserve_tokens.unwrap_or(self.reserve_tokens);
        let keep = overrides.keep_recent_tokens.unwrap_or(self.keep_recent_tokens);
        Limits::new(model.context_window, reserve, keep)
    }
}

/// How a branch that is left behind is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct BranchSummarySettings {
    /// Tokens of the window that stay free for the summary.
    #[serde(deserialize_with = "tokens")]
    pub reserve_tokens: u64,
}

impl Default for BranchSummarySettings {
    fn default() -> BranchSummarySettings {
        BranchSummarySettings { reserve_tokens: 16_384 }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct SessionSettings {
    /// What a power failure may cost: `run` (the default; at most the work of the run under way),
    /// `entry` (nothing that was announced) or `os` (the operating system decides).
    #[serde(deserialize_with = "durability")]
    #[schemars(with = "String")]
    pub durability: Durability,
}

/// Tokens a model may think at each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct ThinkingBudgets {
    /// 1024 unless set.
    pub minimal: Option<u64>,
    /// 2048 unless set.
    pub low: Option<u64>,
    /// 8192 unless set.
    pub medium: Option<u64>,
    /// 16384 unless set.
    pub high: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct Images {
    /// Large pictures are scaled down before they are sent.
    pub auto_resize: bool,
    /// No picture leaves the machine.
    pub block_images: bool,
}

impl Default for Images {
    fn default() -> Images {
        Images { auto_resize: true, block_images: false }
    }
}

/// Whether the files of a project nobody has decided about are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefaultProjectTrust {
    /// Where nobody can be asked, this means no.
    #[default]
    Ask,
    Always,
    Never,
}

/// xcsh's todo list. Its RPC mode takes the defaults whatever the user has set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct TodoSettings {
    /// Whether the model has the tool for it.
    pub enabled: bool,
    /// Whether the model is reminded of what is left to do.
    pub reminders: bool,
    /// How often at most after one prompt.
    #[serde(rename = "reminders.max")]
    pub reminders_max: u32,
    /// Whether the model is made to write a list before it begins.
    pub eager: bool,
}

impl Default for TodoSettings {
    fn default() -> TodoSettings {
        TodoSettings { enabled: true, reminders: true, reminders_max: 3, eager: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct TasksSettings {
    /// Seconds until finished tasks are cleared from the list; a negative number keeps them.
    pub todo_clear_delay: i64,
}

impl Default for TasksSettings {
    fn default() -> TasksSettings {
        TasksSettings { todo_clear_delay: 60 }
    }
}

/// xcsh's rules that interrupt an answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct TtsrSettings {
    /// Whether rules are looked at.
    pub enabled: bool,
    /// What becomes of an answer that was interrupted.
    pub(crate) context_mode: TtsrContextMode,
    /// Which matches interrupt.
    pub(crate) interrupt_mode: TtsrInterruptMode,
    /// How often a rule speaks.
    pub(crate) repeat_mode: TtsrRepeatMode,
    /// After how many turns it speaks again, with `after-gap`.
    pub repeat_gap: u32,
}

impl Default for TtsrSettings {
    fn default() -> TtsrSettings {
        TtsrSettings {
            enabled: true,
            context_mode: TtsrContextMode::Discard,
            interrupt_mode: TtsrInterruptMode::Always,
            repeat_mode: TtsrRepeatMode::Once,
            repeat_gap: 10,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TtsrContextMode {
    Discard,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TtsrInterruptMode {
    Never,
    ProseOnly,
    ToolOnly,
    Always,
}

impl From<TtsrInterruptMode> for RuleInterruptMode {
    fn from(mode: TtsrInterruptMode) -> RuleInterruptMode {
        match mode {
            TtsrInterruptMode::Never => RuleInterruptMode::Never,
            TtsrInterruptMode::ProseOnly => RuleInterruptMode::ProseOnly,
            TtsrInterruptMode::ToolOnly => RuleInterruptMode::ToolOnly,
            TtsrInterruptMode::Always => RuleInterruptMode::Always,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TtsrRepeatMode {
    Once,
    AfterGap,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_provider: None,
            default_model: None,
            default_thinking_level: ThinkingLevel::Medium,
            model_thinking_levels: HashMap::new(),
            thinking_budgets: ThinkingBudgets::default(),
            enabled_models: Vec::new(),
            steering_mode: QueueMode::OneAtATime,
            follow_up_mode: QueueMode::OneAtATime,
            interrupt_mode: InterruptMode::Wait,
            default_tools: None,
            shell_path: None,
            shell_command_prefix: None,
            tools: ToolsSettings::default(),
            images: Images::default(),
            retry: RetrySettings::default(),
            compaction: CompactionSettings::default(),
            branch_summary: BranchSummarySettings::default(),
            session: SessionSettings::default(),
            session_dir: None,
            http_idle_timeout_ms: 300_000,
            default_project_trust: DefaultProjectTrust::default(),
            skills: Vec::new(),
            prompts: Vec::new(),
            extensions: Vec::new(),
            packages: Vec::new(),
            extension_settings: HashMap::new(),
            extension_sidecars: true,
            todo: TodoSettings::default(),
            tasks: TasksSettings::default(),
            ttsr: TtsrSettings::default(),
            raw: Map::new(),
        }
    }
}

impl Settings {
    /// Reads the user's file if there is one. What cannot be understood is said in `diagnostics`
    /// and keeps its default; the file itself is never touched.
    pub fn load(path: &Path, diagnostics: &mut Vec<String>) -> Settings {
        let user = read_file(path, diagnostics);
        Layers { user, ..Layers::default() }.settings()
    }

    pub(crate) fn shell(&self) -> Shell {
        let withheld = key_names().filter(|name| !self.tools.passes(name)).map(str::to_owned);
        Shell {
            path: self.shell_path.clone(),
            prefix: self.shell_command_prefix.clone(),
            withheld: withheld.collect(),
        }
    }

    pub(crate) fn resize(&self) -> Resize {
        if self.images.auto_resize { Resize::ToFit } else { Resize::Never }
    }
}

fn durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durability, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || D::Error::custom(format!("`{name}` is none of run, entry, os"));
    Durability::read(&name).ok_or_else(unknown)
}

/// The largest number that JavaScript, which other readers of the file are written in, can count
/// to without skipping.
const SAFE_MAX: u64 = (1 << 53) - 1;

fn tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let count = value.as_u64().filter(|count| *count <= SAFE_MAX);
    count.ok_or_else(|| D::Error::custom(format!("{value}. Expected a non-negative safe integer")))
}

fn some_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    tokens(deserializer).map(Some)
}
