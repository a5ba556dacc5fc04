//! Models behind TLS: HTTP versions, connections and certificates.

use std::future::poll_fn;
use std::io::Cursor;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use expect_test::expect;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

use super::client::{Client, Place};

/// A server with its own certificate. It answers every request, but only half of one that contains
/// `stay`.
struct Server {
    url: String,
    certificate_pem: String,
    seen: Receiver<ServerEvent>,
}

#[derive(Debug, PartialEq)]
enum ServerEvent {
    Connection,
    Question,
    /// The client cancelled a request, and nothing else.
    Reset,
    Closed,
}

/// Who signs a server's certificate, and whether it is marked as an authority itself.
#[derive(Clone, Copy, PartialEq)]
enum Certificate {
    SelfSigned,
    SelfSignedAuthority,
    SignedByAuthority,
}

impl Certificate {
    /// The certificate, and the one to trust for it.
    fn issue(self, mut params: CertificateParams, pair: &KeyPair) -> (rcgen::Certificate, String) {
        let is_authority = IsCa::Ca(BasicConstraints::Unconstrained);
        if self == Certificate::SignedByAuthority {
            let mut authority = CertificateParams::default();
            authority.is_ca = is_authority;
            let own = KeyPair::generate().unwrap();
            let root = authority.self_signed(&own).unwrap();
            let issued = params.signed_by(pair, &Issuer::new(authority, own)).unwrap();
            return (issued, root.pem());
        }
        if self == Certificate::SelfSignedAuthority {
            params.is_ca = is_authority;
        }
        let issued = params.self_signed(pair).unwrap();
        let pem = issued.pem();
        (issued, pem)
    }
}

impl Server {
    /// Offers these protocols, by their ALPN names.
    fn start(protocols: &[&str]) -> Server {
        Server::with_certificate(protocols, Certificate::SelfSigned)
    }

    fn with_certificate(protocols: &[&str], kind: Certificate) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, format!("the server at {port}"));
        let (certificate, trusted_pem) = kind.issue(params, &pair);
        let key = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
        let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let url = format!("https://localhost:{port}");
        listener.set_nonblocking(true).unwrap();
        let (tell, seen) = channel();
        // It lives as long as the test.
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve(listener, TlsAcceptor::from(Arc::new(tls)), tell));
        });
        Server { url, certificate_pem: trusted_pem, seen }
    }

    fn next(&self) -> ServerEvent {
        self.seen.recv_timeout(Duration::from_secs(60)).expect("nothing more happened")
    }
}

async fn serve(listener: std::net::TcpListener, tls: TlsAcceptor, tell: Sender<ServerEvent>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        tokio::spawn(talk(connection, tls.clone(), tell.clone()));
    }
}

async fn talk(connection: TcpStream, tls: TlsAcceptor, tell: Sender<ServerEvent>) {
    // A client that does not trust the certificate disconnects.
    let Ok(connection) = tls.accept(connection).await else { return };
    // The test may be over.
    tell.send(ServerEvent::Connection).ok();
    let is_http2 = connection.get_ref().1.alpn_protocol() == Some(b"h2");
    if is_http2 {
        talk_http2(connection, &tell).await
    } else {
        talk_http1(connection, &tell).await
    }
    tell.send(ServerEvent::Closed).ok();
}

async fn talk_http2(connection: TlsStream<TcpStream>, tell: &Sender<ServerEvent>) {
    let builder = h2::server::Builder::new();
    let mut connection = builder.handshake::<_, Cursor<Vec<u8>>>(connection).await.unwrap();
    while let Some(Ok((request, mut answer))) = connection.accept().await {
        let tell = tell.clone();
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut question = Vec::new();
            while let Some(Ok(bytes)) = body.data().await {
                question.extend_from_slice(&bytes);
            }
            tell.send(ServerEvent::Question).ok();
            let head = http::Response::builder().header("content-type", "text/event-stream");
            let mut stream = answer.send_response(head.body(()).unwrap(), false).unwrap();
            let (half, rest) = answer_to(&question);
            stream.send_data(Cursor::new(half.into_bytes()), false).unwrap();
            if let Some(rest) = rest {
                stream.send_data(Cursor::new(rest.into_bytes()), true).unwrap();
            } else if let Ok(h2::Reason::CANCEL) = poll_fn(|cx| stream.poll_reset(cx)).await {
                tell.send(ServerEvent::Reset).ok();
            }
        });
    }
}

async fn talk_http1(mut connection: TlsStream<TcpStream>, tell: &Sender<ServerEvent>) {
    let mut received = Vec::new();
    while connection.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
        // Every request ends like this, and nothing inside it looks like its end.
        if !received.ends_with(b"}") {
            continue;
        }
        tell.send(ServerEvent::Question).ok();
        let (half, rest) = answer_to(&std::mem::take(&mut received));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut answer = format!("{head}{:x}\r\n{half}\r\n", half.len());
        if let Some(rest) = rest {
            answer += &format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
        }
        connection.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// Two halves of an answer; the second may never be sent.
fn answer_to(question: &[u8]) -> (String, Option<String>) {
    let event =
        |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let message = json!({"type": "message_start", "message": {"id": "m", "usage": {}}});
    let block = json!({"type": "text", "text": ""});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = json!({"type": "text_delta", "text": "Here."});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let end = json!({"type": "content_block_stop", "index": 0});
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}});
    let half = [message, block, delta].map(event).concat();
    let rest = [end, stop, json!({"type": "message_stop"})].map(event).concat();
    let last = String::from_utf8_lossy(question);
    let stays = last.rfind("stay") > last.rfind("go");
    (half, (!stays).then_some(rest))
}

