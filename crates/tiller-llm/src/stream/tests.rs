//! A small server on the loopback interface, so that everything below the decoder is real.

mod silence;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use expect_test::expect;
use futures_util::FutureExt as _;
use tiller_agent::message::StopReason;
use tokio::sync::oneshot;

use super::*;
use crate::request_options::Secret;
use crate::testing;

const KEY: &str = "sk-ant-api03-loopback";
/// For things that happen at once unless something is broken.
const SOON: Duration = Duration::from_secs(20);

/// Serves each connection on its own thread and returns the address.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let handle = handle.clone();
            thread::spawn(move || handle(connection.unwrap()));
        }
    });
    format!("http://{address}")
}

/// Reads one request: its head, and its body. `None` if the client has disconnected.
fn read_request(connection: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(connection);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

/// The recording as one HTTP chunk.
fn recording(name: &str) -> String {
    let path = format!("{}/tests/recordings/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Responds to every request of a connection with the same bytes.
fn always(response: impl Into<String>) -> impl Fn(TcpStream) {
    let response = response.into();
    move |mut connection| {
        while read_request(&connection).is_some() {
            if connection.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn ask_with(base_url: &str, access: RequestOptions) -> EventStream {
    let mut request = testing::request(vec![testing::user("hi")]);
    let mut model = testing::model();
    model.base_url = base_url.to_owned();
    request.model = Arc::new(model);
    crate::provider(&request.model.clone(), access).unwrap().stream(request)
}

fn ask(base_url: &str) -> EventStream {
    ask_with(base_url, RequestOptions::with_key(KEY))
}

/// The events and the final error.
async fn all(stream: EventStream) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let results = timeout(SOON, stream.collect::<Vec<_>>()).await.unwrap();
    let failure = results.iter().find_map(|result| result.as_ref().err().cloned());
    (results.into_iter().filter_map(Result::ok).collect(), failure)
}

async fn failure(base_url: &str) -> ProviderError {
    let (events, failure) = all(ask(base_url)).await;
    assert_eq!(events, [], "no answer began");
    failure.unwrap()
}

#[tokio::test]
async fn answer_is_streamed() {
    let (sent, requests) = mpsc::channel();
    let url = serve(move |mut connection| {
        while let Some(request) = read_request(&connection) {
            sent.send(request).unwrap();
            let answer = [OK, &recording("anthropic_text.sse"), END].concat();
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut access = RequestOptions::with_key(KEY);
    access.headers.insert("X-Extra".into(), Secret::new("from the user"));
    let (events, failure) = all(ask_with(&url, access)).await;
    assert_eq!(failure, None);
    assert_eq!(events[0], StreamEvent::Start);
    let raw = Some("end_turn".to_owned());
    assert_eq!(events.last(), Some(&StreamEvent::Done { reason: StopReason::Stop, raw }));

    let (head, body) = requests.recv_timeout(SOON).unwrap();
    let head = head.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let varies = |line: &&str| line.starts_with("host:") || line.starts_with("content-length:");
    let mut head: Vec<&str> = head.lines().filter(|line| !varies(line)).collect();
    head.sort_unstable();
    expect![[r#"
        POST /v1/messages HTTP/1.1
        accept: */*
        anthropic-version: 2023-06-01
        content-type: application/json
        user-agent: tiller/VERSION
        x-api-key: sk-ant-api03-loopback
        x-extra: from the user"#]]
    .assert_eq(&head.join("\n"));
    assert!(body.starts_with(r#"{"model":"claude-test","messages":["#), "{body}");
}

#[tokio::test]
async fn user_headers_override_model_and_built_in_ones() {
    let mut request = testing::request(vec![testing::user("hi")]);
    let mut model = testing::model();
    for (name, value) in [("Anthropic-Beta", "b"), ("x-api-key", "models"), ("x-model", "m")] {
        model.headers.insert(name.into(), value.into());
    }
    request.model = Arc::new(model);
    let mut access = RequestOptions::default();
    access.headers.insert("X-Api-Key".into(), Secret::new("users"));
    let ours = [("anthropic-beta", "a".to_owned()), ("x-api-key", "ours".to_owned())];
    let headers = all_headers(&ours, &request, &access).unwrap();
    let mut printed: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    printed.sort_unstable();
    expect![[r#"
        anthropic-beta: a,b
        content-type: application/json
        x-api-key: users
        x-model: m"#]]
    .assert_eq(&printed.join("\n"));
    assert!(!format!("{headers:?}").contains("users"), "values are not printed");

    access.headers.insert("x-bad".into(), Secret::new("line\nbreak"));
    let err = all_headers(&ours, &request, &access).unwrap_err();
    assert_eq!(err, ProviderError::fatal("header \"x-bad\" cannot be sent"));
}

#[tokio::test]
async fn overloaded_server_is_retried() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let url = serve(always(format!(
        "HTTP/1.1 529 Overloaded\r\nretry-after: 7\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )));
    let after = Some(Duration::from_secs(7));
    let message = format!("529 {body}").into();
    assert_eq!(failure(&url).await, ProviderError::Retry { message, after });
}

#[tokio::test]
async fn refused_key_is_removed_from_the_error() {
    let body = format!("invalid x-api-key: {KEY}");
    let url = serve(always(format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )));
    let err = failure(&url).await;
    assert!(!format!("{err:?} {err}").contains(KEY));
    assert_eq!(err, ProviderError::Auth { message: "401 invalid x-api-key: [redacted]".into() });
}

#[tokio::test]
async fn other_statuses() {
    let status =
        |head: &str| serve(always(format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n")));
    assert_eq!(
        failure(&status("503 Unavailable")).await,
        ProviderError::retry("503 status code (no body)")
    );
    // The key must not be sent to the redirect's target.
    assert_eq!(
        failure(&status("302 Found\r\nlocation: http://127.0.0.1:1/")).await,
        ProviderError::fatal("302 status code (no body)")
    );
}

#[tokio::test]
async fn long_error_page_is_shortened() {
    let page = "<p>".repeat(100_000);
    let url = serve(always(format!(
        "HTTP/1.1 502 Bad Gateway\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    )));
    assert_eq!(failure(&url).await.message().len(), "502 ".len() + (64 << 10));
}

#[tokio::test]
async fn truncated_answer_is_retried() {
    let url = serve(always([OK, &recording("anthropic_cut_off.sse"), END].concat()));
    let (events, failure) = all(ask(&url)).await;
    assert!(events.contains(&StreamEvent::TextDelta { index: 0, delta: "half ".into() }));
    assert_eq!(failure, Some(ProviderError::retry("Anthropic stream ended before message_stop")));
}

#[tokio::test]
async fn closed_connection_is_retried() {
    let url = serve(|mut connection| {
        read_request(&connection).unwrap();
        let half = [OK, &recording("anthropic_cut_off.sse")].concat();
        connection.write_all(half.as_bytes()).unwrap();
    });
    let (events, failure) = all(ask(&url)).await;
    assert!(events.contains(&StreamEvent::TextDelta { index: 0, delta: "half ".into() }));
    assert_eq!(failure, Some(ProviderError::retry("terminated")));
}

#[tokio::test]
async fn reset_connection_is_retried() {
    let (reset, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let url = serve(move |mut connection| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        connection.write_all(OK.as_bytes()).unwrap();
        wait.lock().unwrap().recv_timeout(SOON).unwrap();
        // The body was never read; closing now makes the kernel reset the connection.
    });
    let mut stream = ask(&url);
    assert_eq!(stream.next().await, Some(Ok(StreamEvent::Start)));
    reset.send(()).unwrap();
    assert_eq!(all(stream).await, (vec![], Some(ProviderError::retry("terminated"))));
}

#[tokio::test]
async fn refused_connection_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(failure(&url).await, ProviderError::retry("Connection error."));
}

#[tokio::test]
async fn connection_closed_before_the_response() {
    let url = serve(|connection| {
        read_request(&connection).unwrap();
    });
    assert_eq!(failure(&url).await, ProviderError::retry("Connection error."));
}

#[tokio::test]
async fn invalid_url_is_explained() {
    assert_eq!(
        failure("not an address").await,
        ProviderError::fatal("\"not an address\" is no address of a server")
    );
}

#[tokio::test]
async fn missing_tls_is_explained() {
    let url = serve(always(OK)).replace("http:", "https:");
    assert_eq!(failure(&url).await, ProviderError::retry("Connection error."));
}

#[tokio::test]
async fn nothing_is_sent_before_the_first_poll() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let stream = ask(&format!("http://{}", listener.local_addr().unwrap()));
    tokio::task::yield_now().await;
    let err = listener.accept().unwrap_err();
    assert_eq!(err.kind(), ErrorKind::WouldBlock);
    drop(stream);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (gone, wait) = oneshot::channel();
    let gone = std::sync::Mutex::new(Some(gone));
    let url = serve(move |mut connection| {
        read_request(&connection).unwrap();
        let half = [OK, &recording("anthropic_cut_off.sse")].concat();
        connection.write_all(half.as_bytes()).unwrap();
        // The client sends nothing more, so this waits for the end of the connection.
        let read = connection.read(&mut [0]);
        gone.lock().unwrap().take().unwrap().send(read.unwrap_or(0)).unwrap();
    });
    let mut stream = ask(&url);
    assert_eq!(stream.next().await, Some(Ok(StreamEvent::Start)));
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert_eq!(timeout(SOON, wait).await.unwrap(), Ok(0));
}

#[tokio::test]
async fn events_of_a_chunk_are_ready_at_once() {
    let url = serve(always([OK, &recording("anthropic_text.sse"), END].concat()));
    let mut stream = ask(&url);
    assert_eq!(stream.next().await, Some(Ok(StreamEvent::Start)));
    stream.next().await.unwrap().unwrap();
    let mut at_once = 1;
    while let Some(Some(event)) = stream.next().now_or_never() {
        event.unwrap();
        at_once += 1;
    }
    assert_eq!(at_once, 10);
    // Polling beyond the end is allowed.
    assert_eq!(stream.next().await, None);
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn connection_is_reused_after_an_answer() {
    let (reused, wait) = oneshot::channel();
    let reused = std::sync::Mutex::new(Some(reused));
    let url = serve(move |mut connection| {
        for served in 0.. {
            if read_request(&connection).is_none() {
                return;
            }
            if served > 0 {
                let reported = reused.lock().unwrap().take().map(|reused| reused.send(()));
                assert!(reported.is_none_or(|reported| reported.is_ok()));
            }
            let answer = [OK, &recording("anthropic_text.sse")].concat();
            // The end of the body comes separately, as from servers that flush every event.
            let sent = connection
                .write_all(answer.as_bytes())
                .and_then(|()| connection.flush())
                .and_then(|()| connection.write_all(END.as_bytes()));
            if sent.is_err() {
                return;
            }
        }
    });
    let asking = async {
        loop {
            let mut stream = ask(&url);
            while !matches!(stream.next().await.unwrap().unwrap(), StreamEvent::Done { .. }) {}
        }
    };
    tokio::select! {
        never = asking => never,
        reused = timeout(SOON, wait) => reused.unwrap().unwrap(),
    }
}

#[tokio::test]
async fn all_apis_stream_over_http() {
    let mut printed = String::new();
    for (api, name) in [
        ("openai-responses", "responses_text.sse"),
        ("azure-openai-responses", "responses_text.sse"),
        ("google-generative-ai", "google_text.sse"),
    ] {
        let (sent, requests) = mpsc::channel();
        let url = serve(move |mut connection| {
            while let Some(request) = read_request(&connection) {
                sent.send(request).unwrap();
                let answer = [OK, &recording(name), END].concat();
                connection.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut model = testing::model();
        (model.api, model.base_url) = (api.to_owned(), url);
        let mut request = testing::request(vec![testing::user("hi")]);
        request.model = Arc::new(model);
        let provider = crate::provider(&request.model, RequestOptions::with_key(KEY)).unwrap();
        let (events, failure) = all(provider.stream(request)).await;
        assert_eq!(failure, None);
        assert_eq!(events[0], StreamEvent::Start);
        let (head, _) = requests.recv_timeout(SOON).unwrap();
        let authorized = head.lines().find(|line| line.contains(KEY)).unwrap_or("-");
        let asked = head.lines().next().unwrap();
        printed += &format!("{api}\n  {asked}\n  {authorized}\n  {:?}\n", events.last());
    }
    expect![[r#"
        openai-responses
          POST /responses HTTP/1.1
          authorization: Bearer sk-ant-api03-loopback
          Some(Done { reason: Stop, raw: Some("completed") })
        azure-openai-responses
          POST /openai/v1/responses HTTP/1.1
          api-key: sk-ant-api03-loopback
          Some(Done { reason: Stop, raw: Some("completed") })
        google-generative-ai
          POST /models/claude-test:streamGenerateContent?alt=sse HTTP/1.1
          x-goog-api-key: sk-ant-api03-loopback
          Some(Done { reason: Stop, raw: Some("STOP") })
    "#]]
    .assert_eq(&printed);
}

#[tokio::test]
async fn completions_answer_is_streamed() {
    let (sent, requests) = mpsc::channel();
    let url = serve(move |mut connection| {
        while let Some(request) = read_request(&connection) {
            sent.send(request).unwrap();
            let answer = [OK, &recording("openai_odd_calls.sse"), END].concat();
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut request = testing::request(vec![testing::user("hi")]);
    let mut model = testing::model();
    model.api = "openai-completions".into();
    model.base_url = format!("{url}/v1");
    request.model = Arc::new(model);
    let provider = crate::provider(&request.model, RequestOptions::with_key(KEY)).unwrap();
    let (events, failure) = all(provider.stream(request)).await;
    assert_eq!(failure, None);
    assert_eq!(events[0], StreamEvent::Start);
    // It never sent `[DONE]`.
    let raw = Some("stop".to_owned());
    assert_eq!(events.last(), Some(&StreamEvent::Done { reason: StopReason::ToolUse, raw }));

    let (head, body) = requests.recv_timeout(SOON).unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nauthorization: Bearer {KEY}\r\n")), "{head}");
    assert!(body.contains(r#""stream":true,"stream_options":{"include_usage":true}"#), "{body}");
}

#[tokio::test]
async fn completions_error_is_shown() {
    let body =
        r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
    let url = serve(always(format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )));
    let mut request = testing::request(vec![testing::user("hi")]);
    let mut model = testing::model();
    model.api = "openai-completions".into();
    model.base_url = url;
    request.model = Arc::new(model);
    let provider = crate::provider(&request.model, RequestOptions::with_key(KEY)).unwrap();
    let (_, failure) = all(provider.stream(request)).await;
    let after = Some(Duration::from_secs(7));
    let message = "429 slow down".into();
    assert_eq!(failure, Some(ProviderError::Retry { message, after }));
}

#[cfg(feature = "bedrock")]
#[tokio::test]
async fn bedrock_answer_is_streamed_for_a_signed_request() {
    let text = std::fs::read_to_string(format!(
        "{}/tests/recordings/bedrock_text.sse",
        env!("CARGO_MANIFEST_DIR")
    ));
    let frames = crate::bedrock::framing::framed(&text.unwrap());
    let (sent, requests) = mpsc::channel();
    let url = serve(move |mut connection| {
        while let Some((head, _)) = read_request(&connection) {
            sent.send(head).unwrap();
            let head = format!("{OK}{:x}\r\n", frames.len());
            let answer = [head.as_bytes(), &frames, b"\r\n", END.as_bytes()].concat();
            connection.write_all(&answer).unwrap();
        }
    });
    let mut model = testing::model();
    (model.api, model.base_url) = ("bedrock-converse-stream".to_owned(), url);
    let mut request = testing::request(vec![testing::user("hi")]);
    request.model = Arc::new(model);
    let aws = crate::AwsKeys {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: Secret::new("never-sent"),
        session_token: Some(Secret::new("lent-for-an-hour")),
        region: Some("eu-west-1".into()),
    };
    let access = RequestOptions { aws: Some(aws), ..RequestOptions::default() };
    let provider = crate::provider(&request.model, access).unwrap();
    let (events, failure) = all(provider.stream(request)).await;
    assert_eq!(failure, None);
    let raw = Some("end_turn".to_owned());
    assert_eq!(events.last(), Some(&StreamEvent::Done { reason: StopReason::Stop, raw }));

    let head = requests.recv_timeout(SOON).unwrap();
    assert!(head.starts_with("POST /model/claude-test/converse-stream HTTP/1.1\r\n"), "{head}");
    let signed = "host;x-amz-date;x-amz-security-token, Signature=";
    for part in
        ["authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/", "/eu-west-1/bedrock/", signed]
    {
        assert!(head.contains(part), "{head}");
    }
    assert!(head.contains("x-amz-security-token: lent-for-an-hour\r\n"), "{head}");
    assert!(!head.contains("never-sent"), "{head}");
}
