//! Interceptors: see and change what is sent, and see the response. They cost nothing if there is
//! none.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tiller_agent::provider::ProviderError;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub trait RequestInterceptor: Send + Sync {
    /// The body in the vendor's format, before it is sent. None leaves it unchanged.
    fn body(&self, body: &[u8]) -> BoxFuture<Option<Vec<u8>>>;

    /// The headers before they are sent, without credentials. The returned headers replace them; a
    /// name without a value is removed, even a credential.
    fn headers(&self, headers: Vec<(String, String)>) -> BoxFuture<Option<Vec<HeaderEdit>>>;

    /// The response has begun, successfully or not.
    fn answered(&self, status: u16, headers: Vec<(String, String)>);
}

/// A header to set, or to remove.
pub type HeaderEdit = (String, Option<String>);

#[derive(Clone)]
pub struct Interceptor(pub Arc<dyn RequestInterceptor>);

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interceptor")
    }
}

/// Headers with credentials. Interceptors do not see them, but may replace them.
pub(crate) const OWN_HEADERS: &[&str] =
    &["authorization", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token", "cookie"];

/// Applies the interceptor to the headers.
pub(crate) async fn headers(
    Interceptor(interceptor): &Interceptor,
    mut headers: HeaderMap,
) -> Result<HeaderMap, ProviderError> {
    let shown = texts(&headers, |name| !OWN_HEADERS.contains(&name));
    let names: Vec<String> = shown.iter().map(|(name, _)| name.clone()).collect();
    let Some(changed) = interceptor.headers(shown).await else { return Ok(headers) };
    for name in names {
        headers.remove(&name);
    }
    for (name, value) in changed {
        // The value may be a secret, so the error names only the header.
        let invalid = || ProviderError::fatal(format!("header {name:?} cannot be sent"));
        let header = HeaderName::try_from(&*name).map_err(|_| invalid())?;
        match value {
            Some(value) => {
                let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
                value.set_sensitive(true);
                headers.insert(header, value);
            }
            None => {
                headers.remove(header);
            }
        }
    }
    Ok(headers)
}

pub(crate) fn texts(headers: &HeaderMap, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let wanted = headers.iter().filter(|(name, _)| wanted(name.as_str()));
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    wanted.map(text).collect()
}
