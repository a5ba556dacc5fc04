//! API keys and sign-ins of providers.
//!
//! A key is looked up for each request, in this order: the command line, `auth.json`,
//! `models.json`, the environment. A key that a file gives as a command counts as present; the
//! command runs when the key is first needed.

mod config_value;
mod environment;
mod aws;
mod auth_file;
mod json_file;
mod oauth;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value as Json;
use tiller_agent::message::UnixMs;
use tiller_agent::{mutex, time};

pub(crate) use auth_file::AuthFile;
pub(crate) use aws::{Aws, PROVIDER as AMAZON};
pub(crate) use config_value::ConfigValue;
pub(crate) use environment::{default_variable, default_variables, key_names};
pub use json_file::change as change_json;
pub use json_file::{remove, set};
pub use oauth::{SignIn, SignedIn};

use crate::config_files::ConfigFiles;
use crate::models::hints::SIGN_IN_AGAIN;
use auth_file::AuthEntry;
use oauth::OauthRefresh;

/// Everything that can authenticate requests.
#[derive(Default)]
pub struct Credentials {
    /// `--api-key` and the one provider it applies to.
    command_line: Option<(String, String)>,
    auth_file: Arc<Mutex<AuthFile>>,
    models_file: HashMap<String, ConfigValue>,
    /// Credentials of providers registered by extensions.
    extensions: HashMap<String, ExtensionCredential>,
    variables: Arc<HashMap<String, String>>,
    amazon: Arc<Aws>,
}

struct ExtensionCredential {
    key: Option<ConfigValue>,
    sign_in: Option<Arc<dyn SignIn>>,
    /// Requests need no key.
    is_keyless: bool,
}

