//! The folders of one check: a home with an agent folder that knows only the loopback model, and an
//! empty project to work in.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tiller_protocol::Level;

use super::model::Model;

/// What a server keeps of the environment in which the suite runs: nothing that configures an
/// agent, no keys, no proxies.
const PASSED_ON: [&str; 9] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_COMPILE_CACHE",
    "NODE_EXTRA_CA_CERTS",
];

pub(super) struct Home {
    root: PathBuf,
}

impl Home {
    /// Creates the folders and files. `settings` are added to the suite's own settings.json.
    pub(super) fn create(root: PathBuf, model: &Model, settings: &Value) -> Result<Home, String> {
        let home = Home { root };
        let write = || {
            for folder in [home.agent_dir(), home.project(), home.root.join("tmp")] {
                fs::create_dir_all(folder)?;
            }
            let models = models_json(&model.url()).to_string();
            fs::write(home.agent_dir().join("models.json"), models)?;
            fs::write(home.agent_dir().join("settings.json"), settings_json(settings).to_string())
        };
        write().map_err(|err| format!("cannot write to {}: {err}", home.root.display()))?;
        Ok(home)
    }

    pub(super) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// All folders of the check.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn agent_dir(&self) -> PathBuf {
        self.root.join("agent")
    }

    /// The command line as it was given, in these folders.
    pub(super) fn command(&self, command_line: &[OsString], level: Level) -> Command {
        let (program, arguments) = command_line.split_first().expect("clap requires one");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.project()).env_clear();
        command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command
            .env("HOME", &self.root)
            .env("TMPDIR", self.root.join("tmp"))
            .env("PI_CODING_AGENT_DIR", self.agent_dir())
            .env("PI_OFFLINE", "1")
            .env("TILLER_WIRE", level_name(level))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The level's name on the command line and in `TILLER_WIRE`.
pub(super) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Pi => "pi",
        Level::PiDelta => "pi-delta",
        Level::Xcsh => "xcsh",
    }
}

fn models_json(url: &str) -> Value {
    json!({"providers": {"loopback": {
        "api": "openai-completions",
        "baseUrl": url,
        "apiKey": "loopback-key",
        "models": [{"id": "scripted", "name": "Scripted", "reasoning": true,
            "input": ["text"], "contextWindow": 200_000, "maxTokens": 8192,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}],
    }}})
}

fn settings_json(more: &Value) -> Value {
    let mut settings = json!({
        "defaultProvider": "loopback",
        "defaultModel": "scripted",
        "defaultThinkingLevel": "off",
        "defaultProjectTrust": "always",
        "quietStartup": true,
        "enableInstallTelemetry": false,
        "enableAnalytics": false,
        "retry": {"enabled": true, "maxRetries": 3, "baseDelayMs": 20},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    settings
}
