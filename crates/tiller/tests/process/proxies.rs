//! Proxies from environment variables.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use expect_test::{Expect, expect};
use serde_json::json;

use super::client::{Client, Place};

/// A proxy that gives every request the same answer, and records the requests.
struct Proxy {
    port: u16,
    asked: Receiver<String>,
}

impl Proxy {
    fn start(answer: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, asked) = channel();
        let answer = answer.to_owned();
        // It lives as long as the test.
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                talk(caller, &answer, &tell);
            }
        });
        Proxy { port, asked }
    }
}

/// Reads a request, records its first line and its credentials, and answers it.
fn talk(mut caller: TcpStream, answer: &str, tell: &Sender<String>) {
    let mut reader = BufReader::new(caller.try_clone().unwrap());
    let (mut asked, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        if asked.is_empty() || line.to_lowercase().starts_with("proxy-authorization:") {
            asked += &line;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    // The test may be over, and the client disconnected.
    tell.send(asked).ok();
    caller.write_all(answer.as_bytes()).ok();
}

/// The error a user sees for a model at this address with these variables.
fn ask(base_url: &str, variables: &[(&str, &str)]) -> String {
    let place = Place::new();
    let agent = place.path().join(".pi/agent");
    std::fs::create_dir_all(&agent).unwrap();
    let models = json!({"providers": {"far": {
        "api": "anthropic-messages", "baseUrl": base_url, "apiKey": "sk-secret",
        "models": [{"id": "m"}],
    }}});
    std::fs::write(agent.join("models.json"), models.to_string()).unwrap();
    let settings = json!({"retry": {"enabled": false}});
    std::fs::write(agent.join("settings.json"), settings.to_string()).unwrap();
    let arguments = ["--mode", "rpc", "--no-session", "--no-tools", "--model", "far/m"];
    let mut command = place.command(&arguments);
    command.envs(variables.iter().copied());
    let mut client = Client::start(command, place);
    client.say(&json!({"type": "prompt", "message": "Hello"}));
    let records = client.until_type("agent_settled");
    let end = records.iter().rfind(|record| record["type"] == "message_end").unwrap();
    let words = end["message"]["errorMessage"].as_str().unwrap();
    let hint = end["message"]["errorHint"].as_str();
    let reported = hint.map_or(words.to_owned(), |hint| format!("{words}\n\n{hint}"));
    assert!(!words.contains("far/m: "), "the hint is a field of its own: {words}");
    assert!(!reported.contains("secret"), "{reported}");
    reported
}

fn check(base_url: &str, variable: &str, answer: &str, expect: Expect) {
    let proxy = Proxy::start(answer);
    let url = format!("http://me:secret@127.0.0.1:{}", proxy.port);
    let reported = ask(base_url, &[(variable, &url)]);
    let asked = proxy.asked.try_iter().collect::<String>().replace("\r\n", "\n");
    expect.assert_eq(&format!("{asked}{reported}\n").replace(&proxy.port.to_string(), "PORT"));
}

#[test]
fn refusing_proxy_is_explained() {
    let far = "https://far.example/v1";
    let none = "content-length: 0\r\n\r\n";
    let answer = format!("HTTP/1.1 407 Proxy Authentication Required\r\n{none}");
    check(
        far,
        "HTTPS_PROXY",
        &answer,
        expect![[r#"
        CONNECT far.example:443 HTTP/1.1
        proxy-authorization: Basic bWU6c2VjcmV0
        Connection error: the proxy asks for a name and a password

        far/m: the proxy 127.0.0.1:PORT asks for a name and a password. It is set by HTTPS_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
    "#]],
    );
    let answer = format!("HTTP/1.1 403 Forbidden\r\n{none}");
    check(
        far,
        "https_proxy",
        &answer,
        expect![[r#"
        CONNECT far.example:443 HTTP/1.1
        proxy-authorization: Basic bWU6c2VjcmV0
        Connection error.

        far/m: the proxy 127.0.0.1:PORT does not open a way there. It is set by HTTPS_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
    "#]],
    );
    check(
        far,
        "ALL_PROXY",
        "SSH-2.0-OpenSSH\r\n",
        expect![[r#"
        CONNECT far.example:443 HTTP/1.1
        proxy-authorization: Basic bWU6c2VjcmV0
        Connection error.

        far/m: the proxy 127.0.0.1:PORT does not open a way there. It is set by HTTPS_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
    "#]],
    );
}

#[test]
fn proxy_that_answers_itself_is_explained() {
    let far = "http://far.example/v1";
    let page = "content-length: 6\r\n\r\n<html>";
    let answer = format!("HTTP/1.1 407 Proxy Authentication Required\r\n{page}");
    check(
        far,
        "HTTP_PROXY",
        &answer,
        expect![[r#"
        POST http://far.example/v1/v1/messages HTTP/1.1
        proxy-authorization: Basic bWU6c2VjcmV0
        407 <html>

        far/m: the proxy 127.0.0.1:PORT asks for a name and a password. It is set by HTTP_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
    "#]],
    );
    let answer = format!("HTTP/1.1 503 Service Unavailable\r\n{page}");
    check(
        far,
        "http_proxy",
        &answer,
        expect![[r#"
        POST http://far.example/v1/v1/messages HTTP/1.1
        proxy-authorization: Basic bWU6c2VjcmV0
        503 <html>

        far/m: the proxy 127.0.0.1:PORT answered with 503 itself. It is set by HTTP_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
    "#]],
    );
    let answer = format!("HTTP/1.1 200 OK\r\n{page}");
    check(
        far,
        "HTTP_PROXY",
        &answer,
        expect![[r#"
            POST http://far.example/v1/v1/messages HTTP/1.1
            proxy-authorization: Basic bWU6c2VjcmV0
            the server sent no stream of events: <html>

            far/m: the server at http://far.example/v1 does not implement the API anthropic-messages. Check `baseUrl` of `far` in models.json, and the proxy 127.0.0.1:PORT.
        "#]],
    );
}

#[test]
fn unreachable_proxy_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let proxy = format!("http://me:secret@127.0.0.1:{port}");
    let reported = |far| ask(far, &[("ALL_PROXY", &proxy)]).replace(&port.to_string(), "PORT");
    let plain = reported("http://far.example/v1");
    expect![[r#"
        Connection error.

        far/m: the proxy 127.0.0.1:PORT cannot be reached: connection refused. It is set by HTTP_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for."#]].assert_eq(&plain);
    assert_eq!(reported("https://far.example/v1"), plain.replace("HTTP_PROXY", "HTTPS_PROXY"));
}

#[test]
fn socks_proxy_works() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("socks5h://{}", listener.local_addr().unwrap());
    let (tell, asked) = channel();
    thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        // Version 5, one authentication method: none. It is accepted.
        caller.read_exact(&mut [0; 3]).unwrap();
        caller.write_all(&[5, 0]).unwrap();
        // A connection to a host by name, with its length before it, and a port.
        let mut begin = [0; 5];
        caller.read_exact(&mut begin).unwrap();
        assert_eq!(begin[..4], [5, 1, 0, 3]);
        let mut rest = vec![0; usize::from(begin[4]) + 2];
        caller.read_exact(&mut rest).unwrap();
        tell.send(String::from_utf8_lossy(&rest[..rest.len() - 2]).into_owned()).unwrap();
        caller.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        talk(caller, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 5\r\n\r\nthere", &tell);
    });
    let reported = ask("http://far.example", &[("ALL_PROXY", &url)]);
    assert!(reported.starts_with("401 there\n"), "{reported}");
    assert_eq!(asked.recv().unwrap(), "far.example");
    assert_eq!(asked.recv().unwrap(), "POST /v1/messages HTTP/1.1\r\n");
}

#[test]
fn no_proxy_hosts_are_requested_directly() {
    let proxy = Proxy::start("");
    let body = r#"{"error":{"type":"authentication_error","message":"here"}}"#;
    let head = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}", body.len());
    let near = Proxy::start(&format!("{head}\r\n\r\n{body}"));
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let reported = ask(
        &format!("http://127.0.0.1:{}", near.port),
        &[("HTTP_PROXY", &url), ("NO_PROXY", "localhost,127.0.0.0/8")],
    );
    assert!(reported.starts_with(&format!("401 {body}")), "{reported}");
    assert_eq!(proxy.asked.try_iter().count(), 0);
}
