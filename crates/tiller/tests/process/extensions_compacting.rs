//! Extension hooks for compactions and branch summaries, in the real program.

use serde_json::{Value, json};

use crate::client::{Client, Place};

const SCRIPT: &str = "say Yes.\n\nsay No.\n\nsay Summary of what was said.\n";

/// A client with one extension of this source, whose compactions keep few recent tokens.
fn with(extension: &str) -> Client {
    play(SCRIPT, extension)
}

fn play(script: &str, extension: &str) -> Client {
    let place = Place::new().with("talk.script", script).with("ext.ts", extension);
    std::fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let place =
        place.with(".pi/agent/settings.json", r#"{"compaction": {"keepRecentTokens": 10}}"#);
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

fn until_note(client: &mut Client, note: &str) -> Vec<Value> {
    client.until(|record| record["message"] == note)
}

fn ask(client: &mut Client, request: Value) -> Vec<Value> {
    client.say(&request);
    client.until(|record| record["id"] == request["id"])
}

/// Sends a message long enough to be cut before.
fn prompt(client: &mut Client, text: &str) -> Vec<Value> {
    let text = format!("{text}, and at some length, so that this alone is more than ten tokens");
    client.say(&json!({"type": "prompt", "message": text}));
    client.until_type("agent_settled")
}

fn data(client: &mut Client, kind: &str) -> Value {
    client.say(&json!({"id": kind, "type": kind}));
    client.response(kind)["data"].clone()
}

fn newest(client: &mut Client, kind: &str) -> Value {
    let entries = data(client, "get_entries")["entries"].clone();
    let entries = entries.as_array().unwrap();
    entries.iter().rfind(|entry| entry["type"] == kind).unwrap().clone()
}

#[test]
fn command_starts_a_compaction_and_gets_its_result() {
    let mut client = with(
        r#"
        export default function (pi) {
            pi.on("session_before_compact", (event, ctx) => {
                const { preparation: p, branchEntries, customInstructions, reason, willRetry, signal } = event;
                const has = ["firstKeptEntryId", "isSplitTurn", "tokensBefore", "settings"].filter((key) => key in p);
                ctx.ui.notify(JSON.stringify({
                    has, said: p.messagesToSummarize.length, branch: branchEntries.length > 3, customInstructions,
                    reason, willRetry, aborted: signal.aborted, read: p.fileOps.read instanceof Set,
                    previous: p.previousSummary,
                }));
            });
            pi.on("session_compact", (event, ctx) =>
                ctx.ui.notify(`compacted ${event.reason} ${event.fromExtension} ${event.compactionEntry.summary.slice(0, 7)}`));
            pi.on("session_compact_failed", (event, ctx) =>
                ctx.ui.notify(`failed ${event.reason} ${event.aborted} ${event.errorMessage}`));
            pi.registerCommand("shorten", {
                handler: async (args, ctx) => ctx.compact({
                    customInstructions: args,
                    onComplete: (result) => ctx.ui.notify(`complete ${result.summary.slice(0, 7)} ${result.tokensBefore > 0}`),
                    onError: (error) => ctx.ui.notify(`error ${error.message}`),
                }),
            });
        }"#,
    );
    prompt(&mut client, "One");
    prompt(&mut client, "Two");
    client.say(&json!({"id": "1", "type": "prompt", "message": "/shorten the names"}));
    let records = until_note(&mut client, "complete Summary true");
    let notes = notes(&records);
    let seen: Value = serde_json::from_str(notes[0]).unwrap();
    assert_eq!(seen["has"], json!(["firstKeptEntryId", "isSplitTurn", "tokensBefore", "settings"]));
    assert_eq!(seen["customInstructions"], "the names");
    assert_eq!(seen["reason"], "manual");
    for (key, expected) in
        [("branch", true), ("willRetry", false), ("aborted", false), ("read", true)]
    {
        assert_eq!(seen[key], expected, "{key}");
    }
    assert!(seen.get("previous").is_none());
    assert!(notes.contains(&"compacted manual false Summary"), "{notes:?}");
    let ended = of_type(&records, "compaction_end");
    assert_eq!(ended[0]["reason"], "manual");
    assert_eq!(ended[0]["aborted"], false);
    assert_eq!(newest(&mut client, "compaction")["fromHook"], false);
    // Nothing is left to compact now.
    client.say(&json!({"id": "2", "type": "prompt", "message": "/shorten"}));
    let records = until_note(&mut client, "error Already compacted");
    let failed = "failed manual false Compaction failed: Already compacted";
    assert!(self::notes(&records).contains(&failed), "{records:?}");
}

#[test]
fn extension_supplies_a_summary_or_cancels() {
    let mut client = with(
        r#"
        export default function (pi) {
            let calls = 0;
            pi.on("session_before_compact", (event) => {
                calls += 1;
                if (calls === 1) return { cancel: true };
                const { firstKeptEntryId, tokensBefore } = event.preparation;
                return { compaction: { summary: "In my words", firstKeptEntryId, tokensBefore, details: { by: "me" } } };
            });
            pi.on("session_compact", (event, ctx) => ctx.ui.notify(`from extension ${event.fromExtension}`));
            pi.on("session_compact_failed", (event, ctx) => ctx.ui.notify(`aborted ${event.aborted}`));
        }"#,
    );
    prompt(&mut client, "One");
    prompt(&mut client, "Two");
    let records = ask(&mut client, json!({"id": "1", "type": "compact"}));
    let ended = of_type(&records, "compaction_end");
    assert_eq!(ended[0]["aborted"], true);
    assert_eq!(ended[0]["result"], Value::Null);
    assert_eq!(records.last().unwrap()["error"], "Compaction cancelled");
    let mut records = ask(&mut client, json!({"id": "2", "type": "compact"}));
    let result = records.pop().unwrap()["data"].clone();
    assert_eq!(result["summary"], "In my words");
    assert_eq!(result["details"], json!({"by": "me"}));
    let entry = newest(&mut client, "compaction");
    assert_eq!(entry["summary"], "In my words");
    assert_eq!(entry["fromHook"], true);
    let messages = data(&mut client, "get_messages")["messages"].clone();
    assert_eq!(messages[0]["summary"], "In my words");
}

#[test]
fn automatic_compaction_runs_the_hooks() {
    let script = "say Yes.\n\nsay No.\nusage input=190000 output=20\n\nsay Well.\n\n\
                  say Cut\nusage input=1000 output=5\nstop length\n\nsay Whole.\n";
    let mut client = play(
        script,
        r#"
        export default function (pi) {
            let calls = 0;
            pi.on("session_before_compact", (event, ctx) => {
                calls += 1;
                ctx.ui.notify(`before ${event.reason} ${event.willRetry} ${event.preparation.previousSummary}`);
                const { firstKeptEntryId, tokensBefore } = event.preparation;
                return { compaction: { summary: `Summary ${calls}`, firstKeptEntryId, tokensBefore } };
            });
            pi.on("session_compact", (event, ctx) => ctx.ui.notify(`after ${event.reason} ${event.willRetry}`));
        }"#,
    );
    prompt(&mut client, "One");
    let mut records = prompt(&mut client, "Two");
    records.extend(prompt(&mut client, "Three"));
    let shown = notes(&records);
    assert_eq!(shown, ["before threshold false undefined", "after threshold false"]);
    let mut records = prompt(&mut client, "Four");
    if notes(&records).len() < 2 {
        records.extend(until_note(&mut client, "after overflow true"));
    }
    assert_eq!(notes(&records), ["before overflow true Summary 1", "after overflow true"]);
    assert_eq!(of_type(&records, "compaction_end")[0]["willRetry"], true);
    let messages = data(&mut client, "get_messages")["messages"].clone();
    assert_eq!(messages[0]["summary"], "Summary 2");
}

#[test]
fn command_navigates_and_the_branch_is_summarised() {
    let mut client = with(
        r#"
        export default function (pi) {
            pi.on("session_before_tree", (event, ctx) => {
                const p = event.preparation;
                const kinds = p.entriesToSummarize.filter((e) => e.type === "message").map((e) => e.message.role);
                ctx.ui.notify(JSON.stringify({ ...p, entriesToSummarize: kinds }));
                if (p.label === "no") return { cancel: true };
                if (p.label === "mine") return { summary: { summary: "Mine", details: { by: "me" } }, label: "theirs" };
            });
            pi.on("session_tree", (event, ctx) =>
                ctx.ui.notify(`tree ${event.newLeafId !== event.oldLeafId} ${event.summaryEntry?.type} ${event.fromExtension}`));
            pi.registerCommand("back", {
                handler: async (args, ctx) => {
                    const [id, options] = [args.slice(0, args.indexOf(" ")), args.slice(args.indexOf(" "))];
                    const { cancelled } = await ctx.navigateTree(id, JSON.parse(options));
                    ctx.ui.notify(`cancelled ${cancelled}`);
                },
            });
        }"#,
    );
    prompt(&mut client, "One");
    prompt(&mut client, "Two");
    client.say(&json!({"id": "f", "type": "get_fork_messages"}));
    let forks = client.response("f")["data"]["messages"].clone();
    let second = forks[1]["entryId"].as_str().unwrap().to_owned();
    let old_leaf = data(&mut client, "get_entries")["leafId"].clone();
    let back = |client: &mut Client, options: Value| {
        let text = format!("/back {second} {options}");
        ask(client, json!({"id": "b", "type": "prompt", "message": text}))
    };
    let records = back(&mut client, json!({"label": "no"}));
    assert_eq!(notes(&records)[1], "cancelled true");
    let seen: Value = serde_json::from_str(notes(&records)[0]).unwrap();
    assert_eq!(seen["oldLeafId"], old_leaf);
    assert_eq!(seen["targetId"], second.as_str());
    assert_eq!(seen["commonAncestorId"], second.as_str());
    assert_eq!(seen["entriesToSummarize"], json!(["assistant"]));
    assert_eq!(seen["userWantsSummary"], false);
    assert_eq!(data(&mut client, "get_entries")["leafId"], old_leaf);

    let options = json!({"summarize": true, "customInstructions": "Names", "label": "tried"});
    let records = back(&mut client, options);
    assert_eq!(notes(&records)[1..], ["tree true branch_summary false", "cancelled false"]);
    let entry = newest(&mut client, "branch_summary");
    assert_eq!(entry["summary"], "Summary of what was said.");
    assert_eq!(entry["fromId"], old_leaf);
    assert_eq!(entry["fromHook"], false);
    assert_eq!(entry["details"], json!({"readFiles": [], "modifiedFiles": []}));
    let label = newest(&mut client, "label");
    assert_eq!((&label["label"], &label["targetId"]), (&json!("tried"), &entry["id"]));
    let messages = data(&mut client, "get_messages")["messages"].clone();
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "branchSummary"]);

    let records = back(&mut client, json!({"summarize": true, "label": "mine"}));
    assert_eq!(notes(&records)[1..], ["tree true branch_summary true", "cancelled false"]);
    let entry = newest(&mut client, "branch_summary");
    assert_eq!((&entry["summary"], &entry["fromHook"]), (&json!("Mine"), &json!(true)));
    assert_eq!(newest(&mut client, "label")["label"], "theirs");

    // The client's own command runs the hooks too; the entry it names becomes the leaf.
    let first = forks[0]["entryId"].clone();
    let records = ask(&mut client, json!({"id": "n", "type": "navigate_tree", "entryId": first}));
    assert_eq!(records.last().unwrap()["data"], json!({"cancelled": false}));
    until_note(&mut client, "tree true undefined undefined");
    assert_eq!(data(&mut client, "get_messages")["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn abort_cancels_a_branch_summary() {
    let mut client = with(
        r#"
        export default function (pi) {
            pi.on("session_before_tree", async (event, ctx) => {
                ctx.ui.notify("asked");
                await new Promise((resolve) => event.signal.addEventListener("abort", resolve));
            });
            pi.registerCommand("back", {
                handler: async (id, ctx) => {
                    const { cancelled } = await ctx.navigateTree(id, { summarize: true });
                    ctx.ui.notify(`cancelled ${cancelled}`);
                },
            });
        }"#,
    );
    prompt(&mut client, "One");
    let leaf = data(&mut client, "get_entries")["leafId"].clone();
    client.say(&json!({"id": "f", "type": "get_fork_messages"}));
    let forks = client.response("f")["data"]["messages"].clone();
    let text = format!("/back {}", forks[0]["entryId"].as_str().unwrap());
    client.say(&json!({"id": "1", "type": "prompt", "message": text}));
    until_note(&mut client, "asked");
    let records = ask(&mut client, json!({"id": "a", "type": "abort"}));
    assert_eq!(records.last().unwrap()["success"], true);
    until_note(&mut client, "cancelled true");
    assert_eq!(data(&mut client, "get_entries")["leafId"], leaf);
}

#[test]
fn branch_summary_follows_custom_instructions() {
    let script = "say Yes.\n\nexpect user has Additional focus: Names\nsay Focused.\n\n\
                  expect user has \"</conversation>\\n\\nOnly a word\"\nsay Replaced.\n";
    let mut client = play(
        script,
        r#"
        export default function (pi) {
            pi.registerCommand("back", {
                handler: async (args, ctx) => {
                    const [id, options] = [args.slice(0, args.indexOf(" ")), args.slice(args.indexOf(" "))];
                    await ctx.navigateTree(id, JSON.parse(options));
                },
            });
        }"#,
    );
    prompt(&mut client, "One");
    let answer = data(&mut client, "get_entries")["leafId"].clone();
    client.say(&json!({"id": "f", "type": "get_fork_messages"}));
    let forks = client.response("f")["data"]["messages"].clone();
    let wanted = json!({"summarize": true, "customInstructions": "Names"});
    let alone = json!({
        "summarize": true, "customInstructions": "Only a word", "replaceInstructions": true,
    });
    for (options, expected) in [(wanted, "Focused."), (alone, "Replaced.")] {
        // Back on the branch to be abandoned.
        let request = json!({"id": "n", "type": "navigate_tree", "entryId": answer});
        assert_eq!(ask(&mut client, request).pop().unwrap()["success"], true);
        let text = format!("/back {} {options}", forks[0]["entryId"].as_str().unwrap());
        let records = ask(&mut client, json!({"id": "b", "type": "prompt", "message": text}));
        assert_eq!(of_type(&records, "extension_error"), Vec::<&Value>::new());
        assert_eq!(newest(&mut client, "branch_summary")["summary"], expected);
    }
}
