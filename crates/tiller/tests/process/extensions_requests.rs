//! Extension hooks on requests to a provider and on its responses, over the network.

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::loopback::{Loopback, Reply, says};

/// An extension with these handlers, and a provider at this server.
fn with(server: &Loopback, handlers: &str) -> Client {
    let extension = format!(
        r#"
        import {{ appendFileSync }} from "node:fs";
        const note = (value) => appendFileSync("noted.txt", JSON.stringify(value) + "\n");
        export default function (pi) {{
            pi.registerProvider("own", {{
                baseUrl: "{}/v1", apiKey: "sk-own-secret", api: "openai-completions",
                headers: {{ "x-own": "1", "x-gone": "1" }},
                models: [{{ id: "m", name: "M", reasoning: true, input: ["text"], contextWindow: 90000,
                    maxTokens: 100, cost: {{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }} }}],
            }});
            {handlers}
        }}"#,
        server.url
    );
    let place = Place::new().with("ext.ts", &extension);
    let command =
        place.command(&["--mode", "rpc", "--no-session", "-e", "ext.ts", "--model", "own/m"]);
    Client::start(command, place)
}

fn ask(client: &mut Client, text: &str) -> Vec<Value> {
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

fn errors(records: &[Value]) -> Vec<&str> {
    let errors = records.iter().filter(|record| record["type"] == "extension_error");
    errors.map(|error| error["error"].as_str().unwrap()).collect()
}

#[test]
fn hooks_change_body_and_headers_and_see_the_response() {
    let server = Loopback::start(vec![
        Reply::Events(says(&["one"])),
        Reply::Refusal(400, "{\"error\":{\"message\":\"bad\"}}".into()),
    ]);
    let handlers = r#"
        pi.on("before_provider_request", (event) => ({ ...event.payload, added: event.payload.model }));
        pi.on("before_provider_request", (event) => { event.payload.added += "!"; return event.payload; });
        pi.on("before_provider_request", () => { throw new Error("not my day"); });
        pi.on("before_provider_headers", (event) => {
            event.headers["x-seen"] = Object.keys(event.headers).filter((name) => /auth|key/.test(name)).join() || "none";
            event.headers["x-gone"] = null;
        });
        pi.on("after_provider_response", (event, ctx) => ctx.ui.notify(`${event.status} ${event.headers["x-served-by"]}`));"#;
    let mut client = with(&server, handlers);
    let records = ask(&mut client, "hi");
    assert_eq!(errors(&records), ["not my day"]);
    let asked = server.asked();
    assert_eq!(asked.body["added"], "m!");
    assert_eq!(asked.body["messages"].as_array().unwrap().len(), 2);
    for line in ["x-own: 1", "x-seen: none", "authorization: bearer sk-own-secret"] {
        assert!(asked.head.contains(line), "{line} in {}", asked.head);
    }
    assert!(!asked.head.contains("x-gone"), "{}", asked.head);
    let mut received = records;
    if !received.iter().any(|record| record["method"] == "notify") {
        received = client.until_type("extension_ui_request");
    }
    let shown = received.iter().find(|record| record["method"] == "notify").unwrap();
    assert_eq!(shown["message"], "200 loopback");
    client.say(&json!({"type": "prompt", "message": "again"}));
    let shown = client.until(|record| record["method"] == "notify").pop().unwrap();
    assert_eq!(shown["message"], "400 undefined");
}

#[test]
fn context_hook_changes_prompt_and_tools() {
    let server =
        Loopback::start(vec![Reply::Events(says(&["one"])), Reply::Events(says(&["two"]))]);
    let handlers = r#"
        pi.on("context_with_system", (event) => {
            const [system, ...rest] = event.messages;
            if (rest.at(-1).content[0].text === "bare") return { messages: rest };
            const toolsAdded = system.toolsAdded.filter((tool) => tool.name === "read");
            return { messages: [{ ...system, content: "Mine.", toolsAdded }, ...rest] };
        });"#;
    let mut client = with(&server, handlers);
    assert!(errors(&ask(&mut client, "hi")).is_empty());
    let asked = server.asked();
    assert_eq!(asked.body["messages"][0]["content"], "Mine.");
    let tools = asked.body["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["function"]["name"]), (1, &json!("read")));
    let records = ask(&mut client, "bare");
    assert!(errors(&records)[0].contains("lost the leading system message"), "{records:?}");
    let asked = server.asked();
    assert_eq!(asked.body["messages"][0]["role"], "user");
    assert!(asked.body["tools"].is_null());
}
