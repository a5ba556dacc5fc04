//! Records each exchange with a model's server, for a log. It costs nothing without an observer.
//!
//! An observer sees no secrets: its data has passed [`RequestOptions::scrub`], and credential
//! headers come without their values.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Response;
use reqwest::header::HeaderMap;
use tiller_agent::model::Model;

use crate::diagnosis::shown;
use crate::interceptor::{self, OWN_HEADERS};
use crate::request_options::{REDACTED, RequestOptions};

/// How much of a response is recorded.
const BODY_MAX_BYTES: usize = 256 << 10;

/// A step of an exchange. `id` is the same for all steps of one exchange.
#[derive(Debug)]
pub enum Observed {
    Sent {
        id: u64,
        provider: String,
        model: String,
        url: String,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// The response has begun, successfully or not.
    Answered { id: u64, status: u16, headers: Vec<(String, String)>, after: Duration },
    /// The exchange is over.
    Ended {
        id: u64,
        /// Since the request.
        after: Duration,
        bytes: u64,
        /// The raw body, up to a limit.
        body: String,
        end: ExchangeEnd,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeEnd {
    Complete,
    /// Reading stopped early: an abort, or the answer was complete before the server's last byte.
    Dropped,
    Failed(String),
}

#[derive(Clone)]
pub struct Observer {
    ids: Arc<AtomicU64>,
    record: Arc<dyn Fn(Observed) + Send + Sync>,
}

impl Observer {
    pub fn new(record: impl Fn(Observed) + Send + Sync + 'static) -> Observer {
        Observer { ids: Arc::default(), record: Arc::new(record) }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// One observed exchange. Dropping it records its end.
pub(crate) struct Exchange {
    observer: Observer,
    access: Arc<RequestOptions>,
    /// The model's URL, which may contain a password.
    address: String,
    id: u64,
    started: Instant,
    bytes: u64,
    body: Vec<u8>,
    end: ExchangeEnd,
}

impl Exchange {
    /// Records the request, if there is an observer.
    pub(crate) fn begin(
        access: &Arc<RequestOptions>,
        model: &Model,
        url: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<Exchange> {
        let observer = access.observer.clone()?;
        let id = observer.ids.fetch_add(1, Ordering::Relaxed) + 1;
        (observer.record)(Observed::Sent {
            id,
            provider: model.provider.clone(),
            model: model.id.clone(),
            url: shown(url),
            headers: visible(headers, access, &model.base_url),
            body: access.scrub(String::from_utf8_lossy(body).into_owned(), &model.base_url),
        });
        Some(Exchange {
            observer,
            access: access.clone(),
            address: model.base_url.clone(),
            id,
            started: Instant::now(),
            bytes: 0,
            body: Vec::new(),
            end: ExchangeEnd::Dropped,
        })
    }

    pub(crate) fn answered(&self, response: &Response) {
        (self.observer.record)(Observed::Answered {
            id: self.id,
            status: response.status().as_u16(),
            headers: visible(response.headers(), &self.access, &self.address),
            after: self.started.elapsed(),
        });
    }

    pub(crate) fn read(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let room = BODY_MAX_BYTES.saturating_sub(self.body.len());
        self.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    pub(crate) fn complete(&mut self) {
        self.end = ExchangeEnd::Complete;
    }

    pub(crate) fn failed(&mut self, why: &str) {
        self.end = ExchangeEnd::Failed(self.access.scrub(why.to_owned(), &self.address));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        (self.observer.record)(Observed::Ended {
            id: self.id,
            after: self.started.elapsed(),
            bytes: self.bytes,
            body: self
                .access
                .scrub(String::from_utf8_lossy(&self.body).into_owned(), &self.address),
            end: std::mem::replace(&mut self.end, ExchangeEnd::Dropped),
        });
    }
}

/// Headers with masked credentials. Headers that the user configured may be tokens, too.
fn visible(headers: &HeaderMap, access: &RequestOptions, address: &str) -> Vec<(String, String)> {
    let is_secret = |name: &str| {
        OWN_HEADERS.contains(&name)
            || name == "set-cookie"
            || access.headers.keys().any(|own| own.eq_ignore_ascii_case(name))
    };
    let all = interceptor::texts(headers, |_| true).into_iter();
    all.map(|(name, value)| {
        if is_secret(&name) {
            (name, REDACTED.to_owned())
        } else {
            (name, access.scrub(value, address))
        }
    })
    .collect()
}
