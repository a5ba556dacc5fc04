//! `settings.json`: the user's and the project's preferences.
//!
//! The types are the source of truth: `docs/settings.md` is generated from their comments and
//! defaults, and a test compares the two. Files are only read, never written, so unknown content
//! stays.

mod extensions;
mod file;
mod layers;
mod overrides;
#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::compaction::ContextLimits;
use tiller_agent::durability::Durability;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::retry::RetryPolicy;
use tiller_agent::sandbox::SandboxMode;
use tiller_agent::stream_rules::RuleInterruptMode;
use tiller_tools::Shell;
use tiller_tools::image::Resize;

pub use extensions::{
    ExtensionEngine, ExtensionPermissions, ExtensionSettings, Package, PackagePart,
};
pub use file::read_file;
pub use layers::{Layers, PathBases, Scope, merge_layers, resolve};
pub use overrides::{SettingError, SettingKey, SettingOverrides};

use crate::credentials::key_names;
use crate::models::glob::matches;

/// The settings tiller uses, with defaults filled in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Provider of the default model of new sessions.
    pub default_provider: Option<String>,
    /// Id of that model.
    pub default_model: Option<String>,
    /// Default thinking level: `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    #[schemars(with = "String")]
    pub default_thinking_level: ThinkingLevel,
    /// Thinking levels of single models, by `provider/id`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub model_thinking_levels: BTreeMap<String, ThinkingLevel>,
    /// Thinking tokens per level.
    pub thinking_budgets: ThinkingBudgets,
    /// Patterns of the models to cycle through; empty means all. `--models` takes precedence.
    pub enabled_models: Vec<String>,
    /// How many queued steering messages are delivered at once.
    pub steering_mode: QueueMode,
    /// How many queued follow-up messages are delivered at once.
    pub follow_up_mode: QueueMode,
    /// Whether steering waits for the running tools of a turn or cancels them.
    pub interrupt_mode: InterruptMode,
    /// The model's tools unless `--tools` names others.
    pub default_tools: Option<Vec<String>>,
    /// The shell that runs commands; bash if not set.
    pub shell_path: Option<PathBuf>,
    /// A line put before every command.
    pub shell_command_prefix: Option<String>,
    /// Restrictions of tools.
    pub tools: ToolsSettings,
    /// Which tool calls need an approval: `off`, `edits`, `ask` or `read-only`; see
    /// docs/approvals.md. The stricter of both files counts; `--approvals` replaces the user's.
    pub approvals: ApprovalMode,
    /// Tool calls that are always allowed, asked about or refused.
    pub permissions: PermissionSettings,
    /// What the kernel allows the tools to do; see docs/sandbox.md.
    pub sandbox: SandboxSettings,
    /// Handling of images.
    pub images: Images,
    /// How a run is retried after a temporary failure.
    pub retry: RetrySettings,
    /// When and how a long conversation is compacted.
    pub compaction: CompactionSettings,
    /// How an abandoned branch is summarised.
    pub branch_summary: BranchSummarySettings,
    /// How sessions are stored.
    pub session: SessionSettings,
    /// Where sessions are stored, if not in the agent folder. A project's setting counts only if
    /// the project is trusted.
    pub session_dir: Option<PathBuf>,
    /// The PostgreSQL database in which sessions are stored, as a URL; see docs/store.md. Only read
    /// from the user's own file.
    // Clients do not get it: it may contain a password.
    #[serde(skip_serializing)]
    pub store: Option<String>,
    /// Milliseconds without data from a provider before the request fails; 0 waits forever.
    pub http_idle_timeout_ms: u64,
    /// Whether to use the files of a project without a trust decision. Only read from the user's
    /// own file.
    pub default_project_trust: DefaultProjectTrust,
    /// More files or folders with skills. Relative paths start at the folder of the settings file.
    pub skills: Vec<String>,
    /// More files or folders with prompt templates; relative paths as above.
    pub prompts: Vec<String>,
    /// Files or folders with extensions; relative paths as above. `!PATTERN` and `-PATH` exclude
    /// extensions that would be loaded, `+PATH` includes one again.
    pub extensions: Vec<String>,
    /// Packages with extensions, as installed by pi: `npm:NAME`, `git:HOST/PATH` or a path, or an
    /// object with that as its `source` and a list of `extensions`. The packages of both files are
    /// loaded; if both name one package, the project's entry counts.
    pub packages: Vec<Package>,
    /// Permissions of single extensions, by the name of their file, folder or package, or by path;
    /// names and paths may be patterns. A project cannot allow what the user forbids.
    pub extension_settings: BTreeMap<String, ExtensionSettings>,
    /// Whether an extension that cannot run inside tiller may run in a separate `node` or `bun`
    /// process. If either file says no, it may not.
    pub extension_sidecars: bool,
    /// xcsh's todo list.
    pub todo: TodoSettings,
    /// How xcsh's todo list is cleared.
    pub tasks: TasksSettings,
    /// xcsh's rules that interrupt an answer.
    pub ttsr: TtsrSettings,
    /// The content of both files, unknown keys included.
    #[serde(skip)]
    pub raw: Map<String, Value>,
}

