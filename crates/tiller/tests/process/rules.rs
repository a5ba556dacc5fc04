//! Rules in the real program: triggered rules and hidden answers survive a restart.

use serde_json::{Value, json};

use crate::client::{Client, Place};

const RULE: &str = "---\ncondition: 'FOO\\d'\n---\nDo not say FOO.\n";

fn place(script: &str) -> Place {
    let place = Place::new().with("talk.script", script);
    let rules = place.path().join(".pi/agent/rules");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("no-foo.md"), RULE).unwrap();
    place
}

/// Sends a prompt and returns the types of all records up to the end.
fn prompt(client: &mut Client, message: &str) -> Vec<String> {
    client.say(&json!({"type": "prompt", "message": message}));
    let records = client.until_type("agent_settled");
    records.iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect()
}

fn said(client: &mut Client) -> Vec<String> {
    client.say(&json!({"id": "said", "type": "get_messages"}));
    let response = client.response("said");
    let messages = response["data"]["messages"].as_array().unwrap().iter();
    let shown = messages.map(|message| {
        let text = message["content"][0]["text"].as_str().unwrap_or_default();
        format!("{} {text}", message["role"].as_str().unwrap())
    });
    shown.collect()
}

fn hang_up(mut client: Client) {
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn triggered_rule_and_hidden_answer_survive_a_restart() {
    let place = place("say I say FOO1.\n\nsay FOO2\n\nsay FOO3\n");
    let start = |more: &[&str]| {
        let arguments = [&["--mode", "rpc", "--script", "talk.script"], more].concat();
        Client::start(place.command(&arguments), place.clone())
    };
    let mut first = start(&[]);
    let kinds = prompt(&mut first, "Go");
    assert_eq!(kinds.iter().filter(|kind| *kind == "ttsr_triggered").count(), 1);
    let now = said(&mut first);
    assert_eq!(now, ["user Go", "custom ", "assistant FOO2"]);
    hang_up(first);

    // The script starts again, with the same answer as before.
    let mut again = start(&["--continue"]);
    assert_eq!(said(&mut again), now);
    let kinds = prompt(&mut again, "Again");
    assert!(!kinds.contains(&"ttsr_triggered".to_owned()), "{kinds:?}");
    assert_eq!(said(&mut again)[3..], ["user Again", "assistant I say FOO1."]);
    hang_up(again);
}

#[test]
fn no_rules_flag_disables_rules() {
    let place = place("say FOO1\n");
    let arguments = ["--mode", "rpc", "--script", "talk.script", "--no-rules"];
    let mut client = Client::start(place.command(&arguments), place.clone());
    let kinds = prompt(&mut client, "Go");
    assert!(!kinds.contains(&"ttsr_triggered".to_owned()), "{kinds:?}");
    client.say(&json!({"id": "1", "type": "reload"}));
    assert_eq!(client.response("1")["data"]["rules"], Value::from(0));
    hang_up(client);
}
