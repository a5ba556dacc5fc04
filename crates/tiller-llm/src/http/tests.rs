//! Exchanges with a small server on the loopback interface.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use expect_test::{Expect, expect};

use super::*;

/// For things that happen at once unless something is broken.
const SOON: Duration = Duration::from_secs(20);

/// Serves each connection on its own thread and returns the address.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = std::sync::Arc::new(handle);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let handle = handle.clone();
            thread::spawn(move || handle(connection.unwrap()));
        }
    });
    format!("http://{address}")
}

/// Reads one request: its first line, its headers and its body. `None` if the client has
/// disconnected.
fn read_request(connection: &TcpStream) -> Option<(String, Vec<String>, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line: String = line.iter().copied().map(char::from).collect();
        match line.trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let first = lines.remove(0);
    lines.retain(|line| !line.starts_with("host:") && !line.starts_with("user-agent: tiller/"));
    lines.sort();
    Some((first, lines, body))
}

/// Responds by path, with the request in the body.
fn mirror(mut connection: TcpStream) {
    while let Some((first, headers, body)) = read_request(&connection) {
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let redirect = |status: &str, to: &str| {
            format!("HTTP/1.1 {status}\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
        };
        let answer = match path.as_str() {
            "/moved" => redirect("302 Found", "/here"),
            "/kept" => redirect("307 Temporary Redirect", "/here"),
            "/round" => redirect("302 Found", "/round"),
            _ => {
                let body = String::from_utf8_lossy(&body);
                let echo = format!("{first}\n{}\n{body}", headers.join("\n"));
                let head = "HTTP/1.1 200 Fine\r\nx-twice: a\r\nX-Twice: b\r\nx-latin: caf\u{e9}";
                let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", echo.len());
                let mut bytes: Vec<u8> = head.chars().map(|c| c as u8).collect();
                bytes.extend(echo.as_bytes());
                connection.write_all(&bytes).unwrap();
                continue;
            }
        };
        connection.write_all(answer.as_bytes()).unwrap();
    }
}

async fn ask(asked: HttpExchange) -> Result<HttpResponse, String> {
    timeout(SOON, exchange(asked)).await.unwrap()
}

fn get(url: impl Into<String>) -> HttpExchange {
    HttpExchange { method: "get".into(), url: url.into(), ..HttpExchange::default() }
}

async fn body(answer: HttpResponse) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut pieces = answer.body;
    while let Some(piece) = timeout(SOON, pieces.next()).await.unwrap() {
        bytes.extend(piece?);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

/// Prints the response, with the server's address as `HOST`.
async fn check(host: &str, asked: HttpExchange, expected: Expect) {
    let printed = match ask(asked).await {
        Err(err) => err,
        Ok(answer) => {
            let (status, text, url) = (answer.status, &answer.status_text, &answer.url);
            let mut printed = format!("{status} {text} {url}\n");
            for (name, value) in &answer.headers {
                printed += &format!("{name}: {value}\n");
            }
            printed + &body(answer).await.unwrap()
        }
    };
    expected.assert_eq(&printed.replace(host, "HOST"));
}

#[tokio::test]
async fn plain() {
    let host = serve(mirror);
    let asked = HttpExchange {
        headers: vec![
            ("X-Mine".into(), "caf\u{e9}".into()),
            ("x-mine".into(), "again".into()),
            ("Content-Length".into(), "77".into()),
        ],
        ..get(format!("{host}/a?b=c#d"))
    };
    check(
        &host,
        asked,
        expect![[r#"
            200 OK HOST/a?b=c
            x-twice: a
            x-twice: b
            x-latin: café
            content-length: 60
            GET /a?b=c HTTP/1.1
            accept: */*
            x-mine: again
            x-mine: café
        "#]],
    )
    .await;
    let asked = HttpExchange { method: "POST".into(), body: Some(b"words".to_vec()), ..get(&host) };
    check(
        &host,
        asked,
        expect![[r#"
            200 OK HOST/
            x-twice: a
            x-twice: b
            x-latin: café
            content-length: 51
            POST / HTTP/1.1
            accept: */*
            content-length: 5
            words"#]],
    )
    .await;
    let asked = HttpExchange { method: "PUT".into(), ..get(&host) };
    check(
        &host,
        asked,
        expect![[r#"
            200 OK HOST/
            x-twice: a
            x-twice: b
            x-latin: café
            content-length: 45
            PUT / HTTP/1.1
            accept: */*
            content-length: 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn redirects_are_followed_when_asked_for() {
    let host = serve(mirror);
    let asked = |path: &str, follow_redirects| HttpExchange {
        method: "POST".into(),
        body: Some(b"words".to_vec()),
        follow_redirects,
        ..get(format!("{host}{path}"))
    };
    check(
        &host,
        asked("/moved", false),
        expect![[r#"
            302 Found HOST/moved
            location: /here
            content-length: 0
        "#]],
    )
    .await;
    let first_line = async |path| {
        let answer = ask(asked(path, true)).await.unwrap();
        let url = answer.url.replace(&host, "HOST");
        let text = body(answer).await.unwrap();
        format!("{url}: {} {}", text.lines().next().unwrap(), text.lines().last().unwrap())
    };
    expect!["HOST/here: GET /here HTTP/1.1 accept: */*"].assert_eq(&first_line("/moved").await);
    expect!["HOST/here: POST /here HTTP/1.1 words"].assert_eq(&first_line("/kept").await);
    check(
        &host,
        asked("/round", true),
        expect!["HOST/round leads to another address too many times"],
    )
    .await;
}

/// Chunks arrive when the server sends them, and dropping the body closes the connection.
#[tokio::test]
async fn body_is_streamed_in_chunks() {
    let (go, gone) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let go_on = std::sync::Mutex::new(gone);
    let host = serve(move |mut connection| {
        read_request(&connection).unwrap();
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(format!("{head}3\r\none\r\n").as_bytes()).unwrap();
        go_on.lock().unwrap().recv().unwrap();
        connection.write_all(b"3\r\ntwo\r\n").unwrap();
        connection.set_read_timeout(Some(SOON)).unwrap();
        let end = connection.read(&mut [0]);
        sender
            .send(
                matches!(end, Ok(0))
                    || end.is_err_and(|err| err.kind() == ErrorKind::ConnectionReset),
            )
            .unwrap();
    });
    let mut answer = ask(get(&host)).await.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), b"one");
    go.send(()).unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), b"two");
    drop(answer);
    let received = tokio::task::spawn_blocking(move || receiver.recv_timeout(SOON));
    assert!(received.await.unwrap().unwrap());
}

#[tokio::test]
async fn truncated_body_ends_with_an_error() {
    let host = serve(|mut connection| {
        read_request(&connection).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nonly";
        connection.write_all(answer).unwrap();
    });
    let answer = ask(get(&host)).await.unwrap();
    let pieces: Vec<_> = timeout(SOON, answer.body.collect()).await.unwrap();
    let expected = format!("{host} broke off in the middle of its answer");
    assert_eq!(pieces, [Ok(b"only".to_vec()), Err(expected)]);
}

/// A silent server times out.
#[tokio::test]
async fn silent_server_times_out() {
    let host = serve(|mut connection| {
        let (first, ..) = read_request(&connection).unwrap();
        if first.contains("/begun") {
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nonly").unwrap();
        }
        // Until the client disconnects.
        read_request(&connection);
    });
    let impatient = Duration::from_secs(2);
    let err = within(impatient, get(&host)).await.err().unwrap();
    assert_eq!(err, format!("{host} has not answered for 2s"));
    let answer = within(impatient, get(format!("{host}/begun"))).await.unwrap();
    let expected = format!("{host}/begun fell silent in the middle of its answer");
    assert_eq!(body(answer).await, Err(expected));
}

#[tokio::test]
async fn failures_are_explained() {
    // A port that was free a moment ago.
    let host =
        format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let secret = format!("{host}/path?key=secret");
    check(&host, get(secret), expect!["cannot reach HOST/path: connection refused"]).await;
    let host = serve(drop);
    check(&host, get(&host), expect!["HOST hung up before it answered"]).await;
    let host =
        serve(|mut connection| connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap());
    let speaks_plainly = get(host.replace("http:", "https:"));
    check(
        &host.replace("http:", "https:"),
        speaks_plainly,
        expect!["cannot reach HOST: the server does not speak TLS; try http://"],
    )
    .await;
    check("-", get("nowhere"), expect![[r#""nowhere" is no address of a server"#]]).await;
    check(
        "-",
        get("file:///etc/passwd"),
        expect![[r#""file:///etc/passwd" is no address of a server"#]],
    )
    .await;
    let asked = HttpExchange { method: "a b".into(), ..get("http://127.0.0.1") };
    check("-", asked, expect![[r#""a b" is no HTTP method"#]]).await;
    let with = |name: &str, value: &str| HttpExchange {
        headers: vec![(name.into(), value.into())],
        ..get("http://127.0.0.1")
    };
    check("-", with("a b", "c"), expect![[r#""a b" is no name of an HTTP header"#]]).await;
    let expected = "the value of the header key has characters that no header can carry";
    check(
        "-",
        with("key", "a\nb"),
        expect![[r#"the value of the header key has characters that no header can carry"#]],
    )
    .await;
    assert_eq!(ask(with("key", "\u{4e00}")).await.err().unwrap(), expected);
}
