//! Extension hooks during a run: tools, turn ends, messages.

use serde_json::{Value, json};

use crate::client::Client;
use crate::extensions::{of_type, with};

/// Sends a prompt, and returns everything up to `agent_settled`.
fn run(client: &mut Client, text: &str) -> Vec<Value> {
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

fn count(records: &[Value], kind: &str) -> usize {
    of_type(records, kind).len()
}

/// The entries appended with `appendEntry("note", …)`.
fn notes(records: &[Value]) -> Vec<&Value> {
    let entries = of_type(records, "entry_appended").into_iter().map(|record| &record["entry"]);
    entries.filter(|entry| entry["customType"] == "note").map(|entry| &entry["data"]).collect()
}

/// The role and text of each message.
fn said(records: &[Value]) -> Vec<String> {
    let messages = of_type(records, "message_end").into_iter().map(|record| &record["message"]);
    let words = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or("…").to_owned(),
    };
    messages.map(|one| format!("{} {}", one["role"].as_str().unwrap(), words(one))).collect()
}

const TOOLS: &str = r#"
    export default function (pi) {
        const parameters = { type: "object", properties: { text: { type: "string" } } };
        const note = (data) => pi.appendEntry("note", data);
        const usage = { input: 5, output: 6, cacheRead: 0, cacheWrite: 0, totalTokens: 11,
            cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, total: 3 } };
        const tool = (name, more, result) => pi.registerTool({ name, label: name, description: name, parameters, ...more,
            async execute(_id, { text }) {
                note(`begin ${text}`);
                await new Promise((resolve) => setTimeout(resolve, text === "slow" ? 50 : 1));
                note(`end ${text}`);
                return { content: [{ type: "text", text }], details: {}, ...result };
            } });
        tool("last", {}, { terminate: true, usage });
        tool("plain", {}, {});
        tool("alone", { executionMode: "sequential" }, {});
        pi.on("tool_call", (event) => {
            if (event.input.text === "no") return { block: true, reason: "not that", terminate: true };
            if (event.input.text === "change") event.input.text = "changed";
        });
        pi.on("tool_result", (event) => {
            if (event.toolName === "last") note({ usage: event.usage });
            if (event.input.text === "changed") return { usage: { ...usage, input: 7 } };
        });
    }"#;

#[test]
fn terminating_result_ends_the_run() {
    let script = "call last {\"text\": \"one\"}\n\n\
                  call last {\"text\": \"one\"}\ncall plain {\"text\": \"no\"}\n\n\
                  call last {\"text\": \"one\"}\ncall plain {\"text\": \"two\"}\n\nsay Two.\n";
    let mut client = with(script, TOOLS);
    let records = run(&mut client, "All of one");
    assert_eq!(count(&records, "turn_start"), 1);
    let result = &of_type(&records, "tool_execution_end")[0]["result"];
    assert_eq!(result["terminate"], true);
    assert_eq!(result["usage"]["totalTokens"], 11);
    assert_eq!(notes(&records)[2]["usage"]["cost"]["total"], 3);
    // A call blocked with the same flag counts as well.
    let records = run(&mut client, "One of them blocked");
    assert_eq!(count(&records, "turn_start"), 1);
    let blocked = &of_type(&records, "tool_execution_end")[0];
    assert_eq!(blocked["result"]["content"][0]["text"], "not that");
    assert_eq!(
        (&blocked["result"]["terminate"], &blocked["isError"]),
        (&json!(true), &json!(true))
    );
    // One result without the flag is enough to continue.
    let records = run(&mut client, "Not all of them");
    assert_eq!(count(&records, "turn_start"), 2);
    // The usage of tools is part of the session's cost.
    client.say(&json!({"id": "1", "type": "get_session_stats"}));
    assert_eq!(client.response("1")["data"]["cost"], 9);
}

#[test]
fn usage_of_a_tool_can_be_changed() {
    let mut client = with("call plain {\"text\": \"change\"}\n\nsay Well.\n", TOOLS);
    let records = run(&mut client, "Go");
    let result = &of_type(&records, "tool_execution_end")[0]["result"];
    assert_eq!(result["usage"]["input"], 7);
    let said = of_type(&records, "message_end");
    assert_eq!(said[2]["message"]["usage"]["input"], 7);
}

#[test]
fn sequential_tool_makes_its_turn_sequential() {
    let calls = "call plain {\"text\": \"slow\"}\ncall alone {\"text\": \"b\"}\n\n\
                 say Done.\n\ncall plain {\"text\": \"slow\"}\ncall plain {\"text\": \"b\"}\n\nsay Done.\n";
    let mut client = with(calls, TOOLS);
    let records = run(&mut client, "One by one");
    assert_eq!(notes(&records), ["begin slow", "end slow", "begin b", "end b"]);
    let records = run(&mut client, "Side by side");
    assert_eq!(notes(&records), ["begin slow", "begin b", "end b", "end slow"]);
}

