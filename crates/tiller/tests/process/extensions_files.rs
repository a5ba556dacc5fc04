//! Sessions, settings and skills that extensions read and write directly.

use serde_json::json;

use crate::client::Place;
use crate::extensions::of_type;

const COMMANDS: &str = r#"
    import { SessionManager, SettingsManager, loadSkills, parseSessionEntries, buildSessionContext } from "@earendil-works/pi-coding-agent";
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
        pi.registerCommand("memory", { handler: async () => {
            const session = SessionManager.inMemory("/nowhere");
            const first = session.appendMessage({ role: "user", content: "one", timestamp: 1 });
            const second = session.appendMessage({ role: "user", content: "two", timestamp: 2 });
            session.branch(first);
            session.appendMessage({ role: "user", content: "three", timestamp: 3 });
            session.appendContextEdit(first, { content: "edited" });
            const { messages } = session.buildSessionContext();
            session.appendCompaction("all of it", null, 10);
            note({ said: messages.map(({ content }) => content), left: session.getChildren(first).map(({ id }) => id === second)[0],
                roots: session.getTree().length, after: session.buildSessionContext().messages.map(({ summary }) => summary),
                file: session.getSessionFile() ?? null });
        } });
        pi.registerCommand("own", { handler: async (_, ctx) => {
            const session = SessionManager.open(ctx.sessionManager.getSessionFile());
            try { session.appendCustomEntry("mark"); } catch ({ message }) { note(message); }
        } });
        pi.registerCommand("settings", { handler: async (_, ctx) => {
            const settings = SettingsManager.create(ctx.cwd);
            const { skills } = loadSkills();
            let refused;
            try { settings.setTheme("dark"); } catch ({ message }) { refused = message; }
            settings.applyOverrides({ retry: { enabled: false } });
            note({ mode: settings.getSteeringMode(), retry: settings.getRetry(), own: settings.getGlobalSettings().retry, refused, skills: skills.map(({ name }) => name) });
        } });
    }"#;

fn place() -> Place {
    let place =
        Place::new().with("ext.ts", COMMANDS).with("talk.script", "say Hello.\n\nsay Again.\n");
    let agent = place.path().join(".pi/agent");
    std::fs::create_dir_all(agent.join("skills/knit")).unwrap();
    let settings = "{\"queueMode\": \"all\", // comment\n\"retry\": {\"maxRetries\": 7}}";
    std::fs::write(agent.join("settings.json"), settings).unwrap();
    let skill = "---\nname: knit\ndescription: Knits\n---\nKnit.\n";
    std::fs::write(agent.join("skills/knit/SKILL.md"), skill).unwrap();
    place
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

#[test]
fn in_memory_session_is_a_tree() {
    let place = place();
    let seen = noted(&mut client(&place), "/memory");
    let expected = json!({"said": ["edited", "three"], "left": true, "roots": 1,
        "after": ["all of it"], "file": null});
    assert_eq!(seen, expected);
}

#[test]
fn open_session_cannot_be_written_by_an_extension() {
    let place = place();
    let mut client = client(&place);
    client.say(&json!({"type": "prompt", "message": "Hello"}));
    client.until_type("agent_settled");
    let refused = noted(&mut client, "/own");
    assert_eq!(refused, "this session is open in tiller; use ctx.sessionManager to add to it");
}

#[test]
fn extensions_read_settings_and_skills() {
    let place = place();
    let seen = noted(&mut client(&place), "/settings");
    assert_eq!(seen["mode"], "all");
    assert_eq!(seen["retry"], json!({"maxRetries": 7, "enabled": false}));
    assert_eq!(seen["own"], json!({"maxRetries": 7}));
    assert_eq!(seen["skills"], json!(["knit"]));
    assert_eq!(
        seen["refused"],
        "SettingsManager.setTheme: extensions do not write settings in tiller"
    );
}
