//! Loading of extensions in the real program: reload after a change, flags, trust decisions, and
//! skills and templates of extensions.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Client, Place, finish};

const SCRIPT: &str = "say Yes.\n\nsay No.\n";

/// An extension that reports session start and end, and has one command.
fn announcing_extension(name: &str) -> String {
    format!(
        r#"
        export default function (pi) {{
            pi.on("session_start", (event, ctx) => ctx.ui.notify(`{name} start ${{event.reason}}`));
            pi.on("session_shutdown", (event, ctx) => ctx.ui.notify(`{name} end ${{event.reason}}`));
            pi.registerCommand("{name}", {{ handler: async (args, ctx) => void (await ctx.reload()) }});
        }}"#
    )
}

fn write(place: &Place, name: &str, text: &str) {
    let path = place.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The command line of a host in this folder.
fn command(place: &Place, folder: &str, arguments: &[&str]) -> Command {
    write(place, "talk.script", SCRIPT);
    let script = place.path().join("talk.script");
    let mut all = vec!["--mode", "rpc", "--no-session", "--script", script.to_str().unwrap()];
    all.extend(arguments);
    let mut command = place.command(&all);
    let folder = place.path().join(folder);
    fs::create_dir_all(&folder).unwrap();
    command.current_dir(folder);
    command
}

fn start(place: &Place, arguments: &[&str]) -> Client {
    Client::start(command(place, "", arguments), place.clone())
}

fn notes(records: &[Value]) -> Vec<&str> {
    let shown = records.iter().filter(|record| record["method"] == "notify");
    shown.map(|record| record["message"].as_str().unwrap()).collect()
}

fn ask(client: &mut Client, request: Value) -> Vec<Value> {
    client.say(&request);
    client.until(|record| record["id"] == request["id"])
}

/// The names of commands, templates and skills.
fn names(client: &mut Client) -> Vec<String> {
    let mut records = ask(client, json!({"id": "names", "type": "get_commands"}));
    let commands = records.pop().unwrap()["data"]["commands"].clone();
    let commands = commands.as_array().unwrap().iter();
    commands.map(|command| command["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn reload_finds_changed_added_and_removed_extensions() {
    let place = Place::new();
    write(&place, ".pi/agent/extensions/a.ts", &announcing_extension("alpha"));
    write(&place, ".pi/agent/extensions/b.ts", &announcing_extension("beta"));
    let mut client = start(&place, &[]);
    assert_eq!(names(&mut client), ["alpha", "beta"]);
    write(&place, ".pi/agent/extensions/a.ts", &announcing_extension("omega"));
    fs::remove_file(place.path().join(".pi/agent/extensions/b.ts")).unwrap();
    write(&place, ".pi/agent/extensions/c.ts", &announcing_extension("gamma"));
    write(&place, ".pi/agent/extensions/d.ts", "export default 3;");
    let records = ask(&mut client, json!({"id": "1", "type": "reload"}));
    assert_eq!(records.last().unwrap()["success"], true);
    assert_eq!(
        notes(&records),
        ["alpha end reload", "beta end reload", "omega start reload", "gamma start reload"]
    );
    let failed: Vec<&Value> =
        records.iter().filter(|record| record["type"] == "extension_error").collect();
    assert_eq!(failed[0]["event"], "load");
    assert_eq!(names(&mut client), ["omega", "gamma"]);
}

#[test]
fn reload_loads_the_first_extension() {
    let place = Place::new();
    let mut client = start(&place, &[]);
    assert!(names(&mut client).is_empty());
    write(&place, ".pi/agent/extensions/a.ts", &announcing_extension("alpha"));
    let records = ask(&mut client, json!({"id": "1", "type": "reload"}));
    assert_eq!(notes(&records), ["alpha start reload"]);
    assert_eq!(names(&mut client), ["alpha"]);
    fs::remove_file(place.path().join(".pi/agent/extensions/a.ts")).unwrap();
    let records = ask(&mut client, json!({"id": "2", "type": "reload"}));
    assert_eq!(notes(&records), ["alpha end reload"]);
    assert!(names(&mut client).is_empty());
}

#[test]
fn command_reloads_and_its_prompt_is_answered() {
    let place = Place::new();
    write(&place, "ext.ts", &announcing_extension("again"));
    let mut client = start(&place, &["-e", "ext.ts"]);
    client.until(|record| record["message"] == "again start startup");
    write(&place, "ext.ts", &announcing_extension("other"));
    let mut records = ask(&mut client, json!({"id": "1", "type": "prompt", "message": "/again"}));
    assert_eq!(records.last().unwrap()["success"], true);
    records.extend(ask(&mut client, json!({"id": "2", "type": "get_commands"})));
    assert_eq!(notes(&records), ["again end reload", "other start reload"]);
    assert!(records.iter().all(|record| record["type"] != "extension_error"), "{records:?}");
    assert_eq!(records.last().unwrap()["data"]["commands"][0]["name"], "other");
}

#[test]
fn reload_waits_for_the_run_to_end() {
    let place = Place::new();
    let script = "call wait {}\n\nexpect tool-result waited\nsay Done.\n";
    let tool = r#"
        export default function (pi) {
            pi.on("session_start", (event, ctx) => ctx.ui.notify(`start ${event.reason}`));
            pi.registerTool({
                name: "wait", label: "Wait", description: "Waits", parameters: { type: "object", properties: {} },
                async execute(id, params, signal, onUpdate, ctx) {
                    await ctx.ui.confirm("Wait", "Enough?");
                    return { content: [{ type: "text", text: "waited" }] };
                },
            });
        }"#;
    let mut client = place.with("ext.ts", tool).rpc(script, &["-e", "ext.ts"]);
    client.until(|record| record["message"] == "start startup");
    client.say(&json!({"type": "prompt", "message": "Wait"}));
    let asked = client.until(|record| record["method"] == "confirm").pop().unwrap();
    let records = ask(&mut client, json!({"id": "1", "type": "reload"}));
    assert!(notes(&records).is_empty());
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
    let records = client.until_type("agent_settled");
    let ended = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
    assert_eq!(ended["isError"], false, "{ended}");
    client.until(|record| record["message"] == "start reload");
}

#[test]
fn skills_and_templates_of_extensions_are_listed() {
    let place = Place::new();
    let skill = "---\nname: baking\ndescription: How to bake\n---\nBake.\n";
    write(&place, "mine/skills/baking/SKILL.md", skill);
    write(&place, "mine/prompts/greet.md", "Say hello to $1.\n");
    write(&place, "mine/prompts-later/part.md", "Say goodbye.\n");
    write(
        &place,
        "ext.ts",
        r#"
        import { join } from "node:path";
        export default function (pi) {
            pi.on("resources_discover", (event) => ({
                skillPaths: [join(event.cwd, "mine/skills")],
                promptPaths: [event.reason === "reload" ? "mine/prompts-later" : "mine/prompts"],
            }));
            pi.registerCommand("say", {
                handler: async (args) => pi.sendUserMessage("/greet Ada", { expandPromptTemplates: args === "expanded" }),
            });
        }"#,
    );
    let mut client = start(&place, &["-e", "ext.ts"]);
    assert_eq!(names(&mut client), ["say", "greet", "skill:baking"]);
    let commands = ask(&mut client, json!({"id": "c", "type": "get_commands"})).pop().unwrap();
    let info = |at: usize| commands["data"]["commands"][at]["sourceInfo"].clone();
    for at in [1, 2] {
        assert_eq!(info(at)["source"], "extension:ext");
        assert_eq!(info(at)["baseDir"], json!(place.path()));
    }
    for (arguments, said) in [("expanded", "Say hello to Ada."), ("plain", "/greet Ada")] {
        client.say(&json!({"type": "prompt", "message": format!("/say {arguments}")}));
        let records = client.until_type("agent_settled");
        let message = records.iter().find(|record| record["type"] == "message_end").unwrap();
        let text = message["message"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.trim(), said);
    }
    let mut records = ask(&mut client, json!({"id": "1", "type": "reload"}));
    let counted = records.pop().unwrap()["data"].clone();
    assert_eq!((&counted["skills"], &counted["promptTemplates"]), (&json!(1), &json!(1)));
    assert_eq!(names(&mut client), ["say", "part", "skill:baking"]);
}

const FLAGS: &str = r#"
    export default function (pi) {
        pi.registerFlag("plan", { type: "boolean", description: "Plan first" });
        pi.registerFlag("mood", { type: "string", default: "calm" });
        const early = pi.getFlag("mood");
        pi.on("session_start", (event, ctx) =>
            ctx.ui.notify(JSON.stringify([early, pi.getFlag("plan"), pi.getFlag("mood"), pi.getFlag("other")])));
    }"#;

#[test]
fn extension_flags_have_the_typed_values() {
    for (typed, expected) in [
        (&["--plan", "--mood", "merry"][..], json!(["calm", true, "merry", null])),
        (&["--mood=so so"][..], json!(["calm", null, "so so", null])),
        (&["--mood", "merry", "--plan"][..], json!(["calm", true, "merry", null])),
        (&[][..], json!(["calm", null, "calm", null])),
    ] {
        let place = Place::new();
        write(&place, "ext.ts", FLAGS);
        let mut arguments = vec!["-e", "ext.ts"];
        arguments.extend(typed);
        let mut client = start(&place, &arguments);
        let told = client.until(|record| record["method"] == "notify");
        let told: Value = serde_json::from_str(notes(&told)[0]).unwrap();
        assert_eq!(told, expected, "{typed:?}");
        // They are the same in other sessions.
        let mut records = ask(&mut client, json!({"id": "1", "type": "new_session"}));
        if notes(&records).is_empty() {
            records = client.until(|record| record["method"] == "notify");
        }
        let told: Value = serde_json::from_str(notes(&records)[0]).unwrap();
        assert_eq!(told[2], expected[2]);
    }
}

#[test]
fn unknown_options_end_the_start() {
    for (typed, expected) in [
        (&["--frob"][..], "Error: Unknown option: --frob\n"),
        (&["--frob", "--nob=3"][..], "Error: Unknown options: --frob, --nob\n"),
        (&["--plan", "--mood"][..], "Error: Extension flag \"--mood\" requires a value\n"),
    ] {
        let place = Place::new();
        write(&place, "ext.ts", FLAGS);
        let mut arguments = vec!["-e", "ext.ts"];
        arguments.extend(typed);
        let output = finish(command(&place, "", &arguments), "");
        assert_eq!(output.status.code(), Some(2), "{typed:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        // A message that was never sent is not mentioned.
        let said = ["-p", "--no-session", "--model", "tiller/demo", "hello"];
        let output = place.output(&[&said, &arguments[..]].concat(), "");
        assert_eq!(output.status.code(), Some(2), "{typed:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    }
}

#[test]
fn help_lists_extension_options() {
    let place = Place::new();
    let extension = r#"
        export default function (pi) {
            pi.registerFlag("plan", { description: "Start in\n  plan mode", type: "boolean" });
            pi.registerFlag("preset", { description: "Preset to use", type: "string" });
            pi.registerFlag("bare", { type: "boolean" });
        }"#;
    write(&place, ".pi/agent/extensions/flags.ts", extension);
    write(&place, "bad.ts", "throw new Error('no good');");
    let without = place.output(&["--help", "--no-extensions"], "");
    let without = String::from_utf8(without.stdout).unwrap();
    assert!(!without.contains("Options of extensions"), "{without}");
    let path = place.path().join(".pi/agent/extensions/flags.ts");
    let options = format!(
        "\nOptions of extensions:\n      --plan            Start in plan mode\n      \
         --preset <VALUE>  Preset to use\n      --bare            Registered by {}\n",
        path.display()
    );
    for arguments in [&["--help"][..], &["-e", "bad.ts", "--help", "--preset", "x"]] {
        let output = place.output(arguments, "");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{without}{options}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("no good"), arguments.len() > 1, "{said}");
    }
}

fn judge(answer: &str) -> String {
    format!(
        r#"
        export default function (pi) {{
            pi.on("project_trust", async (event, ctx) => {{
                const all = Object.keys(ctx).sort().join(" ");
                ctx.ui.notify(`${{event.cwd.endsWith("project")}} ${{all}}`);
                return {answer};
            }});
            pi.on("session_start", (event, ctx) => ctx.ui.notify(`judge ${{ctx.isProjectTrusted()}}`));
        }}"#
    )
}

/// The commands available after this extension has decided about trust.
fn judged(place: &Place, answer: &str, arguments: &[&str]) -> (Vec<String>, Vec<String>) {
    write(place, ".pi/agent/extensions/judge.ts", &judge(answer));
    write(place, "project/.pi/extensions/theirs.ts", &announcing_extension("theirs"));
    write(place, "project/.pi/prompts/template.md", "Say it.\n");
    let mut client = Client::start(command(place, "project", arguments), place.clone());
    let records = ask(&mut client, json!({"id": "1", "type": "get_commands"}));
    let notes = notes(&records).into_iter().map(str::to_owned).collect();
    (notes, names(&mut client))
}

#[test]
fn extension_decides_project_trust() {
    let asked = "true cwd hasUI mode ui";
    let (notes, names) = judged(&Place::new(), r#"{ trusted: "yes" }"#, &[]);
    assert_eq!(names, ["theirs", "template"]);
    // The project's own come before the user's.
    assert_eq!(notes, [asked, "theirs start startup", "judge true"]);

    let (notes, names) = judged(&Place::new(), r#"{ trusted: "undecided" }"#, &[]);
    assert!(names.is_empty());
    assert_eq!(notes, [asked, "judge false"]);

    // The command line takes precedence.
    let (notes, names) = judged(&Place::new(), r#"{ trusted: "no" }"#, &["--approve"]);
    assert_eq!(names, ["theirs", "template"]);
    assert_eq!(notes, ["theirs start startup", "judge true"]);
}

#[test]
fn trust_decision_of_an_extension_is_stored() {
    let place = Place::new();
    let (_, names) = judged(&place, r#"{ trusted: "yes", remember: true }"#, &[]);
    assert_eq!(names, ["theirs", "template"]);
    let kept = fs::read_to_string(place.path().join(".pi/agent/trust.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let project = place.path().join("project");
    assert_eq!(kept[real(&project)], true, "{kept}");
    let (notes, names) = judged(&place, r#"{ trusted: "undecided" }"#, &[]);
    assert_eq!(names, ["theirs", "template"]);
    assert_eq!(notes[1..], ["theirs start startup", "judge true"]);
    // A stored decision does not bind an extension.
    let (notes, names) = judged(&place, r#"{ trusted: "no" }"#, &[]);
    assert!(names.is_empty());
    assert_eq!(notes[1..], ["judge false"]);
}

fn real(path: &Path) -> String {
    path.canonicalize().unwrap().display().to_string()
}

/// Unused files are reported after the decision, and only then.
#[test]
fn untrusted_files_are_reported_after_the_decision() {
    let said = |answer: &str| {
        let place = Place::new();
        write(&place, ".pi/agent/extensions/judge.ts", &judge(answer));
        write(&place, "project/.pi/prompts/template.md", "Say it.\n");
        let asks = format!("{}\n", json!({"type": "get_commands"}));
        let output = finish(command(&place, "project", &[]), &asks);
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let times = |sentence: &str| said.matches(sentence).count();
        let general = times("Not used because this project is not trusted");
        (general, times("Not used because an extension does not trust it: .pi/prompts"))
    };
    assert_eq!(said(r#"{ trusted: "yes" }"#), (0, 0));
    assert_eq!(said(r#"{ trusted: "undecided" }"#), (1, 0));
    // Without the extension the project would not be trusted either.
    assert_eq!(said(r#"{ trusted: "no" }"#), (0, 1));
}

#[test]
fn missing_extension_path_ends_the_start() {
    let place = Place::new();
    let path = place.path().canonicalize().unwrap().join("gone.ts");
    let expected = format!("Error: Extension path does not exist: {}\n", path.display());
    for arguments in [
        &["-p", "--no-session", "--model", "tiller/demo", "-e", "gone.ts", "Hi"][..],
        &["--mode", "rpc", "--no-session", "-e", "gone.ts"],
        &["--list-models", "-e", "gone.ts"],
    ] {
        let output = place.output(arguments, "");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!((output.stdout.len(), output.status.code()), (0, Some(1)));
    }
}
