//! Who may use a server: the token and the checks of a TCP address, and the users of this machine.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use serde_json::json;
use tokio_tungstenite::tungstenite::client::{IntoClientRequest, client};
use tokio_tungstenite::tungstenite::handshake::HandshakeError;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::server::{ServeProcess, command};
use crate::client::{Place, finish};

/// Upgrades with these headers. Returns the status, and the protocol that the server has chosen.
fn upgrade(server: &ServeProcess, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let address = server.tcp_address();
    let stream = TcpStream::connect(&address).unwrap();
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    match client(request, stream) {
        Ok((mut socket, response)) => {
            let hello = json!({"id": 1, "type": "list_open_sessions"}).to_string();
            socket.send(Message::text(hello)).unwrap();
            assert!(socket.read().unwrap().is_text());
            let protocol = response.headers().get("sec-websocket-protocol");
            (101, protocol.map(|name| name.to_str().unwrap().to_owned()))
        }
        Err(HandshakeError::Failure(Error::Http(response))) => (response.status().as_u16(), None),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn upgrade_needs_the_token() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let token = server.token();
    let bearer = format!("Bearer {token}");
    let wrong = format!("Bearer {}0", &token[1..]);
    let longer = format!("Bearer {token}0");
    let shorter = format!("Bearer {}", &token[1..]);
    assert_eq!(upgrade(&server, &[]).0, 401);
    for header in [&wrong, &longer, &shorter, "Bearer ", &token, ""] {
        assert_eq!(upgrade(&server, &[("authorization", header)]).0, 401, "{header}");
    }
    assert_eq!(upgrade(&server, &[("authorization", &bearer)]), (101, None));
    let protocols = format!("tiller, token.{token}");
    let chosen = upgrade(&server, &[("sec-websocket-protocol", &protocols)]);
    assert_eq!(chosen, (101, Some("tiller".to_owned())));
    for protocols in ["tiller", "tiller, token.wrong", "token."] {
        assert_eq!(upgrade(&server, &[("sec-websocket-protocol", protocols)]).0, 401);
    }
}

#[test]
fn pages_of_other_origins_are_refused() {
    let options = ["--allow-origin", "https://app.example", "--allow-host", "tiller.example"];
    let server = ServeProcess::web_socket_script("say Hello.", &options);
    let bearer = format!("Bearer {}", server.token());
    let address = server.tcp_address();
    let port = address.rsplit_once(':').unwrap().1;
    let own = format!("http://{address}");
    let localhost = (format!("localhost:{port}"), format!("http://localhost:{port}"));
    for (host, origin, status) in [
        (address.as_str(), own.as_str(), 101),
        (&localhost.0, &localhost.1, 101),
        (&address, "https://app.example", 101),
        ("tiller.example", "https://app.example", 101),
        ("tiller.example", "https://tiller.example", 101),
        (&address, "http://evil.example", 403),
        (&address, "https://app.example.evil.example", 403),
        (&address, "null", 403),
        (&address, "", 403),
        (&address, "http://127.0.0.1:1", 403),
        // A name that was bound to a loopback address.
        ("evil.example", "http://evil.example", 403),
        (&format!("evil.example:{port}"), "", 403),
        (&format!("127.0.0.1.evil.example:{port}"), &own, 403),
        ("", &own, 403),
    ] {
        let headers = [("host", host), ("origin", origin), ("authorization", &bearer)];
        assert_eq!(upgrade(&server, &headers).0, status, "{host} {origin}");
        // A right origin does not replace the token.
        if status == 101 {
            assert_eq!(upgrade(&server, &headers[..2]).0, 401, "{host} {origin}");
        }
    }
}

#[test]
fn http_requests_need_the_token_the_right_method_and_path() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let (address, bearer) = (server.tcp_address(), server.bearer());
    for path in ["/health", "/metrics", "/", "/nowhere"] {
        assert_eq!(server.get(path, "").0, 401, "{path}");
        assert_eq!(server.get(path, "Authorization: Bearer wrong").0, 401, "{path}");
    }
    let (status, health) = server.get("/health", &bearer);
    assert!(status == 200 && health.ends_with("{\"status\":\"ok\"}"), "{health}");
    let (status, metrics) = server.get("/metrics", &bearer);
    assert!(status == 200 && metrics.contains("\ntiller_clients 0\n"), "{metrics}");
    for path in ["/nowhere", "/index.html", "//", "/health/", "/../serve-token"] {
        assert_eq!(server.get(path, &bearer).0, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
        let head = format!("{method} /health HTTP/1.1\r\nHost: {address}\r\n{bearer}");
        let (status, response) = server.http(&format!("{head}\r\nContent-Length: 0"));
        assert_eq!(status, 405, "{method}");
        assert!(!response.to_lowercase().contains("access-control"), "{response}");
    }
    // No response says more to a page than its status.
    for head in ["GET / HTTP/1.0", "nonsense", "GET /health HTTP/1.1\r\nHost: evil.example"] {
        let (status, response) = server.http(head);
        assert!(status == 0 || status >= 400, "{head}: {response}");
    }
    assert!(!server.stderr().contains(&server.token()));
}

#[test]
fn metrics_count_clients_and_sessions() {
    let options = ["--listen", "unix:s.sock"];
    let server = ServeProcess::web_socket_script("say Hello.", &options);
    let mut client = server.connect_web_socket();
    let handle = client.open_in_memory();
    client.prompt(&handle, "Hello");
    client.until_settled(&handle);
    let (_, page) = server.get("/metrics", &server.bearer());
    for line in [
        "tiller_clients 1",
        "tiller_sessions{state=\"idle\"} 1",
        "tiller_sessions_opened_total 1",
        "tiller_runs_started_total 1",
        "tiller_runs_ended_total 1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}:\n{page}");
    }
}

