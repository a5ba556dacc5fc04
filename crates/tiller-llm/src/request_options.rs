//! What is needed to reach a model besides the request: credentials and the user's settings. The
//! caller provides all of it; this crate reads no settings and no key files.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tiller_agent::address;
use tiller_agent::model::ThinkingLevel;

use crate::diagnosis::HintSource;
use crate::interceptor::Interceptor;
use crate::observer::Observer;

#[derive(Clone, Debug)]
pub struct RequestOptions {
    pub key: Option<Secret>,
    /// For Amazon, where requests are signed. An API key takes precedence.
    pub aws: Option<AwsKeys>,
    /// Sent with every request. They override the model's headers and the built-in ones.
    pub headers: BTreeMap<String, Secret>,
    /// How long a server may stay silent. `None` waits forever.
    pub idle_timeout: Option<Duration>,
    pub thinking_budgets: ThinkingBudgets,
    pub cache_retention: CacheRetention,
    /// Images are never sent, by the user's setting.
    pub block_images: bool,
    /// Provides hints for failures.
    pub adviser: Option<HintSource>,
    /// Can change what is sent.
    pub interceptor: Option<Interceptor>,
    /// Records what is sent and received.
    pub observer: Option<Observer>,
}

impl RequestOptions {
    pub fn with_key(key: impl Into<String>) -> RequestOptions {
        RequestOptions { key: Some(Secret::new(key)), ..RequestOptions::default() }
    }

    /// Removes secrets from a text that came from outside: some servers repeat the key they refuse,
    /// and error texts end up in session files. `address` is the server's URL, which may contain a
    /// password.
    pub(crate) fn scrub(&self, mut text: String, address: &str) -> String {
        let in_address = address::secrets(address);
        for secret in in_address.iter().rev() {
            text = text.replace(secret, REDACTED);
        }
        if !in_address.is_empty() {
            // The base64 form in which passwords are sent.
            text = scrub_basic(text);
        }
        let aws = self.aws.iter().flat_map(AwsKeys::secrets);
        for secret in self.key.iter().chain(self.headers.values()).chain(aws) {
            // A header such as `1` or `beta` is not a secret, and removing it would garble the
            // text.
            if secret.0.len() >= 8 && text.contains(&*secret.0) {
                text = text.replace(&*secret.0, REDACTED);
            }
        }
        text
    }
}

/// Removes the base64 credentials after `Basic`.
fn scrub_basic(text: String) -> String {
    let mut pieces = text.split("Basic ");
    let mut scrubbed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        scrubbed = scrubbed + "Basic " + REDACTED + piece.trim_start_matches(is_base64);
    }
    scrubbed
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            key: None,
            aws: None,
            headers: BTreeMap::new(),
            idle_timeout: Some(Duration::from_secs(300)),
            thinking_budgets: ThinkingBudgets::default(),
            cache_retention: CacheRetention::Short,
            block_images: false,
            adviser: None,
            interceptor: None,
            observer: None,
        }
    }
}

/// Credentials for Amazon.
#[derive(Clone, Debug)]
pub struct AwsKeys {
    pub access_key_id: String,
    pub secret_access_key: Secret,
    /// Needed with temporary keys.
    pub session_token: Option<Secret>,
    /// The region, if the URL does not contain it.
    pub region: Option<String>,
}

impl AwsKeys {
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.secret_access_key].into_iter().chain(&self.session_token)
    }
}

/// A key or token. It can only be sent: it is not serialisable, and printing it shows only that
/// there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

pub(crate) const REDACTED: &str = "[redacted]";

impl Secret {
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into().into_boxed_str())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Thinking budgets in tokens, for the APIs that use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkingBudgets {
    pub minimal: u64,
    pub low: u64,
    pub medium: u64,
    pub high: u64,
}

impl ThinkingBudgets {
    pub(crate) fn of(&self, level: ThinkingLevel) -> u64 {
        match level {
            ThinkingLevel::Off => 0,
            ThinkingLevel::Minimal => self.minimal,
            ThinkingLevel::Low => self.low,
            ThinkingLevel::Medium => self.medium,
            ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => self.high,
        }
    }
}

impl Default for ThinkingBudgets {
    fn default() -> ThinkingBudgets {
        ThinkingBudgets { minimal: 1024, low: 2048, medium: 8192, high: 16384 }
    }
}

/// How long the provider is asked to cache a conversation's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheRetention {
    /// Minutes, at the lower price.
    #[default]
    Short,
    /// An hour, if the server supports it.
    Long,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-ant-api03-very-secret";

    #[test]
    fn debug_output_shows_no_secret() {
        let mut access = RequestOptions::with_key(KEY);
        access.headers.insert("x-token".into(), Secret::new("hush-hush-hush"));
        let printed = format!("{access:?} {access:#?} {}", Secret::new(KEY));
        assert!(!printed.contains("very-secret") && !printed.contains("hush"), "{printed}");
        assert!(printed.contains(REDACTED));
    }

    #[test]
    fn repeated_key_is_removed_from_the_text() {
        let mut access = RequestOptions::with_key(KEY);
        access.headers.insert("x-version".into(), Secret::new("1"));
        let text = format!("401 invalid key {KEY}, see RFC 1");
        assert_eq!(access.scrub(text, "https://host"), "401 invalid key [redacted], see RFC 1");
        let address = "https://me:hunter2@host/v1";
        let text = "https://me:hunter2@host/v1: hunter2? Authorization: Basic bWU6aHVudGVyMg==\r\n";
        let scrubbed = "https://[redacted]/v1: [redacted]? Authorization: Basic [redacted]\r\n";
        assert_eq!(access.scrub(text.to_owned(), address), scrubbed);

        access.aws = Some(AwsKeys {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Secret::new("wJalrXUtnFEMI"),
            session_token: Some(Secret::new("lent-for-an-hour")),
            region: None,
        });
        let text = "AKIDEXAMPLE wJalrXUtnFEMI lent-for-an-hour".to_owned();
        assert_eq!(access.scrub(text, ""), "AKIDEXAMPLE [redacted] [redacted]");
    }
}
