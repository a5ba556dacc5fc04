//! A session in another folder loads the extensions of that folder, as in pi.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// Reports its events with their folder, and has a command of its name.
fn announcing_extension(name: &str) -> String {
    format!(
        r#"
        export default function (pi) {{
            for (const event of ["session_start", "session_shutdown", "resources_discover"]) {{
                pi.on(event, (told, ctx) => {{
                    const folder = ctx.cwd.split("/").pop();
                    ctx.ui.notify(`{name} ${{event}} ${{told.reason}} ${{folder}} ${{told.previousSessionFile !== undefined}}`);
                }});
            }}
            pi.registerCommand("{name}", {{ handler: async () => {{}} }});
            pi.registerTool({{ name: "{name}_tool", description: "x", parameters: {{ type: "object" }}, execute() {{}} }});
            pi.registerProvider("{name}", {{ baseUrl: "http://localhost:1/v1", apiKey: "k", api: "openai-completions",
                models: [{{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
                    cost: {{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }} }}] }});
        }}"#
    )
}

/// Switches to another session and sends a message there.
const GUIDE: &str = r#"
    export default function (pi) {
        pi.on("project_trust", (event, ctx) => {
            const folder = event.cwd.split("/").pop();
            ctx.ui.notify(`asked about ${folder}`);
            return { trusted: folder === "shady" ? "no" : "yes" };
        });
        pi.registerCommand("go", {
            handler: async (path, ctx) => {
                const result = await ctx.switchSession(path, {
                    withSession: async (fresh) => {
                        fresh.ui.notify(`arrived in ${fresh.cwd.split("/").pop()}`);
                        await fresh.sendUserMessage("Here we are");
                    },
                });
                await new Promise((done) => setTimeout(done, 1));
                if (result.cancelled) throw new Error("cancelled");
                let isStale = false;
                try { ctx.ui.notify("never"); } catch { isStale = true; }
                if (!isStale) throw new Error("the old context still works");
            },
        });
    }"#;