/// A client that trusts this certificate.
fn start(server: &Server, trusted_pem: &str) -> Client {
    let place = Place::new().with("roots.pem", trusted_pem);
    let agent = place.path().join(".pi/agent");
    std::fs::create_dir_all(&agent).unwrap();
    let models = json!({"providers": {"secure": {
        "api": "anthropic-messages", "baseUrl": server.url, "apiKey": "sk-secret",
        "models": [{"id": "m"}],
    }}});
    std::fs::write(agent.join("models.json"), models.to_string()).unwrap();
    let arguments = ["--mode", "rpc", "--no-session", "--no-tools", "--model", "secure/m"];
    let mut command: Command = place.command(&arguments);
    command.env("SSL_CERT_FILE", place.path().join("roots.pem"));
    Client::start(command, place)
}

fn ask(client: &mut Client, question: &str) -> Value {
    client.say(&json!({"type": "prompt", "message": question}));
    let mut records = client.until_type("agent_settled");
    let end = records.iter_mut().rfind(|record| record["type"] == "message_end").unwrap();
    end["message"].take()
}

#[test]
fn http2_requests_share_a_connection_and_cancel_separately() {
    let server = Server::start(&["h2", "http/1.1"]);
    let mut client = start(&server, &server.certificate_pem);
    assert_eq!(ask(&mut client, "go")["content"][0]["text"], "Here.");
    assert_eq!((server.next(), server.next()), (ServerEvent::Connection, ServerEvent::Question));
    client.say(&json!({"type": "prompt", "message": "stay"}));
    client.until(|record| record["assistantMessageEvent"]["type"] == "text_delta");
    assert_eq!(server.next(), ServerEvent::Question);
    client.say(&json!({"type": "abort"}));
    client.until_type("agent_settled");
    assert_eq!(server.next(), ServerEvent::Reset);
    // The connection has outlived it.
    assert_eq!(ask(&mut client, "go")["stopReason"], "stop");
    assert_eq!(server.next(), ServerEvent::Question);
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
    assert_eq!(server.next(), ServerEvent::Closed);
}

#[test]
fn server_with_http1_only_works() {
    for protocols in [&[] as &[&str], &["http/1.1"]] {
        let server = Server::start(protocols);
        let mut client = start(&server, &server.certificate_pem);
        assert_eq!(ask(&mut client, "go")["stopReason"], "stop");
        assert_eq!(
            (server.next(), server.next()),
            (ServerEvent::Connection, ServerEvent::Question)
        );
        client.say(&json!({"type": "prompt", "message": "stay"}));
        client.until(|record| record["assistantMessageEvent"]["type"] == "text_delta");
        // The first connection may or may not be free again by now.
        while server.next() != ServerEvent::Question {}
        client.say(&json!({"type": "abort"}));
        client.until_type("agent_settled");
        while server.next() != ServerEvent::Closed {}
        client.close_stdin();
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn untrusted_certificate_is_explained() {
    let server = Server::start(&["h2"]);
    let stranger = Server::start(&["h2"]);
    let mut client = start(&server, &stranger.certificate_pem);
    let message = ask(&mut client, "go");
    let [why, hint] = ["errorMessage", "errorHint"].map(|name| message[name].as_str().unwrap());
    let reported = format!("{why}\n\n{hint}").replace(&server.url, "URL");
    expect![[r#"
        Connection error: the server's certificate is signed by an unknown authority

        secure/m: the certificate of URL cannot be trusted. Add your own authority or self-signed certificate to the system's certificates, or to the file that SSL_CERT_FILE names."#]].assert_eq(&reported);
}

#[test]
fn authority_used_as_a_server_is_explained_and_the_advice_works() {
    let server = Server::with_certificate(&["h2"], Certificate::SelfSignedAuthority);
    let mut client = start(&server, &server.certificate_pem);
    let message = ask(&mut client, "go");
    let reported = format!("{}\n{}", message["errorMessage"], message["errorHint"]);
    assert!(reported.contains("is that of a certificate authority (CA:TRUE)"), "{reported}");
    assert!(reported.contains("SSL_CERT_FILE") && !reported.contains("OtherError"), "{reported}");
    // The hint's advice: a certificate signed by the authority, or one that is not an authority.
    for kind in [Certificate::SignedByAuthority, Certificate::SelfSigned] {
        let server = Server::with_certificate(&["h2"], kind);
        let mut client = start(&server, &server.certificate_pem);
        assert_eq!(ask(&mut client, "go")["stopReason"], "stop");
    }
}
