//! Settings that a client changes while tiller runs. They are kept in memory: no file is written.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Settings;

/// The settings that take effect at once. tiller reads the others only at its start, with a folder,
/// or with a session.
const CHANGEABLE: &[&str] = &[
    "modelThinkingLevels",
    "thinkingBudgets.minimal",
    "thinkingBudgets.low",
    "thinkingBudgets.medium",
    "thinkingBudgets.high",
    "enabledModels",
    "steeringMode",
    "followUpMode",
    "interruptMode",
    "shellPath",
    "shellCommandPrefix",
    "tools.passEnv",
    "images.autoResize",
    "images.blockImages",
    "retry.enabled",
    "retry.maxRetries",
    "retry.baseDelayMs",
    "retry.maxAgentDelayMs",
    "compaction.enabled",
    "compaction.reserveTokens",
    "compaction.keepRecentTokens",
    "compaction.modelOverrides",
    "branchSummary.reserveTokens",
    "httpIdleTimeoutMs",
    "todo.enabled",
    "todo.reminders",
    "todo.reminders.max",
    "todo.eager",
    "tasks.todoClearDelay",
    "ttsr.enabled",
    "ttsr.contextMode",
    "ttsr.interruptMode",
    "ttsr.repeatMode",
    "ttsr.repeatGap",
];

/// The key of a setting that can be changed, such as `retry.maxRetries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingKey(&'static str);

impl SettingKey {
    pub const STEERING_MODE: SettingKey = SettingKey("steeringMode");
    pub const FOLLOW_UP_MODE: SettingKey = SettingKey("followUpMode");
    pub const INTERRUPT_MODE: SettingKey = SettingKey("interruptMode");
    pub const RETRY_ENABLED: SettingKey = SettingKey("retry.enabled");
    pub const COMPACTION_ENABLED: SettingKey = SettingKey("compaction.enabled");
    pub const ENABLED_MODELS: SettingKey = SettingKey("enabledModels");

    /// All of them, in the order of the settings page.
    pub fn all() -> impl Iterator<Item = SettingKey> {
        CHANGEABLE.iter().map(|name| SettingKey(name))
    }

    /// The key with this name.
    pub fn find(name: &str) -> Result<SettingKey, SettingError> {
        if let Some(key) = SettingKey::all().find(|key| key.0 == name) {
            return Ok(key);
        }
        let name = name.to_owned();
        Err(match value_at(&Settings::default().to_json(), &name) {
            None => SettingError::Unknown(name),
            Some(Value::Object(group)) if !group.is_empty() => {
                let keys = group.keys().map(|key| format!("{name}.{key}")).collect();
                SettingError::Group(name, keys)
            }
            Some(_) => SettingError::Fixed(name),
        })
    }

    pub fn name(self) -> &'static str {
        self.0
    }

    /// The value of this setting.
    pub fn value(self, settings: &Settings) -> Value {
        value_at(&settings.to_json(), self.0).cloned().unwrap_or_default()
    }

    fn put(self, values: &mut Map<String, Value>, value: &Value) {
        let Some((group, name)) = self.0.split_once('.') else {
            values.insert(self.0.to_owned(), value.clone());
            return;
        };
        let group = values.entry(group).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(group) = group {
            group.insert(name.to_owned(), value.clone());
        }
    }
}

/// Names have a dot between the group and the key; a key may have more of them.
fn value_at<'a>(values: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    values.get(name).or_else(|| {
        let (group, key) = name.split_once('.')?;
        values.get(group)?.as_object()?.get(key)
    })
}

/// Why a setting cannot be changed.
#[derive(Debug, PartialEq)]
pub enum SettingError {
    Unknown(String),
    /// The name of a group, and the names of its settings.
    Group(String, Vec<String>),
    /// It is only read from the files.
    Fixed(String),
    Invalid {
        key: SettingKey,
        reason: String,
    },
}

impl std::error::Error for SettingError {}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Unknown(name) => write!(f, "Setting not found: {name}"),
            SettingError::Group(name, keys) => {
                write!(f, "{name} is a group of settings. Name one of: {}", keys.join(", "))
            }
            SettingError::Fixed(name) => {
                write!(f, "Setting {name} cannot be changed while tiller runs")
            }
            SettingError::Invalid { key, reason } => {
                write!(f, "Invalid value of setting {}: {reason}", key.0)
            }
        }
    }
}

/// The changed settings. Each value is valid.
#[derive(Clone, Debug, Default)]
pub struct SettingOverrides {
    values: BTreeMap<SettingKey, Value>,
}

impl SettingOverrides {
    /// Changes a setting.
    pub fn set(&mut self, key: SettingKey, value: Value) -> Result<(), SettingError> {
        let alone = SettingOverrides { values: BTreeMap::from([(key, value)]) };
        if let Err(err) = alone.over(&Settings::default()) {
            return Err(SettingError::Invalid { key, reason: err.to_string() });
        }
        self.values.extend(alone.values);
        Ok(())
    }

    /// Makes a setting follow the files again.
    pub fn remove(&mut self, key: SettingKey) {
        self.values.remove(&key);
    }

    /// Removes the changes of settings whose values in the files are now others.
    pub fn forget_changed(&mut self, before: &Settings, after: &Settings) {
        self.values.retain(|key, _| key.value(before) == key.value(after));
    }

