//! The connection: sends one request and decodes the response chunk by chunk.
//!
//! The format belongs to an [`Api`]. This file sends, waits, reads and times out, in the same way
//! for all of them.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec;

use futures_util::stream::{self, StreamExt as _};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request, StreamEvent};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::diagnosis::{Cause, LostWhen, advised, cause_of};
use crate::errors::{self, Failure};
use crate::interceptor::Interceptor;
use crate::observer::Exchange;
use crate::request_options::RequestOptions;
use crate::{client, connect_error, interceptor, retry_after, sse};

/// A vendor's API.
pub(crate) trait Api: Send + Sync + 'static {
    type Decoder: Decode;

    /// Builds the request.
    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError>;

    /// Updates the request after its body was changed, where necessary: a signature covers the
    /// body.
    fn reseal(_post: &mut HttpRequest, _access: &RequestOptions) -> Result<(), ProviderError> {
        Ok(())
    }

    fn decoder(request: &Request) -> Self::Decoder;

    /// The text of an error response. The body is never empty.
    fn error_text(status: u16, body: &str) -> String;
}

/// Converts a vendor's events. Pure: no socket and no clock.
pub(crate) trait Decode: Send + 'static {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// Decodes bytes as they arrive. Almost all APIs send server-sent events.
    fn read(
        &mut self,
        sse: &mut sse::SseDecoder,
        bytes: &[u8],
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        sse.push(bytes, |event| self.push(event, out))
    }

    /// The stream has ended. An answer that is not complete by now was cut off.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// A request, ready to be sent.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub url: String,
    /// The built-in headers; the model's and the user's own are added later.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Creates a provider. Nothing is opened before the first request.
pub(crate) fn connect<A: Api>(access: RequestOptions) -> Arc<dyn Provider> {
    Arc::new(HttpProvider::<A> { access: Arc::new(access), api: PhantomData })
}

/// A model behind an HTTP API.
struct HttpProvider<A> {
    access: Arc<RequestOptions>,
    api: PhantomData<A>,
}

impl<A: Api> Provider for HttpProvider<A> {
    fn stream(&self, request: Request) -> EventStream {
        let unsent = UnsentRequest { request, access: self.access.clone() };
        let answer = Some(ResponseStream::<A>::UnsentRequest(Box::new(unsent)));
        let reader = EventReader { events: Vec::new().into_iter(), failure: None, answer };
        Box::pin(stream::unfold(reader, EventReader::next).fuse())
    }
}

/// The events to be returned: the rest of the last chunk, then further chunks.
struct EventReader<A: Api> {
    events: vec::IntoIter<StreamEvent>,
    failure: Option<ProviderError>,
    answer: Option<ResponseStream<A>>,
}

impl<A: Api> EventReader<A> {
    async fn next(mut self) -> Option<(Result<StreamEvent, ProviderError>, EventReader<A>)> {
        loop {
            if let Some(event) = self.events.next() {
                return Some((Ok(event), self));
            }
            if let Some(failure) = self.failure.take() {
                return Some((Err(failure), self));
            }
            let (batch, answer) = self.answer?.step().await;
            let Batch { events, failure } = batch;
            self = EventReader { events: events.into_iter(), failure, answer };
        }
    }
}

/// Moved with every chunk, so it is kept small.
enum ResponseStream<A: Api> {
    UnsentRequest(Box<UnsentRequest>),
    Open(Box<OpenResponse<A>>),
}

struct UnsentRequest {
    request: Request,
    access: Arc<RequestOptions>,
}

struct OpenResponse<A: Api> {
    response: Response,
    silence: IdleTimer,
    /// Whether anything of the answer has arrived.
    has_started: bool,
    sse: sse::SseDecoder,
    decoder: A::Decoder,
    model: Arc<Model>,
    access: Arc<RequestOptions>,
    exchange: Option<Exchange>,
}

/// The result of one step: events, and possibly the failure that ended the stream.
#[derive(Default)]
struct Batch {
    events: Vec<StreamEvent>,
    failure: Option<ProviderError>,
}

impl<A: Api> ResponseStream<A> {
    /// Continues until there are events. `None` in the second place means the end of the stream.
    async fn step(self) -> (Batch, Option<ResponseStream<A>>) {
        let mut batch = Batch::default();
        let next = match self {
            ResponseStream::UnsentRequest(unsent) => {
                let opened = OpenResponse::<A>::ask(*unsent).await;
                opened.inspect(|_| batch.events.push(StreamEvent::Start)).map(Some)
            }
            ResponseStream::Open(open) => open.read(&mut batch.events).await,
        };
        match next {
            Ok(next) => (batch, next.map(ResponseStream::Open)),
            Err(failure) => {
                batch.failure = Some(failure);
                (batch, None)
            }
        }
    }
}

