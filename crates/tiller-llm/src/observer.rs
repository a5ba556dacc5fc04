//! A record of each exchange with a model's server, for a log. Without an observer, nothing of this
//! is paid for.
//!
//! An observer sees no secret: what it is given has passed [`RequestOptions::scrub`], and headers that say
//! who we are come without their values.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Response;
use reqwest::header::HeaderMap;
use tiller_agent::model::Model;

use crate::diagnosis::shown;
use crate::interceptor::{self, OURS};
use crate::request_options::{REDACTED, RequestOptions};

/// How much of an answer is kept for the record.
const BODY_MAX_BYTES: usize = 256 << 10;

/// A step of an exchange. `id` is the same for all steps of one.
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
    /// The answer has begun, well or not.
    Answered { id: u64, status: u16, headers: Vec<(String, String)>, after: Duration },
    /// It is over.
    Ended {
        id: u64,
        /// Since the request.
        after: Duration,
        bytes: u64,
        /// As it came, up to a limit.
        body: String,
        end: ExchangeEnd,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeEnd {
    Complete,
    /// Nothing more was read: an abort, or the answer was whole before the server's last byte.
    Dropped,
    Failed(String),
}

#[derive(Clone)]
pub struct Observer {
    ids: Arc<AtomicU64>,
    tell: Arc<dyn Fn(Observed) + Send + Sync>,
}

impl Observer {
    pub fn new(tell: impl Fn(Observed) + Send + Sync + 'static) -> Observer {
        Observer { ids: Arc::default(), tell: Arc::new(tell) }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// One exchange that is observed. Dropping it tells its end.
pub(crate) struct Exchange {
    observer: Observer,
    access: Arc<RequestOptions>,
    /// The model's, which may have a password in it.
    address: String,
    id: u64,
    begun: Instant,
    bytes: u64,
    body: Vec<u8>,
    end: ExchangeEnd,
}

impl Exchange {
    /// Begins with a request, if there is an observer.
    pub(crate) fn begin(
        access: &Arc<RequestOptions>,
        model: &Model,
        url: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<Exchange> {
        let observer = access.observer.clone()?;
        let id = observer.ids.fetch_add(1, Ordering::Relaxed) + 1;
        (observer.tell)(Observed::Sent {
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
            begun: Instant::now(),
            bytes: 0,
            body: Vec::new(),
            end: ExchangeEnd::Dropped,
        })
    }

    pub(crate) fn answered(&self, response: &Response) {
        (self.observer.tell)(Observed::Answered {
            id: self.id,
            status: response.status().as_u16(),
            headers: visible(response.headers(), &self.access, &self.address),
            after: self.begun.elapsed(),
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
        (self.observer.tell)(Observed::Ended {
            id: self.id,
            after: self.begun.elapsed(),
            bytes: self.bytes,
            body: self
                .access
                .scrub(String::from_utf8_lossy(&self.body).into_owned(), &self.address),
            end: std::mem::replace(&mut self.end, ExchangeEnd::Dropped),
        });
    }
}

/// Headers without the values that say who we are. Those the user configured may be tokens too.
fn visible(headers: &HeaderMap, access: &RequestOptions, address: &str) -> Vec<(String, String)> {
    let is_secret = |name: &str| {
        OURS.contains(&name)
            || name == "set-cookie"
            || access.headers.keys().any(|own| own.eq_ignore_ascii_case(name))
    };
    let all = interceptor::texts(headers, |_| true).into_iter();
    all.map(|(name, value)| match is_secret(&name) {
        true => (name, REDACTED.to_owned()),
        false => (name, access.scrub(value, address)),
    })
    .collect()
}