    /// The changed keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (SettingKey, &Value)> {
        self.values.iter().map(|(key, value)| (*key, value))
    }

    /// The settings of the files with the changes.
    pub fn apply(&self, files: &Settings) -> Settings {
        if self.values.is_empty() {
            return files.clone();
        }
        // Each value was validated when it was set.
        self.over(files).unwrap_or_else(|_| files.clone())
    }

    fn over(&self, files: &Settings) -> Result<Settings, serde_json::Error> {
        let mut values = files.to_json();
        let mut raw = files.raw.clone();
        for (key, value) in &self.values {
            key.put(&mut values, value);
            key.put(&mut raw, value);
        }
        let mut settings = Settings::deserialize(&Value::Object(values))?;
        settings.raw = raw;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Settings {
        let mut settings = Settings::deserialize(&value).unwrap();
        settings.raw = value.as_object().unwrap().clone();
        settings
    }

    fn changed(changes: &[(&str, Value)]) -> SettingOverrides {
        let mut overrides = SettingOverrides::default();
        for (name, value) in changes {
            overrides.set(SettingKey::find(name).unwrap(), value.clone()).unwrap();
        }
        overrides
    }

    #[test]
    fn keys_that_can_be_changed_are_settings() {
        let all = Settings::default().to_json();
        for key in SettingKey::all() {
            assert!(value_at(&all, key.name()).is_some(), "{}", key.name());
        }
        let named = [
            SettingKey::STEERING_MODE,
            SettingKey::FOLLOW_UP_MODE,
            SettingKey::INTERRUPT_MODE,
            SettingKey::RETRY_ENABLED,
            SettingKey::COMPACTION_ENABLED,
            SettingKey::ENABLED_MODELS,
        ];
        assert!(named.iter().all(|key| CHANGEABLE.contains(&key.name())));
    }

    #[test]
    fn names_that_are_no_key_are_explained() {
        for (name, expected) in [
            ("retries", "Setting not found: retries"),
            ("retry.max", "Setting not found: retry.max"),
            ("retry.enabled.really", "Setting not found: retry.enabled.really"),
            ("", "Setting not found: "),
            ("sessionDir", "Setting sessionDir cannot be changed while tiller runs"),
            ("extensionSettings", "Setting extensionSettings cannot be changed while tiller runs"),
            (
                "session.durability",
                "Setting session.durability cannot be changed while tiller runs",
            ),
            (
                "images",
                "images is a group of settings. Name one of: images.autoResize, images.blockImages",
            ),
        ] {
            assert_eq!(SettingKey::find(name).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn change_replaces_the_value_of_the_files() {
        let files = of(json!({
            "retry": {"maxRetries": 5, "baseDelayMs": 1},
            "modelThinkingLevels": {"a/b": "low", "c/d": "high"},
            "compaction": {"modelOverrides": {"a/b": {"reserveTokens": 7}}},
            "sessionDir": "/s",
            "mine": true,
        }));
        let settings = changed(&[
            ("retry.maxRetries", json!(9)),
            ("modelThinkingLevels", json!({"a/b": "off"})),
            ("todo.reminders.max", json!(1)),
        ])
        .apply(&files);
        assert_eq!((settings.retry.max_retries, settings.retry.base_delay_ms), (9, 1));
        assert_eq!(settings.todo.reminders_max, 1);
        assert_eq!(settings.to_json()["modelThinkingLevels"], json!({"a/b": "off"}));
        assert_eq!(settings.compaction, files.compaction);
        assert_eq!(settings.session_dir, files.session_dir);
        assert_eq!(settings.raw["mine"], true);
        assert_eq!(settings.raw["retry"], json!({"maxRetries": 9, "baseDelayMs": 1}));
        assert_eq!(settings.raw["todo"], json!({"reminders.max": 1}));
    }

    #[test]
    fn invalid_value_changes_nothing() {
        let mut overrides = changed(&[("retry.maxRetries", json!(9))]);
        for (name, value, expected) in [
            ("retry.maxRetries", json!("x"), "invalid type: string \"x\", expected u32"),
            ("retry.maxRetries", json!(-1), "invalid value: integer `-1`, expected u32"),
            ("steeringMode", json!("some"), "unknown variant `some`"),
            ("compaction.reserveTokens", json!(1.5), "1.5. Expected a non-negative safe integer"),
        ] {
            let error = overrides.set(SettingKey::find(name).unwrap(), value).unwrap_err();
            let expected = format!("Invalid value of setting {name}: {expected}");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        assert_eq!(overrides.apply(&Settings::default()).retry.max_retries, 9);
    }

    #[test]
    fn change_ends_when_it_is_removed_or_the_file_changes() {
        let mut overrides =
            changed(&[("retry.maxRetries", json!(9)), ("retry.enabled", json!(false))]);
        overrides.remove(SettingKey::RETRY_ENABLED);
        let (before, after) = (of(json!({})), of(json!({"retry": {"maxRetries": 4}})));
        overrides.forget_changed(&before, &of(json!({"steeringMode": "all"})));
        assert_eq!(
            overrides.iter().map(|(key, _)| key.name()).collect::<Vec<_>>(),
            ["retry.maxRetries"]
        );
        overrides.forget_changed(&before, &after);
        assert_eq!(overrides.apply(&after).retry.max_retries, 4);
        assert_eq!(overrides.iter().count(), 0);
    }
}
