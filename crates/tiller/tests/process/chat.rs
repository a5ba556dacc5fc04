//! `tiller chat`, with pipes and in a pseudo-terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Output, Stdio};
use std::thread;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::client::Place;
use super::terminal::Terminal;

const SCRIPT: [&str; 6] =
    ["chat", "--no-session", "--model", "tiller/script", "--", "--script=talk.script"];

/// Asks before a tool runs, and adds a command with every kind of dialog.
const EXTENSION: &str = r#"
    export default (pi) => {
        pi.on("tool_call", async (event, ctx) => {
            const sure = await ctx.ui.confirm("Read this file?", event.input.path);
            if (!sure) return { block: true, reason: "The user does not want this." };
        });
        pi.registerCommand("deploy", {
            description: "Deploy the project",
            handler: async (args, ctx) => {
                const branch = await ctx.ui.select("Which branch?", ["main", "next"]);
                const name = await ctx.ui.input("Your name?", "Ada");
                ctx.ui.notify(`deployed ${branch} for ${name}\u001b[2J`, "info");
            },
        });
    };"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Stdout, stderr and the exit code of a chat that reads these lines.
fn check(script: &str, more: &[&str], input: &str, expect: Expect) {
    let place = Place::new()
        .with("talk.script", script)
        .with("notes.md", "hello")
        .with("ext.ts", EXTENSION);
    let arguments: Vec<&str> = SCRIPT.iter().chain(more).copied().collect();
    let Output { stdout, stderr, status } = place.output(&arguments, input);
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    // A duration differs from run to run.
    let words = stdout.split(' ').collect::<Vec<_>>();
    let stdout = words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let is_time = words.get(at + 1).is_some_and(|next| next.starts_with("ms"));
            if is_time { "N" } else { word }
        })
        .collect::<Vec<_>>()
        .join(" ");
    let code = status.code();
    expect.assert_eq(&format!("{stdout}-- stderr --\n{stderr}-- exit {code:?} --\n"));
}

