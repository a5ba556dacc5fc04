//! Extensions and rules that interrupt an answer: prompts and commands in the pause before the next
//! request. The pause is short, so a test may need several attempts.

use serde_json::{Value, json};

use crate::client::{Client, Place};

const RULE: &str = "---\ncondition: 'FOO\\d'\n---\nDo not say FOO.\n";

const EXTENSION: &str = r#"
    export default function (pi) {
        pi.on("input", (event) => (event.text === "mine" ? { action: "handled" } : undefined));
        pi.registerCommand("look", { handler: async (args, ctx) => ctx.ui.notify("looked") });
    }"#;

/// The number of attempts to hit the pause.
const TRIES: usize = 20;

fn start() -> Client {
    let place = Place::new().with("ext.ts", EXTENSION);
    let rules = place.path().join(".pi/agent/rules");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("no-foo.md"), RULE).unwrap();
    let script = "say I say FOO1.\n\nsay Well.\n\n".repeat(TRIES);
    place.rpc(&script, &["-e", "ext.ts"])
}

/// Waits until an answer is interrupted and the pause has begun.
fn interrupted(client: &mut Client) {
    client.say(&json!({"type": "prompt", "message": "Name it"}));
    let ended = client.until_type("agent_end").pop().unwrap();
    assert_eq!(ended["willRetry"], true);
}

fn is_rule(record: &Value) -> bool {
    record["type"] == "message_end" && record["message"]["customType"] == "ttsr-injection"
}

#[test]
fn handled_prompt_in_a_rule_pause_settles_the_run() {
    for _ in 0..TRIES {
        let mut client = start();
        interrupted(&mut client);
        client.say(&json!({"id": "1", "type": "prompt", "message": "mine"}));
        let records = client.until(|record| record["id"] == "1");
        if records.iter().any(|record| record["type"] == "agent_start") {
            continue;
        }
        let answered = records.last().unwrap();
        let kinds: Vec<&Value> = records.iter().map(|record| &record["type"]).collect();
        // `agent_end` is written before the pause begins: a prompt that arrives in between is
        // handled while the run is still there, and there is nothing to settle.
        if kinds == ["response"] {
            continue;
        }
        assert_eq!(kinds, ["agent_settled", "response"]);
        assert_eq!(answered["success"], true, "{answered}");
        client.say(&json!({"id": "2", "type": "get_state"}));
        assert_eq!(client.response("2")["data"]["isStreaming"], false);
        return;
    }
    panic!("nobody was in time");
}

#[test]
fn command_in_a_rule_pause_does_not_replace_the_next_request() {
    for _ in 0..TRIES {
        let mut client = start();
        interrupted(&mut client);
        client.say(&json!({"id": "1", "type": "prompt", "message": "/look"}));
        let mut records = client.until(|record| record["id"] == "1");
        let is_late = records.iter().any(|record| record["type"] == "agent_start");
        // The next run may be over before the command is answered.
        if !records.iter().any(|record| record["type"] == "agent_settled") {
            records.extend(client.until_type("agent_settled"));
        }
        assert!(records.iter().any(is_rule), "{records:?}");
        if !is_late {
            return;
        }
    }
    panic!("nobody was in time");
}
