//! Sessions on disk, in the real program: storing, finding, forking and locking.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// Three answers, the first of them with a tool.
const SCRIPT: &str = "call read {\"path\": \"notes.md\"}\n\nsay one\n\nsay two\n\nsay three\n";

fn place() -> Place {
    Place::new().with("notes.md", "hello\n").with("talk.script", SCRIPT)
}

fn start(place: &Place, more: &[&str]) -> Client {
    let mut arguments = vec!["--mode", "rpc", "--script", "talk.script"];
    arguments.extend(more);
    Client::start(place.command(&arguments), place.clone())
}

impl Client {
    fn ask(&mut self, mut command: Value) -> Value {
        command["id"] = json!("ask");
        self.say(&command);
        let response = self.response("ask");
        assert_eq!(response["success"], true, "{response}");
        response["data"].clone()
    }

    fn refused(&mut self, mut command: Value) -> String {
        command["id"] = json!("ask");
        self.say(&command);
        self.response("ask")["error"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, message: &str) {
        self.say(&json!({"type": "prompt", "message": message}));
        self.until_type("agent_settled");
    }

    fn texts(&mut self) -> Vec<String> {
        let data = self.ask(json!({"type": "get_messages"}));
        let texts = data["messages"].as_array().unwrap().iter();
        let texts = texts.filter_map(|message| message["content"][0]["text"].as_str());
        texts.map(str::to_owned).collect()
    }

    fn hang_up(mut self) {
        self.close_stdin();
        assert_eq!(self.end().1, Some(0));
    }
}

#[test]
fn resumed_session_has_its_messages() {
    let place = place();
    let mut first = start(&place, &["--name", "notes"]);
    first.prompt("Read them");
    let file = first.ask(json!({"type": "get_state"}))["sessionFile"].clone();
    let said = first.texts();
    assert_eq!(said, ["Read them", "hello\n", "one"]);
    first.hang_up();

    let mut again = start(&place, &["--continue"]);
    let state = again.ask(json!({"type": "get_state"}));
    assert_eq!(state["sessionFile"], file);
    assert_eq!(state["sessionName"], "notes");
    assert_eq!(state["messageCount"], 4);
    assert_eq!(again.texts(), said);
    let listed = again.ask(json!({"type": "list_sessions"}));
    assert_eq!(listed["sessions"][0]["firstMessage"], "Read them");
    assert_eq!(listed["sessions"][0]["messageCount"], 4);
    assert_eq!(listed["next"], Value::Null);
    again.hang_up();
}

#[test]
fn sessions_are_listed_by_name_words_and_time() {
    let place = place();
    let mut client = start(&place, &["--name", "Old Harbour"]);
    client.prompt("Read about tides");
    let old = client.ask(json!({"type": "get_state"}))["sessionFile"].clone();
    client.ask(json!({"type": "new_session"}));
    client.prompt("Unnamed");
    client.hang_up();
    // In milliseconds, and before the time of the other one.
    let modified = 1_700_000_000_000_u64;
    let file = fs::File::options().append(true).open(old.as_str().unwrap()).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_millis(modified)).unwrap();
    let mut client = start(&place, &[]);
    for (conditions, expected) in [
        (json!({}), vec!["Unnamed", "Read about tides"]),
        (json!({"name": "harb"}), vec!["Read about tides"]),
        (json!({"name": "harbours"}), vec![]),
        (json!({"search": "TIDE rea"}), vec!["Read about tides"]),
        (json!({"search": "harbour"}), vec!["Read about tides"]),
        (json!({"search": "unna"}), vec!["Unnamed"]),
        // The answer of the model, but not the result of a tool.
        (json!({"search": "two"}), vec!["Unnamed"]),
        (json!({"search": "hello"}), vec![]),
        (json!({"search": "ide"}), vec![]),
        (json!({"modifiedSince": modified}), vec!["Unnamed", "Read about tides"]),
        (json!({"modifiedSince": modified + 1}), vec!["Unnamed"]),
        (json!({"modifiedUntil": modified}), vec![]),
        (json!({"modifiedUntil": modified + 1}), vec!["Read about tides"]),
        (json!({"modifiedUntil": modified + 1, "search": "unna"}), vec![]),
        (json!({"limit": 1, "name": "harb"}), vec!["Read about tides"]),
    ] {
        let mut command = conditions.clone();
        command["type"] = json!("list_sessions");
        let listed = client.ask(command);
        let firsts = listed["sessions"].as_array().unwrap().iter();
        let firsts: Vec<&str> = firsts.map(|one| one["firstMessage"].as_str().unwrap()).collect();
        assert_eq!(firsts, expected, "{conditions}");
        assert_eq!(listed["next"], Value::Null, "{conditions}");
    }
    client.hang_up();
}