#[test]
fn piped_lines_are_prompts_one_after_the_other() {
    check(
        "say Let me see.\ncall ls {\"path\": \".\"}\n\nsay One file.\n\nsay You are welcome.",
        &["--tools=ls"],
        "What is here?\n\n/name harbour\n!echo out\nThanks\n",
        expect![[r#"
            Let me see.
            [ls] . ok N ms
            One file.
            [name] harbour
            out
            You are welcome.
            -- stderr --
            -- exit Some(0) --
        "#]],
    );
}

#[test]
fn failed_prompt_ends_a_piped_chat_with_exit_code_1() {
    check(
        "say One.\n\nerror fatal 400 {\"error\":{\"message\":\"not\\u001b[2J today\"}}",
        &[],
        "First\nSecond\nThird\n",
        expect![[r#"
            One.
            -- stderr --
            Error: 400 not today
            -- exit Some(1) --
        "#]],
    );
}

#[test]
fn piped_lines_answer_dialogs() {
    check(
        "call read {\"path\": \"notes.md\"}\n\nsay Then not.",
        &["--extension=ext.ts", "--tools=read"],
        "Read it\nmaybe\nn\n/deploy\n2\nGrace\n",
        expect![[r#"
            [read] notes.md
            Read this file?
              notes.md
            Type y for yes or n for no [n].
            Type y for yes or n for no [n].
            [no]
            [read] notes.md failed: The user does not want this.
            Then not.
            Which branch?
              1  main
              2  next
            Type a number from 1 to 2, or nothing to cancel.
            [next]
            Your name?
              for example: Ada
            Type a line, or nothing to cancel.
            [answered]
            deployed next for Grace
            -- stderr --
            -- exit Some(0) --
        "#]],
    );
}

#[test]
fn unknown_command_is_refused_with_a_suggestion() {
    check(
        "say Hi.",
        &[],
        "/stast\nHello\n",
        expect![[r#"
        -- stderr --
        Error: unknown command /stast: did you mean /stats? With a space before the / it is sent as a message.
        -- exit Some(1) --
    "#]],
    );
}

#[test]
fn started_tiller_that_does_not_start_says_why() {
    let place = Place::new();
    let output = place.output(&["chat", "--session", "nothing"], "");
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("Error: ") && stderr.contains("nothing"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
    for (arguments, why) in [
        (&["chat", "--server", "here"][..], "\"here\" is not an address (--server)"),
        (&["chat", "--server"], "tiller.sock: No such file or directory"),
        (&["chat", "--server", "ws://127.0.0.1:9"], "cannot read the token "),
    ] {
        let output = place.output(arguments, "");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = place.output(&["chat", "--server", "unix:/x", "--", "--approve"], "");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn session_is_stored_and_continued() {
    let place = Place::new().with("talk.script", "say Noted.");
    let start = ["chat", "--model", "tiller/script", "--", "--script=talk.script"];
    assert_eq!(place.output(&start, "Remember 7\n").status.code(), Some(0));
    let output = place.output(&["chat", "-c", "--model", "tiller/demo"], "/stats\n");
    let stats = text(&output.stdout);
    assert!(stats.starts_with("messages  2 (1 from you, 1 answers, 0 tool calls)\n"), "{stats}");
}

/// Waits until the line editor has begun to read this many lines. Between two lines, the terminal
/// itself acts on Ctrl-C.
fn at_prompt(terminal: &mut Terminal, times: usize) {
    const PASTE_IS_BRACKETED: &str = "\u{1b}[?2004h";
    terminal.until_times(PASTE_IS_BRACKETED, times);
}

/// A user at a terminal: a prompt with streamed text, an abort, a dialog, completion and the end.
#[test]
fn chat_in_a_terminal() {
    let script = "pace 20ms\nsay Once upon a time.\n\nsay A slow answer\nhang\n\n\
                  call read {\"path\": \"notes.md\"}\n\nsay Read.";
    let place = Place::new()
        .with("talk.script", script)
        .with("notes.md", "hello")
        .with("ext.ts", EXTENSION);
    let more = ["--extension=ext.ts", "--tools=read"];
    let arguments: Vec<&str> = SCRIPT.iter().chain(&more).copied().collect();
    let mut terminal = Terminal::start(&place, &arguments);
    terminal.until("tiller/script, thinking");
    at_prompt(&mut terminal, 1);

    terminal.type_in("Tell me\r");
    terminal.until("Once upon a time.");
    at_prompt(&mut terminal, 2);

    terminal.type_in("More\r");
    terminal.until("A slow answer");
    // Steering while the model works.
    at_prompt(&mut terminal, 3);
    terminal.type_in("be short\r");
    terminal.until("[queued] be short");
    at_prompt(&mut terminal, 4);
    terminal.type_in("\u{3}");
    terminal.until("[aborted]");
    at_prompt(&mut terminal, 5);
    terminal.type_in("/clear-queue\r");
    terminal.until("[queue] 1 removed");

    at_prompt(&mut terminal, 6);
    terminal.type_in("Read it\r");
    terminal.until("Read this file?");
    terminal.until("Type y for yes or n for no");
    at_prompt(&mut terminal, 7);
    terminal.type_in("y\r");
    terminal.until("[yes]");
    terminal.until("Read.");

    // Tab completes the command of an extension.
    at_prompt(&mut terminal, 8);
    terminal.type_in("/dep\t\r");
    terminal.until("Which branch?");
    at_prompt(&mut terminal, 9);
    terminal.type_in("\u{3}");
    terminal.until("Your name?");
    at_prompt(&mut terminal, 10);
    terminal.type_in("Grace\r");
    terminal.until("deployed undefined for Grace");

    at_prompt(&mut terminal, 11);
    terminal.type_in("\u{3}");
    terminal.until("Press Ctrl-C again or Ctrl-D to quit.");
    at_prompt(&mut terminal, 12);
    terminal.type_in("\u{4}");
    let (seen, code) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("^[[2J"), "{seen}");

    let history = place.path().join(".pi/agent/chat-history");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lines = std::fs::read_to_string(history).unwrap();
    assert!(lines.contains("Tell me") && !lines.contains("Grace"), "{lines}");
}

/// A server of many sessions in front of a real tiller: it answers `open_session`, and copies the
/// lines of the session from then on.
fn serve_one_session(place: &Place, listener: UnixListener) -> thread::JoinHandle<Value> {
    let mut command = place.command(&["--mode", "rpc", "--no-session", "--model", "tiller/demo"]);
    command.stderr(Stdio::null());
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(socket.try_clone().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let open: Value = serde_json::from_str(&line).unwrap();
        let response = json!({"id": open["id"], "type": "response", "command": "open_session",
            "success": true, "data": {"sessionId": "s1-5f0c", "state": {}}});
        writeln!(socket, "{response}").unwrap();
        let mut tiller = command.spawn().unwrap();
        let (mut stdin, mut stdout) = (tiller.stdin.take().unwrap(), tiller.stdout.take().unwrap());
        let mut records: UnixStream = socket.try_clone().unwrap();
        let copying = thread::spawn(move || copy_at_once(&mut stdout, &mut records));
        copy_at_once(&mut lines, &mut stdin);
        drop(stdin);
        copying.join().unwrap();
        tiller.wait().unwrap();
        socket.shutdown(std::net::Shutdown::Both).ok();
        open
    })
}

/// Copies what is there without waiting for more, until one side ends.
fn copy_at_once(from: &mut impl Read, to: &mut impl Write) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..length]).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
}

#[test]
fn chat_in_a_session_of_a_server() {
    let place = Place::new().with("notes.md", "hello");
    let agent = place.path().join(".pi/agent");
    std::fs::create_dir_all(&agent).unwrap();
    let listener = UnixListener::bind(agent.join("tiller.sock")).unwrap();
    let serving = serve_one_session(&place, listener);
    let arguments = ["chat", "What is in notes.md?", "--name", "harbour", "--server"];
    let output = place.output(&arguments, "/stats\n");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("[read] notes.md ok"), "{stdout}{stderr}");
    assert!(stdout.contains("messages  4"), "{stdout}{stderr}");
    assert_eq!(output.status.code(), Some(0));
    let open = serving.join().unwrap();
    assert_eq!((&open["dedicated"], &open["name"]), (&json!(true), &json!("harbour")));
    let cwd = std::fs::canonicalize(place.path()).unwrap();
    assert_eq!(open["cwd"], json!(cwd));
}
