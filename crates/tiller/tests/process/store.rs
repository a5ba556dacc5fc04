//! Sessions in PostgreSQL, through the real program: each claim of docs/store.md that a user or a
//! client of several servers could notice.

use serde_json::{Value, json};

use crate::client::Place;
use crate::postgres::{self, Cluster, StopMode};
use crate::serve::client::ServeClient;
use crate::serve::server::{ServeProcess, wait_until};

/// The variable of the issue: where sessions are stored.
const STORE: &str = "TILLER_STORE";

/// The model answers three prompts.
const SCRIPT: &str = "say Hello.\n\nsay Hello.\n\nsay Hello.\n";

/// A fresh database with tables, and its URL with short times.
fn database(cluster: &Cluster) -> String {
    let url = format!("{}?takeover_seconds=2&timeout_seconds=5", cluster.create_database());
    let made = run(&url, &["store", "init"]);
    assert_eq!(made, "Made the tables (version 1).\n");
    url
}

/// The output of a command that succeeds.
fn run(url: &str, arguments: &[&str]) -> String {
    run_in(&Place::new(), url, arguments)
}

fn run_in(place: &Place, url: &str, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = finish(place, url, arguments, "");
    assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
    stdout
}

fn finish(
    place: &Place,
    url: &str,
    arguments: &[&str],
    stdin: &str,
) -> (Option<i32>, String, String) {
    let mut command = place.command(arguments);
    command.env(STORE, url);
    let output = crate::client::finish(command, stdin);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A server with sessions in this database.
fn server(url: &str) -> ServeProcess {
    ServeProcess::script(SCRIPT, &["--store", url])
}

/// Starts a session with one exchange. Returns its handle and its durable id.
fn begin(client: &mut ServeClient) -> (String, String) {
    let opened = client.open(json!({}));
    client.prompt(&opened.handle, "First");
    client.until_settled(&opened.handle);
    (opened.handle, opened.state["sessionId"].as_str().unwrap().to_owned())
}

fn texts(client: &mut ServeClient, handle: &str) -> Vec<String> {
    let data = client.ask(json!({"type": "get_messages", "sessionId": handle}));
    let messages = data["messages"].as_array().unwrap().iter();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    messages.map(text).collect()
}

#[test]
fn session_moves_between_database_and_files() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = database(cluster);
    let place = Place::new();
    let prompt = ["-p", "--model", "tiller/demo", "--name", "Harbour", "What is 2 + 3?"];
    let answer = run_in(&place, &url, &prompt);
    assert!(answer.contains('5'), "{answer}");
    let continued = run_in(&place, &url, &["-c", "-p", "--model", "tiller/demo", "Hello"]);
    assert!(continued.contains("Hello"), "{continued}");
    let listed = run_in(&place, &url, &["session", "list"]);
    assert!(listed.contains("4 messages") && listed.contains("Harbour"), "{listed}");
    assert_eq!(run_in(&place, &url, &["session", "list", "--search", "hel"]), listed);
    assert_eq!(run_in(&place, &url, &["session", "list", "--search", "nowhere"]), "");
    let id = listed.split_whitespace().nth(4).unwrap();

    run_in(&place, &url, &["session", "export", &id[..13], "there.jsonl"]);
    let exported = std::fs::read(place.path().join("there.jsonl")).unwrap();
    // Without a database, the file is a session like any other.
    let checked = run_in(&place, "files", &["session", "check", "there.jsonl"]);
    assert!(checked.contains("sound"), "{checked}");
    let arguments = ["--session", "there.jsonl", "-p", "--model", "tiller/demo", "Hello"];
    run_in(&place, "files", &arguments);

    let (code, _, refused) = finish(&place, &url, &["session", "import", "there.jsonl"], "");
    assert_eq!(code, Some(1));
    assert!(refused.contains("there is a session with this id already"), "{refused}");
    run_in(&place, &url, &["session", "delete", id]);
    assert_eq!(run_in(&place, &url, &["session", "list"]), "");
    run_in(&place, &url, &["session", "import", "there.jsonl"]);
    run_in(&place, &url, &["session", "export", id, "back.jsonl"]);
    let back = std::fs::read(place.path().join("back.jsonl")).unwrap();
    assert_eq!(back, std::fs::read(place.path().join("there.jsonl")).unwrap());
    assert!(back.starts_with(&exported) && back.len() > exported.len());
    assert_eq!(run(&url, &["store", "check"]), "All sessions have all their lines.\n");
    // Each of these processes has ended in order.
    assert!(run(&url, &["store", "status"]).contains("processes  0"));
}

