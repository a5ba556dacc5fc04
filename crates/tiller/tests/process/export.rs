//! `tiller --export FILE [OUT]`, and the same as a command of a host.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::client::{Client, Place, finish};

const SESSION: &str = include_str!("../../../tiller-export/tests/sample/session.jsonl");

fn exported(place: &Place, arguments: &[&str]) -> (PathBuf, String) {
    let output = place.output(arguments, "");
    let said = String::from_utf8(output.stdout).unwrap();
    let path = said.strip_prefix("Exported to: ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(0)));
    let path = PathBuf::from(path.trim_end());
    assert!(path.is_absolute(), "{}", path.display());
    let page = fs::read_to_string(&path).unwrap();
    (path, page)
}

#[test]
fn session_is_exported_as_a_page() {
    let place = Place::new().with("tides.jsonl", SESSION);
    let (path, page) = exported(&place, &["--export", "tides.jsonl"]);
    assert_eq!(path.file_name().unwrap(), "pi-session-tides.html");
    assert!(page.contains("Tide tables that do not lie") && page.ends_with("</html>\n"));
    let (path, again) = exported(&place, &["--export", "tides.jsonl", "a/b/page.html"]);
    assert!(path.ends_with("a/b/page.html"));
    assert_eq!(page, again, "the same session is the same page");
    let (path, _) = exported(&place, &["--wire", "xcsh", "--export", "tides.jsonl"]);
    assert_eq!(path.file_name().unwrap(), "xcsh-session-tides.html");
    assert_eq!(fs::read_to_string(place.path().join("tides.jsonl")).unwrap(), SESSION);
}

#[test]
fn failed_export_names_the_reason() {
    let header = SESSION.lines().next().unwrap();
    let place =
        Place::new().with("empty.jsonl", &format!("{header}\n")).with("notes.md", "notes\n");
    for (arguments, why) in [
        (
            &["--export", "missing.jsonl"][..],
            "Error: Session file not found: FOLDER/missing.jsonl\n",
        ),
        (
            &["--export", "notes.md"],
            "Error: Session file is not a valid pi session: FOLDER/notes.md\n",
        ),
        (
            &["--export", "empty.jsonl"],
            "Error: Nothing to export yet - start a conversation first\n",
        ),
        (&["--export"], "Error: Missing value: --export <FILE> [OUT]\n"),
    ] {
        let output = place.output(arguments, "");
        let said = String::from_utf8(output.stderr).unwrap();
        let folder = place.path().canonicalize().unwrap();
        assert_eq!(said.replace(folder.to_str().unwrap(), "FOLDER"), why);
        let code = if arguments.len() == 1 { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code));
    }
    let others = fs::read_dir(place.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name != "empty.jsonl" && name != "notes.md"
    });
    assert_eq!(others.count(), 0, "nothing was made");
}

#[test]
fn keys_are_masked_in_the_page() {
    let said = SESSION.replace(
        "Smooth across the change",
        "The key is sk-stored-12345678, the token ghp-env-87654321",
    );
    let place = Place::new().with("tides.jsonl", &said);
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let auth = json!({"anthropic": {"type": "api_key", "key": "sk-stored-12345678"}});
    fs::write(place.path().join(".pi/agent/auth.json"), auth.to_string()).unwrap();
    let mut command = place.command(&["--export", "tides.jsonl", "page.html"]);
    command.env("GITHUB_TOKEN", "ghp-env-87654321");
    assert_eq!(finish(command, "").status.code(), Some(0));
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("The key is [redacted], the token [redacted]"));
    assert!(!page.contains("12345678") && !page.contains("87654321"));
}

#[test]
fn small_session_exports_to_a_small_file() {
    let place = Place::new();
    let arguments = ["--mode", "rpc", "--on-eof", "finish", "--model", "tiller/demo"];
    let mut command = place.command(&arguments);
    command.env("ANTHROPIC_API_KEY", "sk-secret-environment");
    let prompt = json!({"type": "prompt", "message": "Hello, sk-secret-environment!"});
    let export = json!({"id": "page", "type": "export_html"});
    let before = finish(place.command(&arguments), &format!("{export}\n"));
    let refusal = "Nothing to export yet - start a conversation first";
    assert!(String::from_utf8(before.stdout).unwrap().contains(refusal));
    let mut client = Client::start(command, place.clone());
    client.say(&prompt);
    client.until_type("agent_settled");
    client.say(&export);
    let answer = client.response("page");
    let path = answer["data"]["path"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let page = fs::read_to_string(path).unwrap();
    assert!(page.len() < 60 * 1024, "{} bytes", page.len());
    assert!(page.contains("System prompt") && page.contains("Hello, [redacted]!"));
    assert!(!page.contains("sk-secret"));
}

#[test]
fn special_files_are_not_replaced() {
    let place = Place::new().with("tides.jsonl", SESSION);
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Not with a real device: a bug in a test run as root would replace it.
    let output = place.output(&["--export", "tides.jsonl", "fifo"], "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("it is a pipe, and only regular files are replaced"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
}
