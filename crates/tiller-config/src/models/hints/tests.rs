//! Hints, checked against small servers that fail in every way a user can fix.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use expect_test::{Expect, expect};
use futures_util::StreamExt;
use serde_json::json;
use tiller_agent::message::Message;
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::{ProviderError, Request};

use super::*;
use crate::models::tests::models;
use crate::settings::Settings;

/// The error a user sees when model `p/m` uses this server.
async fn error(api: &str, url: &str) -> String {
    let provider = json!({"api": api, "baseUrl": url, "apiKey": "sk-secret",
        "models": [{"id": "m"}]});
    let models = models(&[], &json!({"providers": {"p": provider}}), &Settings::default());
    let model = models.usable("p", "m").unwrap();
    let request = Request {
        model: model.clone(),
        system: "".into(),
        messages: vec![Message::user("hi", Vec::new(), 1).into()],
        tools: Vec::new().into(),
        forced_tool: None,
        temperature: None,
        thinking: ThinkingLevel::Off,
        session_id: "session".into(),
    };
    let answer = models.provider(&model).stream(request).collect::<Vec<_>>();
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
    let err = answer.into_iter().find_map(Result::err).expect("it cannot be asked");
    let message = err.with_advice();
    assert!(!message.contains("secret"), "{message}");
    let next = match err {
        ProviderError::Retry { .. } => "retry",
        ProviderError::Overflow { .. } => "overflow",
        ProviderError::Auth { .. } => "auth",
        ProviderError::Fatal { .. } => "fatal",
    };
    format!("[{next}] {message}\n")
}

/// Serves every connection with `talk` and returns the port.
fn serve(talk: impl Fn(TcpStream) -> std::io::Result<()> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            // The client may hang up early.
            talk(caller).ok();
        }
    });
    port
}

fn respond(mut caller: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(caller.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])?;
    caller.write_all(answer.as_bytes())
}

async fn check(api: &str, status: &str, body: &str, expect: Expect) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}");
    let answer = format!("{head}\r\n\r\n{body}");
    let port = serve(move |caller| respond(caller, &answer));
    let text = error(api, &format!("http://secret:secret@127.0.0.1:{port}/v1?key=secret")).await;
    expect.assert_eq(&text.replace(&port.to_string(), "PORT"));
}

