//! Extensions that send model requests themselves, and what they can read about models.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::loopback::{Loopback, Reply, says};

/// A client with one extension whose command `/go` has this body; `say` shows a value to the
/// client.
fn start_with_command(place: Place, body: &str, arguments: &[&str]) -> Client {
    let text = format!(
        r#"
        import * as ai from "@earendil-works/pi-ai";
        export default function (pi) {{
            pi.registerCommand("go", {{
                handler: async (args, ctx) => {{
                    const say = (value) => ctx.ui.notify(JSON.stringify(value));
                    {body}
                }},
            }});
        }}"#
    );
    let mut all = vec!["-e", "ext.ts"];
    all.extend(arguments);
    place.with("ext.ts", &text).rpc("say Scripted.\n", &all)
}

/// Runs the command and returns the values it showed.
fn go(client: &mut Client) -> Vec<Value> {
    client.say(&json!({"id": "go", "type": "prompt", "message": "/go"}));
    let records = client.until(|record| record["id"] == "go");
    let errors: Vec<_> = records.iter().filter(|r| r["type"] == "extension_error").collect();
    assert!(errors.is_empty(), "{errors:?}");
    said(&records)
}

fn said(records: &[Value]) -> Vec<Value> {
    let shown = records.iter().filter(|record| record["method"] == "notify");
    shown.map(|record| serde_json::from_str(record["message"].as_str().unwrap()).unwrap()).collect()
}

fn local(url: &str) -> String {
    format!(
        r#"const model = {{ id: "m", name: "M", api: "openai-completions", provider: "own",
            baseUrl: "{url}/v1", reasoning: false, input: ["text"], contextWindow: 1000,
            maxTokens: 500, cost: {{ input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }},
            headers: {{ "x-model": "its" }} }};"#
    )
}

#[test]
fn callbacks_change_the_payload_and_see_the_response() {
    let server = Loopback::start(vec![
        Reply::Events(says(&["Hello"])),
        Reply::Refusal(418, "{}".to_owned()),
        Reply::Events(says(&["unheard"])),
    ]);
    let body = local(&server.url)
        + r#"
        const context = { messages: [{ role: "user", content: "hi" }] };
        const received = [];
        const options = {
            apiKey: "sk-own",
            headers: { "x-own": "1", "X-Model": null, authorization: null },
            onPayload: async (payload, asked) => {
                received.push(["payload", payload.model, asked.id]);
                await new Promise((done) => setTimeout(done, 1));
                return { ...payload, seed: 7 };
            },
            onResponse: ({ status, headers }, asked) => received.push([status, headers["x-served-by"], asked.id]),
        };
        const stream = ai.stream(model, context, options);
        for await (const event of stream) received.push(event.type);
        say(received.splice(0));
        const looking = { ...options, headers: {}, onPayload: () => undefined };
        const refused = await ai.complete(model, context, looking);
        say([received.splice(0), refused.stopReason]);
        const failing = { apiKey: "k", onPayload: () => { throw new Error("not this"); } };
        const failed = await ai.complete(model, context, failing);
        say([failed.stopReason, failed.errorMessage]);"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    let said = go(&mut client);
    assert_eq!(
        said[0],
        json!([
            ["payload", "m", "m"],
            [200, "loopback", "m"],
            "start",
            "text_start",
            "text_delta",
            "text_end",
            "done"
        ])
    );
    let asked = server.asked();
    assert_eq!((&asked.body["seed"], &asked.body["model"]), (&json!(7), &json!("m")));
    assert!(asked.head.contains("x-own: 1"), "{}", asked.head);
    for gone in ["x-model", "authorization"] {
        assert!(!asked.head.contains(gone), "{}", asked.head);
    }
    assert_eq!(said[1], json!([[[418, null, "m"]], "error"]));
    let asked = server.asked();
    assert!(asked.body.get("seed").is_none());
    assert!(asked.head.contains("authorization: bearer sk-own"), "{}", asked.head);
    assert_eq!(said[2], json!(["error", "not this"]));
}

