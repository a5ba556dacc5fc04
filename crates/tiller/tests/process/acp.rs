//! `tiller acp` as a process: its start and end, what is wrong with its input, its keys, and clients
//! of other authors, unmodified, in their own test scripts.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::acp_clients::packages;
use crate::client::{Client, Place, finish, within_patience};
use crate::serve::server::{command, processes_with, unique_word};
use crate::skip::skip;

fn start(place: Place, options: &[&str]) -> Client {
    let mut all = vec!["acp"];
    all.extend(options);
    Client::start(command(&place, &all), place)
}

fn request(client: &mut Client, id: i64, method: &str, params: &Value) {
    client.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

/// The answer to a request.
fn answer(client: &mut Client, id: i64) -> Value {
    client.until(|message| message["id"] == id && message.get("method").is_none()).pop().unwrap()
}

/// A client with a session.
fn with_session(place: Place, options: &[&str]) -> (Client, String) {
    let cwd = place.path().to_owned();
    let mut client = start(place, options);
    request(&mut client, 1, "initialize", &json!({"protocolVersion": 1}));
    request(&mut client, 2, "session/new", &json!({"cwd": cwd, "mcpServers": []}));
    let session = answer(&mut client, 2)["result"]["sessionId"].as_str().unwrap().to_owned();
    (client, session)
}

/// A client whose session runs a command with this word.
fn busy(word: &str) -> Client {
    let call = json!({"command": format!("sleep 300; : {word}")});
    let place = Place::new().with("talk.script", &format!("call bash {call}\n\nsay Slept."));
    let (mut client, session) = with_session(place, &["--script", "talk.script"]);
    let prompt = json!([{"type": "text", "text": "Sleep."}]);
    request(&mut client, 3, "session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    client.until(|message| message["params"]["update"]["status"] == "in_progress");
    client
}

#[test]
fn end_of_input_answers_the_prompt_and_ends_its_tool() {
    let word = unique_word();
    let mut client = busy(&word);
    client.close_stdin();
    let (messages, code) = client.end();
    let last = messages.last().unwrap();
    assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(3), &json!("cancelled")));
    assert_eq!(code, Some(0));
    assert!(processes_with(&word).is_empty());
}

#[test]
fn signal_answers_the_prompt_and_ends_its_tool() {
    for (signal, expected) in [("TERM", 143), ("INT", 130)] {
        let word = unique_word();
        let client = busy(&word);
        client.signal(signal);
        let (messages, code) = client.end();
        let last = messages.last().unwrap();
        assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(3), &json!("cancelled")));
        assert_eq!(code, Some(expected));
        assert!(processes_with(&word).is_empty());
    }
}

