//! A TCP address: the page, `/health`, `/metrics`, and the upgrade to a WebSocket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tiller_server::Router;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::access::{AccessDenied, AccessRules, RequestFacts};
use super::page;
use super::pending::{PendingConnections, PendingId};
use super::web_socket::serve_web_socket;
use crate::stores::Databases;

/// How long a client may take to send the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// How long the head of a request may be.
const HEAD_MAX_BYTES: usize = 16 << 10;

/// What all connections of a TCP address share.
pub(crate) struct HttpServer {
    pub(crate) router: Router,
    pub(crate) access: AccessRules,
    pub(crate) serves_page: bool,
    pub(crate) pending: PendingConnections,
    /// Those that must answer for the server to be ready.
    pub(crate) databases: Databases,
}

type Body = Full<Bytes>;

/// Serves one connection.
pub(crate) async fn serve(server: Arc<HttpServer>, stream: TcpStream, id: PendingId) {
    // Records are small, and clients wait for them.
    stream.set_nodelay(true).ok();
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(respond(&server, request, id).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_MAX_BYTES)
        .keep_alive(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A client that is gone or sends no HTTP needs no report.
    connection.await.ok();
}

async fn respond(
    server: &Arc<HttpServer>,
    mut request: Request<Incoming>,
    id: PendingId,
) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let headers = request.headers();
    let protocols = text(headers, header::SEC_WEBSOCKET_PROTOCOL).unwrap_or_default().to_owned();
    let facts = RequestFacts {
        host: text(headers, header::HOST),
        origin: text(headers, header::ORIGIN),
        authorization: text(headers, header::AUTHORIZATION),
        protocols: &protocols,
    };
    if let Err(denied) = server.access.check_source(&facts) {
        return refuse(denied);
    }
    let path = request.uri().path();
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is supported\n");
    }
    let wants_socket = text(headers, header::UPGRADE)
        .is_some_and(|wanted| wanted.eq_ignore_ascii_case("websocket"));
    if server.serves_page
        && !wants_socket
        && let Some(asset) = page::find(path)
    {
        return asset.response();
    }
    if let Err(denied) = server.access.check_token(&facts) {
        return refuse(denied);
    }
    server.pending.accept(id);
    match path {
        "/" if wants_socket => open_socket(server, headers, &protocols, upgrade),
        "/health" if server.router.is_stopping() => {
            json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"stopping"}"#)
        }
        "/health" => json(StatusCode::OK, r#"{"status":"ok"}"#),
        "/ready" => ready(server).await,
        "/metrics" => {
            let mut response = plain(StatusCode::OK, &server.router.metrics_page());
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        _ => plain(StatusCode::NOT_FOUND, "Not found\n"),
    }
}

/// Whether clients can open sessions here.
async fn ready(server: &HttpServer) -> Response<Body> {
    if server.router.is_stopping() {
        return json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"stopping"}"#);
    }
    let databases = server.databases.clone();
    let asked = tokio::task::spawn_blocking(move || databases.are_ready());
    if asked.await.unwrap_or(false) {
        json(StatusCode::OK, r#"{"status":"ready"}"#)
    } else {
        let body = r#"{"status":"unavailable","reason":"the database does not answer"}"#;
        json(StatusCode::SERVICE_UNAVAILABLE, body)
    }
}

/// Answers the handshake, and serves the client once the connection is a WebSocket.
fn open_socket(
    server: &Arc<HttpServer>,
    headers: &HeaderMap,
    protocols: &str,
    upgrade: OnUpgrade,
) -> Response<Body> {
    let is_current = text(headers, header::SEC_WEBSOCKET_VERSION) == Some("13");
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_current) else {
        return plain(StatusCode::BAD_REQUEST, "A WebSocket of version 13 is expected\n");
    };
    let accept = derive_accept_key(key.as_bytes());
    let router = server.router.clone();
    tokio::spawn(async move {
        if let Ok(stream) = upgrade.await {
            serve_web_socket(TokioIo::new(stream), &router).await;
        }
    });
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    // The token is never repeated.
    if protocols.split(',').any(|name| name.trim() == "tiller") {
        let protocol = HeaderValue::from_static("tiller");
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

fn refuse(denied: AccessDenied) -> Response<Body> {
    match denied {
        AccessDenied::Host => plain(
            StatusCode::FORBIDDEN,
            "This host name is not accepted; see --allow-host of tiller serve\n",
        ),
        AccessDenied::Origin => plain(
            StatusCode::FORBIDDEN,
            "Pages of this origin are not accepted; see --allow-origin of tiller serve\n",
        ),
        AccessDenied::Token => {
            let mut response = plain(
                StatusCode::UNAUTHORIZED,
                "The token is missing or wrong; tiller serve keeps it in serve-token in the agent \
                 folder\n",
            );
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            response
        }
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    with_type(status, "text/plain; charset=utf-8", text.to_owned().into())
}

fn json(status: StatusCode, text: &'static str) -> Response<Body> {
    with_type(status, "application/json", Bytes::from_static(text.as_bytes()))
}

/// No response is kept, guessed at or shown in a frame.
pub(crate) fn with_type(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
