//! Providers registered by extensions: new models, other addresses for known models, and answers
//! made in JavaScript.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::loopback::{Loopback, Reply, says};

fn example(name: &str) -> String {
    format!("{}/../../examples/extensions/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn start(place: Place, arguments: &[&str]) -> Client {
    let mut all = vec!["--mode", "rpc", "--no-session"];
    all.extend(arguments);
    let mut command = place.command(&all);
    command.env("OWN_KEY", "sk-of-environment");
    Client::start(command, place)
}

/// A client with one extension of this source.
fn with(extension: &str, arguments: &[&str]) -> Client {
    let mut all = vec!["-e", "ext.ts"];
    all.extend(arguments);
    start(Place::new().with("ext.ts", extension), &all)
}

/// An extension with one provider whose `stream` has this body.
fn streaming(body: &str) -> String {
    format!(
        r#"
        import {{ createAssistantMessageEventStream }} from "@earendil-works/pi-ai";
        export default (pi) => pi.registerProvider("own", {{
            baseUrl: "own:", apiKey: "k", api: "own-api",
            models: [{{ id: "m", name: "M", reasoning: true, input: ["text"], contextWindow: 1000,
                maxTokens: 100, cost: {{ input: 1, output: 1, cacheRead: 0, cacheWrite: 0 }} }}],
            streamSimple(model, context, options) {{ {body} }},
        }});"#
    )
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

fn ask(client: &mut Client, text: &str) -> Vec<Value> {
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

/// The last answer of a run.
fn answer(records: &[Value]) -> Value {
    of_type(records, "message_end").last().unwrap()["message"].clone()
}

#[test]
fn cost_of_an_answer_comes_from_its_provider() {
    let body = r#"
        const stream = createAssistantMessageEventStream();
        const cost = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, total: 3 };
        const message = { role: "assistant", content: [{ type: "text", text: "Dear." }], stopReason: "stop",
            usage: { input: 5, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 10, cost } };
        stream.push({ type: "start", partial: message });
        stream.push({ type: "done", reason: "stop", message });
        return stream;"#;
    let mut client = with(&streaming(body), &["--model", "own/m"]);
    let said = answer(&ask(&mut client, "go"));
    assert_eq!(said["usage"]["cost"]["total"], 3.0, "{said}");
}

#[test]
fn print_mode_waits_for_extension_models() {
    let place = Place::new();
    let extension = example("parrot-provider.ts");
    let output =
        place.output(&["-p", "--no-session", "-e", &extension, "--model", "backwards", "a b"], "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b a\n");
    let output =
        place.output(&["-p", "--no-session", "-e", &extension, "--model", "penguin/x", "a"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"penguin/x\" not found"));
}

#[test]
fn registered_provider_is_requested_as_configured() {
    let server = Loopback::start(vec![
        Reply::Events(says(&["one"])),
        Reply::Events(says(&["two"])),
        Reply::Events(says(&["three"])),
    ]);
    let url = &server.url;
    let extension = format!(
        r#"
        export default function (pi) {{
            const model = (id, more) => ({{ id, name: id, reasoning: false, input: ["text"],
                contextWindow: 9000, maxTokens: 100, cost: {{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }}, ...more }});
            pi.registerProvider("own", {{
                baseUrl: "{url}/v1", apiKey: "$OWN_KEY", api: "openai-completions",
                headers: {{ "x-team": "$$blue" }},
                models: [model("m", {{ headers: {{ "x-model": "its" }} }}), model("n")],
            }});
            pi.registerProvider("printed", {{
                baseUrl: "{url}/v1", apiKey: "!printf 'sk-%s' printed", api: "openai-completions",
                models: [model("p")],
            }});
            pi.registerProvider("openai", {{ baseUrl: "{url}/v2", headers: {{ "x-proxy": "1" }} }});
            pi.registerCommand("gone", {{ handler: async () => pi.unregisterProvider("openai") }});
        }}"#
    );
    let place = Place::new().with("ext.ts", &extension);
    let mut command =
        place.command(&["--mode", "rpc", "--no-session", "-e", "ext.ts", "--model", "own/m"]);
    command.env("OWN_KEY", "sk-of-environment").env("OPENAI_API_KEY", "sk-open");
    let mut client = Client::start(command, place);
    assert_eq!(answer(&ask(&mut client, "hi"))["content"][0]["text"], "one");
    let asked = server.asked();
    for line in ["post /v1/chat/", "bearer sk-of-environment", "x-team: $blue", "x-model: its"] {
        assert!(asked.head.contains(line), "{line} in {}", asked.head);
    }
    client.say(&json!({"id": "1", "type": "set_model", "provider": "printed", "modelId": "p"}));
    assert_eq!(client.response("1")["success"], true);
    assert_eq!(answer(&ask(&mut client, "hi"))["content"][0]["text"], "two");
    assert!(server.asked().head.contains("bearer sk-printed"));

    // A catalogue provider keeps its models, with another address until the registration is
    // removed.
    client.say(&json!({"id": "2", "type": "set_model", "provider": "openai", "modelId": "gpt-4o"}));
    let model = client.response("2")["data"].clone();
    assert_eq!(model["baseUrl"], format!("{url}/v2"));
    ask(&mut client, "hi");
    let asked = server.asked();
    assert!(
        asked.head.contains("post /v2/") && asked.head.contains("x-proxy: 1"),
        "{}",
        asked.head
    );
    client.say(&json!({"id": "3", "type": "prompt", "message": "/gone"}));
    client.response("3");
    client.say(&json!({"id": "4", "type": "get_state"}));
    assert_eq!(client.response("4")["data"]["model"]["baseUrl"], "https://api.openai.com/v1");
}

#[test]
fn extension_models_replace_those_of_the_provider() {
    let extension = r#"
        const models = [{ id: "only", name: "Only", api: "openai-completions", reasoning: false, input: ["text"],
            contextWindow: 9000, maxTokens: 100, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }];
        export default function (pi) {
            pi.registerProvider("openai", { baseUrl: "http://127.0.0.1:9", apiKey: "k", models });
            pi.registerCommand("gone", { handler: async () => pi.unregisterProvider("openai") });
        }"#;
    let place = Place::new().with("ext.ts", extension);
    let mut command = place.command(&["--mode", "rpc", "--no-session", "-e", "ext.ts"]);
    command.env("OPENAI_API_KEY", "sk-open");
    let mut client = Client::start(command, place);
    let names = |client: &mut Client| {
        client.say(&json!({"id": "1", "type": "get_available_models"}));
        let models = client.response("1")["data"]["models"].clone();
        let models: Vec<String> =
            models.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().into()).collect();
        models
    };
    assert_eq!(names(&mut client), ["only"]);
    client.say(&json!({"id": "2", "type": "prompt", "message": "/gone"}));
    client.response("2");
    let restored = names(&mut client);
    assert!(restored.len() > 5 && !restored.contains(&"only".to_owned()), "{restored:?}");
}

#[test]
fn looping_stream_ends_the_run_with_an_error() {
    let mut client = with(&streaming("while (true) {}"), &["--model", "own/m"]);
    let said = answer(&ask(&mut client, "hi"));
    assert_eq!(said["stopReason"], "error");
    let error = said["errorMessage"].as_str().unwrap();
    assert!(error.contains("stopped after"), "{error}");
}

#[test]
fn stored_sign_in_becomes_a_key_and_is_refreshed() {
    let server =
        Loopback::start(vec![Reply::Events(says(&["one"])), Reply::Events(says(&["two"]))]);
    let extension = format!(
        r#"
        export default (pi) => pi.registerProvider("own", {{
            baseUrl: "{}/v1", api: "openai-completions",
            models: [{{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 9000,
                maxTokens: 100, cost: {{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }} }}],
            oauth: {{
                name: "Own",
                async login() {{ throw new Error("not here"); }},
                async refreshToken(credential) {{
                    return {{ refresh: "r2", access: `${{credential.access}}-renewed`, expires: Date.now() + 3600000 }};
                }},
                getApiKey: (credential) => `key-of-${{credential.access}}`,
            }},
        }});"#,
        server.url
    );
    let place = Place::new().with("ext.ts", &extension);
    let folder = place.path().join(".pi/agent");
    fs::create_dir_all(&folder).unwrap();
    let auth = json!({"own": {"type": "oauth", "access": "a1", "refresh": "r1", "expires": 1, "account": "7"}});
    fs::write(folder.join("auth.json"), auth.to_string()).unwrap();
    let mut client = start(place.clone(), &["-e", "ext.ts", "--model", "own/m"]);
    for text in ["one", "two"] {
        assert_eq!(answer(&ask(&mut client, "hi"))["content"][0]["text"], text);
        let head = server.asked().head;
        assert!(head.contains("bearer key-of-a1-renewed\r\n"), "{head}");
    }
    let stored: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("auth.json")).unwrap()).unwrap();
    assert_eq!(stored["own"]["refresh"], "r2");
    assert_eq!((&stored["own"]["type"], &stored["own"]["account"]), (&json!("oauth"), &json!("7")));
}

/// Extensions are loaded for the list; their errors do not prevent it.
#[test]
fn list_models_includes_extension_models() {
    let bring = |config: &str| {
        let extension = format!("export default (pi) => pi.registerProvider('own', {config});");
        let place = Place::new().with("ext.ts", &extension);
        let output = place.output(&["--list-models", "own", "-e", "ext.ts"], "");
        assert_eq!(output.status.code(), Some(0));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [table, said] = bring(
        "{ baseUrl: 'http://127.0.0.1:1', apiKey: 'sk-secret', api: 'openai-completions',
           models: [{ id: 'first', name: 'First', contextWindow: 1000, maxTokens: 100 }] }",
    );
    assert!(
        table.lines().any(|line| line.starts_with("own ") && line.contains("first")),
        "{table}"
    );
    assert_eq!(said, "");
    let [table, said] = bring("{ baseUrl: 'http://127.0.0.1:1', apiKey: 'sk-secret', models: 3 }");
    assert_eq!(table, "No models matching \"own\"\n");
    assert!(said.starts_with("Warning: Provider own: "), "{said}");
    assert!(!said.contains("sk-secret"), "{said}");
}