#[tokio::test]
async fn refused_key_names_its_source() {
    check(
        "anthropic-messages",
        "401 Unauthorized",
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        expect![[r#"
            [auth] 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}

            p/m: the key in models.json is not accepted. Change `apiKey` of `p` there, or store one with `tiller auth set p`.
        "#]],
    )
    .await;
    check(
        "google-generative-ai",
        "400 Bad Request",
        r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}"#,
        expect![[r#"
            [auth] {"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}

            p/m: the key in models.json is not accepted. Change `apiKey` of `p` there, or store one with `tiller auth set p`.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn forbidden_request_names_permission_and_region() {
    check(
        "openai-completions",
        "403 Forbidden",
        r#"{"error":{"message":"Country not supported","code":"unsupported_country"}}"#,
        expect![[r#"
            [auth] 403 Country not supported

            p/m: p refused the request. The key in models.json may lack the permission for this model, or the provider does not serve this region. Check both in the provider's console.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn conversation_that_does_not_fit_is_a_sentence() {
    check(
        "anthropic-messages",
        "400 Bad Request",
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
        expect![[r#"
            [overflow] 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}

            p/m: the conversation does not fit into the model's context window of 128000 tokens. Shorten the message or the files with it, begin a new session, or choose a model with a larger window.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn lost_connection_names_the_server() {
    let port = serve(|caller| respond(caller, ""));
    let text = error("anthropic-messages", &format!("http://127.0.0.1:{port}")).await;
    expect![[r#"
        [retry] Connection error.

        p/m: http://127.0.0.1:PORT closed the connection before it answered.
    "#]]
    .assert_eq(&text.replace(&port.to_string(), "PORT"));
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
    let begin = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let port = serve(move |caller| respond(caller, &format!("{head}{begin}")));
    let text = error("anthropic-messages", &format!("http://127.0.0.1:{port}")).await;
    expect![[r#"
        [retry] terminated

        p/m: the connection to http://127.0.0.1:PORT was lost in the middle of the answer.
    "#]]
    .assert_eq(&text.replace(&port.to_string(), "PORT"));
}

#[tokio::test]
async fn empty_account_names_the_provider() {
    check("openai-responses", "402 Payment Required", "", expect![[r#"
        [auth] 402 status code (no body)

        p/m: the account behind the key in models.json has no credit or quota left. Add credit at p, or choose another model.
    "#]]).await;
    check(
        "openai-completions",
        "429 Too Many Requests",
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
        expect![[r#"
            [auth] 429 You exceeded your current quota

            p/m: the account behind the key in models.json has no credit or quota left. Add credit at p, or choose another model.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn unknown_model_suggests_listing_models() {
    let body = r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#;
    check("openai-completions", "404 Not Found", body, expect![[r#"
        [fatal] 404 The model `m` does not exist

        p/m: p has no such model, or not for this key. `tiller --list-models p/` shows those that are known; others can be described in models.json.
    "#]]).await;
    let body = r#"{"error":{"code":"DeploymentNotFound","message":"no such deployment"}}"#;
    check("azure-openai-responses", "404 Not Found", body, expect![[r#"
        [fatal] Azure OpenAI API error (404): 404 no such deployment

        p/m: there is no deployment of this name. Set the deployment's name with AZURE_OPENAI_DEPLOYMENT_NAME_MAP=m=DEPLOYMENT.
    "#]]).await;
}

#[tokio::test]
async fn html_page_instead_of_the_api_is_recognised() {
    let page = "<!doctype html>\n<title>Welcome</title>\n";
    check("openai-completions", "404 Not Found", page, expect![[r#"
        [fatal] 404 <!doctype html>
        <title>Welcome</title>

        p/m: the server at http://127.0.0.1:PORT/v1 does not implement the API openai-completions. Check `baseUrl` of `p` in models.json.
    "#]]).await;
    check("anthropic-messages", "200 OK", page, expect![[r#"
        [fatal] the server sent no stream of events: <!doctype html> <title>Welcome</title>

        p/m: the server at http://127.0.0.1:PORT/v1 does not implement the API anthropic-messages. Check `baseUrl` of `p` in models.json.
    "#]]).await;
    let whole = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    check("openai-completions", "200 OK", whole, expect![[r#"
        [fatal] the server sent no stream of events: {"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}

        p/m: the server at http://127.0.0.1:PORT/v1 does not implement the API openai-completions. Check `baseUrl` of `p` in models.json.
    "#]]).await;
    check("openai-completions", "302 Found\r\nlocation: /secret", "", expect![[r#"
        [fatal] 302 status code (no body)

        p/m: the server at http://127.0.0.1:PORT/v1 does not implement the API openai-completions. Check `baseUrl` of `p` in models.json.
    "#]]).await;
}

#[tokio::test]
async fn server_without_http_is_recognised() {
    let port = serve(|caller| respond(caller, "SSH-2.0-OpenSSH_9.9\r\n"));
    let text = error("anthropic-messages", &format!("http://127.0.0.1:{port}")).await;
    expect![[r#"
        [fatal] Connection error: the server does not speak HTTP

        p/m: the server at http://127.0.0.1:PORT does not implement the API anthropic-messages. Check `baseUrl` of `p` in models.json.
    "#]].assert_eq(&text.replace(&port.to_string(), "PORT"));
}

#[tokio::test]
async fn error_body_with_status_200_is_an_error() {
    let body = r#"{"type":"error","error":{"type":"authentication_error","message":"no key"}}"#;
    check("anthropic-messages", "200 OK", body, expect![[r#"
        [auth] {"type":"error","error":{"type":"authentication_error","message":"no key"}}

        p/m: the key in models.json is not accepted. Change `apiKey` of `p` there, or store one with `tiller auth set p`.
    "#]]).await;
    check("openai-completions", "200 OK", body, expect![[r#"
        [auth] no key

        p/m: the key in models.json is not accepted. Change `apiKey` of `p` there, or store one with `tiller auth set p`.
    "#]]).await;
    let body = r#"{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}"#;
    check(
        "google-generative-ai",
        "200 OK",
        body,
        expect![[r#"
        [retry] {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn unreachable_server_names_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let text = error("anthropic-messages", &format!("http://127.0.0.1:{port}/v1")).await;
    expect![[r#"
        [retry] Connection error.

        p/m: cannot connect to http://127.0.0.1:PORT/v1: connection refused. Is the server running? Check `baseUrl` of `p` in models.json.
    "#]].assert_eq(&text.replace(&port.to_string(), "PORT"));
    let text = error("anthropic-messages", "https://api.nowhere.invalid/v1").await;
    expect![[r#"
        [retry] Connection error.

        p/m: cannot resolve the host of https://api.nowhere.invalid/v1. Check `baseUrl` of `p` in models.json.
    "#]].assert_eq(&text);
    let text = error("anthropic-messages", "localhost:8080/v1").await;
    expect![[r#"
        [fatal] "localhost:8080/v1" is no address of a server

        p/m: the address must begin with https:// or http://. Check `baseUrl` of `p` in models.json.
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn server_without_tls_suggests_http() {
    let port = serve(|mut caller| {
        caller.read_exact(&mut [0])?;
        caller.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")?;
        caller.read_to_end(&mut Vec::new()).map(|_| ())
    });
    let text = error("anthropic-messages", &format!("https://127.0.0.1:{port}")).await;
    expect![[r#"
        [fatal] Connection error: the server does not speak TLS

        p/m: https://127.0.0.1:PORT does not speak TLS. Check `baseUrl` of `p` in models.json; use http:// for a server without TLS.
    "#]].assert_eq(&text.replace(&port.to_string(), "PORT"));
    let port = serve(|mut caller| caller.read(&mut [0; 4096]).map(|_| ()));
    let text = error("anthropic-messages", &format!("https://127.0.0.1:{port}")).await;
    expect![[r#"
        [retry] Connection error.

        p/m: cannot connect to https://127.0.0.1:PORT: it hangs up. Is the server running? Check `baseUrl` of `p` in models.json.
    "#]].assert_eq(&text.replace(&port.to_string(), "PORT"));
}

#[test]
fn hints_name_the_source_of_each_key() {
    let mut report = String::new();
    for key in [
        Some(KeySource::CommandLine),
        Some(KeySource::AuthFile),
        Some(KeySource::SignIn(None)),
        Some(KeySource::ModelsFile),
        Some(KeySource::Variable("ANTHROPIC_API_KEY")),
        Some(KeySource::Ambient("AWS_PROFILE")),
        None,
    ] {
        let origins = Origins { key, address: AddressSource::Catalogue };
        report += &format!("{}: {}\n", origins.key_name(), origins.another_key("anthropic"));
    }
    expect![[r#"
        the key given with --api-key: Give another, or store one with `tiller auth set anthropic`
        the key in auth.json: Store another with `tiller auth set anthropic`
        the sign-in in auth.json: Sign in again with the program that wrote it to auth.json (in pi: `/login`), or store a key with `tiller auth set anthropic`
        the key in models.json: Change `apiKey` of `anthropic` there, or store one with `tiller auth set anthropic`
        the key in ANTHROPIC_API_KEY: Set another, or store one with `tiller auth set anthropic`
        the identity that AWS_PROFILE names: Check whether it has expired and may use this model in this region
        the key: Set ANTHROPIC_API_KEY, or store another with `tiller auth set anthropic`
    "#]].assert_eq(&report);
}

#[test]
fn hints_name_the_proxy() {
    let models = models(&[], &json!({}), &Settings::default());
    let model = models.resolve(None, "anthropic/claude-opus-4-8").unwrap().model;
    let origins = Origins { key: None, address: AddressSource::Catalogue };
    let mut report = String::new();
    for (kind, proxy) in [
        (Cause::Proxy("asks for a name and a password".to_owned()), Some("corp:3128")),
        (Cause::Certificate(CertificateFault::UnknownAuthority), Some("corp:3128")),
        (Cause::Certificate(CertificateFault::UnknownAuthority), None),
        (Cause::Certificate(CertificateFault::AuthorityAsServer), None),
        (Cause::Certificate(CertificateFault::OtherName), None),
        (Cause::Certificate(CertificateFault::OutOfDate), None),
        (Cause::NotSecure, None),
        (Cause::TooLong, None),
        (Cause::Lost(LostWhen::BeforeAnswer), None),
        (Cause::Lost(LostWhen::InAnswer), None),
        (Cause::NotTheApi, Some("corp:3128")),
        (Cause::NotTheApi, None),
        (Cause::UnknownHost, None),
        (Cause::Unreachable("network unreachable".to_owned()), None),
    ] {
        let proxy = proxy.map(str::to_owned);
        let trouble = Diagnosis { kind, address: model.base_url.clone(), proxy };
        report += &format!("{}\n", origins.hint(&model, &trouble));
    }
    expect![[r#"
        anthropic/claude-opus-4-8: the proxy corp:3128 asks for a name and a password. It is set by HTTPS_PROXY or ALL_PROXY, with a password as http://NAME:PASSWORD@HOST; NO_PROXY names the hosts it is not used for.
        anthropic/claude-opus-4-8: the certificate of https://api.anthropic.com cannot be trusted. The proxy corp:3128 may have replaced it. Add your own authority or self-signed certificate to the system's certificates, or to the file that SSL_CERT_FILE names.
        anthropic/claude-opus-4-8: the certificate of https://api.anthropic.com cannot be trusted. Add your own authority or self-signed certificate to the system's certificates, or to the file that SSL_CERT_FILE names.
        anthropic/claude-opus-4-8: the server at https://api.anthropic.com uses the certificate of an authority as its own, which is refused even if that authority is trusted. Give the server a certificate signed by this authority, and set SSL_CERT_FILE to the authority's file; or create the self-signed certificate again with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE …`, and set SSL_CERT_FILE to it.
        anthropic/claude-opus-4-8: the certificate of https://api.anthropic.com is for another name.
        anthropic/claude-opus-4-8: the certificate of https://api.anthropic.com is out of date. Renew it if the server is yours, and check the clock of this machine.
        anthropic/claude-opus-4-8: cannot make a secure connection to https://api.anthropic.com. Check the network connection; behind a proxy, set HTTPS_PROXY.
        anthropic/claude-opus-4-8: the conversation does not fit into the model's context window of 1000000 tokens. Shorten the message or the files with it, begin a new session, or choose a model with a larger window.
        anthropic/claude-opus-4-8: https://api.anthropic.com closed the connection before it answered.
        anthropic/claude-opus-4-8: the connection to https://api.anthropic.com was lost in the middle of the answer.
        anthropic/claude-opus-4-8: the server at https://api.anthropic.com does not implement the API anthropic-messages. The proxy corp:3128 may have answered instead.
        anthropic/claude-opus-4-8: the server at https://api.anthropic.com does not implement the API anthropic-messages. A proxy or gateway may have answered instead.
        anthropic/claude-opus-4-8: cannot resolve the host of https://api.anthropic.com. Check the network connection; behind a proxy, set HTTPS_PROXY.
        anthropic/claude-opus-4-8: cannot connect to https://api.anthropic.com: network unreachable. Check the network connection; behind a proxy, set HTTPS_PROXY.
    "#]].assert_eq(&report);
}