fn write(place: &Place, name: &str, text: &str) {
    let path = place.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Folders with one extension and one session each.
fn folders(names: &[&str]) -> Place {
    let place = Place::new().with("talk.script", "say One.\n\nsay Two.\n");
    write(&place, ".pi/agent/extensions/guide.ts", GUIDE);
    for name in names {
        write(&place, &format!("{name}/.pi/extensions/its.ts"), &announcing_extension(name));
        let cwd = place.path().join(name).canonicalize().unwrap();
        let head = json!({"type": "session", "version": 3, "id": format!("of-{name}"),
            "timestamp": "2026-11-15T20:39:16.762Z", "cwd": cwd});
        let said = json!({"type": "message", "id": "00000001", "parentId": null,
            "timestamp": "2026-11-15T20:39:17.762Z", "message": {"role": "user",
            "content": [{"type": "text", "text": "hi"}], "timestamp": 1_794_775_157_762_u64}});
        write(&place, &format!("{name}.jsonl"), &format!("{head}\n{said}\n"));
    }
    place
}

fn start(place: &Place, folder: &str, arguments: &[&str]) -> Client {
    let mut all = vec!["--mode", "rpc", "--script", "../talk.script"];
    all.extend(arguments);
    let mut command = place.command(&all);
    command.current_dir(place.path().join(folder));
    Client::start(command, place.clone())
}

fn ask(client: &mut Client, request: Value) -> Vec<Value> {
    client.say(&request);
    client.until(|record| record["id"] == request["id"])
}

fn notes(records: &[Value]) -> Vec<&str> {
    let shown = records.iter().filter(|record| record["method"] == "notify");
    shown.map(|record| record["message"].as_str().unwrap()).collect()
}

fn commands(client: &mut Client) -> Vec<String> {
    let records = ask(client, json!({"id": "commands", "type": "get_commands"}));
    let commands = records.last().unwrap()["data"]["commands"].as_array().unwrap().clone();
    commands.iter().map(|command| command["name"].as_str().unwrap().to_owned()).collect()
}

fn providers(client: &mut Client) -> Vec<String> {
    let records = ask(client, json!({"id": "models", "type": "get_available_models"}));
    let models = records.last().unwrap()["data"]["models"].as_array().unwrap().clone();
    models
        .iter()
        .filter(|model| model["id"] == "m")
        .map(|model| model["provider"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn session_of_another_folder_loads_its_extensions() {
    let place = folders(&["here", "there"]);
    write(&place, "here/named.ts", &announcing_extension("named"));
    let mut client = start(&place, "here", &["-e", "named.ts"]);
    assert_eq!(commands(&mut client), ["named", "here", "go"]);
    assert_eq!(providers(&mut client), ["named", "here"]);
    let path = place.path().join("there.jsonl");
    let records =
        ask(&mut client, json!({"id": "1", "type": "switch_session", "sessionPath": path}));
    assert_eq!(
        notes(&records),
        [
            "named session_shutdown resume here false",
            "here session_shutdown resume here false",
            "asked about there",
            "named session_start resume there true",
            "there session_start resume there true",
            "named resources_discover startup there false",
            "there resources_discover startup there false",
        ]
    );
    assert_eq!(records.last().unwrap()["data"], json!({"cancelled": false}));
    // Extensions of the command line are loaded in every folder.
    assert_eq!(commands(&mut client), ["named", "there", "go"]);
    assert_eq!(providers(&mut client), ["named", "there"]);
    // A new session stays in that folder, with its extensions.
    let records = ask(&mut client, json!({"id": "2", "type": "new_session"}));
    assert_eq!(
        notes(&records)[2..4],
        ["named session_start new there true", "there session_start new there true",]
    );
    assert_eq!(commands(&mut client), ["named", "there", "go"]);
}

#[test]
fn command_continues_after_switching_folders() {
    let place = folders(&["here", "there"]);
    let mut client = start(&place, "here", &[]);
    let go = format!("/go {}", place.path().join("there.jsonl").display());
    let mut records = ask(&mut client, json!({"id": "1", "type": "prompt", "message": go}));
    // The response comes before the run that the command starts.
    records.extend(client.until_type("agent_settled"));
    let errors: Vec<&Value> =
        records.iter().filter(|record| record["type"] == "extension_error").collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(notes(&records).contains(&"arrived in there"), "{records:?}");
    let answer = records.iter().rfind(|record| record["type"] == "message_end").unwrap();
    assert_eq!(answer["message"]["content"][0]["text"], "One.");
    assert_eq!(commands(&mut client), ["there", "go"]);
    // And back again, by the extension of that folder.
    let go = format!("/go {}", place.path().join("here.jsonl").display());
    let mut records = ask(&mut client, json!({"id": "2", "type": "prompt", "message": go}));
    records.extend(client.until_type("agent_settled"));
    assert!(notes(&records).contains(&"arrived in here"), "{records:?}");
    assert_eq!(commands(&mut client), ["here", "go"]);
}

#[test]
fn untrusted_folder_loads_no_extensions() {
    let place = folders(&["here", "shady"]);
    let mut client = start(&place, "here", &[]);
    assert_eq!(commands(&mut client), ["here", "go"]);
    let path = place.path().join("shady.jsonl");
    let records =
        ask(&mut client, json!({"id": "1", "type": "switch_session", "sessionPath": path}));
    assert_eq!(notes(&records)[1..], ["asked about shady"]);
    assert_eq!(commands(&mut client), ["go"]);
    let records = ask(&mut client, json!({"id": "2", "type": "hello"}));
    let told = records.last().unwrap()["data"]["diagnostics"].to_string();
    assert!(told.contains("Not used because an extension does not trust it"), "{told}");
}

#[test]
fn switching_folders_loads_the_first_extensions() {
    let place = folders(&["here", "there"]);
    fs::remove_file(place.path().join(".pi/agent/extensions/guide.ts")).unwrap();
    fs::remove_file(place.path().join("here/.pi/extensions/its.ts")).unwrap();
    let there = place.path().join("there").canonicalize().unwrap();
    write(&place, ".pi/agent/trust.json", &json!({ there.to_str().unwrap(): true }).to_string());
    let mut client = start(&place, "here", &["--approve"]);
    assert_eq!(commands(&mut client), Vec::<String>::new());
    let path = place.path().join("there.jsonl");
    ask(&mut client, json!({"id": "1", "type": "switch_session", "sessionPath": path}));
    assert_eq!(commands(&mut client), ["there"]);
    // And all of them may be unloaded.
    let path = place.path().join("here.jsonl");
    ask(&mut client, json!({"id": "2", "type": "switch_session", "sessionPath": path}));
    assert_eq!(commands(&mut client), Vec::<String>::new());
    assert_eq!(providers(&mut client), Vec::<String>::new());
}