#[test]
fn wrong_or_missing_store_is_a_clear_error() {
    let place = Place::new();
    for (arguments, store, expected) in [
        (
            &["-p", "--model", "tiller/demo", "Hello"][..],
            "mysql://u:secret@h/d",
            "TILLER_STORE: expected a URL that begins with postgres://, or `files`",
        ),
        (&["store", "status"], "", "no database: name one with --store"),
        (&["session", "export", "x"], "files", "no database: name one with --store"),
        (
            &["-p", "--model", "tiller/demo", "Hello"],
            "postgres://u:secret@127.0.0.1:1/d?timeout_seconds=1",
            "cannot use the store u@127.0.0.1/d (schema tiller): cannot connect to the database",
        ),
        (
            &["--store", "postgres://u@h/d", "--session-dir", "x", "-p", "Hello"],
            "",
            "--store cannot be combined with --session-dir",
        ),
    ] {
        let (code, stdout, stderr) = finish(&place, store, arguments, "");
        assert_eq!(code, Some(1), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
    }
    // What is not stored needs no database.
    let url = "postgres://u:secret@127.0.0.1:1/d?timeout_seconds=1";
    run_in(&place, url, &["-p", "--no-session", "--model", "tiller/demo", "Hello"]);
}

#[test]
fn tools_do_not_get_the_url_of_the_store() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = database(cluster);
    let place = Place::new();
    let asked = run_in(&place, &url, &["-p", "--model", "tiller/demo", "Run `env`"]);
    assert!(asked.contains("PATH=") && !asked.contains("postgres://"), "{asked}");
}

#[test]
fn session_in_use_names_the_address_of_its_server() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = database(cluster);
    let first = ServeProcess::script(
        SCRIPT,
        &["--store", &url, "--advertise", "wss://one.example.com/tiller"],
    );
    let second = server(&url);
    let mut one = first.connect();
    let (handle, id) = begin(&mut one);
    let mut two = second.connect();
    let open = json!({"type": "open_session", "sessionId": id});
    let refused = two.refused(open.clone(), "session_in_use");
    let owner = &refused["data"]["owner"];
    assert_eq!(owner["address"], "wss://one.example.com/tiller", "{refused}");
    assert_eq!(owner["pid"], first.id(), "{refused}");
    // When the first server has let it go, the second one has it at once.
    one.ask(json!({"type": "close_session", "sessionId": handle}));
    let opened = two.ask(open);
    let handle = opened["sessionId"].as_str().unwrap().to_owned();
    two.prompt(&handle, "Second");
    two.until_settled(&handle);
    assert_eq!(texts(&mut two, &handle), ["First", "Hello.", "Second", "Hello."]);
}

