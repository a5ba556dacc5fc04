//! Extensions that switch sessions, in the real program.

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// A client with one extension of this source, and stored sessions.
fn with(script: &str, extension: &str) -> Client {
    let place = Place::new().with("talk.script", script).with("ext.ts", extension);
    let arguments = ["--mode", "rpc", "--script", "talk.script", "-e", "ext.ts"];
    let command = place.command(&arguments);
    Client::start(command, place)
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

/// The texts shown by `ctx.ui.notify`, in order.
fn notes(records: &[Value]) -> Vec<&str> {
    let shown = of_type(records, "extension_ui_request").into_iter();
    let shown = shown.filter(|record| record["method"] == "notify");
    shown.map(|record| record["message"].as_str().unwrap()).collect()
}

fn command(client: &mut Client, id: &str, text: &str) -> Vec<Value> {
    client.say(&json!({"id": id, "type": "prompt", "message": text}));
    client.until(|record| record["id"] == id)
}

fn prompt(client: &mut Client, text: &str) -> Vec<Value> {
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

fn data(client: &mut Client, kind: &str) -> Value {
    client.say(&json!({"id": kind, "type": kind}));
    client.response(kind)["data"].clone()
}

#[test]
fn command_starts_a_session_with_entries() {
    let mut client = with(
        "say First.\n\nsay Second.\n",
        r#"
        export default function (pi) {
            pi.on("session_before_switch", (event, ctx) => ctx.ui.notify(`before ${event.reason}`));
            pi.on("session_shutdown", (event, ctx) => {
                const said = ctx.sessionManager.getEntries().filter((e) => e.type === "message").length;
                ctx.ui.notify(`shutdown ${event.reason} ${said} ${event.targetSessionFile !== undefined}`);
            });
            pi.on("session_start", (event, ctx) => {
                if (event.reason === "startup") return;
                const file = ctx.sessionManager.getSessionFile();
                const moved = event.previousSessionFile !== undefined && event.previousSessionFile !== file;
                ctx.ui.notify(`start ${event.reason} ${moved}`);
            });
            pi.registerCommand("fresh", {
                handler: async (args, ctx) => {
                    const before = ctx.sessionManager.getSessionFile();
                    const result = await ctx.newSession({
                        parentSession: before,
                        setup: async (session) => {
                            session.appendMessage({
                                role: "user",
                                content: [{ type: "text", text: "Carried over" }],
                                timestamp: Date.now(),
                            });
                            session.appendCustomEntry("handoff", { from: before });
                            session.appendSessionInfo("Continued");
                        },
                        withSession: async (fresh) => {
                            const header = fresh.sessionManager.getHeader();
                            fresh.ui.notify(`inside ${header.parentSession === before}`);
                            await fresh.sendUserMessage("Go on");
                            fresh.ui.notify("answered");
                        },
                    });
                    try {
                        ctx.ui.notify("never");
                    } catch (error) {
                        if (!error.message.startsWith("This extension ctx is stale")) throw error;
                    }
                    if (result.cancelled) throw new Error("cancelled");
                },
            });
        }"#,
    );
    prompt(&mut client, "Hello");
    let before = data(&mut client, "get_state");
    let mut records = command(&mut client, "1", "/fresh");
    assert_eq!(records.last().unwrap()["success"], true);
    // The response comes before the run that the command starts.
    records.extend(client.until(|record| record["message"] == "answered"));
    assert_eq!(of_type(&records, "extension_error"), Vec::<&Value>::new());
    assert_eq!(
        notes(&records),
        ["before new", "shutdown new 2 true", "start new true", "inside true", "answered"]
    );
    let said: Vec<&Value> = of_type(&records, "message_end");
    assert_eq!(said[0]["message"]["content"][0]["text"], "Go on");
    assert_eq!(said[1]["message"]["content"][0]["text"], "Second.");
    let after = data(&mut client, "get_state");
    assert_ne!(after["sessionId"], before["sessionId"]);
    assert_eq!(after["sessionName"], "Continued");
    let messages = data(&mut client, "get_messages")["messages"].clone();
    assert_eq!(messages[0]["content"][0]["text"], "Carried over");
    assert_eq!(messages.as_array().unwrap().len(), 3);
    let entries = data(&mut client, "get_entries")["entries"].clone();
    let handoff = entries.as_array().unwrap().iter().find(|entry| entry["type"] == "custom");
    assert_eq!(handoff.unwrap()["data"]["from"], before["sessionFile"]);
}

#[test]
fn command_switches_to_an_earlier_session() {
    let mut client = with(
        "say First.\n",
        r#"
        export default function (pi) {
            pi.on("session_start", (event, ctx) => ctx.ui.notify(`start ${event.reason}`));
            pi.registerCommand("back", {
                handler: async (path, ctx) => {
                    const result = await ctx.switchSession(path, {
                        withSession: (fresh) => fresh.ui.notify(`in ${fresh.sessionManager.getSessionFile() === path}`),
                    });
                    if (result.cancelled !== false) throw new Error("cancelled");
                },
            });
        }"#,
    );
    prompt(&mut client, "Hello");
    let file = data(&mut client, "get_state")["sessionFile"].clone();
    client.say(&json!({"id": "n", "type": "new_session"}));
    client.response("n");
    let records = command(&mut client, "1", &format!("/back {}", file.as_str().unwrap()));
    assert!(notes(&records).ends_with(&["start resume", "in true"]), "{records:?}");
    assert_eq!(data(&mut client, "get_state")["sessionFile"], file);
    let records = command(&mut client, "2", "/back /nowhere/at-all.jsonl");
    let error = of_type(&records, "extension_error")[0];
    assert_eq!(error["extensionPath"], "command:back");
    assert_eq!(error["error"], "Session file not found: /nowhere/at-all.jsonl");
    assert_eq!(data(&mut client, "get_state")["sessionFile"], file);
}

#[test]
fn command_forks_before_a_message_and_after_an_entry() {
    let mut client = with(
        "say First.\n\nsay Second.\n",
        r#"
        export default function (pi) {
            pi.on("session_before_fork", (event, ctx) => ctx.ui.notify(`before ${event.position}`));
            pi.on("session_start", (event, ctx) => ctx.ui.notify(`start ${event.reason}`));
            pi.registerCommand("fork", {
                handler: async (args, ctx) => {
                    const [id, position] = args.split(" ");
                    await ctx.fork(id, { position });
                },
            });
        }"#,
    );
    prompt(&mut client, "One");
    prompt(&mut client, "Two");
    client.say(&json!({"id": "f", "type": "get_fork_messages"}));
    let forks = client.response("f")["data"]["messages"].clone();
    let second = forks[1]["entryId"].as_str().unwrap().to_owned();
    let file = data(&mut client, "get_state")["sessionFile"].clone();
    let records = command(&mut client, "1", &format!("/fork {second} at"));
    assert_eq!(notes(&records), ["before at", "start fork"]);
    assert_eq!(data(&mut client, "get_messages")["messages"].as_array().unwrap().len(), 3);
    let records = command(&mut client, "2", &format!("/fork {second}"));
    assert_eq!(notes(&records), ["before before", "start fork"]);
    assert_eq!(data(&mut client, "get_messages")["messages"].as_array().unwrap().len(), 2);
    assert_ne!(data(&mut client, "get_state")["sessionFile"], file);
    let records = command(&mut client, "3", "/fork nothing");
    assert_eq!(of_type(&records, "extension_error")[0]["error"], "Invalid entry ID for forking");
}

#[test]
fn dialogs_during_a_session_change_are_answered() {
    let mut client = with(
        "say First.\n",
        r#"
        export default function (pi) {
            for (const name of ["session_before_switch", "session_shutdown", "session_start"]) {
                pi.on(name, async (event, ctx) => {
                    if (event.reason === "startup" || event.reason === "quit") return;
                    const sure = await ctx.ui.confirm(name, "Go on?");
                    if (name === "session_before_switch" && !sure) return { cancel: true };
                });
            }
            pi.registerCommand("fresh", {
                handler: async (args, ctx) => {
                    const { cancelled } = await ctx.newSession();
                    if (cancelled) return ctx.ui.notify("stayed");
                },
            });
        }"#,
    );
    let answer = |client: &mut Client, confirmed: bool| {
        let asked = client.until_type("extension_ui_request").pop().unwrap();
        let id = asked["id"].clone();
        client.say(&json!({"type": "extension_ui_response", "id": id, "confirmed": confirmed}));
        asked["title"].clone()
    };
    prompt(&mut client, "Hello");
    client.say(&json!({"id": "1", "type": "prompt", "message": "/fresh"}));
    assert_eq!(answer(&mut client, false), "session_before_switch");
    assert_eq!(notes(&client.until(|record| record["id"] == "1")), ["stayed"]);
    // What a client says meanwhile waits for the new session.
    client.say(&json!({"id": "2", "type": "prompt", "message": "/fresh"}));
    assert_eq!(answer(&mut client, true), "session_before_switch");
    let asked = client.until_type("extension_ui_request").pop().unwrap();
    assert_eq!(asked["title"], "session_shutdown");
    client.say(&json!({"id": "3", "type": "get_messages"}));
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
    assert_eq!(answer(&mut client, true), "session_start");
    let rest = client.until(|record| record["id"] == "3");
    assert_eq!(rest.last().unwrap()["data"]["messages"], json!([]));
    if !rest.iter().any(|record| record["id"] == "2") {
        assert_eq!(client.response("2")["success"], true);
    }
}

#[test]
fn run_is_closed_before_a_session_change() {
    let mut client = with(
        "call bash {\"command\": \"sleep 60\"}\n\nsay Never.\n",
        r#"
        export default function (pi) {
            pi.on("session_shutdown", (event, ctx) => ctx.ui.notify(`idle ${ctx.isIdle()}`));
            pi.registerCommand("fresh", { handler: async (args, ctx) => void (await ctx.newSession()) });
        }"#,
    );
    client.say(&json!({"type": "prompt", "message": "Sleep"}));
    client.until_type("tool_execution_start");
    let records = command(&mut client, "1", "/fresh");
    let place = |wanted: &dyn Fn(&Value) -> bool| records.iter().position(wanted).unwrap();
    let settled = place(&|record| record["type"] == "agent_settled");
    assert!(settled < place(&|record| record["message"] == "idle true"));
    assert_eq!(data(&mut client, "get_messages")["messages"], json!([]));
}

/// What would begin in a session that is about to end would go on in another.
#[test]
fn no_run_starts_during_session_shutdown() {
    let mut client = with(
        "say First.\n\nsay Second.\n",
        "export default (pi) => pi.on('session_shutdown', () => pi.sendUserMessage('Bye'));",
    );
    prompt(&mut client, "Hello");
    client.say(&json!({"id": "new", "type": "new_session"}));
    let records = client.until(|record| record["id"] == "new");
    assert_eq!(of_type(&records, "extension_error")[0]["event"], "send_user_message");
    assert_eq!(data(&mut client, "get_messages")["messages"], json!([]));
    let records = prompt(&mut client, "Hello again");
    assert_eq!(of_type(&records, "agent_start").len(), 1);
}

#[test]
fn session_change_is_answered_after_extensions_are_loaded() {
    let mut client = with(
        "say First.\n",
        r#"
        export default function (pi) {
            pi.on("session_start", async (event, ctx) => {
                if (event.reason === "startup") return;
                ctx.ui.notify(`start ${event.reason}`);
                const sure = await ctx.ui.confirm("Here?", "in the new session");
                ctx.ui.notify(`sure ${sure}`);
            });
        }"#,
    );
    prompt(&mut client, "Hello");
    for (kind, reason) in [("clone", "fork"), ("new_session", "new")] {
        client.say(&json!({"id": kind, "type": kind}));
        let asked = client.until(|record| record["method"] == "confirm");
        let answer = json!({"type": "extension_ui_response", "id": asked.last().unwrap()["id"], "confirmed": true});
        client.say(&answer);
        let mut records = asked;
        records.extend(client.until(|record| record["id"] == kind));
        assert_eq!(notes(&records), [format!("start {reason}"), "sure true".to_owned()]);
        assert_eq!(records.last().unwrap()["data"], json!({"cancelled": false}));
    }
}
