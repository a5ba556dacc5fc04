//! Input hooks on prompts and queued messages, and what they see of pending messages.

use serde_json::{Value, json};

use crate::client::Client;
use crate::extensions::{of_type, with};

fn ask(client: &mut Client, request: Value) -> Value {
    let mut request = request;
    request["id"] = json!("ask");
    client.say(&request);
    client.response("ask")
}

/// The texts of all user messages in the conversation.
fn users(client: &mut Client) -> Vec<String> {
    let answer = ask(client, json!({"type": "get_messages"}));
    let messages = answer["data"]["messages"].as_array().unwrap().clone();
    let said = messages.into_iter().filter(|message| message["role"] == "user");
    said.map(|message| message["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

const SHOUT: &str = r#"
    export default function (pi) {
        pi.registerCommand("foo", { handler: async () => {} });
        pi.on("input", ({ text, streamingBehavior }) => {
            pi.appendEntry("heard", { text, streamingBehavior });
            if (text === "drop") return { action: "handled" };
            if (text === "run foo") return { action: "transform", text: "/foo bar" };
            return { action: "transform", text: text.toUpperCase() };
        });
    }"#;

#[test]
fn queued_messages_pass_the_input_hook() {
    let mut client = with("say One.\n\nsay Two.\n\nsay Three.\n", SHOUT);
    for (kind, text) in [("steer", "turn left"), ("follow_up", "drop"), ("follow_up", "and then")] {
        assert_eq!(ask(&mut client, json!({"type": kind, "message": text}))["success"], true);
    }
    let state = ask(&mut client, json!({"type": "get_state"}));
    assert_eq!(state["data"]["pendingMessageCount"], 2);
    let refused = ask(&mut client, json!({"type": "steer", "message": "/foo"}));
    assert!(refused["error"].as_str().unwrap().contains("cannot be queued"), "{refused}");
    client.say(&json!({"type": "prompt", "message": "go"}));
    let records = client.until_type("agent_settled");
    let heard = of_type(&records, "entry_appended");
    assert_eq!(heard[0]["entry"]["data"], json!({"text": "go"}));
    let mut said = users(&mut client);
    said.sort_unstable();
    assert_eq!(said, ["AND THEN", "GO", "TURN LEFT"]);
}

#[test]
fn disposition_says_whether_a_run_follows() {
    let mut client = with("say One.\n", SHOUT);
    for (kind, text, disposition) in [
        ("prompt", "/foo", "handled"),
        ("prompt", "drop", "handled"),
        ("steer", "drop", "handled"),
        ("follow_up", "drop", "handled"),
        ("steer", "turn left", "queued"),
        ("prompt", "go", "started"),
    ] {
        let answer = ask(&mut client, json!({"type": kind, "message": text}));
        assert_eq!(answer["data"], json!({"disposition": disposition}), "{kind} {text}");
    }
    let settled = client.until_type("agent_settled").pop().unwrap();
    assert_eq!(settled["aborted"], false);
}

#[test]
fn changed_prompt_is_not_run_as_a_command() {
    let mut client = with("say One.\n", SHOUT);
    client.say(&json!({"type": "prompt", "message": "run foo"}));
    client.until_type("agent_settled");
    assert_eq!(users(&mut client), ["/foo bar"]);
}

#[test]
fn extension_messages_do_not_count_as_pending() {
    let mut client = with(
        "call wait {}\n\nsay Done.\n\nsay Again.\n",
        r#"
        export default function (pi) {
            pi.registerTool({ name: "wait", label: "Wait", description: "Wait",
                parameters: { type: "object", properties: {} },
                async execute(_id, _args, _signal, _update, ctx) {
                    pi.sendMessage({ customType: "x", content: "aside", display: true });
                    const before = ctx.hasPendingMessages();
                    pi.sendUserMessage("really", { deliverAs: "followUp" });
                    return { content: [], details: { before, after: ctx.hasPendingMessages() } };
                } });
        }"#,
    );
    client.say(&json!({"type": "prompt", "message": "go"}));
    let records = client.until_type("agent_settled");
    let details = &of_type(&records, "tool_execution_end")[0]["result"]["details"];
    assert_eq!(*details, json!({"before": false, "after": true}));
}

#[test]
fn events_arrive_in_order() {
    let mut client = with(
        "call look {}\n\nsay Done.\n",
        r#"
        export default function (pi) {
            const heard = [];
            pi.registerTool({ name: "look", label: "Look", description: "Look",
                parameters: { type: "object", properties: {} },
                execute: async () => ({ content: [], details: {} }) });
            for (const name of ["agent_start", "turn_start", "message_start", "message_end", "tool_execution_start",
                "tool_call", "tool_result", "tool_execution_end", "turn_end", "agent_end"]) {
                pi.on(name, (event) => { heard.push(event.message ? `${name} ${event.message.role}` : name); });
            }
            pi.on("agent_settled", () => pi.appendEntry("heard", heard));
        }"#,
    );
    client.say(&json!({"type": "prompt", "message": "go"}));
    let records = client.until(|record| record["type"] == "entry_appended");
    let heard = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    let expected = [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "message_end assistant",
        "tool_execution_start",
        "tool_call",
        "tool_result",
        "tool_execution_end",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end assistant",
        "turn_start",
        "message_start assistant",
        "message_end assistant",
        "turn_end assistant",
        "agent_end",
    ];
    assert_eq!(*heard, json!(expected));
}

#[test]
fn registrations_and_names_are_visible_at_once() {
    let mut client = with(
        "",
        r#"
        export default function (pi) {
            pi.registerCommand("go", { handler: async (_args, ctx) => {
                pi.registerTool({ name: "late", label: "Late", description: "Late",
                    parameters: { type: "object", properties: {} }, execute: async () => ({ content: [] }) });
                const late = pi.getAllTools().find((tool) => tool.name === "late");
                pi.setSessionName("Named");
                const before = pi.getSessionName();
                pi.setSessionName(" ");
                let label;
                try { pi.setLabel("nowhere", "x"); } catch (error) { label = error.message; }
                pi.appendEntry("seen", {
                    isActive: pi.getActiveTools().includes("late"), source: late.sourceInfo.source, scope: late.sourceInfo.scope,
                    before, after: pi.getSessionName() ?? null, label, branch: ctx.sessionManager.getBranch("nowhere"),
                });
            } });
        }"#,
    );
    client.say(&json!({"id": "1", "type": "prompt", "message": "/go"}));
    let records = client.until(|record| record["type"] == "response");
    let seen = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    let expected = json!({
        "isActive": true, "source": "cli", "scope": "temporary", "before": "Named", "after": null,
        "label": "Entry nowhere not found", "branch": [],
    });
    assert_eq!(*seen, expected);
    let names: Vec<&Value> = of_type(&records, "session_info_changed");
    assert_eq!(names[1]["name"], Value::Null);
}

#[test]
fn tool_result_can_be_changed_in_place() {
    let mut client = with(
        "call read {\"path\": \"notes.md\"}\n\nexpect tool-result seen\nsay Done.\n",
        r#"
        export default function (pi) {
            pi.on("tool_result", ({ content }) => { content.push({ type: "text", text: "seen" }); });
            pi.on("tool_result", () => ({ details: { by: "me" } }));
        }"#,
    );
    client.say(&json!({"type": "prompt", "message": "go"}));
    let records = client.until_type("agent_settled");
    let result = &of_type(&records, "tool_execution_end")[0]["result"];
    assert_eq!(result["content"][1]["text"], "seen");
    assert_eq!(result["details"], json!({"by": "me"}));
}

#[test]
fn prompt_hook_sees_all_tool_descriptions() {
    let mut client = with(
        "say Done.\n",
        r#"
        export default function (pi) {
            pi.on("before_agent_start", ({ systemPromptOptions: { toolSnippets, selectedTools } }) => {
                pi.appendEntry("words", { grep: typeof toolSnippets.grep, isChosen: selectedTools.includes("grep") });
            });
        }"#,
    );
    client.say(&json!({"type": "prompt", "message": "go"}));
    let records = client.until_type("agent_settled");
    let words = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    assert_eq!(*words, json!({"grep": "string", "isChosen": false}));
}
