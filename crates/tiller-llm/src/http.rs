//! HTTP requests of extensions and to MCP servers, through the same proxies, certificates and connections as requests
//! to models.
//!
//! The body is passed on as the server sends it: this code neither requests nor decodes
//! compression, so a caller that sends `accept-encoding` gets what it asked for.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use reqwest::{Client, Method, Response};
use tokio::time::timeout;

use crate::diagnosis::{Cause, shown};
use crate::sse::{SseDecoder, TooLarge};
use crate::{client, connect_error};

/// A request.
#[derive(Clone, Debug, Default)]
pub struct HttpExchange {
    pub method: String,
    pub url: String,
    /// In the given order; a name may occur more than once.
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// Whether to follow redirects, up to twenty. Otherwise a redirect is returned as the response.
    pub follow_redirects: bool,
}

/// The head of a response, with the body as a stream.
pub struct HttpResponse {
    pub status: u16,
    /// The standard text for the status.
    pub status_text: String,
    /// The URL after redirects.
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Chunks as they arrive; nothing follows an error. Dropping it closes the connection.
    pub body: BoxStream<'static, Result<Vec<u8>, String>>,
}

/// How long a server may stay silent, before the response and during it.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Sends a request and waits for the head of the response. Must be called inside a Tokio runtime
/// with time and I/O enabled. The error text says what can be done.
pub async fn exchange(exchange: HttpExchange) -> Result<HttpResponse, String> {
    within(SILENCE_MAX, exchange).await
}

async fn within(silence_max: Duration, exchange: HttpExchange) -> Result<HttpResponse, String> {
    let HttpExchange { method, url, headers, body, follow_redirects } = exchange;
    let client = client_for(&url, follow_redirects)?;
    let upper = method.to_ascii_uppercase();
    let method = Method::from_bytes(upper.as_bytes())
        .map_err(|_| format!("{method:?} is no HTTP method"))?;
    let mut headers = read_headers(&headers)?;
    // The length is set from the body.
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    if body.is_none() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
        // Some servers refuse these methods without a content length.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut request = client.request(method, &url).headers(headers);
    if let Some(body) = body {
        request = request.body(body);
    }
    let silent = |_| format!("{} has not answered for {silence_max:?}", shown(&url));
    let response = timeout(silence_max, request.send())
        .await
        .map_err(silent)?
        .map_err(|err| explain(&url, &err))?;
    Ok(HttpResponse {
        status: response.status().as_u16(),
        status_text: response.status().canonical_reason().unwrap_or_default().to_owned(),
        url: response.url().to_string(),
        headers: response.headers().iter().map(|(name, value)| header_text(name, value)).collect(),
        body: pieces(response, silence_max),
    })
}

/// The data of the server-sent events in a body. Ends with an error if an event is larger than `max`
/// bytes, or if the body breaks off.
pub fn events(
    body: BoxStream<'static, Result<Vec<u8>, String>>,
    max: usize,
) -> BoxStream<'static, Result<String, String>> {
    let decoder = SseDecoder::default();
    let next = move |open: Option<(_, SseDecoder)>| async move {
        let (mut body, mut decoder): (BoxStream<'static, Result<Vec<u8>, String>>, _) = open?;
        let chunk = match body.next().await? {
            Ok(chunk) => chunk,
            Err(why) => return Some((vec![Err(why)], None)),
        };
        let mut events = Vec::new();
        let pushed = decoder.push(&chunk, |event| {
            if event.data.len() > max {
                return Err(TooLarge);
            }
            events.push(Ok(event.data.to_owned()));
            Ok(())
        });
        match pushed {
            Ok(()) => Some((events, Some((body, decoder)))),
            Err(TooLarge) => {
                let max = max >> 20;
                events.push(Err(format!("the server has sent an event of more than {max} MiB")));
                Some((events, None))
            }
        }
    };
    stream::unfold(Some((body, decoder)), next).flat_map(stream::iter).boxed()
}

fn client_for(url: &str, follow_redirects: bool) -> Result<&'static Client, String> {
    let client = if follow_redirects { client::that_follows() } else { client::for_url(url) };
    client.map_err(|err| err.to_string())
}

/// Header values are bytes, which JavaScript represents as characters up to U+00FF.
fn read_headers(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no name of an HTTP header"))?;
        let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(c).ok()).collect();
        let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        // The value may be a key, and the error text may be shown.
        let value = value.ok_or_else(|| {
            format!("the value of the header {name} has characters that no header can carry")
        })?;
        map.append(key, value);
    }
    Ok(map)
}

fn header_text(name: &HeaderName, value: &HeaderValue) -> (String, String) {
    (name.to_string(), value.as_bytes().iter().copied().map(char::from).collect())
}

fn pieces(
    response: Response,
    silence_max: Duration,
) -> BoxStream<'static, Result<Vec<u8>, String>> {
    let next = move |open: Option<Response>| async move {
        let mut response = open?;
        let (error, url) = match timeout(silence_max, response.chunk()).await {
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(bytes))) => return Some((Ok(bytes.to_vec()), Some(response))),
            Ok(Err(_cut)) => ("broke off in the middle of its answer", response.url()),
            Err(_elapsed) => ("fell silent in the middle of its answer", response.url()),
        };
        Some((Err(format!("{} {error}", shown(url.as_str()))), None))
    };
    stream::unfold(Some(response), next).boxed()
}

fn explain(url: &str, err: &reqwest::Error) -> String {
    if err.is_redirect() {
        return format!("{} leads to another address too many times", shown(url));
    }
    // Redirects may have changed the URL.
    let url = err.url().map_or(url, |url| url.as_str());
    let address = shown(url);
    let (error, kind) = connect_error::explain(url, err);
    match kind {
        Some(Cause::UnknownHost) => {
            format!("cannot reach {address}: there is no such name, or no network")
        }
        Some(Cause::Unreachable(why)) => format!("cannot reach {address}: {why}"),
        Some(Cause::Proxy(how)) => {
            let proxy = client::proxy_for(url).unwrap_or_default();
            format!("cannot reach {address}: the proxy {proxy} {how}")
        }
        Some(Cause::NoTls) => {
            format!("cannot reach {address}: the server does not speak TLS; try http://")
        }
        Some(Cause::NoAddress) => error.to_string(),
        Some(Cause::Lost(_)) | None => format!("{address} hung up before it answered"),
        Some(_) => format!("cannot reach {address}: {error}"),
    }
}

#[cfg(test)]
mod tests;
