//! Classifies failures: retry, compact the conversation, fix the key, or give up.
//!
//! All APIs share this. The HTTP status and the vendor's error code decide; the message text is
//! used only where they are ambiguous (whether a bad request was too long, whether a rate limit is
//! an exhausted account) or missing. Otherwise a text such as "at most 1500 tokens" would count as
//! a server error 500.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tiller_agent::provider::ProviderError;

use crate::retry_after;

/// A failure, as far as the server described it.
#[derive(Debug, Default)]
pub(crate) struct Failure<'a> {
    /// None if the error occurred inside a stream that had begun successfully.
    pub status: Option<u16>,
    /// The response body: JSON in the vendor's format, or any text.
    pub body: &'a str,
    /// The delay that the server asked for in a header.
    pub after: Option<Duration>,
}

impl Failure<'_> {
    /// Classifies the failure. `message` is the text for the client.
    pub(crate) fn classify(&self, message: String) -> ProviderError {
        let message = message.into();
        match self.remedy() {
            Remedy::Wait => {
                let after = self.after.or_else(|| retry_after::in_body(self.body));
                ProviderError::Retry { message, after }
            }
            Remedy::Shrink => ProviderError::Overflow { message },
            Remedy::Key => ProviderError::Auth { message },
            Remedy::None => ProviderError::Fatal { message },
        }
    }

    /// Whether the account has run out of credit.
    pub(crate) fn is_spent(&self) -> bool {
        const NAMES: [&str; 2] = ["billing_error", "insufficient_quota"];
        self.status == Some(402)
            || names(self.body).iter().any(|name| NAMES.contains(&&**name))
            || mentions_any(&self.body.to_lowercase(), SPENT)
    }

    /// Whether a client error status comes with an overload error. Gateways return 400 or 422 where
    /// the server behind them returned 429 or 529.
    fn is_overload(&self, text: &str) -> bool {
        let names = names(self.body);
        match names.as_slice() {
            [] => matches!(self.status, Some(400 | 422)) && mentions_any(text, OVERLOAD),
            names => names.iter().any(|name| OVERLOAD_NAMES.contains(&name.as_str())),
        }
    }

    fn remedy(&self) -> Remedy {
        let text = self.body.to_lowercase();
        let named = names(self.body).iter().find_map(|name| by_name(name));
        let known = self.status.and_then(by_status).or(named);
        match known {
            // A bad request, or one without a reason: only the text says if it was too long.
            Some(Remedy::None) | None if too_long(&text) => Remedy::Shrink,
            // The error code is more specific than the status: `request_too_large` among bad
            // requests, and so on.
            Some(Remedy::None) => match named {
                Some(named @ (Remedy::Shrink | Remedy::Key)) => named,
                _ if mentions_any(&text, SPENT) || mentions_any(&text, NO_KEY) => Remedy::Key,
                _ if self.is_overload(&text) => Remedy::Wait,
                _ => Remedy::None,
            },
            Some(Remedy::Wait) if self.status.is_none_or(|status| status < 500) => {
                // A rate limit that no waiting will lift.
                let spent = named == Some(Remedy::Key) || mentions_any(&text, SPENT);
                if spent && !passes(self.body, &text) { Remedy::Key } else { Remedy::Wait }
            }
            Some(known) => known,
            None if mentions_any(&text, SPENT) => Remedy::Key,
            None if mentions_any(&text, PASSING) => Remedy::Wait,
            None => Remedy::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    Wait,
    Shrink,
    Key,
    None,
}

/// Whether this is an error in the format of some vendor.
pub(crate) fn is_error(body: &str) -> bool {
    #[derive(Deserialize)]
    struct Body {
        error: Value,
    }
    serde_json::from_str::<Body>(body).is_ok_and(|body| !body.error.is_null())
}

fn by_status(status: u16) -> Option<Remedy> {
    match status {
        401..=403 => Some(Remedy::Key),
        413 => Some(Remedy::Shrink),
        408 | 409 | 425 | 429 | 500..=599 => Some(Remedy::Wait),
        300..=499 => Some(Remedy::None),
        _ => None,
    }
}

/// The error codes of all vendors; they do not conflict.
fn by_name(name: &str) -> Option<Remedy> {
    match name {
        "overloaded_error"
        | "api_error"
        | "rate_limit_error"
        | "timeout_error"
        | "server_error"
        | "internal_error"
        | "internal_server_error"
        | "rate_limit_exceeded"
        | "server_overloaded"
        | "UNAVAILABLE"
        | "INTERNAL"
        | "RESOURCE_EXHAUSTED"
        | "DEADLINE_EXCEEDED"
        | "ABORTED" => Some(Remedy::Wait),
        "request_too_large" | "context_length_exceeded" | "model_context_window_exceeded" => {
            Some(Remedy::Shrink)
        }
        "authentication_error"
        | "permission_error"
        | "billing_error"
        | "invalid_api_key"
        | "insufficient_quota"
        | "UNAUTHENTICATED"
        | "PERMISSION_DENIED" => Some(Remedy::Key),
        "invalid_request_error"
        | "not_found_error"
        | "model_not_found"
        | "INVALID_ARGUMENT"
        | "NOT_FOUND"
        | "FAILED_PRECONDITION" => Some(Remedy::None),
        _ => None,
    }
}

/// The vendor's error codes, the most specific first. Anthropic has `type`, OpenAI `code` and
/// `type`, Google `status`; OpenAI's streams have them at the top level.
fn names(body: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Value>,
        code: Option<Value>,
    }
    let Ok(body) = serde_json::from_str::<Body>(body) else {
        return Vec::new();
    };
    let inner = ["code", "status", "type"]
        .into_iter()
        .filter_map(|key| body.error.as_ref()?.get(key)?.as_str());
    let outer = body.code.as_ref().and_then(Value::as_str);
    inner.chain(outer).map(String::from).collect()
}

