//! The command line, and the first moments.

use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::json;

use super::client::{Client, Place, finish};

/// Runs the program and compares its exit code and what it printed.
fn check(arguments: &[&str], expected: Expect) {
    let Output { status, stdout, stderr } = Place::new().output(arguments, "");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    expected.assert_eq(&format!("{stdout}{stderr}exit {}", status.code().unwrap()));
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused_in_one_sentence() {
    check(
        &["--frobnicate"],
        expect![[r#"
            Error: Unknown option: --frobnicate
            exit 1"#]],
    );
    check(
        &["--modle", "tiller/demo"],
        expect![[r#"
            Error: Unknown option: --modle (did you mean --model?)
            exit 1"#]],
    );
    check(
        &["--mode", "telepathy"],
        expect![[r#"
            Error: Invalid mode "telepathy". Valid values: text, json, rpc
            exit 1"#]],
    );
    check(
        &["--mode", "rpc", "@notes.md"],
        expect![[r#"
            Error: @file arguments are not supported in RPC mode
            exit 1"#]],
    );
}

#[test]
fn the_version_is_that_of_the_program_it_is_called_as() {
    let version = |name: &str, wire: Option<&str>| {
        let place = Place::new();
        let program = place.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiller"), &program).unwrap();
        let mut command = place.command_of(&program, &["--version"]);
        command.envs(wire.map(|wire| ("TILLER_WIRE", wire)));
        String::from_utf8(finish(command, "").stdout).unwrap()
    };
    assert_eq!(version("tiller", None), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(version("pi", None), "0.80.2\n");
    assert_eq!(version("pi", Some("pi-delta")), "1.4.0\n");
}

#[test]
fn called_as_xcsh_it_says_that_it_is_ready() {
    let place = Place::new();
    let program = place.path().join("xcsh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiller"), &program).unwrap();
    let command = place.command_of(&program, &["--mode", "rpc", "--no-session"]);
    let mut client = Client::start(command, place);
    assert_eq!(client.record().unwrap()["type"], "ready");
}

#[test]
fn without_credentials_everything_works_but_a_prompt() {
    let place = Place::new();
    let command = place.command(&["--mode", "rpc", "--no-session"]);
    let mut client = Client::start(command, place);
    client.say(&json!({"id": "state", "type": "get_state"}));
    assert_eq!(client.response("state")["data"]["model"], json!(null));
    client.say(&json!({"id": "prompt", "type": "prompt", "message": "Hello"}));
    let refused = client.response("prompt");
    assert_eq!(refused["success"], false);
    let help = refused["error"].as_str().unwrap();
    assert!(help.contains("ANTHROPIC_API_KEY") && help.contains("tiller/demo"), "{help}");
    client.close_stdin();
    assert_eq!(client.end(), (vec![], Some(0)));
}