#[test]
fn arguments_are_prepared_before_validation() {
    let script = "call old {\"many\": \"5\"}\ncall old {\"many\": \"throw\"}\ncall old {\"many\": \"x\"}\n\
                  call old {\"many\": \"none\"}\n\nsay Done.\n";
    let mut client = with(
        script,
        r#"
        export default function (pi) {
            pi.registerTool({ name: "old", label: "Old", description: "Old",
                parameters: { type: "object", properties: { n: { type: "number" }, note: { type: "string" } }, required: ["n"] },
                prepareArguments({ many }) {
                    if (many === "throw") throw new Error("cannot be understood");
                    return many === "none" ? 3 : { n: many, note: null };
                },
                async execute(_id, params) { return { content: [{ type: "text", text: JSON.stringify(params) }] }; } });
            pi.on("tool_call", (event) => pi.appendEntry("note", event.input));
        }"#,
    );
    let records = run(&mut client, "Go");
    let mut ended: Vec<(&str, &str)> = of_type(&records, "tool_execution_end")
        .into_iter()
        .map(|end| {
            (
                end["toolCallId"].as_str().unwrap(),
                end["result"]["content"][0]["text"].as_str().unwrap(),
            )
        })
        .collect();
    ended.sort_unstable();
    let texts: Vec<&str> = ended.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts[0], "{\"n\":5}");
    assert_eq!(texts[1], "cannot be understood");
    assert_eq!(
        texts[2],
        "Validation failed for tool \"old\":\n  - n: must be number\n\n\
         Received arguments:\n{\n  \"n\": \"x\",\n  \"note\": null\n}"
    );
    assert!(texts[3].starts_with("Validation failed for tool \"old\":\n  - root: must be object"));
    // The hook runs only for calls with valid arguments.
    assert_eq!(notes(&records), [&json!({"n": 5})]);
}

#[test]
fn turn_end_hook_stores_entries_and_continues() {
    let script = "say One.\n\nexpect roles user assistant custom\nsay Two.\n\nsay Three.\n";
    let mut client = with(
        script,
        r#"
        export default function (pi) {
            let turns = 0;
            pi.on("turn_end", (event) => {
                const { outcome, context, turnIndex, messageEntryId } = event;
                pi.appendEntry("note", { outcome, turnIndex, canContinue: context.canContinue,
                    roles: context.llmMessages.map(({ role }) => role), stored: typeof messageEntryId });
                if (turns++ > 0) return;
                return { continue: true, entries: [
                    { type: "custom", customType: "mark", data: 1 },
                    { type: "custom_message", customType: "hint", content: "from the boundary", display: true } ] };
            });
            pi.on("turn_end", (event) => {
                const { entries, context } = event;
                pi.appendEntry("note", { proposed: entries.length, continue: event.continue, canContinue: context.canContinue });
            });
        }"#,
    );
    let records = run(&mut client, "Go");
    let seen = notes(&records);
    assert_eq!(
        seen[0],
        &json!({"outcome": "completed", "turnIndex": 0, "canContinue": false,
            "roles": ["user", "assistant"], "stored": "string"})
    );
    assert_eq!(seen[1], &json!({"proposed": 2, "continue": true, "canContinue": true}));
    assert_eq!(seen[2]["roles"], json!(["user", "assistant", "user", "assistant"]));
    assert_eq!(seen[3], &json!({"proposed": 0, "continue": false, "canContinue": false}));
    // They are stored before the end of the turn is announced.
    let at = |wanted: &Value| {
        let is_it = |record: &Value| {
            record["type"] == "entry_appended" && &record["entry"]["customType"] == wanted
        };
        records.iter().position(is_it).unwrap()
    };
    let turn_ended = records.iter().position(|record| record["type"] == "turn_end").unwrap();
    assert!(at(&json!("mark")) < at(&json!("hint")) && at(&json!("hint")) < turn_ended);
    assert_eq!(said(&records), ["user Go", "assistant One.", "assistant Two."]);
    assert_eq!(count(&records, "agent_start"), 1);
}

#[test]
fn invalid_turn_end_result_is_reported_and_ignored() {
    let mut client = with(
        "say One.\n\nsay Two.\n",
        r#"
        export default function (pi) {
            let turns = 0;
            pi.on("turn_end", () => turns++ === 0
                ? { continue: true, entries: [{ type: "custom", customType: "mark" }, { type: "context_edit", targetId: "nope", replacement: null }] }
                : { continue: true });
        }"#,
    );
    let records = run(&mut client, "Go");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["error"], "Invalid boundary entries: Entry nope not found");
    assert_eq!(count(&records, "entry_appended"), 0);
    assert_eq!(count(&records, "turn_start"), 1);
    let records = run(&mut client, "Go on");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors[0]["extensionPath"], "<boundary>");
    assert_eq!(
        errors[0]["error"],
        "turn_end requested continuation without runnable model context"
    );
    assert_eq!(count(&records, "turn_start"), 1);
}

