//! How it ends with extensions: it always does, and those who can still hear are told.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, Place};
use crate::extensions::with;

/// Writes down that it has heard of the end, and does what it is told before.
const NOTES: &str = r#"
    import { appendFileSync } from "node:fs";
    export default function (pi) {
        pi.on("session_shutdown", (event) => appendFileSync("heard.txt", `${event.reason}\n`));
        pi.registerCommand("leave", {
            handler: async (args, ctx) => {
                ctx.ui.notify("leaving");
                ctx.shutdown();
                await new Promise(() => {});
            },
        });
        pi.registerCommand("wait", {
            handler: async (args, ctx) => {
                ctx.ui.notify("waiting");
                await new Promise(() => {});
            },
        });
    }"#;

/// A client whose folder outlives it.
fn start(script: &str, extensions: &[&str]) -> (Client, Place) {
    let mut place = Place::new();
    let mut arguments = Vec::new();
    let names: Vec<String> = (1..=extensions.len()).map(|n| format!("ext{n}.ts")).collect();
    for (name, text) in names.iter().zip(extensions) {
        place = place.with(name, text);
        arguments.extend(["-e", name]);
    }
    (place.clone().rpc(script, &arguments), place)
}

fn heard(place: &Place) -> String {
    std::fs::read_to_string(place.path().join("heard.txt")).unwrap_or_default()
}

/// Says that it has been told to go, and does not take longer than this.
fn ends_within(client: Client, limit: Duration) -> Option<i32> {
    let begun = Instant::now();
    let code = client.end().1;
    assert!(begun.elapsed() < limit, "it took {:?}", begun.elapsed());
    code
}

#[test]
fn whoever_asks_for_the_end_and_does_not_come_to_one_is_not_waited_for() {
    let (mut client, place) = start("say Fine.\n", &[NOTES]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "/leave"}));
    client.until_type("extension_ui_request");
    assert_eq!(ends_within(client, Duration::from_secs(9)), Some(0));
    assert_eq!(heard(&place), "quit\n");
}

#[test]
fn a_run_settles_before_the_end_that_was_asked_for_in_it() {
    let mut client = with(
        "call finish {}\n\nsay That was all.\n",
        r#"
        export default function (pi) {
            pi.registerTool({
                name: "finish",
                description: "End it",
                parameters: { type: "object", properties: {} },
                async execute(id, params, signal, onUpdate, ctx) {
                    ctx.shutdown();
                    return { content: [{ type: "text", text: "Good bye" }] };
                },
            });
        }"#,
    );
    client.say(&json!({"id": "1", "type": "prompt", "message": "Finish"}));
    let (records, code) = client.end();
    assert_eq!(code, Some(0));
    let said = records.iter().rfind(|record| record["type"] == "message_end").unwrap();
    assert_eq!(said["message"]["content"][0]["text"], "That was all.");
    assert_eq!(records.last().unwrap()["type"], "agent_settled");
}

#[test]
fn the_end_is_told_while_a_command_waits_for_ever() {
    let (mut client, place) = start("say Fine.\n", &[NOTES]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "/wait"}));
    client.until_type("extension_ui_request");
    client.close_stdin();
    assert_eq!(ends_within(client, Duration::from_secs(4)), Some(0));
    assert_eq!(heard(&place), "quit\n");
}

#[test]
fn the_end_is_told_while_a_session_never_begins() {
    let stuck = r#"
        export default function (pi) {
            pi.on("session_start", async (event, ctx) => {
                ctx.ui.notify("beginning");
                await new Promise(() => {});
            });
        }"#;
    let (mut client, place) = start("say Fine.\n", &[stuck, NOTES]);
    client.until_type("extension_ui_request");
    client.signal("TERM");
    assert_eq!(ends_within(client, Duration::from_secs(4)), Some(143));
    assert_eq!(heard(&place), "quit\n");
}

#[test]
fn one_that_does_not_end_does_not_keep_the_end_from_others() {
    let stuck = r#"
        export default (pi) => pi.on("session_shutdown", () => new Promise(() => {}));"#;
    // Each has an engine of its own.
    let place = Place::new()
        .with("stuck.ts", stuck)
        .with("notes.ts", NOTES)
        .with("settings.json", r#"{"extensionSettings": {"stuck.ts": {"isolate": true}}}"#);
    let agent = place.path().join(".pi/agent");
    std::fs::create_dir_all(&agent).unwrap();
    std::fs::rename(place.path().join("settings.json"), agent.join("settings.json")).unwrap();
    let mut client = place.clone().rpc("say Fine.\n", &["-e", "stuck.ts", "-e", "notes.ts"]);
    client.say(&json!({"id": "1", "type": "get_state"}));
    client.response("1");
    client.close_stdin();
    assert_eq!(ends_within(client, Duration::from_secs(4)), Some(0));
    assert_eq!(heard(&place), "quit\n");
}
