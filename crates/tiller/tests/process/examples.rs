//! Checks the examples in docs/protocol.md: each fits the schema of its level, every command and
//! record has one, and each command is accepted by the real program.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::example_lines::{Example, examples};
use crate::schema::{fits, name_of_command, name_of_record, names_of_lines};

/// The name of the definition that an example must fit.
fn definition(example: &Example) -> String {
    let value = &example.value;
    let kind = value["type"].as_str();
    match kind {
        Some(kind) if example.is_command => name_of_command(kind),
        Some(_) => name_of_record(value),
        // Messages and models are parts of records.
        None if value["role"].is_string() => "Message".to_owned(),
        None => "Model".to_owned(),
    }
}

#[test]
fn examples_fit_the_schema_of_their_level() {
    let wrong = examples().into_iter().filter_map(|example| {
        let why = fits(&example.level, &definition(&example), &example.value).err()?;
        Some(format!("{}: {why}\n", example.place()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

/// Whether the heading before an example names it.
fn is_in_its_section(example: &Example) -> bool {
    let Example { section, value, .. } = example;
    let is_named = value["type"] == **section || value["command"] == **section;
    is_named || ["Refusals", "Dialog answers"].contains(&&**section)
}

#[test]
fn every_command_and_record_has_an_example() {
    let shown: BTreeSet<String> =
        examples().iter().filter(|example| is_in_its_section(example)).map(definition).collect();
    let missing: Vec<String> =
        names_of_lines().into_iter().filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "without an example: {missing:?}");
}

/// Answers for the prompts before an example and for its summary.
const SCRIPT: &str = r#"
say The first answer: apples are round and pears are not.
usage input=100 output=20

say The second answer.
usage input=150 output=20

say A summary about fruit.

say The last answer.
"#;
/// The answers in the example of a client's tool.
const HOST_TOOL_SCRIPT: &str = r#"
call echo_host {"message": "hello"}

say Done.
"#;
/// A summary replaces all but the newest message.
const SETTINGS: &str = r#"{"compaction": {"keepRecentTokens": 10}}"#;

#[test]
fn example_conversations_are_real() {
    let mut played = 0;
    for section in examples().chunk_by(|a, b| a.section == b.section) {
        if section.iter().any(|example| example.is_command) {
            play(section);
            played += 1;
        }
    }
    assert!(played > 60, "{played} sections");
}

/// Sends the commands of a section to the program, and awaits the records that follow them there.
fn play(section: &[Example]) {
    let has_host_tool = section.iter().any(|example| example.value["type"] == "host_tool_call");
    let mut client =
        start(&section[0].level, if has_host_tool { HOST_TOOL_SCRIPT } else { SCRIPT });
    for example in section {
        let Example { level, value, .. } = example;
        if example.is_command {
            let mut command = value.clone();
            prepare(&mut client, &mut command);
            client.say(&command);
            continue;
        }
        let record = await_record(&mut client, |record| {
            ["type", "command", "id"].iter().all(|key| record.get(key) == value.get(key))
        });
        fits(level, &name_of_record(&record), &record).unwrap();
        for (shown, actual) in [(value, &record), (&value["data"], &record["data"])] {
            let missing: Vec<&String> =
                keys(shown).filter(|key| actual.get(key).is_none()).collect();
            assert!(missing.is_empty(), "{}: {missing:?} is not in {record}", example.place());
        }
    }
    // A command without a response may still be refused.
    ask(&mut client, &json!({"id": "last", "type": "get_limits"}));
}

fn keys(value: &Value) -> impl Iterator<Item = &String> {
    value.as_object().into_iter().flat_map(|fields| fields.keys())
}

fn start(level: &str, script: &str) -> Client {
    let place = Place::new().with("talk.script", script);
    let settings = place.path().join(".pi/agent/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, SETTINGS).unwrap();
    let arguments = ["--mode", "rpc", "--wire", level, "--script", "talk.script"];
    Client::start(place.command(&arguments), place)
}

/// Reads until a record matches. No command may be refused meanwhile.
fn await_record(client: &mut Client, matches: impl Fn(&Value) -> bool) -> Value {
    let mut records = client.until(|record| record["success"] == false || matches(record));
    let last = records.pop().unwrap();
    assert!(last["command"].is_null() || last["success"] == true, "refused: {last}");
    last
}

/// Sends a command that must succeed. Returns the data of its response.
fn ask(client: &mut Client, command: &Value) -> Value {
    client.say(command);
    let is_response =
        |record: &Value| record["command"] == command["type"] && record["id"] == command["id"];
    await_record(client, is_response)["data"].clone()
}

fn prompt(client: &mut Client, message: &str) {
    client.say(&json!({"type": "prompt", "message": message}));
    await_record(client, |record| record["type"] == "agent_settled");
}

/// The id of the entry of a user message.
fn entry(client: &mut Client) -> Value {
    prompt(client, "Hello");
    ask(client, &json!({"type": "get_fork_messages"}))["messages"][0]["entryId"].clone()
}

/// Makes what a command refers to, and puts its real name into the command.
fn prepare(client: &mut Client, command: &mut Value) {
    match command["type"].as_str().unwrap() {
        "clear_queue" => {
            ask(client, &json!({"type": "steer", "message": "Keep it short."}));
        }
        "update_queued" | "remove_queued" => {
            let message = json!({"type": "follow_up", "message": "a", "clientMessageId": "m-2"});
            ask(client, &message);
        }
        "fork" | "branch" | "navigate_tree" | "set_label" => command["entryId"] = entry(client),
        "get_entries" if command.get("since").is_some() => command["since"] = entry(client),
        "clone" | "export_html" | "get_messages_page" => prompt(client, "Hello"),
        "get_messages" if command.get("limit").is_some() => prompt(client, "Hello"),
        "compact" => {
            prompt(client, "The first question, which is about apples and pears");
            prompt(client, "The second question, which is about plums and cherries");
        }
        "switch_session" => {
            prompt(client, "Hello");
            let state = ask(client, &json!({"type": "get_state"}));
            command["sessionPath"] = state["sessionFile"].clone();
            ask(client, &json!({"type": "new_session"}));
        }
        "get_events" => {
            ask(client, &json!({"type": "hello", "sequence": true}));
        }
        "get_record" => {
            ask(client, &json!({"type": "hello", "maxFrameBytes": 65536}));
            client.say(&json!({"type": "prompt", "message": "a".repeat(100_000)}));
            let cut = await_record(client, |record| record["cut"].is_object());
            command["recordId"] = cut["cut"]["recordId"].clone();
        }
        _ => {}
    }
}