#[test]
fn answer_can_be_hidden_and_requested_again() {
    let mut client = with(
        "say Wrong.\n\nsay Right.\n\nsay More.\n",
        r#"
        export default function (pi) {
            pi.on("turn_end", (event) => {
                if (event.message.content[0].text !== "Wrong.") return;
                return { continue: true, entries: [{ type: "context_edit", targetId: event.messageEntryId, replacement: null }] };
            });
            pi.on("agent_before_settle", (event) => {
                if (event.context.contextMessages.length > 3) {
                    return { entries: [{ type: "compaction", summary: "All of it.", firstKeptEntryId: null }] };
                }
            });
        }"#,
    );
    let records = run(&mut client, "Go");
    assert_eq!(said(&records), ["user Go", "assistant Wrong.", "assistant Right."]);
    client.say(&json!({"id": "1", "type": "get_messages"}));
    let messages = client.response("1")["data"]["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[1]["content"][0]["text"], "Right.");
    run(&mut client, "Again");
    client.say(&json!({"id": "2", "type": "get_messages"}));
    let messages = client.response("2")["data"]["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 1, "{messages}");
    assert_eq!(messages[0]["summary"], "All of it.");
}

#[test]
fn settle_hook_can_request_another_turn() {
    let mut client = with(
        "say One.\n\nexpect roles user assistant custom\nsay Two.\n",
        r#"
        export default function (pi) {
            let asked = 0;
            pi.on("agent_before_settle", (event) => {
                pi.appendEntry("note", event.outcome);
                if (asked++ > 0) return;
                return { continue: true, entries: [{ type: "custom_message", customType: "hint", content: "one more thing", display: false }] };
            });
        }"#,
    );
    let records = run(&mut client, "Go");
    assert_eq!(notes(&records), ["completed", "completed"]);
    assert_eq!(count(&records, "agent_start"), 2);
    assert_eq!(said(&records), ["user Go", "assistant One.", "assistant Two."]);
    assert_eq!(count(&records, "agent_settled"), 1);
}

#[test]
fn hanging_handler_does_not_delay_an_abort() {
    let mut client = with(
        "say One.\n",
        "export default (pi) => pi.on(\"agent_before_settle\", () => new Promise(() => {}));",
    );
    client.say(&json!({"type": "prompt", "message": "Go"}));
    client.until_type("agent_end");
    client.say(&json!({"id": "1", "type": "abort"}));
    let records = client.until(|record| record["id"] == "1");
    assert_eq!(count(&records, "agent_settled"), 1);
}

#[test]
fn extension_messages_are_delivered_as_requested() {
    let script = "call say {\"how\": \"aside\"}\n\nsay A.\n\ncall say {\"how\": \"steer\"}\n\nsay B.\n\n\
                  call say {\"how\": \"follow\"}\n\nsay C.\n\nsay D.\n\ncall say {\"how\": \"next\"}\n\nsay E.\n\nsay F.\n\nsay G.\n";
    let mut client = with(
        script,
        r#"
        export default function (pi) {
            const message = (content) => ({ customType: "x", content, display: true });
            const ways = { aside: { triggerTurn: false }, steer: {}, follow: { deliverAs: "followUp" }, next: { deliverAs: "nextTurn" } };
            pi.registerTool({ name: "say", label: "Say", description: "Say", parameters: { type: "object", properties: {} },
                async execute(_id, { how }) {
                    pi.sendMessage(message(how), ways[how]);
                    return { content: [] };
                } });
            pi.registerCommand("idle", { handler: async () => pi.sendMessage({ customType: "x" }) });
            pi.registerCommand("go", { handler: async () => pi.sendMessage(message("go"), { triggerTurn: true }) });
        }"#,
    );
    // After the turn in which it was sent, where the next answer sees it.
    let records = run(&mut client, "1");
    let types: Vec<&str> = records.iter().filter_map(|record| record["type"].as_str()).collect();
    let ended = types.iter().position(|kind| *kind == "turn_end").unwrap();
    assert_eq!(types[ended..ended + 4], ["turn_end", "message_start", "message_end", "turn_start"]);
    assert_eq!(records[ended + 2]["message"]["content"], "aside");
    let records = run(&mut client, "2");
    assert_eq!(count(&records, "queue_update"), 0);
    assert_eq!(said(&records)[2..], ["toolResult …", "custom steer", "assistant B."]);
    let records = run(&mut client, "3");
    assert_eq!(
        said(&records)[2..],
        ["toolResult …", "assistant C.", "custom follow", "assistant D."]
    );
    let records = run(&mut client, "4");
    assert_eq!(said(&records)[2..], ["toolResult …", "assistant E."]);
    let records = run(&mut client, "5");
    assert_eq!(said(&records), ["user 5", "custom next", "assistant F."]);
    client.say(&json!({"id": "i", "type": "prompt", "message": "/idle"}));
    let records = client.until(|record| record["id"] == "i");
    assert_eq!(of_type(&records, "message_end")[0]["message"]["content"], json!([]));
    client.say(&json!({"id": "g", "type": "prompt", "message": "/go"}));
    let records = client.until_type("agent_settled");
    assert_eq!(said(&records), ["custom go", "assistant G."]);
}