/// Restrictions of tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct ToolsSettings {
    /// Variables with provider keys (`ANTHROPIC_API_KEY`, `AWS_SECRET_ACCESS_KEY` and so on, and
    /// those that `auth.json` and `models.json` refer to) that commands may see; `*` stands for any
    /// letters. By default commands get all variables except these.
    pub pass_env: Vec<String>,
}

impl ToolsSettings {
    /// Whether commands may see this variable, which holds a key.
    pub fn passes(&self, name: &str) -> bool {
        self.pass_env.iter().any(|pattern| matches(pattern, name))
    }
}

/// Tool calls that are always allowed, asked about or refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct PermissionSettings {
    /// Rules for calls that run without asking, such as `bash(npm test *)`. Only read from the
    /// user's own file.
    pub allow: Vec<String>,
    /// Rules for calls that the user is always asked about. The rules of both files count.
    pub ask: Vec<String>,
    /// Rules for calls that are refused. They win over all others; the rules of both files count.
    pub deny: Vec<String>,
    /// Seconds until a question without an answer counts as denied; 0 waits forever. Only read
    /// from the user's own file.
    pub timeout_seconds: u64,
}

/// What the kernel allows the tools to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct SandboxSettings {
    /// `off`, `read-only` or `workspace-write`. The stricter of both files counts; `--sandbox`
    /// replaces the user's.
    pub mode: SandboxMode,
    /// Whether tools may use the network. A project can only forbid it.
    pub network: bool,
    /// Further folders in which tools may change files. Only read from the user's own file.
    pub write_roots: Vec<PathBuf>,
    /// Whether tools run although something cannot be enforced. Only read from the user's own file.
    pub best_effort: bool,
}

/// How a run is retried after a temporary failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct RetrySettings {
    /// Whether to retry at all.
    pub enabled: bool,
    /// Maximum number of retries.
    pub max_retries: u32,
    /// The first delay; each further one is twice as long.
    pub base_delay_ms: u64,
    /// The longest delay, whatever the provider asks for.
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
    /// The policy of the retries of a run.
    pub fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            enabled: self.enabled,
            max_retries: self.max_retries,
            base_delay_ms: self.base_delay_ms,
            max_delay_ms: self.max_agent_delay_ms,
        }
    }
}

/// When and how a long conversation is compacted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct CompactionSettings {
    /// Whether to compact automatically.
    pub enabled: bool,
    /// Tokens of the context window to keep free: a conversation that needs them is compacted.
    #[serde(deserialize_with = "tokens")]
    pub reserve_tokens: u64,
    /// About how many tokens of the newest messages are kept as they are.
    #[serde(deserialize_with = "tokens")]
    pub keep_recent_tokens: u64,
    /// Other numbers for single models, by `provider/id`.
    pub model_overrides: BTreeMap<String, CompactionOverride>,
}

/// Compaction settings of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct CompactionOverride {
    /// Replaces `reserveTokens`.
    #[serde(deserialize_with = "some_tokens", skip_serializing_if = "Option::is_none")]
    pub reserve_tokens: Option<u64>,
    /// Replaces `keepRecentTokens`.
    #[serde(deserialize_with = "some_tokens", skip_serializing_if = "Option::is_none")]
    pub keep_recent_tokens: Option<u64>,
}

impl Default for CompactionSettings {
    fn default() -> CompactionSettings {
        CompactionSettings {
            enabled: true,
            reserve_tokens: 16_384,
            keep_recent_tokens: 20_000,
            model_overrides: BTreeMap::new(),
        }
    }
}

impl CompactionSettings {
    /// When a conversation with this model is compacted.
    pub fn limits(&self, model: &Model) -> ContextLimits {
        let name = format!("{}/{}", model.provider, model.id);
        let overrides = self.model_overrides.get(&name).copied().unwrap_or_default();
        let reserve = overrides.reserve_tokens.unwrap_or(self.reserve_tokens);
        let keep = overrides.keep_recent_tokens.unwrap_or(self.keep_recent_tokens);
        ContextLimits::new(model.context_window, reserve, keep)
    }
}

/// How an abandoned branch is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct BranchSummarySettings {
    /// Tokens of the context window to keep free for the summary.
    #[serde(deserialize_with = "tokens")]
    pub reserve_tokens: u64,
}

