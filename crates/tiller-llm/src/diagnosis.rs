//! Diagnoses failed requests: the key, the account, the model's name, its URL, or the connection.
//!
//! This crate finds the cause. Only the caller knows where it is configured, so a [`Diagnosis`] is
//! passed to the caller's [`HintSource`], and the hint is added to the server's own text.

use std::fmt;
use std::sync::Arc;

use tiller_agent::model::Model;
use tiller_agent::provider::ProviderError;

use crate::client;
use crate::errors::{Failure, mentions_any};
use crate::request_options::RequestOptions;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub kind: Cause,
    /// The requested URL, without secrets.
    pub address: String,
    /// The proxy, as `host:port`.
    pub proxy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server does not accept the key.
    Key,
    /// The server refuses the request: the key lacks a permission, or the region is not served.
    Permission,
    /// The account behind the key is empty, or its quota spent.
    Credit,
    /// The server does not know the model, or not for this key.
    Model,
    /// The response is not in the API's format.
    NotTheApi,
    /// The URL is invalid.
    NoAddress,
    UnknownHost,
    /// The server cannot be reached, and why: "connection refused".
    Unreachable(String),
    /// The server does not use TLS.
    NoTls,
    /// The certificate is not accepted.
    Certificate(CertificateFault),
    /// Other TLS errors.
    NotSecure,
    /// The connection was lost.
    Lost(LostWhen),
    /// The conversation does not fit into the model's window.
    TooLong,
    /// The proxy failed, and how: "asks for a password".
    Proxy(String),
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    UnknownAuthority,
    /// It is a certificate authority's own, which a server must not use.
    AuthorityAsServer,
    /// It is for another host.
    OtherName,
    OutOfDate,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhen {
    BeforeAnswer,
    InAnswer,
}

/// Provides the hint for a diagnosis.
#[derive(Clone)]
pub struct HintSource(Arc<Hints>);

type Hints = dyn Fn(&Model, &Diagnosis) -> String + Send + Sync;

impl HintSource {
    pub fn new(
        advise: impl Fn(&Model, &Diagnosis) -> String + Send + Sync + 'static,
    ) -> HintSource {
        HintSource(Arc::new(advise))
    }
}

impl fmt::Debug for HintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Adviser")
    }
}

/// The error with a hint, if there is one.
pub(crate) fn advised(
    err: ProviderError,
    kind: Option<Cause>,
    model: &Model,
    access: &RequestOptions,
) -> ProviderError {
    let (Some(kind), Some(HintSource(advise))) = (kind, &access.adviser) else { return err };
    let proxy = client::proxy_for(&model.base_url);
    let trouble = Diagnosis { kind, address: shown(&model.base_url), proxy };
    err.with_hint(advise(model, &trouble))
}

/// The cause of an error response, sent by the server or by a proxy in its place.
pub(crate) fn cause_of(failure: &Failure<'_>, err: &ProviderError, model: &Model) -> Option<Cause> {
    let proxy = || client::proxy_for(&model.base_url);
    if failure.status == Some(407) {
        return Some(Cause::Proxy("asks for a name and a password".to_owned()));
    }
    if failure.body.trim_start().starts_with('<') {
        return match (failure.status, proxy()) {
            // No API returns HTML. Over plain HTTP, a proxy responds in the server's place.
            (Some(status), Some(_)) if model.base_url.starts_with("http:") => {
                Some(Cause::Proxy(format!("answered with {status} itself")))
            }
            (Some(500..), _) => None,
            _ => Some(Cause::NotTheApi),
        };
    }
    match err {
        ProviderError::Auth { .. } if failure.is_spent() => Some(Cause::Credit),
        ProviderError::Auth { .. } | ProviderError::Fatal { .. } if names_model(failure, model) => {
            Some(Cause::Model)
        }
        ProviderError::Auth { .. } if failure.status == Some(403) => Some(Cause::Permission),
        ProviderError::Auth { .. } => Some(Cause::Key),
        ProviderError::Fatal { .. } => {
            let elsewhere = matches!(failure.status, Some(300..=399 | 404 | 405));
            elsewhere.then_some(Cause::NotTheApi)
        }
        ProviderError::Overflow { .. } => Some(Cause::TooLong),
        ProviderError::Retry { .. } => None,
    }
}

/// Whether the error is about the requested model.
fn names_model(failure: &Failure<'_>, model: &Model) -> bool {
    let text = failure.body.to_lowercase();
    match failure.status {
        Some(404) if text.contains(&model.id.to_lowercase()) => true,
        None | Some(400 | 403 | 404) => mentions_any(&text, UNKNOWN_MODEL),
        Some(_) => false,
    }
}

/// `*` matches anything, mostly the name of the model.
const UNKNOWN_MODEL: &[&str] = &[
    "model_not_found",
    "deploymentnotfound",
    "model*not found",
    "model*does not exist",
    "model not exist",
    "not a valid model",
    "invalid model",
    "unknown model",
    "no such model",
    "no endpoints found for",
    "model identifier is invalid",
    "could not resolve the foundation model",
    "access to the model",
    "access to model",
];

