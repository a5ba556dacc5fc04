//! Settings files, valid and invalid.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Reads a user's and a project's file and returns the diagnostics.
fn read(user: &str, project: &str) -> (Layers, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut diagnostics = Vec::new();
    let mut layer = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_file(&path, &mut diagnostics)
    };
    let (user, project) = (layer("user.json", user), layer("project.json", project));
    let said = diagnostics.join("\n").replace(&*folder.path().to_string_lossy(), "FOLDER");
    (Layers { user, project }, said)
}

fn check_diagnostics(text: &str, expected: Expect) {
    expected.assert_eq(&read(text, "{}").1);
}

#[test]
fn invalid_value_is_ignored_and_the_rest_counts() {
    let text = r#"{
        "steeringMode": "sometimes",
        "followUpMode": "all",
        "retry": {"maxRetries": "many", "baseDelayMs": 5},
        "compaction": {"reserveTokens": -1, "keepRecentTokens": 1.5, "modelOverrides": {
            "a/b": {"reserveTokens": 9007199254740992, "keepRecentTokens": 10}
        }},
        "enabledModels": ["a", 3],
        "session": {"durability": "diamond"},
        "defaultModel": null,
        "mine": {"retry": "kept"}
    }"#;
    check_diagnostics(
        text,
        expect![[r#"
            Invalid steeringMode setting in FOLDER/user.json is ignored: unknown variant `sometimes`, expected `all` or `one-at-a-time`
            Invalid retry.maxRetries setting in FOLDER/user.json is ignored: invalid type: string "many", expected u32
            Invalid compaction.reserveTokens setting in FOLDER/user.json is ignored: -1. Expected a non-negative safe integer
            Invalid compaction.keepRecentTokens setting in FOLDER/user.json is ignored: 1.5. Expected a non-negative safe integer
            Invalid compaction.modelOverrides.a/b.reserveTokens setting in FOLDER/user.json is ignored: 9007199254740992. Expected a non-negative safe integer
            Invalid enabledModels setting in FOLDER/user.json is ignored: invalid type: integer `3`, expected a string
            Invalid session.durability setting in FOLDER/user.json is ignored: `diamond` must be run, entry or os"#]],
    );
    let settings = read(text, "{}").0.settings();
    assert_eq!(settings.steering_mode, QueueMode::OneAtATime);
    assert_eq!(settings.follow_up_mode, QueueMode::All);
    assert_eq!(settings.retry, RetrySettings { base_delay_ms: 5, ..RetrySettings::default() });
    assert_eq!(settings.compaction.reserve_tokens, 16_384);
    let other = CompactionOverride { reserve_tokens: None, keep_recent_tokens: Some(10) };
    assert_eq!(settings.compaction.model_overrides["a/b"], other);
    assert_eq!(settings.raw["mine"], json!({"retry": "kept"}));
}

#[test]
fn invalid_json_is_reported_with_line_and_column() {
    check_diagnostics(
        "{\n  \"retry\": {\n    \"enabled\": maybe\n",
        expect![
            "Invalid settings file FOLDER/user.json: expected value at line 3 column 16; none of its settings are used"
        ],
    );
    check_diagnostics("[]", expect!["Invalid settings file FOLDER/user.json: expected an object"]);
}

/// A file with many invalid values must not take quadratic time.
#[test]
fn file_with_many_invalid_values_loses_whole_sections() {
    let levels: Map<String, Value> = (0..50_000).map(|n| (format!("m/{n}"), json!(n))).collect();
    let text = json!({"modelThinkingLevels": levels, "followUpMode": "all"}).to_string();
    let (layers, said) = read(&text, "{}");
    assert_eq!(said.lines().count(), 33);
    assert_eq!(layers.settings().follow_up_mode, QueueMode::All);
}

#[test]
fn project_settings_override_key_by_key() {
    let (layers, said) = read(
        r#"{"retry": {"enabled": false, "maxRetries": 9}, "enabledModels": ["a", "b"],
            "defaultProjectTrust": "never", "skills": ["~/mine", "own"]}"#,
        r#"{"retry": {"maxRetries": 1}, "enabledModels": ["c"],
            "defaultProjectTrust": "always", "skills": ["tools/skills"]}"#,
    );
    assert_eq!(said, "");
    let settings = layers.settings();
    assert_eq!((settings.retry.enabled, settings.retry.max_retries), (false, 1));
    assert_eq!(settings.enabled_models, ["c"]);
    assert_eq!(settings.default_project_trust, DefaultProjectTrust::Never);
    let home = Path::new("/home/u");
    let places = PathBases {
        project: Path::new("/work/.pi"),
        user: Path::new("/home/u/.pi/agent"),
        home: Some(home),
    };
    let listed = layers.listed("skills", &places);
    let listed: Vec<_> = listed.iter().map(|l| (l.scope, l.path.to_str().unwrap())).collect();
    assert_eq!(
        listed,
        [
            (Scope::Project, "/work/.pi/tools/skills"),
            (Scope::User, "/home/u/mine"),
            (Scope::User, "/home/u/.pi/agent/own"),
        ]
    );
}

#[test]
fn commands_do_not_get_provider_keys_unless_settings_pass_them() {
    let withheld = |user: &str, project: &str| read(user, project).0.settings().shell().withheld;
    let all = withheld("{}", "{}");
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"] {
        assert!(all.iter().any(|withheld| withheld == name), "{name}");
    }
    for name in ["PATH", "HOME", "AWS_PROFILE", "AWS_REGION", "GITHUB_TOKEN"] {
        assert!(!all.iter().any(|withheld| withheld == name), "{name}");
    }
    let some = withheld(r#"{"tools": {"passEnv": ["AWS_*", "HF_TOKEN"]}}"#, "{}");
    assert!(!some.iter().any(|name| name.starts_with("AWS_") || name == "HF_TOKEN"));
    assert!(some.iter().any(|name| name == "ANTHROPIC_API_KEY"));
    assert!(withheld(r#"{"tools": {"passEnv": ["*"]}}"#, "{}").is_empty());
    // Settings that count belong to a trusted project, which may decide this.
    assert!(withheld("{}", r#"{"tools": {"passEnv": ["*"]}}"#).is_empty());
}

#[test]
fn old_setting_names_are_accepted() {
    let (layers, said) =
        read(r#"{"queueMode": "all", "skills": {"customDirectories": ["a"]}}"#, "{}");
    assert_eq!(said, "");
    let settings = layers.settings();
    assert_eq!((settings.steering_mode, settings.skills), (QueueMode::All, vec!["a".to_owned()]));
}