impl<A: Api> OpenResponse<A> {
    async fn ask(unsent: UnsentRequest) -> Result<Box<OpenResponse<A>>, ProviderError> {
        let UnsentRequest { request, access } = unsent;
        let mut post = A::post(&request, &access)?;
        if let Some(Interceptor(interceptor)) = &access.interceptor
            && let Some(body) = interceptor.body(&post.body).await
        {
            post.body = body;
            A::reseal(&mut post, &access)?;
        }
        let HttpRequest { url, headers, body } = post;
        let mut headers = all_headers(&headers, &request, &access)?;
        if let Some(interceptor) = &access.interceptor {
            headers = interceptor::headers(interceptor, headers).await?;
        }
        let model = request.model.clone();
        let mut exchange = Exchange::begin(&access, &model, &url, &headers, &body);
        let post = client::for_url(&url)?.post(&url).headers(headers).body(body);
        let mut silence = IdleTimer::of(access.idle_timeout);
        let response = noted(&mut exchange, silence.during(post.send()).await)?.map_err(|err| {
            let (err, kind) = connect_error::explain(&model.base_url, &err);
            let err = advised(err, kind, &model, &access);
            note(&mut exchange, &err);
            err
        })?;
        if let Some(exchange) = &exchange {
            exchange.answered(&response);
        }
        if let Some(Interceptor(interceptor)) = &access.interceptor {
            let headers = interceptor::texts(response.headers(), |_| true);
            interceptor.answered(response.status().as_u16(), headers);
        }
        if !response.status().is_success() {
            let err = refused::<A>(response, &model, &access).await;
            note(&mut exchange, &err);
            return Err(err);
        }
        let sse = sse::SseDecoder::default();
        let decoder = A::decoder(&request);
        let has_started = false;
        Ok(Box::new(OpenResponse {
            response,
            silence,
            has_started,
            sse,
            decoder,
            model,
            access,
            exchange,
        }))
    }

    /// Reads and decodes the next chunk. `None` once the answer is complete.
    async fn read(
        mut self: Box<Self>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<Option<Box<OpenResponse<A>>>, ProviderError> {
        let mut exchange = self.exchange.take();
        let read = self.read_chunk(&mut exchange, out).await;
        match noted(&mut exchange, read)? {
            Some(mut open) => {
                open.exchange = exchange;
                Ok(Some(open))
            }
            None => {
                if let Some(exchange) = &mut exchange {
                    exchange.complete();
                }
                Ok(None)
            }
        }
    }

    async fn read_chunk(
        mut self: Box<Self>,
        exchange: &mut Option<Exchange>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<Option<Box<OpenResponse<A>>>, ProviderError> {
        // Clients cannot act on the reason why a connection was lost.
        let chunk = self.silence.during(self.response.chunk()).await?.map_err(|_cut| {
            let kind = Some(Cause::Lost(LostWhen::InAnswer));
            advised(ProviderError::retry("terminated"), kind, &self.model, &self.access)
        })?;
        if let (Some(exchange), Some(chunk)) = (exchange, &chunk) {
            exchange.read(chunk);
        }
        if let Some(first) = chunk.as_ref().and_then(|bytes| bytes.trim_ascii_start().first())
            && !std::mem::replace(&mut self.has_started, true)
            && matches!(first, b'<' | b'{' | b'[')
        {
            return Err(self.not_a_stream(chunk.unwrap_or_default().to_vec()).await);
        }
        let decoded = match &chunk {
            Some(bytes) => self.decoder.read(&mut self.sse, bytes, out),
            None => self.decoder.end(out),
        };
        decoded.map_err(|err| {
            let err = err.reworded(|message| self.access.scrub(message, &self.model.base_url));
            let failure = Failure { body: err.message(), ..Failure::default() };
            let kind = match err {
                ProviderError::Auth { .. } | ProviderError::Overflow { .. } => {
                    cause_of(&failure, &err, &self.model)
                }
                _ => None,
            };
            advised(err, kind, &self.model, &self.access)
        })?;
        if matches!(out.last(), Some(StreamEvent::Done { .. })) {
            spare_connection(self.response);
            return Ok(None);
        }
        Ok(Some(self))
    }

    /// The server responded with something else than a stream: an HTML page, or an error with a
    /// success status. No event stream begins like this, and no frame of Amazon's.
    async fn not_a_stream(mut self, beginning: Vec<u8>) -> ProviderError {
        let rest = read_rest(self.response, beginning).await;
        let body = self.access.scrub(rest, &self.model.base_url);
        if errors::is_error(&body) {
            // The decoder recognises its API's errors.
            let event = sse::Event { name: "error", data: &body };
            if let Err(err) = self.decoder.push(event, &mut Vec::new()) {
                let failure = Failure { body: &body, ..Failure::default() };
                let kind = cause_of(&failure, &err, &self.model);
                return advised(err, kind, &self.model, &self.access);
            }
        }
        let words = body.split_whitespace().collect::<Vec<_>>().join(" ");
        let begin: String = words.chars().take(200).collect();
        let err = ProviderError::fatal(format!("the server sent no stream of events: {begin}"));
        advised(err, Some(Cause::NotTheApi), &self.model, &self.access)
    }
}

/// Records a failure as well, if there is an observer.
fn noted<T>(
    exchange: &mut Option<Exchange>,
    result: Result<T, ProviderError>,
) -> Result<T, ProviderError> {
    result.inspect_err(|err| note(exchange, err))
}

fn note(exchange: &mut Option<Exchange>, err: &ProviderError) {
    if let Some(exchange) = exchange {
        exchange.failed(err.message());
    }
}

impl From<sse::TooLarge> for ProviderError {
    fn from(_: sse::TooLarge) -> ProviderError {
        ProviderError::fatal("the server sent an event of more than 64 MiB")
    }
}

/// Limits how long a server may stay silent. One timer serves the whole answer: resetting a timer
/// is much cheaper than creating one per chunk.
struct IdleTimer(Option<(Duration, Pin<Box<Sleep>>)>);

impl IdleTimer {
    fn of(limit: Option<Duration>) -> IdleTimer {
        // Tokio's clock cannot represent arbitrarily large user settings.
        let limit = limit.map(|limit| limit.min(Duration::from_hours(24 * 365)));
        IdleTimer(limit.map(|limit| (limit, Box::pin(sleep(limit)))))
    }

    /// Waits for `work`, up to the limit.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ProviderError> {
        let Some((limit, timer)) = &mut self.0 else {
            return Ok(work.await);
        };
        timer.as_mut().reset(Instant::now() + *limit);
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = timer => {
                let seconds = limit.as_secs_f64();
                let text = format!("timed out: nothing came from the server for {seconds} s");
                Err(ProviderError::retry(text))
            }
        }
    }
}