/// The URL for display, without keys that may be in it.
pub(crate) fn shown(url: &str) -> String {
    let visible = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = visible.split_once("://").map_or(("", visible), |(scheme, rest)| {
        let with_slashes = &visible[..scheme.len() + "://".len()];
        (with_slashes, rest)
    });
    // User and password are before the last `@` of the host.
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{host}{}", path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing;

    /// One failure per line, `STATUS BODY` with `-` for no status, and the cause of each.
    fn check(failures: &str, expect: Expect) {
        let mut printed = String::new();
        for line in failures.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (status, body) = line.split_once(' ').unwrap_or((line, ""));
            let failure = Failure { status: status.parse().ok(), body, after: None };
            let err = failure.classify(String::new());
            let kind = cause_of(&failure, &err, &testing::model());
            let kind = kind.map_or("-".to_owned(), |kind| format!("{kind:?}"));
            printed += &format!("{kind:10} {line}\n");
        }
        expect.assert_eq(&printed);
    }

    #[test]
    fn causes_of_failures() {
        check(
            r#"
            401 {"error":{"type":"authentication_error","message":"invalid x-api-key"}}
            403 {"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}
            400 {"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}
            - {"type":"error","error":{"type":"authentication_error","message":"revoked"}}
            402
            429 {"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}
            400 {"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}
            403 {"error":{"type":"billing_error","message":"pay first"}}
            404 {"error":{"type":"not_found_error","message":"model: claude-test"}}
            404 {"error":{"message":"The model `x` does not exist","code":"model_not_found"}}
            404 {"error":{"code":404,"message":"models/x is not found for API version v1beta"}}
            404 {"error":"model \"x\" not found, try pulling it first"}
            404 {"error":{"code":"DeploymentNotFound","message":"no such deployment"}}
            400 {"error":{"message":"x is not a valid model ID","code":400}}
            400 {"message":"The provided model identifier is invalid."}
            403 {"message":"You don't have access to the model with the specified model ID."}
            404 {"error":{"message":"Invalid URL (POST /v1/v1/messages)"}}
            404 {"detail":"Not Found"}
            404
            404 <html>claude-test was not found on this server
            400 <html>The plain HTTP request was sent to HTTPS port
            403 <!doctype html>
            301
            405 Method Not Allowed
            500 <html>
            502
            529 {"error":{"type":"overloaded_error","message":"the model was not found to be free"}}
            429 {"error":{"code":"rate_limit_exceeded","message":"slow down"}}
            400 {"error":{"type":"invalid_request_error","message":"max_tokens: must be positive"}}
            400 {"error":{"type":"invalid_request_error","message":"prompt is too long"}}
            407 <html>
            "#,
            expect![[r#"
                Key        401 {"error":{"type":"authentication_error","message":"invalid x-api-key"}}
                Permission 403 {"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}
                Key        400 {"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}
                Key        - {"type":"error","error":{"type":"authentication_error","message":"revoked"}}
                Credit     402
                Credit     429 {"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}
                Credit     400 {"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}
                Credit     403 {"error":{"type":"billing_error","message":"pay first"}}
                Model      404 {"error":{"type":"not_found_error","message":"model: claude-test"}}
                Model      404 {"error":{"message":"The model `x` does not exist","code":"model_not_found"}}
                Model      404 {"error":{"code":404,"message":"models/x is not found for API version v1beta"}}
                Model      404 {"error":"model \"x\" not found, try pulling it first"}
                Model      404 {"error":{"code":"DeploymentNotFound","message":"no such deployment"}}
                Model      400 {"error":{"message":"x is not a valid model ID","code":400}}
                Model      400 {"message":"The provided model identifier is invalid."}
                Model      403 {"message":"You don't have access to the model with the specified model ID."}
                NotTheApi  404 {"error":{"message":"Invalid URL (POST /v1/v1/messages)"}}
                NotTheApi  404 {"detail":"Not Found"}
                NotTheApi  404
                NotTheApi  404 <html>claude-test was not found on this server
                NotTheApi  400 <html>The plain HTTP request was sent to HTTPS port
                NotTheApi  403 <!doctype html>
                NotTheApi  301
                NotTheApi  405 Method Not Allowed
                -          500 <html>
                -          502
                -          529 {"error":{"type":"overloaded_error","message":"the model was not found to be free"}}
                -          429 {"error":{"code":"rate_limit_exceeded","message":"slow down"}}
                -          400 {"error":{"type":"invalid_request_error","message":"max_tokens: must be positive"}}
                TooLong    400 {"error":{"type":"invalid_request_error","message":"prompt is too long"}}
                Proxy("asks for a name and a password") 407 <html>
            "#]],
        );
    }

    #[test]
    fn url_is_shown_without_secrets() {
        for (url, expected) in [
            ("https://api.example/v1/", "https://api.example/v1"),
            (
                "https://me:secret@api.example:8443/v1?key=secret#secret",
                "https://api.example:8443/v1",
            ),
            ("http://127.0.0.1:9", "http://127.0.0.1:9"),
            ("localhost:8080/v1", "localhost:8080/v1"),
            ("me:secret@api.example/v1?secret", "api.example/v1"),
            ("https://secret@secret@api.example/v1@2", "https://api.example/v1@2"),
            ("", ""),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }
}
