//! `get_settings`, `set_setting`, and the settings that have commands of their own.

use serde_json::Value;
use tiller_config::settings::SettingKey;
use tiller_protocol::{Level, SetSetting, SettingData, SettingsData};

use super::data;
use crate::dispatch::Handled;
use crate::project_state;
use crate::state::SessionState;

pub(crate) fn get_settings(state: &SessionState) -> Handled {
    let changed = state.project.setting_overrides().iter();
    data(&SettingsData {
        settings: state.project.settings().to_json(),
        changed: changed.map(|(key, value)| (key.name().to_owned(), value.clone())).collect(),
        changeable: SettingKey::all().map(|key| key.name().into()).collect(),
    })
}

pub(crate) fn set_setting(state: &mut SessionState, level: Level, change: SetSetting) -> Handled {
    let SetSetting { key, value } = change;
    let key = SettingKey::find(&key).map_err(|err| err.to_string())?;
    if let Some(reason) = no_effect(key, level, state.project.has_own_models()) {
        return Err(format!("Setting {} has no effect: {reason}", key.name()));
    }
    project_state::set_setting(state, key, value).map_err(|err| err.to_string())?;
    let value = key.value(state.project.settings());
    data(&SettingData { key: key.name().into(), value })
}

/// Changes a setting that has a command of its own.
pub(super) fn set(state: &mut SessionState, key: SettingKey, value: Value) -> Result<(), String> {
    project_state::set_setting(state, key, Some(value)).map_err(|err| err.to_string())
}

/// Why the setting would not be used.
fn no_effect(key: SettingKey, level: Level, has_own_models: bool) -> Option<&'static str> {
    if level == Level::Xcsh && key.name().starts_with("todo.") {
        Some("at level xcsh todos have their defaults")
    } else if key == SettingKey::ENABLED_MODELS && has_own_models {
        Some("--models selects the models")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_effect_are_named() {
        for (name, level, has_own_models, expected) in [
            ("todo.eager", Level::Xcsh, false, true),
            ("todo.eager", Level::Pi, false, false),
            ("tasks.todoClearDelay", Level::Xcsh, false, false),
            ("enabledModels", Level::Pi, true, true),
            ("enabledModels", Level::Pi, false, false),
            ("retry.enabled", Level::Xcsh, true, false),
        ] {
            let key = SettingKey::find(name).unwrap();
            let reason = no_effect(key, level, has_own_models);
            assert_eq!(reason.is_some(), expected, "{name} {level:?} {has_own_models}");
        }
    }
}
