//! What waits for an input hook continues after the hook, whatever it decides.

use serde_json::{Value, json};

use crate::client::{Client, Place};

fn with(extension: &str) -> Client {
    Place::new().with("ext.ts", extension).rpc("say Done.\n", &["-e", "ext.ts"])
}

/// Handles every prompt that begins with `mine`, after the user's answer.
const HANDLES_PROMPTS: &str = r#"
    export default (pi) => {
        pi.on("input", async (event, ctx) => {
            if (!event.text.startsWith("mine")) return;
            await ctx.ui.confirm("Mine", "Shall I?");
            ctx.ui.notify("seen to");
            return { action: "handled" };
        });
    };
"#;

/// Sends a prompt for the hook, and returns the dialog it opens.
fn send_hooked_prompt(client: &mut Client) -> Value {
    client.say(&json!({"id": "mine", "type": "prompt", "message": "mine"}));
    client.until_type("extension_ui_request").pop().unwrap()
}

fn answer(client: &mut Client, asked: &Value) {
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
}

#[test]
fn handled_prompt_blocks_nothing() {
    for waiting in ["abort", "new_session"] {
        let mut client = with(HANDLES_PROMPTS);
        let asked = send_hooked_prompt(&mut client);
        client.say(&json!({"id": "waiting", "type": waiting}));
        answer(&mut client, &asked);
        assert_eq!(client.response("waiting")["success"], true);
        client.say(&json!({"id": "after", "type": "get_messages"}));
        assert_eq!(client.response("after")["success"], true);
    }
}

#[test]
fn reload_waits_only_for_the_input_hook() {
    let place = Place::new().with("ext.ts", HANDLES_PROMPTS);
    let file = place.path().join("ext.ts");
    let mut client = place.rpc("say Done.\n", &["-e", "ext.ts"]);
    let asked = send_hooked_prompt(&mut client);
    let other = "export default (pi) => pi.on('session_start', (event, ctx) => ctx.ui.notify(event.reason));";
    std::fs::write(file, other).unwrap();
    client.say(&json!({"id": "reload", "type": "reload"}));
    assert_eq!(client.response("reload")["success"], true);
    answer(&mut client, &asked);
    let records = client.until(|record| record["message"] == "reload");
    // An engine stopped during its handler sends nothing more, and its prompt starts a run.
    let is_seen_to = |record: &Value| record["message"] == "seen to";
    assert!(records.iter().any(is_seen_to), "{records:?}");
    let response = records.iter().find(|record| record["id"] == "mine").unwrap();
    assert_eq!(response["data"]["disposition"], "handled", "{response}");
}

/// During an input hook, another prompt is not queued for a run that does not exist.
#[test]
fn second_prompt_starts_during_an_input_hook() {
    let mut client = with(HANDLES_PROMPTS);
    let asked = send_hooked_prompt(&mut client);
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
fn handler_of_a_prompt_may_send_another() {
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
    // There was no run that it could have been meant for.
    assert!(records.iter().any(|record| record["message"] == "undefined"), "{records:?}");
}

/// A client that asks whether the server is busy must be told so.
#[test]
fn pending_input_hook_counts_as_busy() {
    let mut client = with(HANDLES_PROMPTS);
    let asked = send_hooked_prompt(&mut client);
    client.say(&json!({"id": "during", "type": "get_state"}));
    assert_eq!(client.response("during")["data"]["isStreaming"], true);
    answer(&mut client, &asked);
    client.response("mine");
    client.say(&json!({"id": "after", "type": "get_state"}));
    assert_eq!(client.response("after")["data"]["isStreaming"], false);
}