#[test]
fn custom_model_is_requested_as_described() {
    let server = Loopback::start(vec![Reply::Events(says(&["Hel", "lo"]))]);
    let body = local(&server.url)
        + r#"
        const context = { systemPrompt: "Be kind.", messages: [{ role: "user", content: "hi" }],
            tools: [{ name: "look", description: "Look.", parameters: { type: "object" } }] };
        const stream = ai.stream(model, context, { apiKey: "sk-own", headers: { "x-own": "1" },
            maxTokens: 99, temperature: 0.5 });
        const seen = [];
        for await (const event of stream) {
            seen.push([event.type, event.contentIndex, event.delta ?? event.content,
                event.partial?.content.map((block) => block.text)]);
        }
        say(seen);
        const { content, stopReason, usage } = await stream.result();
        say({ content, stopReason, input: usage.input, cost: usage.cost.total });"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    let said = go(&mut client);
    assert_eq!(
        said[0],
        json!([
            ["start", null, null, []],
            ["text_start", 0, null, [""]],
            ["text_delta", 0, "Hel", ["Hel"]],
            ["text_delta", 0, "lo", ["Hello"]],
            ["text_end", 0, "Hello", ["Hello"]],
            ["done", null, null, null],
        ])
    );
    assert_eq!(said[1]["content"], json!([{"type": "text", "text": "Hello"}]));
    assert_eq!((&said[1]["stopReason"], &said[1]["input"]), (&json!("stop"), &json!(10)));
    assert_eq!(said[1]["cost"], json!(0.000016));
    let asked = server.asked();
    for line in ["authorization: bearer sk-own", "x-own: 1", "x-model: its"] {
        assert!(asked.head.contains(line), "{line} in {}", asked.head);
    }
    let messages = &asked.body["messages"];
    assert_eq!(messages[0], json!({"role": "system", "content": "Be kind."}));
    assert_eq!(asked.body["tools"][0]["function"]["name"], "look");
    assert_eq!(asked.body["temperature"], json!(0.5));
    assert_eq!(asked.body["max_completion_tokens"], json!(99), "{}", asked.body);
}

#[test]
fn system_messages_set_prompt_and_tools() {
    let server = Loopback::start(vec![Reply::Events(says(&["ok"]))]);
    let body = local(&server.url)
        + r#"
        const context = ai.normalizeContext({ systemPrompt: "Be kind.", messages: [
            { role: "user", content: "hi" },
            { role: "system", content: "And brief.", toolsAdded: [
                { name: "look", description: "Look.", parameters: { type: "object" } }] },
        ] });
        say([ai.getCurrentSystemPrompt(context.messages), ai.getCurrentTools(context.messages).length]);
        say((await ctx.modelRegistry.complete(model, context, { apiKey: "k" })).stopReason);"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    assert_eq!(go(&mut client), [json!(["Be kind.\n\nAnd brief.", 1]), json!("stop")]);
    let asked = server.asked();
    assert_eq!(asked.body["messages"][0]["content"], "Be kind.\n\nAnd brief.");
    assert_eq!(asked.body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(asked.body["tools"][0]["function"]["name"], "look");
}

#[test]
fn tool_calls_stream_and_end_complete() {
    let piece = |call: Value| {
        let choice = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        format!("data: {choice}\n\n")
    };
    let events = piece(
        json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}}),
    ) + &piece(json!({"index": 0, "function": {"arguments": "{\"at\": \"he"}}))
        + &piece(json!({"index": 0, "function": {"arguments": "re\"}"}}))
        + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
               data: [DONE]\n\n";
    let server = Loopback::start(vec![Reply::Events(events)]);
    let body = local(&server.url)
        + r#"
        const stream = ai.streamSimple(model, { messages: [{ role: "user", content: "hi" }] }, { apiKey: "k" });
        for await (const { type, partial, toolCall, reason } of stream) {
            if (type === "toolcall_delta") say([type, partial.content[0].arguments]);
            if (type === "toolcall_end") say([type, toolCall]);
            if (type === "done") say([type, reason]);
        }"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    let call = json!({"type": "toolCall", "id": "c1", "name": "look", "arguments": {"at": "here"}});
    let said = go(&mut client);
    assert_eq!(said[1], json!(["toolcall_delta", {"at": "he"}]));
    assert_eq!(said[3..], [json!(["toolcall_end", call]), json!(["done", "toolUse"])]);
}

#[test]
fn abort_closes_the_connection() {
    let begun = says(&["Hel"]).split_inclusive("\n\n").next().unwrap().to_owned();
    let server = Loopback::start(vec![Reply::Hanging(begun)]);
    let body = local(&server.url)
        + r#"
        const controller = new AbortController();
        const stream = ai.stream(model, { messages: [{ role: "user", content: "hi" }] },
            { apiKey: "k", signal: controller.signal });
        for await (const event of stream) if (event.type === "text_delta") controller.abort();
        const { stopReason, content } = await stream.result();
        say([stopReason, content]);"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    assert_eq!(go(&mut client)[0], json!(["aborted", [{"type": "text", "text": "Hel"}]]));
    server.caller_left();
}

#[test]
fn failed_request_is_an_answer_without_secrets() {
    let refusal = Reply::Refusal(401, "{\"error\":{\"message\":\"bad key sk-own-secret\"}}".into());
    let server = Loopback::start(vec![refusal]);
    let body = local(&server.url)
        + r#"
        const context = { messages: [{ role: "user", content: "hi" }] };
        const tell = ({ stopReason, errorMessage, role, content }) => say([role, content, stopReason, errorMessage]);
        tell(await ai.complete(model, context, { apiKey: "sk-own-secret" }));
        tell(await ai.complete(model, context));
        tell(await ai.complete({ id: "x" }, context));
        tell(await ai.complete({ ...model, api: "smoke-signals" }, context, { apiKey: "k" }));
        tell(await ai.complete(model, { messages: [{ role: "poet" }] }, { apiKey: "k" }));"#;
    let mut client = start_with_command(Place::new(), &body, &[]);
    let said = go(&mut client);
    let reported: Vec<&str> = said.iter().map(|each| each[3].as_str().unwrap()).collect();
    assert!(
        reported[0].contains("401") && !reported[0].contains("sk-own-secret"),
        "{}",
        reported[0]
    );
    assert!(reported[1].starts_with("No API key found for own"), "{}", reported[1]);
    assert_eq!(reported[2], "the model x has no `api`");
    assert_eq!(reported[3], "tiller does not support the API smoke-signals yet");
    assert!(reported[4].starts_with("invalid message 0"), "{}", reported[4]);
    for each in said {
        assert_eq!(
            (&each[0], &each[1], &each[2]),
            (&json!("assistant"), &json!([]), &json!("error"))
        );
    }
}

