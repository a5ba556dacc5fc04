//! Sessions that extensions write directly, checked by the program itself.

use serde_json::json;

use crate::client::Place;
use crate::extensions::of_type;

const COMMANDS: &str = r#"
    import { SessionManager, parseSessionEntries, buildSessionContext } from "@earendil-works/pi-coding-agent";
    import { readFileSync } from "node:fs";
    export default function (pi) {
        const note = (data) => pi.appendEntry("note", data);
        pi.registerCommand("make", { handler: async (_, ctx) => {
            const session = SessionManager.create(ctx.cwd);
            const asked = session.appendMessage({ role: "user", content: [{ type: "text", text: "made by an extension" }], timestamp: 1 });
            session.appendCustomEntry("mark", { a: 1 });
            session.appendCustomMessageEntry("hint", "a hint", true, { b: 2 });
            session.appendSessionInfo("By hand");
            session.appendLabelChange(asked, "start");
            const forked = SessionManager.forkFrom(session.getSessionFile(), ctx.cwd);
            const read = parseSessionEntries(readFileSync(session.getSessionFile(), "utf8"));
            note({ file: session.getSessionFile(), fork: forked.getSessionFile(), types: read.map(({ type }) => type),
                parent: forked.getHeader().parentSession === session.getSessionFile(),
                roles: buildSessionContext(read).messages.map(({ role }) => role) });
        } });
        pi.registerCommand("list", { handler: async (_, ctx) => {
            const found = await SessionManager.list(ctx.cwd);
            const all = await SessionManager.listAll();
            const newest = SessionManager.continueRecent(ctx.cwd);
            const { firstMessage, name, messageCount } = found.find((one) => one.name === "By hand");
            note({ firstMessage, name, messageCount, listed: found.length === all.length, isOpen: newest.getCwd() === ctx.cwd });
        } });
    }"#;

fn place() -> Place {
    Place::new().with("ext.ts", COMMANDS).with("talk.script", "say Hello.\n\nsay Again.\n")
}

fn client(place: &Place) -> crate::client::Client {
    let command = place.command(&["--mode", "rpc", "--script", "talk.script", "-e", "ext.ts"]);
    crate::client::Client::start(command, place.clone())
}

/// Runs a command and returns the entry it appended.
fn noted(client: &mut crate::client::Client, command: &str) -> serde_json::Value {
    client.say(&json!({"id": command, "type": "prompt", "message": command}));
    let records = client.until(|record| record["id"] == command);
    let appended = of_type(&records, "entry_appended");
    assert_eq!(appended.len(), 1, "{records:?}");
    appended[0]["entry"]["data"].clone()
}

#[test]
fn session_written_by_an_extension_can_be_opened() {
    let place = place();
    let mut client = client(&place);
    let made = noted(&mut client, "/make");
    let types = ["session", "message", "custom", "custom_message", "session_info", "label"];
    assert_eq!(made["types"], json!(types));
    assert_eq!(made["roles"], json!(["user", "custom"]));
    assert_eq!(made["parent"], true);
    let listed = noted(&mut client, "/list");
    let expected = json!({"firstMessage": "made by an extension", "name": "By hand",
        "messageCount": 1, "listed": true, "isOpen": true});
    assert_eq!(listed, expected);
    for file in ["file", "fork"] {
        client.say(&json!({"id": file, "type": "switch_session", "sessionPath": made[file]}));
        assert_eq!(client.response(file)["data"]["cancelled"], false);
        client.say(&json!({"id": "s", "type": "get_state"}));
        assert_eq!(client.response("s")["data"]["sessionName"], "By hand");
        client.say(&json!({"id": "m", "type": "get_messages"}));
        let messages = client.response("m")["data"]["messages"].clone();
        assert_eq!(messages[0]["content"][0]["text"], "made by an extension");
        assert_eq!(messages[1]["content"], "a hint");
        client.say(&json!({"type": "prompt", "message": "Go on"}));
        client.until_type("agent_settled");
    }
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
    // Its entries are in order.
    let file = made["file"].as_str().unwrap();
    let checked = place.output(&["session", "check", file], "");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
