//! Extension providers that refresh their models, or change them with a sign-in, as in pi.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Client, Place};

const MODEL: &str = r#"
    const model = (id) => ({ id, name: id, reasoning: false, input: ["text"], contextWindow: 1000,
        maxTokens: 100, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } });
    const way = { baseUrl: "http://127.0.0.1:1/v1", api: "openai-completions" };"#;

/// A client with one extension of this body, and a sign-in for `signed`.
fn start(place: &Place, body: &str, offline: bool) -> Client {
    let text = format!("{MODEL}\nexport default function (pi) {{ {body} }}");
    let place = place.clone().with("ext.ts", &text);
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let auth = json!({"signed": {"type": "oauth", "access": "a", "refresh": "r",
        "expires": 9_999_999_999_999_u64, "plan": "small"}});
    fs::write(place.path().join(".pi/agent/auth.json"), auth.to_string()).unwrap();
    let mut command = place.command(&["--mode", "rpc", "--no-session", "-e", "ext.ts"]);
    if offline {
        command.env("PI_OFFLINE", "1");
    }
    Client::start(command, place)
}

/// The available models, with their addresses if not the default.
fn available(client: &mut Client) -> Vec<String> {
    client.say(&json!({"id": "models", "type": "get_available_models"}));
    let models = client.response("models")["data"]["models"].clone();
    let shown = models.as_array().unwrap().iter().map(|model| {
        let (provider, id) = (model["provider"].as_str().unwrap(), model["id"].as_str().unwrap());
        match model["baseUrl"].as_str().unwrap() {
            "http://127.0.0.1:1/v1" => format!("{provider}/{id}"),
            other => format!("{provider}/{id} at {other}"),
        }
    });
    shown.filter(|shown| !shown.starts_with("tiller/")).collect()
}

fn until_note(client: &mut Client, note: &str) -> Vec<Value> {
    client.until(|record| record["message"] == note)
}

const SEEKER: &str = r#"
    let tell = () => {};
    pi.on("session_start", (event, ctx) => { tell = (text) => ctx.ui.notify(text); });
    pi.registerProvider("seeker", { ...way, apiKey: "k", models: [model("static")],
        async refreshModels({ allowNetwork, stored, publish, credential, force, signal }) {
            if (!allowNetwork) return (stored?.models ?? [{ id: "none" }]).map(({ id }) => model(id));
            await new Promise((done) => setTimeout(done, 1));
            const found = [model("found"), model(`${credential.type}-${credential.key}-${force}-${signal.aborted}`)];
            const isPublished = await publish({ persist: { models: found, checkedAt: 5 } });
            setTimeout(() => tell(`looked ${isPublished}`), 1);
            return found;
        },
    });
    pi.registerCommand("again", { handler: async (args, ctx) => {
        const { aborted, errors } = await ctx.modelRegistry.refresh({ force: true });
        ctx.ui.notify(`again ${aborted} ${errors.size}`);
    } });"#;

#[test]
fn refreshed_models_are_stored() {
    let place = Place::new();
    let mut client = start(&place, SEEKER, true);
    assert_eq!(available(&mut client), ["seeker/none"]);
    drop(client);
    let mut client = start(&place, SEEKER, false);
    until_note(&mut client, "looked true");
    let found = ["seeker/found", "seeker/api_key-k-undefined-false"];
    assert_eq!(available(&mut client), found);
    client.say(&json!({"id": "1", "type": "prompt", "message": "/again"}));
    until_note(&mut client, "again false 0");
    assert_eq!(available(&mut client), ["seeker/found", "seeker/api_key-k-true-false"]);
    drop(client);
    let stored = fs::read_to_string(place.path().join(".pi/agent/models-store.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["seeker"]["checkedAt"], 5);
    // Stored models are available at once; offline there are no others.
    let mut client = start(&place, SEEKER, true);
    assert_eq!(available(&mut client), ["seeker/found", "seeker/api_key-k-true-false"]);
}

#[test]
fn unreadable_model_store_counts_as_empty() {
    let place = Place::new();
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let pipe = place.path().join(".pi/agent/models-store.json");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let mut client = start(&place, SEEKER, true);
    assert_eq!(available(&mut client), ["seeker/none"]);
}

#[test]
fn failing_or_hanging_refresh_blocks_nothing() {
    let body = r#"
        pi.registerProvider("failing", { ...way, apiKey: "k", models: [model("kept")],
            async refreshModels({ allowNetwork }) { throw new Error(`no luck ${allowNetwork}`); } });
        pi.registerProvider("endless", { ...way, apiKey: "k", models: [model("kept")],
            refreshModels: () => new Promise(() => {}) });
        pi.registerCommand("again", { handler: async (args, ctx) => {
            const { errors } = await ctx.modelRegistry.refresh({ providers: ["failing"] });
            ctx.ui.notify([...errors].map(([name, { message }]) => `${name}: ${message}`).join());
        } });"#;
    let mut client = start(&Place::new(), body, false);
    assert_eq!(available(&mut client), ["failing/kept", "endless/kept"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "/again"}));
    until_note(&mut client, "failing: no luck false");
}

#[test]
fn sign_in_changes_and_hides_models() {
    let body = r#"
        pi.registerProvider("signed", { ...way, models: [model("a"), model("b")], oauth: {
            name: "Signed", login() {}, refreshToken: (stored) => stored, getApiKey: ({ access }) => access,
            modifyModels: (models, { plan }) =>
                models.filter(({ id }) => id !== "b").map((own) => ({ ...own, baseUrl: `http://${own.provider}/${plan}` })),
        } });
        pi.registerProvider("unsigned", { ...way, apiKey: "k", models: [model("a")], oauth: {
            name: "Unsigned", login() {}, refreshToken: (stored) => stored, getApiKey: ({ access }) => access,
            modifyModels: () => [],
        } });
        pi.registerProvider({ id: "choosy", name: "Choosy", ...way, auth: { apiKey: { resolve: async () => ({ auth: { apiKey: "z" } }) } },
            getModels: () => ["c", "d"].map((id) => ({ ...model(id), ...way, provider: "choosy" })),
            filterModels: (models, credential) => models.filter(({ id }) => id !== "d"),
            stream() {}, streamSimple() {} });
        pi.registerCommand("all", { handler: async (args, ctx) => {
            const own = ctx.modelRegistry.getAll().filter(({ provider }) => provider === "choosy");
            ctx.ui.notify(own.map(({ id }) => id).join(" "));
        } });"#;
    let mut client = start(&Place::new(), body, true);
    let expected = ["signed/a at http://signed/small", "unsigned/a", "choosy/c"];
    assert_eq!(available(&mut client), expected);
    client.say(&json!({"id": "1", "type": "prompt", "message": "/all"}));
    until_note(&mut client, "c d");
}