#[test]
fn attach_on_another_server_follows_the_session() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = database(cluster);
    let (first, second) = (server(&url), server(&url));
    let mut one = first.connect();
    let (handle, id) = begin(&mut one);
    let mut two = second.connect();
    let attached = two.ask(json!({"type": "attach", "sessionId": id}));
    let copy = attached["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(texts(&mut two, &copy), ["First", "Hello."]);
    let prompt = json!({"type": "prompt", "message": "No", "sessionId": copy});
    two.refused(prompt, "watching");
    one.prompt(&handle, "Second");
    one.until_settled(&handle);
    let set_name = json!({"type": "set_session_name", "name": "Harbour", "sessionId": handle});
    one.ask(set_name);
    let followed = two
        .take(|record| record["type"] == "message_end" && record["message"]["role"] == "assistant");
    assert_eq!(followed["message"]["content"][0]["text"], "Hello.");
    two.take(|record| record["type"] == "session_info_changed" && record["name"] == "Harbour");
    assert_eq!(texts(&mut two, &copy), ["First", "Hello.", "Second", "Hello."]);
    // A second client of this server shares the copy.
    let mut three = second.connect();
    let attached = three.ask(json!({"type": "attach", "sessionId": id}));
    assert_eq!(attached["sessionId"], copy.as_str());
    // Reading does not keep the session from being written, here or there.
    one.ask(json!({"type": "close_session", "sessionId": handle}));
    let opened = two.ask(json!({"type": "open_session", "sessionId": id}));
    let own = opened["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(own, copy);
    two.prompt(&own, "Third");
    three.take(|record| {
        record["type"] == "message_end" && record["message"]["content"][0]["text"] == "Third"
    });
    // Without a client, the copy is dropped.
    two.ask(json!({"type": "detach", "sessionId": copy}));
    three.ask(json!({"type": "detach", "sessionId": copy}));
    wait_until("the copy is dropped", || {
        let open = two.ask(json!({"type": "list_open_sessions"}));
        open["sessions"].as_array().unwrap().len() == 1
    });
    two.refused(json!({"type": "attach", "sessionId": "0199-no-such-id"}), "unknown_session");
}

#[test]
fn killed_server_is_replaced_at_once() {
    let Some(cluster) = postgres::cluster() else { return };
    // Far beyond the patience of this test.
    let url = format!("{}&takeover_seconds=3600", database(cluster));
    let (first, second) = (server(&url), server(&url));
    let mut one = first.connect();
    let (_, id) = begin(&mut one);
    first.signal("KILL");
    wait_until("the server is gone", || !is_alive(first.id()));
    let mut two = second.connect();
    let opened = two.ask(json!({"type": "open_session", "sessionId": id}));
    let handle = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(texts(&mut two, &handle), ["First", "Hello."]);
}

/// Whether a process runs. A zombie does not.
fn is_alive(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = state.rsplit(')').next().unwrap_or_default().trim_start().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn server_that_was_paused_cannot_write_when_another_has_taken_over() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = database(cluster);
    let (first, second) = (server(&url), server(&url));
    let mut one = first.connect();
    let (handle, id) = begin(&mut one);
    first.signal("STOP");
    let mut two = second.connect();
    let mut opened = Value::Null;
    wait_until("the session is taken over", || {
        opened = two.request(json!({"type": "open_session", "sessionId": id}));
        opened["success"] == true
    });
    let own = opened["data"]["sessionId"].as_str().unwrap().to_owned();
    two.prompt(&own, "From the second");
    two.until_settled(&own);
    first.signal("CONT");
    one.prompt(&handle, "From the first");
    let error = one.take(|record| record["type"] == "session_error");
    let error = error["error"].as_str().unwrap().to_owned();
    let pid = format!("pid {} ", second.id());
    assert!(error.contains("was taken over by") && error.contains(&pid), "{error}");
    one.until_settled(&handle);
    // Nothing of it was stored, and the same process can read on.
    assert_eq!(texts(&mut one, &handle), ["First", "Hello."]);
    let expected = ["First", "Hello.", "From the second", "Hello."];
    assert_eq!(texts(&mut two, &own), expected);
    drop((one, two));
    second.stop();
    first.stop();
    assert_eq!(run(&url, &["store", "check"]), "All sessions have all their lines.\n");
}

#[test]
fn run_ends_in_order_when_the_database_is_gone_and_goes_on_when_it_is_back() {
    let Some(cluster) = postgres::start(&[]) else { return };
    let url = format!("{}?timeout_seconds=1", cluster.create_database());
    run(&url, &["store", "init"]);
    let server = ServeProcess::script(SCRIPT, &["--listen", "ws://127.0.0.1:0", "--store", &url]);
    let ready = |server: &ServeProcess| server.get("/ready", &server.bearer()).0;
    let mut client = server.connect_web_socket();
    let (handle, _) = begin(&mut client);
    assert_eq!(ready(&server), 200);
    cluster.stop(StopMode::Immediate);
    assert_eq!(ready(&server), 503);
    assert_eq!(server.get("/health", &server.bearer()).0, 200);
    client.prompt(&handle, "Lost");
    let error = client.take(|record| record["type"] == "session_error");
    let error = error["error"].as_str().unwrap();
    assert!(error.starts_with("cannot store session postgres:"), "{error}");
    client.until_settled(&handle);
    assert_eq!(texts(&mut client, &handle), ["First", "Hello."]);
    cluster.start_again();
    client.prompt(&handle, "Again");
    client.until_settled(&handle);
    assert_eq!(texts(&mut client, &handle), ["First", "Hello.", "Again", "Hello."]);
    assert_eq!(ready(&server), 200);
    let listed = client.ask(json!({"type": "list_sessions", "search": "again", "limit": 5}));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    drop(client);
    server.stop();
    assert_eq!(run(&url, &["store", "check"]), "All sessions have all their lines.\n");
}
