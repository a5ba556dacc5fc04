//! Checks the documentation: the tables of fields in docs/protocol.md, and the client in README.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Place, finish};
use crate::skip::skip;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(path).unwrap()
}

/// The blocks of a document in this language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once(&format!("\n```{language}\n")) {
        let (block, after) = after.split_once("\n```").unwrap();
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// The names in the second column of the table row with this name: the required ones, and those
/// with a question mark.
fn row<'a>(page: &'a str, section: &str, name: &str) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let (_, page) = page.split_once(section).unwrap_or_else(|| panic!("no section {section}"));
    let begin = format!("| `{name}` | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
    let column = row.split(" |").next().unwrap();
    let mut parts = column.split('`');
    let (mut always, mut sometimes) = (BTreeSet::new(), BTreeSet::new());
    parts.next();
    while let Some(name) = parts.next() {
        let behind = parts.next().unwrap_or_default();
        // A list describes its items.
        let into = if behind.starts_with('?') { &mut sometimes } else { &mut always };
        into.insert(name);
        if behind.starts_with(": a list of") {
            break;
        }
    }
    (always, sometimes)
}

#[test]
fn protocol_lists_the_arguments_of_built_in_tools() {
    let page = document("docs/protocol.md");
    let arguments = ["--mode", "rpc", "--wire", "xcsh", "--no-session", "--model", "tiller/demo"];
    let tools = ["--tools", "read,bash,edit,write,grep,find,ls"];
    let output =
        Place::new().output(&[&arguments[..], &tools[..]].concat(), "{\"type\":\"get_state\"}\n");
    let last = String::from_utf8(output.stdout).unwrap();
    let state: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    let tools = state["data"]["dumpTools"].as_array().unwrap();
    assert_eq!(tools.len(), 7, "{tools:?}");
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let schema = &tool["parameters"];
        let all: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let required = schema.get("required").map(names).unwrap_or_default();
        let (always, sometimes) = row(&page, "### Built-in tools", name);
        assert_eq!(always, required, "{name}");
        assert_eq!(sometimes, all.difference(&required).copied().collect(), "{name}");
    }
}

const DIALOGS: &str = r#"
    export default (pi) => pi.registerCommand("ask", {
        handler: async (args, { ui }) => {
            await ui.select("Which?", ["a", "b"], { timeout: 60000 });
            await ui.confirm("Sure?", "Really", { timeout: 60000 });
            await ui.input("Name?", "none", { timeout: 60000 });
            await ui.editor("Text?", "begin");
            ui.notify("Noted", "info");
            ui.setStatus("key", "text");
            ui.setWidget("key", ["line"], { placement: "aboveEditor" });
            ui.setTitle("title");
            ui.setEditorText("text");
        },
    })"#;

#[test]
fn protocol_lists_the_fields_of_dialogs() {
    let page = document("docs/protocol.md");
    let mut client = Place::new().with("ext.ts", DIALOGS).rpc("say Yes.", &["-e", "ext.ts"]);
    client.say(&json!({"id": "ask", "type": "prompt", "message": "/ask"}));
    let mut methods = BTreeSet::new();
    loop {
        let record = client.record().unwrap();
        if record["id"] == "ask" {
            assert_eq!(record["data"]["disposition"], "handled", "{record}");
            break;
        }
        if record["type"] != "extension_ui_request" {
            continue;
        }
        let (always, sometimes) =
            row(&page, "#### `extension_ui_request`", record["method"].as_str().unwrap());
        let fields: BTreeSet<&str> =
            record.as_object().unwrap().keys().map(String::as_str).collect();
        let expected: BTreeSet<&str> =
            ["type", "id", "method"].into_iter().chain(always).chain(sometimes).collect();
        assert_eq!(fields, expected, "{record}");
        methods.insert(record["method"].as_str().unwrap().to_owned());
        client
            .say(&json!({"type": "extension_ui_response", "id": record["id"], "cancelled": true}));
    }
    assert_eq!(methods.len(), 9, "{methods:?}");
    client.close_stdin();
    client.end();
}

/// README's client, with another program, prompt and extension.
fn client_of_readme(place: &Place, message: &str) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        skip("PYTHON", "there is no python3");
        return None;
    }
    let readme = document("README.md");
    let code = blocks(&readme, "python").pop().unwrap();
    let code = [
        ("target/release/tiller", env!("CARGO_BIN_EXE_tiller")),
        ("\"tiller/demo\"]", "\"tiller/demo\", \"--no-session\", \"-e\", \"ext.ts\"]"),
        ("What is in this folder?", message),
    ]
    .iter()
    .fold(code, |code, (from, to)| {
        assert!(code.contains(from), "{from} is not in {code}");
        code.replace(from, to)
    });
    fs::write(place.path().join("client.py"), code).unwrap();
    let output =
        finish(place.command_of(Path::new("timeout"), &["60", "python3", "client.py"]), "");
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn readme_client_ends_after_a_prompt_and_a_command() {
    let place = Place::new().with(
        "ext.ts",
        r#"export default (pi) => pi.registerCommand("greet", { handler: async () => {} })"#,
    );
    if let Some(said) = client_of_readme(&place, "What is in this folder?") {
        assert!(said.contains("[bash {'command': 'ls -1Ap'}]"), "{said}");
        assert!(said.contains("This folder holds 2 files"), "{said}");
        // No run follows, so only the response can end the loop.
        assert_eq!(client_of_readme(&place, "/greet").unwrap(), "");
    }
}