impl Default for BranchSummarySettings {
    fn default() -> BranchSummarySettings {
        BranchSummarySettings { reserve_tokens: 16_384 }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct SessionSettings {
    /// What a power failure may cost: `run` (the default; at most the work of the current run),
    /// `entry` (nothing that was announced) or `os` (the operating system decides).
    #[serde(serialize_with = "durability_name", deserialize_with = "durability")]
    #[schemars(with = "String")]
    pub durability: Durability,
}

/// Thinking tokens per level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct ThinkingBudgets {
    /// 1024 if not set.
    pub minimal: Option<u64>,
    /// 2048 if not set.
    pub low: Option<u64>,
    /// 8192 if not set.
    pub medium: Option<u64>,
    /// 16384 if not set.
    pub high: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct Images {
    /// Scale large images down before they are sent.
    pub auto_resize: bool,
    /// Send no images to the model.
    pub block_images: bool,
}

impl Default for Images {
    fn default() -> Images {
        Images { auto_resize: true, block_images: false }
    }
}

/// Whether to use the files of a project without a trust decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefaultProjectTrust {
    /// Means `never` where the user cannot be asked.
    #[default]
    Ask,
    Always,
    Never,
}

/// xcsh's todo list. Its RPC mode uses the defaults whatever the user has set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct TodoSettings {
    /// Whether the model has the todo tool.
    pub enabled: bool,
    /// Whether the model is reminded of open todos.
    pub reminders: bool,
    /// Maximum number of reminders after one prompt.
    #[serde(rename = "reminders.max")]
    pub reminders_max: u32,
    /// Whether the model has to write a list before it begins.
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
    /// Seconds until finished tasks are removed from the list; a negative number keeps them.
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
    /// Whether rules are applied.
    pub enabled: bool,
    /// What happens to an interrupted answer.
    pub context_mode: TtsrContextMode,
    /// Which matches interrupt.
    pub interrupt_mode: RuleInterruptMode,
    /// How often a rule may trigger.
    pub repeat_mode: TtsrRepeatMode,
    /// With `after-gap`: after how many turns it may trigger again.
    pub repeat_gap: u32,
}

impl Default for TtsrSettings {
    fn default() -> TtsrSettings {
        TtsrSettings {
            enabled: true,
            context_mode: TtsrContextMode::Discard,
            interrupt_mode: RuleInterruptMode::Always,
            repeat_mode: TtsrRepeatMode::Once,
            repeat_gap: 10,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TtsrContextMode {
    Discard,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TtsrRepeatMode {
    Once,
    AfterGap,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_provider: None,
            default_model: None,
            default_thinking_level: ThinkingLevel::Medium,
            model_thinking_levels: BTreeMap::new(),
            thinking_budgets: ThinkingBudgets::default(),
            enabled_models: Vec::new(),
            steering_mode: QueueMode::OneAtATime,
            follow_up_mode: QueueMode::OneAtATime,
            interrupt_mode: InterruptMode::Wait,
            default_tools: None,
            shell_path: None,
            shell_command_prefix: None,
            tools: ToolsSettings::default(),
            approvals: ApprovalMode::Off,
            permissions: PermissionSettings::default(),
            sandbox: SandboxSettings::default(),
            images: Images::default(),
            retry: RetrySettings::default(),
            compaction: CompactionSettings::default(),
            branch_summary: BranchSummarySettings::default(),
            session: SessionSettings::default(),
            session_dir: None,
            store: None,
            http_idle_timeout_ms: 300_000,
            default_project_trust: DefaultProjectTrust::default(),
            skills: Vec::new(),
            prompts: Vec::new(),
            extensions: Vec::new(),
            packages: Vec::new(),
            extension_settings: BTreeMap::new(),
            extension_sidecars: true,
            todo: TodoSettings::default(),
            tasks: TasksSettings::default(),
            ttsr: TtsrSettings::default(),
            raw: Map::new(),
        }
    }
}

impl Settings {
    /// Reads the user's file if it exists. Invalid values are reported in `diagnostics` and keep
    /// their defaults.
    pub fn load(path: &Path, diagnostics: &mut Vec<String>) -> Settings {
        let user = read_file(path, diagnostics);
        Layers { user, ..Layers::default() }.settings()
    }

    /// The values of all keys. Unknown content of the files is left out.
    pub fn to_json(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => unreachable!("settings serialize to an object"),
        }
    }

    /// The shell of the tools, which withholds provider keys from commands.
    pub fn shell(&self) -> Shell {
        Shell {
            path: self.shell_path.clone(),
            prefix: self.shell_command_prefix.clone(),
            withheld: self.withheld_variables(),
        }
    }

    fn withheld_variables(&self) -> Arc<[String]> {
        /// Sessions without the setting share these.
        static ALL: LazyLock<Arc<[String]>> =
            LazyLock::new(|| key_names().map(str::to_owned).collect());
        if self.tools.pass_env.is_empty() {
            return ALL.clone();
        }
        ALL.iter().filter(|name| !self.tools.passes(name)).cloned().collect()
    }

    /// What happens to large images.
    pub fn resize(&self) -> Resize {
        if self.images.auto_resize { Resize::ToFit } else { Resize::Never }
    }
}

fn durability_name<S: Serializer>(value: &Durability, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}

fn durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durability, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || D::Error::custom(format!("`{name}` must be run, entry or os"));
    Durability::read(&name).ok_or_else(unknown)
}

/// JavaScript's largest safe integer: other readers of the file are written in JavaScript.
const SAFE_MAX: u64 = (1 << 53) - 1;

fn tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let count = value.as_u64().filter(|count| *count <= SAFE_MAX);
    count.ok_or_else(|| D::Error::custom(format!("{value}. Expected a non-negative safe integer")))
}

fn some_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    tokens(deserializer).map(Some)
}
