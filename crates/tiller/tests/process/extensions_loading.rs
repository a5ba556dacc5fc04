//! The command line and stderr with extensions: flags, help, trust, and paths that do not exist.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Client, Place, finish};

const SCRIPT: &str = "say Yes.\n\nsay No.\n";

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
        let reported = client.until(|record| record["method"] == "notify");
        let reported: Value = serde_json::from_str(notes(&reported)[0]).unwrap();
        assert_eq!(reported, expected, "{typed:?}");
        // They are the same in other sessions.
        let mut records = ask(&mut client, json!({"id": "1", "type": "new_session"}));
        if notes(&records).is_empty() {
            records = client.until(|record| record["method"] == "notify");
        }
        let reported: Value = serde_json::from_str(notes(&records)[0]).unwrap();
        assert_eq!(reported[2], expected[2]);
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
        "\nExtension options:\n      --plan            Start in plan mode\n      \
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
