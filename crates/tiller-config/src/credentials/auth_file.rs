//! `auth.json`: the user's stored keys. Reloaded when the file has changed, so that a key added
//! while tiller runs is used.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;

use super::config_value::ConfigValue;
use super::environment;
use crate::config_files::Stamp;
use crate::jsonc;
use crate::models::azure;
use crate::project::text_file;

#[derive(Default)]
pub(crate) struct AuthFile {
    path: PathBuf,
    stamp: Option<Stamp>,
    entries: HashMap<String, AuthEntry>,
    /// Output of commands, cached until the file changes: some commands prompt the user each time.
    printed: HashMap<String, String>,
    /// Problems in the file. They quote none of its values.
    problems: Vec<String>,
    /// Every other string in the file: sign-ins hold more than tiller uses, and an unknown entry
    /// may hold a secret too.
    other_secrets: Vec<String>,
}

pub(super) enum AuthEntry {
    Key {
        key: ConfigValue,
        /// Variables that go with the key, such as an account id.
        env: HashMap<String, String>,
    },
    Oauth {
        access: String,
        /// When it expires, in milliseconds since 1970.
        expires: Option<f64>,
        /// The whole stored entry, for the extension that refreshes it.
        json: Json,
    },
}

impl AuthFile {
    pub(crate) fn at(path: &Path) -> AuthFile {
        let mut file = AuthFile { path: path.to_owned(), ..AuthFile::default() };
        file.refresh();
        if file.stamp.is_none() {
            // A dangling link looks like a missing file; this reports it.
            file.read();
        }
        file
    }

    /// Reads the file again if it has changed.
    pub(crate) fn refresh(&mut self) {
        let stamp = Stamp::of(&self.path);
        if stamp == self.stamp {
            return;
        }
        self.stamp = stamp;
        self.printed.clear();
        self.problems.clear();
        self.entries.clear();
        self.other_secrets.clear();
        if self.stamp.is_some() {
            self.read();
        }
    }

    pub(super) fn entry(&self, provider: &str) -> Option<&AuthEntry> {
        let newer = || self.entries.get(azure::newer_name(provider)?);
        self.entries.get(provider).or_else(newer)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn printed(&self, provider: &str) -> Option<&String> {
        self.printed.get(provider)
    }

    pub(super) fn remember(&mut self, provider: &str, key: String) {
        self.printed.insert(provider.to_owned(), key);
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(crate) fn providers(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// The environment variables that keys are filled from.
    pub(super) fn key_variables(&self) -> impl Iterator<Item = String> {
        self.entries.values().flat_map(|entry| match entry {
            AuthEntry::Key { key, .. } => key.variables(),
            AuthEntry::Oauth { .. } => Vec::new(),
        })
    }

    /// All secrets that are known without running a command. `variable` reads the environment.
    pub(super) fn secrets<'a>(&'a self, variable: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
        let mut secrets: Vec<String> = self.printed.values().cloned().collect();
        secrets.extend_from_slice(&self.other_secrets);
        for entry in self.entries.values() {
            if let AuthEntry::Key { key, env } = entry {
                let own = |name: &str| env.get(name).map(String::as_str).or_else(|| variable(name));
                secrets.extend(key.fill(own).and_then(Result::ok));
                let named = env.iter().filter(|(name, _)| environment::is_secret(name));
                secrets.extend(named.map(|(_, value)| value.clone()));
            }
        }
        secrets
    }

    fn read(&mut self) {
        let path = self.path.display().to_string();
        let Some(text) = text_file::read(&self.path, &mut self.problems) else { return };
        let is_private = fs::metadata(&self.path).is_ok_and(|meta| meta.mode() & 0o077 == 0);
        if !is_private {
            let why = format!("{path} can be read by other users; run chmod 600 on it");
            self.problems.push(why);
        }
        let entries = match jsonc::parse(&text) {
            Ok(Json::Object(entries)) => entries,
            Ok(_) => return self.problems.push(format!("{path}: expected an object")),
            // The parser names a position, never the value.
            Err(err) => return self.problems.push(format!("cannot read {path}: {err}")),
        };
        for (provider, entry) in entries {
            let stored = Stored::deserialize(&entry);
            if !matches!(stored, Ok(Stored::ApiKey { .. })) {
                texts(&entry, &mut self.other_secrets);
            }
            match stored {
                Ok(stored) => {
                    self.entries.insert(provider, stored.with(entry));
                }
                // The entry may hold a secret, so it is not quoted.
                Err(_) => self.problems.push(format!(
                    "{path}: `{provider}` is ignored: neither an api_key nor an oauth entry"
                )),
            }
        }
    }
}

fn texts(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::String(text) => out.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Json::Object(fields) => fields.values().for_each(|field| texts(field, out)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Stored {
    ApiKey {
        key: String,
        #[serde(default)]
        env: HashMap<String, String>,
    },
    Oauth {
        access: String,
        expires: Option<f64>,
    },
}

impl Stored {
    fn with(self, json: Json) -> AuthEntry {
        match self {
            Stored::ApiKey { key, env } => AuthEntry::Key { key: ConfigValue::read(&key), env },
            Stored::Oauth { access, expires } => AuthEntry::Oauth { access, expires, json },
        }
    }
}
