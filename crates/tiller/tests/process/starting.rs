//! The command line and start-up.

use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::json;

use super::client::{Client, Place, finish};

/// Runs the program and compares its exit code and output.
fn check(arguments: &[&str], expected: Expect) {
    let Output { status, stdout, stderr } = Place::new().output(arguments, "");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    expected.assert_eq(&format!("{stdout}{stderr}exit {}", status.code().unwrap()));
}

#[test]
fn invalid_command_line_is_refused_in_one_sentence() {
    check(
        &["--frobnicate"],
        expect![[r#"
            Error: Unknown option: --frobnicate
            exit 2"#]],
    );
    check(
        &["--modle", "tiller/demo"],
        expect![[r#"
            Error: Unknown option: --modle (did you mean --model?)
            exit 2"#]],
    );
    check(
        &["--mode", "telepathy"],
        expect![[r#"
            Error: Invalid mode "telepathy". Valid values: text, json, rpc, acp
            exit 2"#]],
    );
    check(
        &["--mode", "rpc", "@notes.md"],
        expect![[r#"
            Error: @file arguments are not supported in RPC mode
            exit 2"#]],
    );
}

#[test]
fn invalid_value_is_refused_with_the_valid_ones() {
    check(
        &["--wire", "pii"],
        expect![[r#"
            Error: Invalid value "pii" for --wire. Valid values: pi, pi-delta, xcsh
            exit 2"#]],
    );
    check(
        &["--name"],
        expect![[r#"
            Error: Missing value: --name <NAME>
            exit 2"#]],
    );
    check(
        &["--model"],
        expect![[r#"
            Error: Missing value: --model <MODEL>
            exit 2"#]],
    );
}

#[test]
fn every_usage_error_has_one_style_and_exit_code_2() {
    for (arguments, said) in [
        (&["session"][..], "Error: Missing command: --help lists them\n"),
        (&["session", "lst"][..], "Error: Unknown command: lst (did you mean list?)\n"),
        (&["session", "list", "--al"][..], "Error: Unknown option: --al (did you mean --all?)\n"),
        (&["session", "list", "x"][..], "Error: Unexpected argument: x\n"),
        (&["session", "list", "--limit", "x"][..], "Error: Invalid value \"x\" for --limit <N>\n"),
        (&["auth", "set"][..], "Error: Missing argument: <PROVIDER>\n"),
        (
            &["completions", "dish"][..],
            "Error: Invalid value \"dish\" for <SHELL>. Valid values: bash, elvish, fish, powershell, \
             zsh\n",
        ),
        (&["--name", " ", "-p", "Hi"][..], "Error: --name requires a non-empty value\n"),
        (
            &["-c", "--no-session", "-p", "Hi"][..],
            "Error: --continue cannot be combined with --no-session\n",
        ),
        (
            &["--api-key", "k", "-p", "Hi"][..],
            "Error: --api-key requires a model to be specified via --model, --provider/--model, or \
             --models\n",
        ),
        (
            &["--model", "m", "--api-key", "k", "--api-key-file", "f", "-p", "Hi"][..],
            "Error: --api-key and --api-key-file cannot be used together\n",
        ),
        (
            &["-p"][..],
            "Error: Missing message: pass one as an argument, pipe one in, or use --mode rpc\n",
        ),
    ] {
        let output = Place::new().output(arguments, "");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{arguments:?}");
        assert_eq!((output.stdout.len(), output.status.code()), (0, Some(2)), "{arguments:?}");
    }
}

#[test]
fn tiller_alone_prints_a_short_usage_with_examples() {
    check(
        &[],
        expect![[r#"
            A coding agent that other programs drive.

            Usage: tiller [OPTIONS] [MESSAGE]...

            Examples:
              tiller chat                                    chat with a model in the terminal
              tiller chat --model tiller/demo                the same without a key, to try it
              tiller -p --model tiller/demo "What is here?"  print one answer
              tiller auth set anthropic                      store a key for the other models
              tiller --mode rpc                              serve a client over stdin and stdout

            `tiller --help` lists all options and commands.
            exit 2"#]],
    );
}

#[test]
fn help_command_equals_the_help_flag() {
    let place = Place::new();
    let printed =
        |arguments: &[&str]| String::from_utf8(place.output(arguments, "").stdout).unwrap();
    assert_eq!(printed(&["help"]), printed(&["--help"]));
    assert_eq!(printed(&["help", "session"]), printed(&["session", "--help"]));
    assert_eq!(printed(&["help", "session", "list"]), printed(&["session", "list", "--help"]));
    for (arguments, usage) in [
        (&["help", "session"][..], "Usage: tiller session <COMMAND>\n"),
        (&["help", "session", "list"], "Usage: tiller session list [OPTIONS]\n"),
    ] {
        let text = printed(arguments);
        assert!(text.contains(usage), "{text}");
    }
    assert!(printed(&["help", "auth"]).contains("remove"));
}

#[test]
fn word_near_a_command_is_refused_and_not_sent_to_a_model() {
    check(
        &["--model", "tiller/demo", "doctor"],
        expect![[r#"
            Error: Unknown command: doctor (`tiller auth list` shows the keys, `tiller --list-models` the models, `tiller session check FILE` the state of a session); with -p it is sent as a message
            exit 2"#]],
    );
    check(
        &["sesion", "list"],
        expect![[r#"
            Error: Unknown command: sesion (did you mean `tiller session`?); with -p it is sent as a message
            exit 2"#]],
    );
    let place = Place::new();
    for message in [&["-p", "doctor"][..], &["--", "doctor"], &["--mode", "text", "doctor"]] {
        let arguments =
            [&["--no-session", "--model", "tiller/demo", "--no-tools"], message].concat();
        assert_eq!(place.output(&arguments, "").status.code(), Some(0), "{message:?}");
    }
}

/// Hosts of other programs rely on this.
#[test]
fn unknown_thinking_level_is_reported_and_ignored() {
    check(
        &[
            "-p",
            "--no-session",
            "--model",
            "tiller/demo",
            "--thinking",
            "deeply",
            "--no-tools",
            "Hi",
        ],
        expect![[r#"
            Hello! I am tiller's demo model. Ask me what is in this folder, to read a file or to run a command; say "help" for more.
            Warning: Invalid thinking level "deeply". Valid values: off, minimal, low, medium, high, xhigh, max
            exit 0"#]],
    );
}

#[test]
fn help_has_groups_and_examples_and_fits_a_terminal() {
    let place = Place::new();
    let short = String::from_utf8(place.output(&["-h"], "").stdout).unwrap();
    let long = String::from_utf8(place.output(&["--help"], "").stdout).unwrap();
    assert_eq!(short, long);
    let headings: Vec<&str> =
        short.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(
        headings,
        [
            "Arguments:",
            "Options:",
            "Modes:",
            "Model:",
            "Tools:",
            "Limits:",
            "Sandbox:",
            "Session:",
            "Files:",
            "Commands:",
            "Examples:"
        ]
    );
    let wide: Vec<&str> = short.lines().filter(|line| line.chars().count() > 100).collect();
    assert_eq!(wide, [""; 0]);
}

#[test]
fn repeated_flag_takes_its_last_value() {
    let place = Place::new().with("talk.script", "expect tools ls read\nsay Yes.\n");
    let flags = "--mode text --mode json --no-session --no-session --script none --script \
                 talk.script --model none --model tiller/script --thinking low --thinking high \
                 --tools bash --tools ls,read --exclude-tools ls --exclude-tools bash --no-tools \
                 --no-tools --on-eof abort --on-eof finish Go";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let output = place.output(&flags, "");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("\"text\":\"Yes.\""), "{said}{error}");
    assert_eq!(output.status.code(), Some(0));
}

/// Programs with a screen use these flags, and hosts pass them to all programs.
#[test]
fn screen_flags_are_accepted_silently() {
    let place = Place::new();
    let flags = "--mode rpc --no-session --theme dark --theme light --use-theme dark --no-themes \
                 --tui-mode full --verbose --offline --no-mcp --no-rules --no-title --no-lsp \
                 --provider-session-id abc --skills a,b -nt -nbt -ne -ns -np -nc -na ignored message";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let output = place.output(&flags, "{\"id\":1,\"type\":\"get_commands\"}\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let expected = "{\"id\":1,\"type\":\"response\",\"command\":\"get_commands\",\
                    \"success\":true,\"data\":{\"commands\":[]}}\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn called_as_xcsh_unknown_options_are_ignored() {
    let place = Place::new();
    let program = place.path().join("xcsh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiller"), &program).unwrap();
    let flags = ["--mode", "rpc", "--no-session", "--frobnicate", "--level=9", "-Z"];
    let output = finish(place.command_of(&program, &flags), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "Warning: Unknown option --frobnicate is ignored\n\
         Warning: Unknown option --level is ignored\n\
         Warning: Unknown option -Z is ignored\n"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn completions_and_the_manual_know_every_flag() {
    let place = Place::new();
    let printed = |arguments: &[&str]| {
        let output = place.output(arguments, "");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let help = printed(&["-h"]);
    let flags: Vec<&str> = help
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .collect();
    assert!(flags.len() > 40, "{flags:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for flag in &flags {
            assert!(script.contains(flag.trim_start_matches('-')), "{shell} lacks {flag}");
        }
        assert!(script.contains("completions") && script.contains("check"), "{shell}");
    }
    let page = printed(&["man"]).replace("\\-", "-");
    for flag in &flags {
        assert!(page.contains(flag), "the manual lacks {flag}");
    }
    assert!(page.starts_with(".ie") && page.contains(".SH MODES"));
}

#[test]
fn version_is_that_of_the_program_it_is_called_as() {
    let version = |name: &str, wire: Option<&str>| {
        let place = Place::new();
        let program = place.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiller"), &program).unwrap();
        let printed = ["--version", "-V", "-v"].map(|flag| {
            let mut command = place.command_of(&program, &[flag]);
            command.envs(wire.map(|wire| ("TILLER_WIRE", wire)));
            String::from_utf8(finish(command, "").stdout).unwrap()
        });
        assert!(printed[0] == printed[1] && printed[1] == printed[2], "{printed:?}");
        printed[0].clone()
    };
    let own = version("tiller", None);
    let start = concat!("tiller ", env!("CARGO_PKG_VERSION"), " (");
    let built_from = own.strip_prefix(start).and_then(|rest| rest.strip_suffix(")\n")).unwrap();
    // A packaged crate knows no commit.
    let target = built_from.split_once(", ").map_or(built_from, |(commit, target)| {
        assert!(commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{own}");
        target
    });
    assert!(target.contains(std::env::consts::ARCH), "{own}");
    assert_eq!(version("xcsh", None), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(version("pi", None), "0.80.2\n");
    assert_eq!(version("pi", Some("pi-delta")), "1.4.0\n");
}

#[test]
fn called_as_xcsh_it_emits_ready() {
    let place = Place::new();
    let program = place.path().join("xcsh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiller"), &program).unwrap();
    let command = place.command_of(&program, &["--mode", "rpc", "--no-session"]);
    let mut client = Client::start(command, place);
    assert_eq!(client.record().unwrap()["type"], "ready");
}

#[test]
fn without_credentials_only_prompts_fail() {
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

#[test]
fn host_of_omp_starts_with_its_own_flags() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("there")).unwrap();
    let there = place.path().join("there");
    let arguments = ["--mode", "rpc-ui", "--cwd", "there", "--no-session", "--wire", "pi@1"];
    let mut client = Client::start(place.command(&arguments), place);
    client.say(&json!({"id": "1", "type": "bash", "command": "pwd"}));
    let answer = client.until(|record| record["type"] == "response").pop().unwrap();
    let folder = there.canonicalize().unwrap();
    assert_eq!(answer["data"]["output"], format!("{}\n", folder.display()));
    client.say(&json!({"id": "2", "type": "get_state"}));
    assert_eq!(client.response("2")["data"]["model"]["id"], "unknown");
}

#[test]
fn wrong_folder_or_mixed_tool_list_ends_the_start() {
    check(
        &["--mode", "rpc", "--cwd", "nowhere"],
        expect![[r#"
        Error: cannot change to nowhere (--cwd): No such file or directory (os error 2)
        exit 1"#]],
    );
    check(
        &["--tools", "read,+ls", "-p", "Hi"],
        expect![[r#"
        Error: --tools takes names, or +name and -name, which change the default tools; not both
        exit 2"#]],
    );
}