#[test]
fn position_in_the_tree_is_stored() {
    let place = place();
    let mut client = start(&place, &[]);
    client.prompt("Read them");
    client.prompt("Second");
    let forks = client.ask(json!({"type": "get_fork_messages"}));
    let second = forks["messages"][1]["entryId"].clone();
    let entries = client.ask(json!({"type": "get_entries"}));
    let entries = entries["entries"].as_array().unwrap();
    let before = entries.iter().find(|entry| entry["id"] == second).unwrap()["parentId"].clone();
    client.ask(json!({"type": "set_label", "entryId": second, "label": "here"}));
    client.ask(json!({"type": "navigate_tree", "entryId": before}));
    assert_eq!(client.texts(), ["Read them", "hello\n", "one"]);
    client.hang_up();

    let mut again = start(&place, &["--continue"]);
    assert_eq!(again.texts(), ["Read them", "hello\n", "one"], "a reload keeps the place");
    let tree = again.ask(json!({"type": "get_tree"})).to_string();
    assert!(tree.contains(r#""label":"here""#) && tree.contains("Second"), "nothing is lost");
    again.hang_up();
}

#[test]
fn fork_is_independent_of_its_source() {
    let place = place();
    let mut client = start(&place, &[]);
    client.prompt("Read them");
    client.prompt("Second");
    let old = client.ask(json!({"type": "get_state"}))["sessionFile"].clone();
    let forks = client.ask(json!({"type": "get_fork_messages"}));
    let second = &forks["messages"][1];
    let forked = client.ask(json!({"type": "fork", "entryId": second["entryId"]}));
    assert_eq!(forked, json!({"text": "Second", "cancelled": false}));
    assert_eq!(client.texts(), ["Read them", "hello\n", "one"]);
    client.prompt("Third");
    assert_eq!(client.texts(), ["Read them", "hello\n", "one", "Third", "three"]);
    client.ask(json!({"type": "switch_session", "sessionPath": old}));
    assert_eq!(client.texts(), ["Read them", "hello\n", "one", "Second", "two"]);
    client.hang_up();
}

#[test]
fn new_sessions_are_stored_beside_the_old_one() {
    let place = place();
    let header = json!({
        "type": "session", "version": 3, "id": "mine", "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": place.path(),
    });
    let hello = json!({
        "type": "message", "id": "00000001", "parentId": null,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": "Hello", "timestamp": 1_767_225_600_000_u64},
    });
    let mine = place.path().join("mine");
    fs::create_dir(&mine).unwrap();
    let place = place.with("mine/first.jsonl", &format!("{header}\n{hello}\n"));
    let mut client = start(&place, &[]);
    let commands = [
        json!({"type": "clone"}),
        json!({"type": "fork", "entryId": "00000001"}),
        json!({"type": "new_session"}),
    ];
    for command in commands {
        client.ask(json!({"type": "switch_session", "sessionPath": "mine/first.jsonl"}));
        client.ask(command);
        client.prompt("Go on");
        let state = client.ask(json!({"type": "get_state"}));
        let file = Path::new(state["sessionFile"].as_str().unwrap());
        assert!(file.parent() == Some(&mine) && file.is_file(), "{}", file.display());
    }
    client.hang_up();
}

#[test]
fn client_bash_ends_with_its_session() {
    let place = place();
    let mut client = start(&place, &[]);
    client.say(&json!({"id": "run", "type": "bash", "command": "echo begun; sleep 600"}));
    client.until_type("bash_execution_update");
    client.say(&json!({"id": "new", "type": "new_session"}));
    let ended = client.response("run");
    let expected = json!({"output": "begun\n", "cancelled": true, "truncated": false});
    assert_eq!(ended["data"], expected);
    assert!(client.texts().is_empty());
    client.hang_up();
}

#[test]
fn one_session_has_one_writer() {
    let place = place();
    let mut writer = start(&place, &[]);
    writer.prompt("Read them");
    let file = writer.ask(json!({"type": "get_state"}))["sessionFile"].clone();
    let file = file.as_str().unwrap().to_owned();

    let mut second = start(&place, &[]);
    let why = second.refused(json!({"type": "switch_session", "sessionPath": file}));
    assert!(why.starts_with("Session is in use by tiller "), "{why}");
    assert!(why.contains(&format!("pid {}", writer.id())), "{why}");
    second.hang_up();

    let output = place.output(&["--mode", "rpc", "--session", &file], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Session is in use by tiller "));

    let mut reader = start(&place, &["--session", &file, "--read-only"]);
    assert_eq!(reader.texts(), ["Read them", "hello\n", "one"]);
    let why = reader.refused(json!({"type": "prompt", "message": "Write"}));
    assert_eq!(why, "Session is open read-only");
    reader.hang_up();

    let mut copy = start(&place, &["--fork", &file]);
    assert_eq!(copy.texts(), ["Read them", "hello\n", "one"]);
    copy.hang_up();
    writer.hang_up();
}

#[test]
fn killed_process_loses_nothing_announced() {
    let place =
        Place::new().with("talk.script", "call bash {\"command\": \"sleep 60\"}\n\nsay done\n");
    let mut client = start(&place, &[]);
    client.say(&json!({"type": "prompt", "message": "Wait"}));
    client.until_type("tool_execution_start");
    client.signal("KILL");
    client.exit_code();

    let mut again = start(&place, &["--continue"]);
    let data = again.ask(json!({"type": "get_messages"}));
    let messages = data["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult"], "every call has a result");
    assert_eq!(messages[2]["isError"], true);
    again.hang_up();
}

#[test]
fn flags_find_stored_sessions() {
    let place = place();
    let mut client = start(&place, &["--session-id", "my.session"]);
    client.prompt("Read them");
    client.hang_up();

    let listed = place.output(&["session", "list"], "");
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("my.session") && listed.contains("Read them"), "{listed}");

    let mut again = start(&place, &["--resume", "my.s"]);
    let file = again.ask(json!({"type": "get_state"}))["sessionFile"].clone();
    assert_eq!(again.texts().len(), 3);
    again.hang_up();

    let checked = place.output(&["session", "check", file.as_str().unwrap()], "");
    assert_eq!(checked.status.code(), Some(0));
    assert!(String::from_utf8(checked.stdout).unwrap().contains("sound"));

    let nowhere = place.output(&["--mode", "rpc", "--resume", "zzzz"], "");
    assert_eq!(nowhere.status.code(), Some(1));
    assert_eq!(nowhere.stderr, b"Error: No session found matching 'zzzz'\n");
    let both = place.output(&["--mode", "rpc", "--continue", "--no-session"], "");
    assert_eq!(both.stderr, b"Error: --continue cannot be combined with --no-session\n");
}

/// Killed while the summary is written, or right after it was announced: the session is as before
/// the compaction, or as after it.
#[test]
fn kill_during_a_compaction_leaves_a_valid_session() {
    const TALK: &str = "say one\n\nsay two\n\nsay half a summ\nhang\n";
    let settings = r#"{"compaction": {"keepRecentTokens": 3}}"#;
    let place = Place::new().with("talk.script", TALK);
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    fs::write(place.path().join(".pi/agent/settings.json"), settings).unwrap();
    let mut first = start(&place, &[]);
    first.prompt("The first question, in a few words");
    first.prompt("The second question, in a few words");
    let said = first.texts();
    assert_eq!(said.len(), 4);
    first.say(&json!({"type": "compact"}));
    first.until_type("compaction_start");
    first.signal("KILL");
    first.end();

    let place = place.with("talk.script", "say the summary\n\nsay more of it\n");
    let mut again = start(&place, &["--continue"]);
    assert_eq!(again.texts(), said);
    again.say(&json!({"type": "compact"}));
    let ended = again.until_type("compaction_end").pop().unwrap();
    assert!(ended["result"]["summary"].as_str().unwrap().contains("the summary"), "{ended}");
    again.signal("KILL");
    again.end();

    let mut last = start(&place, &["--continue"]);
    let messages = last.ask(json!({"type": "get_messages"}));
    assert_eq!(messages["messages"][0]["role"], "compactionSummary");
    assert_eq!(messages["messages"][0]["summary"], ended["result"]["summary"]);
    last.hang_up();
}

#[test]
fn numbers_of_a_stored_session_are_unchanged() {
    const COST: &str = r#""cost":{"input":0.00015000000000000001,"output":1.0000000000000002e-7,"cacheRead":0,"cacheWrite":123456.78901234567,"total":0.30000000000000004}"#;
    let head = json!({"type": "session", "version": 3, "id": "numbers",
        "timestamp": "2023-11-14T22:13:20.000Z", "cwd": "/"});
    let answer = r#"{"type":"message","id":"00000002","parentId":null,"timestamp":"2023-11-14T22:13:20.000Z","message":{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,COST},"stopReason":"stop","timestamp":1700000000000}}"#;
    let place = place().with("n.jsonl", &format!("{head}\n{}\n", answer.replace("COST", COST)));
    let mut client = start(&place, &["--session", "n.jsonl"]);
    // As they are in the file, and after a prompt has parsed them.
    for _ in 0..2 {
        client.say(&json!({"id": "1", "type": "get_messages"}));
        let line = client.line().unwrap();
        assert!(line.contains(COST), "{line}");
        client.prompt("Go on");
    }
}
