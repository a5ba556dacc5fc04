//! `-p` and `--mode json`: one run without a host.

use expect_test::{Expect, expect};
use serde_json::Value;

use super::client::{Place, finish, types};

/// Runs a script in a print mode and compares the output.
fn check(script: &str, arguments: &[&str], stdin: &str, expected: Expect) {
    let place = Place::new().with("talk.script", script);
    let mut all = vec!["--no-session", "--script", "talk.script"];
    all.extend(arguments);
    let output = place.output(&all, stdin);
    let printed = format!(
        "{}--\n{}exit {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code().unwrap()
    );
    expected.assert_eq(&printed);
}

#[test]
fn demo_model_answers_about_real_files() {
    let place = Place::new().with("notes.md", "# Shopping\n\nBuy milk.\n");
    let arguments = ["-p", "--no-session", "--model", "tiller/demo", "What does notes.md say?"];
    let output = place.output(&arguments, "");
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.contains("Shopping") && answer.contains("Buy milk."), "{answer}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn only_the_last_answer_is_printed() {
    check(
        "say Let me see.\ncall ls {}\n\nsay One script.",
        &["-p", "-t", "ls", "What is here?"],
        "",
        expect![[r#"
            One script.
            --
            exit 0"#]],
    );
}

#[test]
fn failure_is_printed_to_stderr_and_sets_the_exit_code() {
    check(
        "say I was about\nerror fatal 400 bad request",
        &["-p", "Hello"],
        "",
        expect![[r#"
            --
            400 bad request
            exit 1"#]],
    );
}

#[test]
fn stdin_comes_before_the_typed_message() {
    check(
        "expect user \"piped\\n\\ntyped\"\nsay Both.",
        &["-p", "typed"],
        "piped\n",
        expect![[r#"
            Both.
            --
            exit 0"#]],
    );
    check(
        "expect user \"piped\"\nsay Only that.",
        &["-p"],
        "piped\n",
        expect![[r#"
            Only that.
            --
            exit 0"#]],
    );
}

#[test]
fn several_messages_are_sent_in_order() {
    check(
        "expect user one\nsay First.\n\nexpect roles user assistant user\nsay Second.",
        &["-p", "one", "two"],
        "",
        expect![[r#"
            Second.
            --
            exit 0"#]],
    );
}

#[test]
fn files_come_between_stdin_and_typed_message() {
    let place =
        Place::new().with("a.txt", "one\n").with("b.txt", "two").with("talk.script", "say Seen.");
    let arguments = [
        "--mode",
        "json",
        "--no-session",
        "--script",
        "talk.script",
        "@a.txt",
        "Compare",
        "@b.txt",
    ];
    let output = place.output(&arguments, "piped\n");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = records.iter().find(|record| record["type"] == "message_end").unwrap();
    let folder = place.path().canonicalize().unwrap();
    let folder = folder.display();
    assert_eq!(
        said["message"]["content"][0]["text"],
        format!(
            "piped\n\n<file name=\"{folder}/a.txt\">\none\n\n</file>\n<file \
             name=\"{folder}/b.txt\">\ntwo\n</file>\nCompare"
        )
    );
}

#[test]
fn attachment_in_the_home_folder_is_found() {
    let place =
        Place::new().with("a.txt", "one").with("talk.script", "expect user has one\nsay Seen.");
    let arguments = ["-p", "--no-session", "--script", "talk.script", "@~/a.txt"];
    let output = place.output(&arguments, "");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Seen.\n");
}

#[test]
fn text_blocks_are_printed_on_separate_lines() {
    check(
        "say One.\nthink Hm.\nsay Two.",
        &["-p", "go"],
        "",
        expect![[r#"
            One.
            Two.
            --
            exit 0"#]],
    );
}

#[test]
fn image_is_attached_to_the_message() {
    // The smallest PNG: one pixel.
    let pixel =
        b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\
          \x00\x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cc\xf8\x0f\x00\x01\x01\x01\x00\xb18\xf6\
          \x14\x00\x00\x00\x00IEND\xaeB`\x82";
    let place = Place::new().with("talk.script", "say Seen.");
    std::fs::write(place.path().join("dot.png"), pixel).unwrap();
    let arguments =
        ["--mode", "json", "--no-session", "--script", "talk.script", "What is it?", "@dot.png"];
    let text = String::from_utf8(place.output(&arguments, "").stdout).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = records.iter().find(|record| record["type"] == "message_end").unwrap();
    let content = &said["message"]["content"];
    let text = content[0]["text"].as_str().unwrap();
    assert!(text.ends_with("dot.png\"></file>\nWhat is it?"), "{text}");
    assert_eq!(content[1]["mimeType"], "image/png");
}

#[test]
fn failed_attachment_names_the_file() {
    let place = Place::new();
    std::fs::write(place.path().join("noise"), b"\xff\xfe\0").unwrap();
    for (name, why) in [
        ("@gone", "No such file or directory (os error 2)"),
        ("@.", "it is not a regular file"),
        ("@noise", "it is not text"),
    ] {
        let output = place.output(&["-p", "--no-session", "--model", "tiller/demo", name], "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("Error: cannot attach /") && said.contains(why), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

/// The records that `--mode json` prints, and the exit code.
fn events(script: &str) -> (Vec<Value>, Option<i32>) {
    let place = Place::new().with("talk.script", script);
    let arguments = ["--mode", "json", "--no-session", "--script", "talk.script", "Hello"];
    let output = place.output(&arguments, "");
    let text = String::from_utf8(output.stdout).unwrap();
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (records, output.status.code())
}

const RUN: [&str; 10] = [
    "session",
    "agent_start",
    "turn_start",
    "message_start",
    "message_end",
    "message_start",
    "message_end",
    "turn_end",
    "agent_end",
    "agent_settled",
];

#[test]
fn json_mode_prints_a_header_and_the_events() {
    let (records, code) = events("say Hi.");
    assert_eq!(types(&records), RUN);
    assert_eq!((&records[0]["version"], code), (&Value::from(3), Some(0)));
    assert!(records[0]["id"].is_string() && records[0]["timestamp"].is_string());
    assert!(records.iter().any(|record| record["assistantMessageEvent"]["delta"] == "Hi."));
}

#[test]
fn json_mode_failure_sets_the_exit_code() {
    let (records, code) = events("error fatal 400 bad request");
    assert_eq!(types(&records), RUN);
    assert_eq!(code, Some(1));
}

#[test]
fn extension_command_ends_print_mode_without_a_run() {
    let extension = r#"
        export default function (pi) {
            pi.registerCommand("quiet", { handler: async () => {} });
            pi.registerCommand("go", { handler: async () => pi.sendUserMessage("Go on") });
            pi.on("input", (event) => (event.text === "mine" ? { action: "handled" } : undefined));
        }"#;
    for (messages, answer) in [(&["/quiet", "mine"][..], ""), (&["/quiet", "/go"][..], "Gone.\n")] {
        let place = Place::new()
            .with("talk.script", "expect user Go on\nsay Gone.\n")
            .with("ext.ts", extension);
        let mut arguments = vec!["-p", "--no-session", "--script", "talk.script", "-e", "ext.ts"];
        arguments.extend(messages);
        let output = place.output(&arguments, "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), answer, "{messages:?}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn full_disk_is_an_error() {
    let place = Place::new().with("talk.script", "say One.\ncall ls {}\n\nsay Two.");
    for arguments in [
        &["-p", "--script", "talk.script", "--no-session", "Hello"][..],
        &["--mode", "json", "--script", "talk.script", "--no-session", "Hello"],
        &["--mode", "rpc", "--no-session"],
        &["--list-models"],
        &["--help"],
    ] {
        let mut command = place.command(arguments);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let output = finish(command, "{\"type\":\"get_state\"}\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("No space left on device"), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    }
}