/// Google calls every limit a quota. A quota that is not per day and comes with a delay is temporary.
fn passes(body: &str, text: &str) -> bool {
    retry_after::retry_info(body).is_some() && !mentions_any(text, &["perday"])
}

fn too_long(text: &str) -> bool {
    let throttled = text.starts_with("throttling error:")
        || text.starts_with("service unavailable:")
        || mentions_any(text, &["rate limit", "rate-limit", "rate_limit", "too many requests"]);
    !throttled && mentions_any(text, TOO_LONG)
}

/// The conversation does not fit. `*` matches anything, mostly a number.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "request_too_large",
    "input is too long for requested model",
    "exceed context limit",
    "exceeds the context window",
    "exceeds*maximum context length",
    "input token count*exceeds the maximum",
    "maximum prompt length is ",
    "reduce the length of the messages",
    "maximum context length is ",
    "exceeds*maximum allowed input length",
    "is longer than the model's context length",
    "exceeds the limit of ",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with*maximum context length",
    "but the configured context size is",
    "model_context_window_exceeded",
    "exceeded context length",
    "exceeded max context length",
    "range of input length should be",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
];

/// The account is empty or blocked. A retry within seconds does not help.
const SPENT: &[&str] = &[
    "gousagelimiterror",
    "freeusagelimiterror",
    "monthly usage limit reached",
    "available balance",
    "credit balance",
    "insufficient_quota",
    "out of budget",
    "quota exceeded",
    "billing",
];

/// An invalid key, reported as a bad request.
const NO_KEY: &[&str] = &["api key not valid", "api_key_invalid", "incorrect api key"];

/// The vendors' codes for too many requests at once.
const OVERLOAD_NAMES: &[&str] = &[
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "server_overloaded",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
];

/// The same in texts without a code.
const OVERLOAD: &[&str] = &["overloaded", "rate limit", "rate_limit", "rate-limit"];

/// Temporary problems, in texts without a status and a code.
const PASSING: &[&str] = &[
    "overloaded",
    "throttling",
    "currently experiencing high demand",
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "service unavailable",
    "server error",
    "server_error",
    "internal error",
    "internal_error",
    "provider returned error",
    "exceeded request buffer limit while retrying upstream",
    "network error",
    "connection error",
    "connection refused",
    "connection lost",
    "upstream connect",
    "reset before headers",
    "timed out",
    "timeout",
    "terminated",
    "you can retry your request",
    "try your request again",
    "please retry your request",
    "resourceexhausted",
];

/// An event that is not valid JSON, or not in the expected format. The stream is garbled; a retry
/// is likely to help.
pub(crate) fn unreadable(data: &str, err: &serde_json::Error) -> ProviderError {
    let cut_off = cut_off(data, err);
    ProviderError::retry(
        cut_off.unwrap_or_else(|| format!("cannot read what the server sent: {err}")),
    )
}

/// JSON that ends inside a string, with the error text that clients know from JavaScript.
pub(crate) fn cut_off(data: &str, err: &serde_json::Error) -> Option<String> {
    err.to_string().starts_with("EOF while parsing a string").then(|| {
        let at = data.encode_utf16().count();
        format!("Unterminated string in JSON at position {at} (line 1 column {})", at + 1)
    })
}

pub(crate) fn mentions_any(text: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| mentions(text, pattern))
}

/// Whether the text contains the parts of the pattern in this order.
fn mentions(text: &str, pattern: &str) -> bool {
    let mut rest = Some(text);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests;
