//! What waits while extensions look at something goes on when they have, whatever they decided.

use serde_json::{Value, json};

use crate::client::{Client, Place};

fn with(extension: &str) -> Client {
    Place::new().with("ext.ts", extension).rpc("say Done.\n", &["-e", "ext.ts"])
}

/// Sees to every prompt that begins with `mine`, when the user has answered.
const SEES_TO_IT: &str = r#"
    export default (pi) => {
        pi.on("input", async (event, ctx) => {
            if (!event.text.startsWith("mine")) return;
            await ctx.ui.confirm("Mine", "Shall I?");
            ctx.ui.notify("seen to");
            return { action: "handled" };
        });
    };
"#;

/// Has a prompt looked at, and gives the question that is asked meanwhile.
fn look(client: &mut Client) -> Value {
    client.say(&json!({"id": "mine", "type": "prompt", "message": "mine"}));
    client.until_type("extension_ui_request").pop().unwrap()
}

fn answer(client: &mut Client, asked: &Value) {
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
}

#[test]
fn a_prompt_that_is_seen_to_keeps_nobody_waiting() {
    for waiting in ["abort", "new_session"] {
        let mut client = with(SEES_TO_IT);
        let asked = look(&mut client);
        client.say(&json!({"id": "waiting", "type": waiting}));
        answer(&mut client, &asked);
        assert_eq!(client.response("waiting")["success"], true);
        client.say(&json!({"id": "after", "type": "get_messages"}));
        assert_eq!(client.response("after")["success"], true);
    }
}

#[test]
fn a_reload_waits_for_a_prompt_that_is_looked_at_and_no_longer() {
    let place = Place::new().with("ext.ts", SEES_TO_IT);
    let file = place.path().join("ext.ts");
    let mut client = place.rpc("say Done.\n", &["-e", "ext.ts"]);
    let asked = look(&mut client);
    let other = "export default (pi) => pi.on('session_start', (event, ctx) => ctx.ui.notify(event.reason));";
    std::fs::write(file, other).unwrap();
    client.say(&json!({"id": "reload", "type": "reload"}));
    assert_eq!(client.response("reload")["success"], true);
    answer(&mut client, &asked);
    let records = client.until(|record| record["message"] == "reload");
    // An engine that was stopped under its handler says nothing more and its prompt begins a run.
    let is_seen_to = |record: &Value| record["message"] == "seen to";
    assert!(records.iter().any(is_seen_to), "{records:?}");
    let response = records.iter().find(|record| record["id"] == "mine").unwrap();
    assert_eq!(response["data"]["disposition"], "handled", "{response}");
}

/// While one prompt is looked at, another is no message for a run that there is not.
#[test]
fn another_prompt_begins_while_one_is_looked_at() {
    let mut client = with(SEES_TO_IT);
    let asked = look(&mut client);
    let other =
        json!({"id": "other", "type": "prompt", "message": "other", "streamingBehavior": "steer"});
    client.say(&other);
    let records = client.until_type("agent_settled");
    let response = records.iter().find(|record| record["id"] == "other").unwrap();
    assert_eq!(response["data"]["disposition"], "started", "{response}");
    assert!(records.iter().all(|record| record["id"] != "mine"), "{records:?}");
    answer(&mut client, &asked);
    assert_eq!(client.response("mine")["data"]["disposition"], "handled");
}

#[test]
fn whoever_sees_to_a_prompt_may_speak_in_its_place() {
    let speaking = |words: &str| {
        let handler = format!("{{ {words}; return {{ action: 'handled' }}; }}");
        let input = format!(
            "(event, ctx) => {{ if (event.text === 'mine') {handler} ctx.ui.notify(String(event.streamingBehavior)); }}"
        );
        let mut client = with(&format!("export default (pi) => pi.on('input', {input});"));
        client.say(&json!({"type": "prompt", "message": "mine"}));
        client
    };
    let told = "pi.sendMessage({ customType: 'note', content: 'told', display: true }";
    speaking(&format!("{told})")).until(|record| record["message"]["content"] == "told");
    speaking(&format!("{told}, {{ triggerTurn: true }})")).until_type("agent_settled");
    let records = speaking("pi.sendUserMessage('other')").until_type("agent_settled");
    // Nothing was under way that it could have been for.
    assert!(records.iter().any(|record| record["message"] == "undefined"), "{records:?}");
}

/// Whoever asks whether there is anything to wait for must not be told no.
#[test]
fn a_prompt_that_is_looked_at_is_work() {
    let mut client = with(SEES_TO_IT);
    let asked = look(&mut client);
    client.say(&json!({"id": "during", "type": "get_state"}));
    assert_eq!(client.response("during")["data"]["isStreaming"], true);
    answer(&mut client, &asked);
    client.response("mine");
    client.say(&json!({"id": "after", "type": "get_state"}));
    assert_eq!(client.response("after")["data"]["isStreaming"], false);
}