#[test]
fn token_is_created_for_its_owner_alone_and_kept() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let file = server.path("agent/serve-token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (place, token) = (server.place().clone(), server.token());
    assert!(token.len() >= 32);
    server.stop();
    let options = ["--listen", "ws://127.0.0.1:0"];
    let server = ServeProcess::start(place.clone(), &options);
    assert_eq!(server.token(), token);
    server.stop();
    // A server without a TCP address needs none.
    std::fs::remove_file(&file).unwrap();
    ServeProcess::start(place.clone(), &[]).stop();
    assert!(!file.exists());
    // A token that others can read is none.
    std::fs::write(&file, &token).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let error = refused(&place, &options);
    assert!(error.contains("can be read by other users"), "{error}");
    // Another file may be chosen.
    let mut chosen = options.to_vec();
    chosen.extend(["--token-file", "own-token"]);
    let server = ServeProcess::start(place.clone(), &chosen);
    let own = std::fs::read_to_string(place.path().join("own-token")).unwrap();
    let header = format!("Authorization: Bearer {}", own.trim());
    assert_eq!(server.get("/health", &header).0, 200);
}

/// Starts a server that is refused, and returns what it says.
fn refused(place: &Place, options: &[&str]) -> String {
    let mut all = vec!["serve"];
    all.extend(options);
    let Output { status, stdout, stderr } = finish(command(place, &all), "");
    assert!(!status.success() && stdout.is_empty());
    String::from_utf8_lossy(&stderr).into_owned()
}

#[test]
fn addresses_that_other_machines_can_reach_need_a_flag() {
    let place = Place::new();
    for address in ["ws://0.0.0.0:0", "ws://[::]:0", "ws://192.0.2.1:7433"] {
        let error = refused(&place, &["--listen", address]);
        assert!(error.contains("--allow-remote"), "{address}: {error}");
    }
    for wrong in ["7433", "ws://127.0.0.1", "http://127.0.0.1:0", "wss://127.0.0.1:0"] {
        let error = refused(&place, &["--listen", wrong]);
        assert!(error.contains("is no address"), "{wrong}: {error}");
    }
    let server = ServeProcess::start(place, &["--listen", "ws://0.0.0.0:0", "--allow-remote"]);
    let port = server.tcp_address().rsplit_once(':').unwrap().1.to_owned();
    let get = |host: &str, header: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let head = format!("GET /health HTTP/1.1\r\nHost: {host}\r\n{header}");
        super::server::http(&mut stream, &head).0
    };
    assert_eq!(get("192.0.2.7:7433", &server.bearer()), 200);
    assert_eq!(get("192.0.2.7:7433", ""), 401);
    assert_eq!(get("evil.example", &server.bearer()), 403);
}

/// Connects as another user, and prints what comes back.
fn connect_as_other_user(socket: &std::path::Path) -> Output {
    let program = r#"
        use Socket;
        # The server closes the connection at once.
        $SIG{PIPE} = "IGNORE";
        socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
        connect($s, pack_sockaddr_un($ARGV[0])) or die "connect: $!";
        syswrite($s, qq({"id":1,"type":"list_open_sessions"}\n));
        sysread($s, my $answer, 4096);
        print $answer;
    "#;
    let mut command = Command::new("perl");
    command.args(["-e", program]).arg(socket).uid(65534).gid(65534);
    command.output().unwrap()
}

#[test]
fn other_users_of_the_machine_are_refused() {
    let is_root = nix::unistd::Uid::effective().is_root();
    let has_perl = Command::new("perl").arg("-v").output().is_ok();
    if !is_root || !has_perl {
        return crate::skip::skip("OTHER_USER", "root and perl are needed to be another user");
    }
    let server = ServeProcess::script("say Hello.", &[]);
    let socket = server.socket();
    let open = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    for folder in [server.path(""), server.path("agent")] {
        open(&folder, 0o777);
    }
    let output = connect_as_other_user(&socket);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("connect: Permission denied"), "{error}");
    // Even if the socket's mode is changed, other users get no answer.
    open(&socket, 0o666);
    let output = connect_as_other_user(&socket);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    server.connect().open_in_memory();
}