#[test]
fn registry_lists_models_and_providers() {
    let place = Place::new();
    let folder = place.path().join(".pi/agent");
    fs::create_dir_all(&folder).unwrap();
    let models = json!({"providers": {
        "own": {"api": "openai-completions", "baseUrl": "http://127.0.0.1:9", "apiKey": "$OWN_KEY",
            "headers": {"x-team": "$TEAM"}, "authHeader": true, "models": [{"id": "m"}]},
        "keyless": {"api": "openai-completions", "baseUrl": "http://127.0.0.1:9", "models": [{"id": "k"}]},
        "odd": {"models": 3},
    }});
    fs::write(folder.join("models.json"), models.to_string()).unwrap();
    let auth = json!({
        "openai": {"type": "oauth", "access": "sk-signed", "expires": 32_503_680_000_000u64},
        "google": {"type": "api_key", "key": "!printf printed"},
    });
    fs::write(folder.join("auth.json"), auth.to_string()).unwrap();
    let body = r#"
        const registry = ctx.modelRegistry;
        const providers = (models) => [...new Set(models.map((model) => model.provider))];
        const has = (list, ...names) => names.map((name) => list.includes(name));
        say(has(providers(registry.getAll()), "own", "keyless", "openai", "anthropic"));
        say(has(providers(registry.getAvailable()), "own", "keyless", "openai", "anthropic"));
        say([registry.find("keyless", "k").id, registry.find("keyless", "none") ?? null]);
        const keyless = registry.find("keyless", "k");
        say([registry.hasConfiguredAuth(registry.find("own", "m")), registry.hasConfiguredAuth(keyless)]);
        say(["own", "openai", "google", "keyless"].map((name) => registry.getProviderAuthStatus(name)));
        say([registry.isUsingOAuth({ provider: "openai" }), registry.isUsingOAuth({ provider: "own" })]);
        say(await registry.getApiKeyAndHeaders(registry.find("own", "m")));
        say(await registry.getApiKeyAndHeaders(keyless));
        say([await registry.getApiKeyForProvider("google"), await registry.getApiKeyForProvider("keyless") ?? null]);
        say(registry.getError());
        say(await registry.refresh());
        say([ai.getProviders().includes("own"), ai.getModels("own"), ai.getModels("anthropic").length > 0]);
        const claude = ai.getModels("anthropic")[0];
        say([claude.api, ai.getModel("anthropic", claude.id).id === claude.id, ai.getModel("own", "m") ?? null]);"#;
    let text = place.with("talk.script", "say Hi.\n").with(
        "ext.ts",
        &format!(
            r#"import * as ai from "@earendil-works/pi-ai";
            export default (pi) => pi.registerCommand("go", {{ handler: async (args, ctx) => {{
                const say = (value) => ctx.ui.notify(JSON.stringify(value));
                {body}
            }} }});"#
        ),
    );
    let mut command =
        text.command(&["--mode", "rpc", "--no-session", "--script", "talk.script", "-e", "ext.ts"]);
    command.env("OWN_KEY", "sk-own").env("TEAM", "blue");
    let mut client = Client::start(command, text);
    let said = go(&mut client);
    assert_eq!(said[0], json!([true, true, true, true]));
    assert_eq!(said[1], json!([true, false, true, false]));
    assert_eq!(said[2], json!(["k", null]));
    assert_eq!(said[3], json!([true, false]));
    assert_eq!(
        said[4],
        json!([
            {"configured": true, "source": "models_json_key"},
            {"configured": true, "source": "stored"},
            {"configured": true, "source": "stored"},
            {"configured": false},
        ])
    );
    assert_eq!(said[5], json!([true, false]));
    let headers = json!({"Authorization": "Bearer sk-own", "x-team": "blue"});
    assert_eq!(said[6], json!({"ok": true, "apiKey": "sk-own", "headers": headers}));
    assert_eq!(said[7]["ok"], false);
    assert_eq!(said[8], json!(["printed", null]));
    assert!(said[9].as_str().unwrap().contains("provider `odd`"), "{}", said[9]);
    assert_eq!(said[10]["aborted"], false);
    assert_eq!(said[11], json!([false, [], true]));
    assert_eq!(said[12], json!(["anthropic-messages", true, null]));
}
