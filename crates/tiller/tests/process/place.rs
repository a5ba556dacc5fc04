//! The user's and the project's files in the real program: bad ones, many of them, and what reaches
//! a provider.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{Client, Place, types};

const SKILL: &str = "---\ndescription: Does nothing\n---\nNothing.\n";

fn write(place: &Place, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = place.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// Replaces a text file by something else.
type Spoil = fn(&Path);

const BAD: [(&str, Spoil); 8] = [
    ("it is not text", |path| fs::write(path, b"\x7fELF\x02\x01\0\0").unwrap()),
    ("it is larger than 8 MiB", |path| {
        File::create(path).unwrap().set_len(100 << 20).unwrap();
    }),
    ("Too many levels of symbolic links", |path| symlink(path, path).unwrap()),
    ("it is a dangling link", |path| symlink("nowhere", path).unwrap()),
    ("it is not a regular file", |path| fs::create_dir(path).unwrap()),
    ("it is not a regular file", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("it is not a regular file", |path| symlink("/dev/zero", path).unwrap()),
    ("is not valid UTF-8", |path| fs::write(path, b"---\ndescription: \xff\n---\n{}").unwrap()),
];

/// Files that tiller reads by default.
const SEARCHED_FILES: [&str; 10] = [
    ".pi/agent/settings.json",
    ".pi/agent/models.json",
    ".pi/agent/auth.json",
    ".pi/settings.json",
    ".pi/SYSTEM.md",
    ".pi/agent/APPEND_SYSTEM.md",
    "AGENTS.md",
    ".pi/agent/AGENTS.md",
    ".pi/prompts/bad.md",
    ".pi/skills/bad/SKILL.md",
];

/// Whatever is in its place, tiller starts, answers a prompt, and names the file.
#[test]
fn bad_file_is_a_warning_that_names_it() {
    for (why, spoil) in BAD {
        let place = Place::new();
        for name in SEARCHED_FILES {
            let path = write(&place, name, "");
            fs::remove_file(&path).unwrap();
            spoil(&path);
        }
        write(&place, ".pi/agent/prompts/good.md", "Good $1.");
        let script = write(&place, "talk.script", "expect user \"Good luck.\"\nsay Fine.");
        let arguments = ["-p", "--no-session", "-a", "--script", script.to_str().unwrap()];
        let output = place.output(&[&arguments[..], &["/good luck"]].concat(), "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "Fine.\n", "{why}: {said}");
        assert_eq!(output.status.code(), Some(0));
        for name in SEARCHED_FILES {
            let named: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
            assert!(!named.is_empty(), "{why}: nothing is said of {name}: {said}");
            assert!(named[0].starts_with("Warning: "), "{said}");
            assert!(named.iter().any(|line| line.contains(why)), "{why}: {named:?}");
        }
    }
}

#[test]
fn invalid_trust_decision_is_ignored() {
    let place = Place::new();
    write(&place, ".pi/agent/trust.json", "{\n  \"/\": maybe }");
    write(&place, ".pi/prompts/local.md", "Local.");
    let output = place.output(&["--mode", "rpc", "--no-session"], "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("trust.json is ignored: expected value at line 2 column 8"), "{said}");
    assert!(said.contains("Not used because this project is not trusted: .pi/prompts."), "{said}");
    assert_eq!(said.lines().count(), 2);
}

/// A host that never reads stderr, and a folder with very many problems.
#[test]
fn many_bad_files_are_reported_briefly() {
    let place = Place::new();
    for n in 0..500 {
        write(&place, &format!(".pi/agent/skills/s{n}/SKILL.md"), "---\na: b: c\n---\n");
    }
    let output =
        place.output(&["--mode", "rpc", "--no-session"], "{\"id\":1,\"type\":\"get_commands\"}\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 101);
    assert!(said.ends_with("Warning: … and 400 more files with problems\n"), "{said}");
}

/// Nothing is read before it is needed: `get_state` is answered beside 200 skills, 200 templates
/// and 5 MB of instructions, one of them a pipe that would block a reader.
#[test]
fn resources_are_read_only_when_needed() {
    let place = Place::new();
    for n in 0..200 {
        write(&place, &format!(".pi/agent/skills/s{n}/SKILL.md"), SKILL);
        write(&place, &format!(".pi/agent/prompts/p{n}.md"), "Say $1.");
    }
    write(&place, "AGENTS.md", "word ".repeat(1 << 20));
    // The kernel records when a file was read.
    let command = place.command(&["--mode", "rpc", "--no-session", "--model", "tiller/demo"]);
    let mut client = Client::start(command, place.clone());
    client.say(&json!({"id": "state", "type": "get_state"}));
    client.response("state");
    let open = fs::read_to_string(format!("/proc/{}/io", client.id())).unwrap();
    let read = |line: &str| line.strip_prefix("rchar: ").and_then(|n| n.parse::<u64>().ok());
    let read = open.lines().find_map(read).unwrap();
    assert!(read < 1 << 20, "{read} bytes were read before anybody asked");
    client.say(&json!({"id": "commands", "type": "get_commands"}));
    let commands = client.response("commands");
    assert_eq!(commands["data"]["commands"].as_array().unwrap().len(), 400);
    client.close_stdin();
    assert_eq!(client.end(), (vec![], Some(0)));
}

/// A provider that answers every request with one word, and records it.
struct EchoingProvider {
    url: String,
    asked: Receiver<String>,
}

impl EchoingProvider {
    fn start() -> EchoingProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        // It lives as long as the test.
        thread::spawn(move || {
            let callers = listener.incoming().map_while(Result::ok);
            callers.map(answer).try_for_each(|body| sender.send(body)).ok();
        });
        EchoingProvider { url, asked }
    }
}

fn answer(mut caller: TcpStream) -> String {
    let mut reader = BufReader::new(caller.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let word =
        json!({"choices": [{"index": 0, "delta": {"content": "Yes"}, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let stream = format!("data: {word}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
    write!(caller, "{head}\r\ncontent-length: {}\r\n\r\n{stream}", stream.len()).unwrap();
    String::from_utf8(body).unwrap()
}

/// The part of a request that has to stay the same, byte for byte.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    tools: &'a RawValue,
}

/// Providers cache a prefix as long as not one byte of it changes.
#[test]
fn requests_share_a_stable_prefix() {
    let parrot = EchoingProvider::start();
    let place = Place::new();
    let models = json!({"providers": {"parrot": {
        "api": "openai-completions", "baseUrl": parrot.url, "apiKey": "none",
        "models": [{"id": "polly"}],
    }}});
    write(&place, ".pi/agent/models.json", models.to_string());
    write(&place, ".pi/skills/one/SKILL.md", SKILL);
    write(&place, "AGENTS.md", "Be brief.\n");
    let flags = ["--mode", "rpc", "--no-session", "--approve", "--model", "parrot/polly"];
    let command = place.command(&flags);
    let mut client = Client::start(command, place.clone());
    let mut before: Option<String> = None;
    for n in 0..4 {
        client.say(&json!({"id": n, "type": "prompt", "message": format!("Is it {n}?")}));
        let records = client.until_type("agent_settled");
        assert!(types(&records).contains(&"turn_end"), "{records:?}");
        // Changes outside the conversation do not show.
        write(&place, "AGENTS.md", format!("Be brief, {n} times.\n"));
        client.say(&json!({"id": "name", "type": "set_session_name", "name": format!("n{n}")}));
        client.response("name");
        let body = parrot.asked.recv().unwrap();
        if let Some(before) = &before {
            let [earlier, later] =
                [before, &body].map(|body| serde_json::from_str::<Asked>(body).unwrap());
            assert_eq!(earlier.tools.get(), later.tools.get());
            assert_eq!(later.messages.len(), earlier.messages.len() + 2);
            for (earlier, later) in earlier.messages.iter().zip(&later.messages) {
                assert_eq!(earlier.get(), later.get());
            }
        }
        before = Some(body);
    }
    let last = before.unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    let system = last["messages"][0]["content"].to_string();
    assert!(system.contains("Be brief.") && system.contains("SKILL.md"), "{system}");
    client.close_stdin();
    assert_eq!(client.end(), (vec![], Some(0)));
}

#[test]
fn approve_flag_does_not_apply_to_another_folder() {
    let place = Place::new();
    write(&place, "mine/.pi/prompts/mine.md", "Mine.");
    write(&place, "theirs/.pi/prompts/theirs.md", "Theirs.");
    let session = |name: &str| {
        let cwd = place.path().join(name);
        let head = json!({"type": "session", "version": 3, "id": name,
            "timestamp": "2023-11-14T22:13:20.000Z", "cwd": cwd});
        let entry = json!({"type": "message", "id": "00000001", "parentId": null,
            "timestamp": "2023-11-14T22:13:20.000Z",
            "message": {"role": "user", "content": "Hello", "timestamp": 1_700_000_000_000u64}});
        write(&place, &format!("{name}.jsonl"), format!("{head}\n{entry}\n"))
    };
    let (mine, theirs) = (session("mine"), session("theirs"));
    let mut command = place.command(&["--mode", "rpc", "--no-session", "--approve"]);
    command.current_dir(place.path().join("mine"));
    let mut client = Client::start(command, place.clone());
    let mut listed = |id: &str| {
        client.say(&json!({"id": id, "type": "get_commands"}));
        let response = client.response(id);
        let commands = response["data"]["commands"].as_array().unwrap().clone();
        let names = commands.iter().map(|command| command["name"].as_str().unwrap().to_owned());
        let names: Vec<String> = names.collect();
        // Continue with the next session.
        let next = if id == "1" { &theirs } else { &mine };
        let switch = json!({"id": "switch", "type": "switch_session", "sessionPath": next});
        client.say(&switch);
        assert_eq!(client.response("switch")["success"], true);
        names
    };
    assert_eq!(listed("1"), ["mine"]);
    assert_eq!(listed("2"), [""; 0]);
    assert_eq!(listed("3"), ["mine"]);
}