/// Where a provider's key comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    CommandLine,
    AuthFile,
    /// Signed in; expires at this time in milliseconds since 1970.
    SignIn(Option<f64>),
    ModelsFile,
    /// Registered by an extension, which supplies a key or needs none.
    Extension,
    Variable(&'static str),
    /// Requests are signed with credentials found through this variable.
    Ambient(&'static str),
}

/// How to get a key. Has no `Debug`, because it may hold one.
#[derive(Clone)]
pub(crate) enum Key {
    Known(String),
    /// A command prints it. For `auth.json` the output is cached in the file's [`AuthFile`].
    Printed {
        by: ConfigValue,
        once: Option<Arc<Mutex<AuthFile>>>,
    },
    /// An extension derives it from a stored sign-in, which it may have to refresh.
    SignedIn(OauthRefresh),
    /// No key is sent; [`Aws`] signs the requests.
    Ambient,
}

impl Credentials {
    /// The keys of `auth.json` and of these environment variables. Problems in the file become
    /// diagnostics.
    pub fn load(
        files: &ConfigFiles,
        variables: Arc<HashMap<String, String>>,
        diagnostics: &mut Vec<String>,
    ) -> Credentials {
        let auth_file = files.auth();
        diagnostics.extend_from_slice(lock(&auth_file).problems());
        Credentials {
            auth_file,
            amazon: Arc::new(Aws::new(variables.clone())),
            variables,
            ..Credentials::default()
        }
    }

    /// Sets the key of `--api-key`.
    pub fn set_command_line(&mut self, provider: &str, key: &str) {
        self.command_line = Some((provider.to_owned(), key.to_owned()));
    }

    /// The environment variables that keys in models.json and auth.json are filled from.
    pub fn key_variables(&self) -> BTreeSet<String> {
        let of_models = self.models_file.values().flat_map(ConfigValue::variables);
        let mut names: BTreeSet<String> = of_models.collect();
        names.extend(self.auth_file().key_variables());
        names
    }

    pub(crate) fn add_models_file_key(&mut self, provider: &str, key: ConfigValue) {
        self.models_file.insert(provider.to_owned(), key);
    }

    /// Adds the credentials of a provider that an extension registers.
    pub(crate) fn add_extension(
        &mut self,
        provider: &str,
        key: Option<ConfigValue>,
        sign_in: Option<Arc<dyn SignIn>>,
        is_keyless: bool,
    ) {
        self.extensions
            .insert(provider.to_owned(), ExtensionCredential { key, sign_in, is_keyless });
    }

    pub(crate) fn remove_extension(&mut self, provider: &str) {
        self.extensions.remove(provider);
    }

    pub(crate) fn variables(&self) -> &Arc<HashMap<String, String>> {
        &self.variables
    }

    pub(crate) fn aws(&self) -> &Arc<Aws> {
        &self.amazon
    }

    /// An environment variable as this provider sees it: stored with its key, else from the
    /// environment.
    pub(crate) fn variable(&self, provider: &str, name: &str) -> Option<String> {
        let file = self.auth_file();
        let own = match file.entry(provider) {
            Some(AuthEntry::Key { env, .. }) => env.get(name),
            _ => None,
        };
        own.or_else(|| self.variables.get(name)).filter(|value| !value.is_empty()).cloned()
    }

    pub(crate) fn has(&self, provider: &str) -> bool {
        self.find(provider).is_ok()
    }

    /// Where the provider's key comes from, if it has one.
    pub fn source(&self, provider: &str) -> Option<KeySource> {
        self.find(provider).ok().map(|(_, source)| source)
    }

    /// The stored sign-in, if it is what authenticates this provider.
    pub(crate) fn sign_in(&self, provider: &str) -> Option<serde_json::Value> {
        if !matches!(self.source(provider), Some(KeySource::SignIn(_))) {
            return None;
        }
        match self.auth_file().entry(provider) {
            Some(AuthEntry::Oauth { json, .. }) => Some(json.clone()),
            _ => None,
        }
    }

    /// Whether a command prints the key.
    pub(crate) fn is_from_command(&self, provider: &str) -> bool {
        matches!(self.key(provider), Ok(Key::Printed { .. }))
    }

    /// The key, or the reason why a configured key cannot be used.
    pub(crate) fn key(&self, provider: &str) -> Result<Key, Option<String>> {
        self.find(provider).map(|(key, _)| key)
    }

    /// Why a configured key cannot be used.
    pub fn key_problem(&self, provider: &str) -> Option<String> {
        self.key(provider).err().flatten()
    }

    /// The providers configured by name, without the environment.
    pub fn providers(&self) -> BTreeSet<String> {
        let given = self.command_line.iter().map(|(provider, _)| provider);
        given.chain(self.models_file.keys()).chain(self.auth_file().providers()).cloned().collect()
    }

    /// Every value that must not be shown. The output of a command is included once it has run.
    pub fn secrets(&self) -> Vec<String> {
        let given = self.command_line.iter().map(|(_, key)| key.clone());
        let variable = |name: &str| self.variables.get(name).map(String::as_str);
        let filled = |value: &ConfigValue| value.fill(variable)?.ok();
        let from_extensions =
            self.extensions.values().filter_map(|extension| extension.key.as_ref());
        let described = self.models_file.values().chain(from_extensions).filter_map(filled);
        let mut secrets: Vec<String> = given.chain(described).collect();
        secrets.extend(self.auth_file().secrets(variable));
        let named = self.variables.iter().filter(|(name, _)| environment::is_secret(name));
        secrets.extend(named.map(|(_, value)| value.clone()));
        secrets
    }

    /// Skips a key that cannot be used. If there is no other, the first reason is reported.
    fn find(&self, provider: &str) -> Result<(Key, KeySource), Option<String>> {
        if let Some((name, key)) = &self.command_line
            && name == provider
        {
            return Ok((Key::Known(key.clone()), KeySource::CommandLine));
        }
        let stored = self.auth_file_key(provider).transpose();
        let described = || self.models_file_key(provider).transpose();
        let mut refused = None;
        let from_extension = || self.extension_key(provider).transpose();
        for attempt in [stored, described(), from_extension()] {
            match attempt {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        if let Some((name, key)) = environment::key(provider, &self.variables) {
            return Ok((Key::Known(key.to_owned()), KeySource::Variable(name)));
        }
        if provider == AMAZON
            && let Some(name) = self.amazon.source()
        {
            return Ok((Key::Ambient, KeySource::Ambient(name)));
        }
        Err(refused)
    }

    /// From `auth.json`.
    fn auth_file_key(&self, provider: &str) -> Option<Result<(Key, KeySource), String>> {
        let file = self.auth_file();
        let found = match file.entry(provider)? {
            AuthEntry::Key { key, env } => {
                let variable =
                    |name: &str| env.get(name).or_else(|| self.variables.get(name)).map(|v| &**v);
                match (key.fill(variable), file.printed(provider)) {
                    (Some(filled), _) => {
                        filled.map(Key::Known).map_err(|why| format!("in auth.json: {why}"))
                    }
                    (None, Some(printed)) => Ok(Key::Known(printed.clone())),
                    (None, None) => {
                        let once = Some(self.auth_file.clone());
                        Ok(Key::Printed { by: key.clone(), once })
                    }
                }
                .map(|key| (key, KeySource::AuthFile))
            }
            AuthEntry::Oauth { expires, json, .. }
                if self.can_refresh(provider, json, *expires) =>
            {
                let by = self.extensions.get(provider)?.sign_in.clone()?;
                let file = self.auth_file.clone();
                Ok((Key::SignedIn(OauthRefresh { by, file }), KeySource::SignIn(*expires)))
            }
            AuthEntry::Oauth { expires: Some(expires), .. } if *expires <= now() as f64 => {
                let when = time::iso(*expires as u64);
                Err(format!("the sign-in in auth.json expired {when}. {SIGN_IN_AGAIN}"))
            }
            AuthEntry::Oauth { access, expires, .. } => {
                Ok((Key::Known(access.clone()), KeySource::SignIn(*expires)))
            }
        };
        Some(found)
    }

    /// From `models.json`.
    fn models_file_key(&self, provider: &str) -> Option<Result<(Key, KeySource), String>> {
        let value = self.models_file.get(provider)?;
        let key = match value.fill(|name| self.variables.get(name).map(String::as_str)) {
            Some(Ok(key)) => Key::Known(key),
            Some(Err(why)) => return Some(Err(format!("in models.json: {why}"))),
            None => Key::Printed { by: value.clone(), once: None },
        };
        Some(Ok((key, KeySource::ModelsFile)))
    }

    /// Whether an extension can turn this sign-in into a key, refreshed if necessary.
    fn can_refresh(&self, provider: &str, json: &Json, expires: Option<f64>) -> bool {
        let is_over = expires.is_some_and(|expires| expires <= now() as f64);
        self.extensions.get(provider).is_some_and(|extension| extension.sign_in.is_some())
            && (!is_over || json["refresh"].is_string())
    }

    /// From an extension.
    fn extension_key(&self, provider: &str) -> Option<Result<(Key, KeySource), String>> {
        let extension = self.extensions.get(provider)?;
        let Some(value) = &extension.key else {
            return extension.is_keyless.then_some(Ok((Key::Ambient, KeySource::Extension)));
        };
        let key = match value.fill(|name| self.variables.get(name).map(String::as_str)) {
            Some(Ok(key)) => Key::Known(key),
            Some(Err(why)) => return Some(Err(format!("in an extension: {why}"))),
            None => Key::Printed { by: value.clone(), once: None },
        };
        Some(Ok((key, KeySource::Extension)))
    }

    fn auth_file(&self) -> MutexGuard<'_, AuthFile> {
        let mut file = lock(&self.auth_file);
        file.refresh();
        file
    }
}

impl Key {
    /// Resolves the key; runs a command or refreshes a sign-in if necessary.
    pub(crate) async fn find(
        self,
        provider: &str,
        variables: &HashMap<String, String>,
    ) -> Result<Option<String>, String> {
        match self {
            Key::Known(key) => Ok(Some(key)),
            Key::Ambient => Ok(None),
            Key::SignedIn(renewal) => renewal.key(provider).await.map(Some),
            Key::Printed { by, once } => {
                let key = by.find(variables).await?;
                if let Some(file) = once {
                    lock(&file).remember(provider, key.clone());
                }
                Ok(Some(key))
            }
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::CommandLine => f.write_str("--api-key"),
            KeySource::AuthFile => f.write_str("auth.json"),
            KeySource::SignIn(None) => f.write_str("auth.json (signed in)"),
            KeySource::SignIn(Some(until)) => {
                write!(f, "auth.json (signed in until {})", time::iso(*until as u64))
            }
            KeySource::ModelsFile => f.write_str("models.json"),
            KeySource::Extension => f.write_str("an extension"),
            KeySource::Variable(name) | KeySource::Ambient(name) => {
                write!(f, "environment ({name})")
            }
        }
    }
}

/// When keys and sign-ins expire is the business of the real clock, in tests too.
fn now() -> UnixMs {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |elapsed| elapsed.as_millis() as UnixMs)
}

/// The lock is never poisoned: code that holds it cannot panic.
fn lock(file: &Mutex<AuthFile>) -> MutexGuard<'_, AuthFile> {
    mutex::lock(file)
}

#[cfg(test)]
mod tests;