#[test]
fn closed_stdout_ends_the_tool() {
    let word = unique_word();
    let call = json!({"command": format!("sleep 300; : {word}")});
    let place = Place::new().with("talk.script", &format!("call bash {call}\n\nsay Slept."));
    let mut child = command(&place, &["acp", "--script", "talk.script"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut say = |id, method: &str, params: &Value| {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(stdin, "{line}").unwrap();
    };
    say(1, "initialize", &json!({"protocolVersion": 1}));
    say(2, "session/new", &json!({"cwd": place.path(), "mcpServers": []}));
    let mut until = |what: &str| lines.find(|line| line.as_ref().unwrap().contains(what)).unwrap();
    let opened: Value = serde_json::from_str(&until(r#""id":2"#).unwrap()).unwrap();
    let prompt = json!([{"type": "text", "text": "Sleep."}]);
    let session = &opened["result"]["sessionId"];
    say(3, "session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    until("in_progress").unwrap();
    drop(lines);
    // The answer to the next line cannot be written.
    say(4, "nothing", &json!({}));
    let status = within_patience(move || child.wait().unwrap());
    assert_eq!(status.code(), Some(1));
    assert!(processes_with(&word).is_empty());
}

#[test]
fn lines_that_are_no_messages_are_refused_and_the_next_one_is_answered() {
    let mut client = start(Place::new(), &["--model", "tiller/demo"]);
    let mut bytes = b"\xff\xfe\n".to_vec();
    bytes.resize(bytes.len() + (64 << 20) + 1, b'x');
    bytes.push(b'\n');
    let writing = client.write_beside(bytes);
    let error = |message: Value| (message["id"].clone(), message["error"]["code"].clone());
    assert_eq!(error(client.record().unwrap()), (Value::Null, json!(-32700)));
    let too_long = client.record().unwrap();
    assert_eq!(too_long["error"]["message"], "the line is longer than 64 MiB");
    client.take_back(writing);
    request(&mut client, 1, "initialize", &json!({"protocolVersion": 1}));
    assert_eq!(answer(&mut client, 1)["result"]["protocolVersion"], 1);
    // A last line without an end counts.
    client.write(r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#);
    client.close_stdin();
    assert_eq!(answer(&mut client, 2)["result"]["sessions"], json!([]));
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn missing_key_is_an_error_on_which_editors_offer_to_authenticate() {
    // There is no model at all.
    let place = Place::new();
    let cwd = place.path().to_owned();
    let mut client = start(place, &[]);
    request(&mut client, 1, "initialize", &json!({"protocolVersion": 1}));
    request(&mut client, 2, "session/new", &json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(answer(&mut client, 2)["error"]["code"], -32000);
    request(&mut client, 3, "authenticate", &json!({"methodId": "api-key"}));
    assert_eq!(answer(&mut client, 3)["error"]["code"], -32000);
    // The model that was asked for has no key.
    let model = ["--model", "anthropic/claude-sonnet-4-5"];
    let (mut client, session) = with_session(Place::new(), &model);
    let prompt = json!([{"type": "text", "text": "Hi."}]);
    request(&mut client, 3, "session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    let error = &answer(&mut client, 3)["error"];
    assert_eq!(error["code"], -32000);
    assert!(error["message"].as_str().unwrap().starts_with("No API key found for anthropic"));
}

#[test]
fn session_of_another_process_is_loaded_when_that_has_ended() {
    let place = Place::new();
    let cwd = place.path().to_owned();
    let options = ["--model", "tiller/demo"];
    let (mut first, session) = with_session(place.clone(), &options);
    let prompt = json!([{"type": "text", "text": "What is 2 + 3?"}]);
    request(&mut first, 3, "session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(answer(&mut first, 3)["result"]["stopReason"], "end_turn");
    let mut second = start(place, &options);
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    request(&mut second, 1, "initialize", &json!({"protocolVersion": 1}));
    request(&mut second, 2, "session/load", &load);
    let refused = answer(&mut second, 2);
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("in use"), "{refused}");
    first.close_stdin();
    assert_eq!(first.end().1, Some(0));
    request(&mut second, 3, "session/load", &load);
    let messages = second.until(|message| message["id"] == 3);
    let question = messages.iter().map(|message| &message["params"]["update"]);
    let mut question = question.filter(|update| update["sessionUpdate"] == "user_message_chunk");
    assert_eq!(question.next().unwrap()["content"]["text"], "What is 2 + 3?");
}

#[test]
fn login_stores_a_key() {
    let place = Place::new();
    // A client appends the option to those that are configured.
    let output = finish(command(&place, &["acp", "--model", "x", "--login"]), "openai\nsecret\n");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let stored = std::fs::read_to_string(place.path().join("agent/auth.json")).unwrap();
    assert!(stored.contains("openai") && stored.contains("secret"), "{stored}");
}

#[test]
fn mode_acp_is_the_same_as_the_command() {
    let place = Place::new();
    let options = ["--mode", "acp", "--model", "tiller/demo"];
    let mut client = Client::start(command(&place, &options), place);
    request(&mut client, 1, "initialize", &json!({"protocolVersion": 1}));
    assert_eq!(answer(&mut client, 1)["result"]["agentInfo"]["name"], "tiller");
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn options_that_select_a_session_are_refused() {
    let place = Place::new();
    let output = finish(command(&place, &["acp", "--continue"]), "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--continue cannot be used with many sessions"), "{stderr}");
}

#[test]
fn registry_entry_is_of_this_version_and_has_an_icon_that_is_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/acp-registry");
    let text = std::fs::read_to_string(folder.join("agent.json")).unwrap();
    let entry: Value = serde_json::from_str(&text).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(entry["version"], version);
    for (platform, target) in entry["distribution"]["binary"].as_object().unwrap() {
        let archive = target["archive"].as_str().unwrap();
        let expected = format!("/releases/download/v{version}/tiller-{version}-{platform}.tar.gz");
        assert!(archive.ends_with(&expected), "{archive}");
        assert_eq!(target["args"], json!(["acp"]));
    }
    let icon = std::fs::read_to_string(folder.join("icon.svg")).unwrap();
    assert!(icon.contains(r#"width="16" height="16" viewBox="0 0 16 16""#), "{icon}");
    let has_color = icon.split(['"', ' ']).any(|word| word.starts_with('#'));
    assert!(!has_color, "the icon has a colour of its own: {icon}");
}

#[test]
fn typescript_sdk_drives_tiller() {
    run_in_node("typescript-sdk.mjs", "node_modules/@agentclientprotocol/sdk");
}

#[test]
fn acpx_drives_tiller() {
    run_in_node("acpx.mjs", "node_modules/acpx");
}

#[test]
fn tiller_shows_what_pi_acp_shows() {
    run_in_node("compare-pi-acp.mjs", "node_modules/pi-acp");
}

#[test]
fn python_sdk_drives_tiller() {
    run_script(&packages().join("python/bin/python"), "python_sdk.py", "python/bin/python");
}

/// The oldest node for acpx.
const NODE: (u32, u32) = (22, 13);

fn run_in_node(script: &str, package: &str) {
    // `.ci/run` installs one where the system's is too old.
    let installed = packages().join("../node_modules/.bin/node");
    let node = if installed.exists() { installed } else { PathBuf::from("node") };
    let version = Command::new(&node).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    if (number(), number()) < NODE {
        return skip("ACP", &format!("node 22.13 or later is needed (found {:?})", version.trim()));
    }
    run_script(&node, script, package);
}

/// Runs a script of `tests/clients` that needs this package.
fn run_script(interpreter: &Path, script: &str, package: &str) {
    if !packages().join(package).exists() {
        return skip("ACP", &format!("{package} is not installed in target/ci/acp"));
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
    let output = Command::new(interpreter)
        .arg(scripts.join(script))
        .arg(env!("CARGO_BIN_EXE_tiller"))
        .arg(packages())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script}: {}\n{stdout}\n{stderr}", output.status);
}
