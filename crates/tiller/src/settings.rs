//! `settings.json`: what the user prefers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tiller_agent::model::ThinkingLevel;
use tiller_session::Durability;
use tiller_tools::Shell;
use tiller_tools::image::Resize;

use crate::jsonc;
use crate::rpc::wire::{InterruptMode, QueueMode};

/// The settings tiller honours, with their defaults filled in.
#[derive(Clone, Debug)]
pub struct Settings {
    pub default_provider: Option<String>,
    pub default_model: Option<String>,
    pub default_thinking_level: ThinkingLevel,
    /// How hard single models think, by `provider/id`.
    pub model_thinking_levels: HashMap<String, ThinkingLevel>,
    /// Patterns of the models to cycle through; none means all.
    pub enabled_models: Vec<String>,
    pub(crate) steering_mode: QueueMode,
    pub(crate) follow_up_mode: QueueMode,
    pub(crate) interrupt_mode: InterruptMode,
    pub thinking_budgets: ThinkingBudgets,
    /// Milliseconds a provider may stay silent; 0 waits for ever.
    pub http_idle_timeout_ms: u64,
    pub images: Images,
    pub retry: RetrySettings,
    pub session: SessionSettings,
    /// Where sessions are kept, if not with all others.
    pub session_dir: Option<PathBuf>,
    /// The program that runs commands; bash unless told otherwise.
    pub shell_path: Option<PathBuf>,
    /// Put on a line before every command.
    pub shell_command_prefix: Option<String>,
}

/// How a run that failed in a way that may pass is tried again.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrySettings {
    pub enabled: bool,
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

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// What a power failure may cost.
    #[serde(deserialize_with = "durability")]
    pub durability: Durability,
}

fn durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durability, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || D::Error::custom(format!("`{name}` is none of run, entry, os"));
    Durability::read(&name).ok_or_else(unknown)
}

/// Tokens a model may think at each level.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ThinkingBudgets {
    pub minimal: Option<u64>,
    pub low: Option<u64>,
    pub medium: Option<u64>,
    pub high: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_provider: None,
            default_model: None,
            default_thinking_level: ThinkingLevel::Medium,
            model_thinking_levels: HashMap::new(),
            enabled_models: Vec::new(),
            steering_mode: QueueMode::OneAtATime,
            follow_up_mode: QueueMode::OneAtATime,
            interrupt_mode: InterruptMode::Wait,
            thinking_budgets: ThinkingBudgets::default(),
            http_idle_timeout_ms: 300_000,
            images: Images::default(),
            retry: RetrySettings::default(),
            session: SessionSettings::default(),
            session_dir: None,
            shell_path: None,
            shell_command_prefix: None,
        }
    }
}

impl Settings {
    /// Reads the file if there is one. What cannot be understood is said in `diagnostics` and
    /// keeps its default; the file itself is never touched.
    pub fn load(path: &Path, diagnostics: &mut Vec<String>) -> Settings {
        let mut settings = Settings::default();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return settings,
            Err(err) => {
                diagnostics.push(format!("cannot read {}: {err}", path.display()));
                return settings;
            }
        };
        match jsonc::parse(&text) {
            Ok(value) => settings.apply(&value, path, diagnostics),
            Err(err) => {
                diagnostics.push(format!("invalid settings file {}: {err}", path.display()))
            }
        }
        settings
    }

    pub(crate) fn shell(&self) -> Shell {
        Shell { path: self.shell_path.clone(), prefix: self.shell_command_prefix.clone() }
    }

    pub(crate) fn resize(&self) -> Resize {
        if self.images.auto_resize { Resize::ToFit } else { Resize::Never }
    }

    fn apply(&mut self, value: &Value, path: &Path, diagnostics: &mut Vec<String>) {
        let mut file = File { value, path, diagnostics };
        file.set("defaultProvider", |provider| self.default_provider = Some(provider));
        file.set("defaultModel", |model| self.default_model = Some(model));
        file.set("defaultThinkingLevel", |level| self.default_thinking_level = level);
        file.set("modelThinkingLevels", |levels| self.model_thinking_levels = levels);
        file.set("enabledModels", |patterns| self.enabled_models = patterns);
        file.set("steeringMode", |mode| self.steering_mode = mode);
        file.set("followUpMode", |mode| self.follow_up_mode = mode);
        file.set("interruptMode", |mode| self.interrupt_mode = mode);
        file.set("thinkingBudgets", |budgets| self.thinking_budgets = budgets);
        file.set("httpIdleTimeoutMs", |ms| self.http_idle_timeout_ms = ms);
        file.set("images", |images| self.images = images);
        file.set("retry", |retry| self.retry = retry);
        file.set("session", |session| self.session = session);
        file.set("sessionDir", |dir| self.session_dir = Some(dir));
        file.set("shellPath", |path| self.shell_path = Some(path));
        file.set("shellCommandPrefix", |prefix| self.shell_command_prefix = Some(prefix));
    }
}

struct File<'a> {
    value: &'a Value,
    path: &'a Path,
    diagnostics: &'a mut Vec<String>,
}

impl File<'_> {
    fn set<T: DeserializeOwned>(&mut self, key: &str, set: impl FnOnce(T)) {
        let Some(value) = self.value.get(key).filter(|value| !value.is_null()) else { return };
        match T::deserialize(value) {
            Ok(value) => set(value),
            Err(err) => {
                let path = self.path.display();
                self.diagnostics.push(format!("setting `{key}` in {path} is ignored: {err}"));
            }
        }
    }
}