/// Built-in headers first, then the model's, then the user's. A later value replaces an earlier
/// one, except for the header that is a list of beta features.
fn all_headers(
    own: &[(&'static str, String)],
    request: &Request,
    access: &RequestOptions,
) -> Result<HeaderMap, ProviderError> {
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    let models = request.model.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let users = access.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in own.chain(models).chain(users) {
        // The value may be the key, so the error names only the header.
        let invalid = || ProviderError::fatal(format!("header {name:?} cannot be sent"));
        let header = HeaderName::try_from(name).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
        if let ("anthropic-beta", Some(already)) = (header.as_str(), headers.get(&header)) {
            let both = [already.as_bytes(), value.as_bytes()].join(&b',');
            value = HeaderValue::try_from(both).map_err(|_| invalid())?;
        }
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// The server responded with an error.
async fn refused<A: Api>(
    response: Response,
    model: &Model,
    access: &RequestOptions,
) -> ProviderError {
    let status = response.status();
    let after = retry_after::in_header(response.headers(), SystemTime::now());
    let body = access.scrub(read_rest(response, Vec::new()).await, &model.base_url);
    let text = match body.trim() {
        "" => format!("{} status code (no body)", status.as_u16()),
        body => A::error_text(status.as_u16(), body),
    };
    let failure = Failure { status: Some(status.as_u16()), body: &body, after };
    let err = failure.classify(text);
    let kind = cause_of(&failure, &err, model);
    advised(err, kind, model, access)
}

/// As much of the body as arrives soon, up to a limit.
async fn read_rest(mut response: Response, mut body: Vec<u8>) -> String {
    const MAX_BYTES: usize = 64 << 10;
    const READ_TIMEOUT: Duration = Duration::from_secs(10);
    let read = async {
        while body.len() < MAX_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // On a timeout, what has arrived is used; the status is the most important part.
    timeout(READ_TIMEOUT, read).await.unwrap_or(());
    body.truncate(MAX_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}

/// Reads the end of the body after the last event. A connection whose response was read to the end
/// can carry the next request; if it were dropped a few bytes earlier, it would be closed, and
/// every turn of a run would need a new one. Runs in the background.
fn spare_connection(mut response: Response) {
    const GRACE: Duration = Duration::from_secs(1);
    tokio::spawn(timeout(GRACE, async move { while let Ok(Some(_)) = response.chunk().await {} }));
}

#[cfg(test)]
mod tests;
