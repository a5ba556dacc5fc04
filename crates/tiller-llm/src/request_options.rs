//! What it takes to reach a model: who we are to its server, and what the user wants done on the
//! way. Whoever calls us has looked all of it up; this crate reads no settings and no key files.

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
    /// For Amazon, where requests are signed. A key of theirs, if there is one, comes before.
    pub aws: Option<AwsKeys>,
    /// Sent with every request. They win over the model's own headers and over ours.
    pub headers: BTreeMap<String, Secret>,
    /// How long a server may stay silent. `None` waits for ever.
    pub idle_timeout: Option<Duration>,
    pub thinking_budgets: ThinkingBudgets,
    pub cache_retention: CacheRetention,
    /// The user wants no picture to leave the machine.
    pub block_images: bool,
    /// Who tells a person what to do about a failure.
    pub adviser: Option<HintSource>,
    /// Who has a say in what is sent.
    pub onlooker: Option<Interceptor>,
    /// Who keeps a record of what is sent and received.
    pub observer: Option<Observer>,
}

impl RequestOptions {
    pub fn with_key(key: impl Into<String>) -> RequestOptions {
        RequestOptions { key: Some(Secret::new(key)), ..RequestOptions::default() }
    }

    /// Takes our secrets out of a text that came from outside: some servers repeat the key they
    /// refuse, and error texts end up in session files. `address` is the server's, which may have
    /// a password in it.
    pub(crate) fn scrub(&self, mut text: String, address: &str) -> String {
        let in_address = address::secrets(address);
        for secret in in_address.iter().rev() {
            text = text.replace(secret, REDACTED);
        }
        if !in_address.is_empty() {
            // How they are sent.
            text = scrub_basic(text);
        }
        let aws = self.aws.iter().flat_map(AwsKeys::secrets);
        for secret in self.key.iter().chain(self.headers.values()).chain(aws) {
            // A header such as `1` or `beta` is no secret, and taking it out would garble the text.
            if secret.0.len() >= 8 && text.contains(&*secret.0) {
                text = text.replace(&*secret.0, REDACTED);
            }
        }
        text
    }
}

/// Takes out what follows `Basic`, a name and a password in base64.
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
            onlooker: None,
            observer: None,
        }
    }
}

/// Who we are to Amazon.
#[derive(Clone, Debug)]
pub struct AwsKeys {
    pub access_key_id: String,
    pub secret_access_key: Secret,
    /// Goes with keys that are lent for a time.
    pub session_token: Option<Secret>,
    /// The part of the world that is asked, where the address does not say.
    pub region: Option<String>,
}

impl AwsKeys {
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.secret_access_key].into_iter().chain(&self.session_token)
    }
}

/// A key or token. It can be sent, and nothing else: it has no serialization, and printing it
/// shows that there is one.
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

/// How many tokens a model may think, for the APIs that count them.
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

/// How long the provider is asked to remember a conversation's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheRetention {
    /// Minutes, and the cheaper price.
    #[default]
    Short,
    /// An hour, where the server knows how.
    Long,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-ant-api03-very-secret";

    #[test]
    fn printing_an_access_shows_no_secret() {
        let mut access = RequestOptions::with_key(KEY);
        access.headers.insert("x-token".into(), Secret::new("hush-hush-hush"));
        let printed = format!("{access:?} {access:#?} {}", Secret::new(KEY));
        assert!(!printed.contains("very-secret") && !printed.contains("hush"), "{printed}");
        assert!(printed.contains(REDACTED));
    }

    #[test]
    fn a_key_that_a_server_repeats_is_taken_out() {
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
