//! A user at a terminal: the program with a pseudo-terminal for stdin, stdout and stderr.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use expect_test::expect;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::client::Place;
use super::loopback::{Loopback, Reply, says};

const PATIENCE: Duration = Duration::from_secs(120);

pub struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
    _place: Place,
}

impl Terminal {
    pub fn start(place: &Place, arguments: &[&str]) -> Terminal {
        Terminal::with(place.command(arguments), place)
    }

    fn with(mut command: Command, place: &Place) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let side = || Stdio::from(line.try_clone().unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // The command holds the terminal open as well.
        drop(command);
        drop(line);
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Reading fails when the last program has closed the terminal.
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { keyboard, screen, seen: String::new(), child, _place: place.clone() }
    }

    pub fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until this is on the screen.
    pub fn until(&mut self, text: &str) {
        self.until_times(text, 1);
    }

    /// Waits until this was on the screen so many times.
    pub fn until_times(&mut self, text: &str, times: usize) {
        while self.seen.matches(text).count() < times {
            let Ok(chunk) = self.screen.recv_timeout(PATIENCE) else {
                panic!("{text:?} does not come {times} times; there is {:?}", self.seen);
            };
            self.seen += &String::from_utf8_lossy(&chunk);
        }
    }

    /// Everything that was shown, and the exit code.
    pub fn end(mut self) -> (String, Option<i32>) {
        while let Ok(chunk) = self.screen.recv_timeout(PATIENCE) {
            self.seen += &String::from_utf8_lossy(&chunk);
        }
        let code = self.child.wait().unwrap().code();
        (self.seen.replace("\r\n", "\n").replace('\r', "^M").replace('\u{1b}', "^["), code)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has usually ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn settings(place: &Place, name: &str, content: &serde_json::Value) {
    let folder = place.path().join(".pi/agent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), content.to_string()).unwrap();
}

/// A model of the user's own at this server.
fn models(place: &Place, url: &str) {
    let provider = json!({"api": "openai-completions", "baseUrl": url, "apiKey": "sk-secret",
        "models": [{"id": "m"}]});
    settings(place, "models.json", &json!({"providers": {"p": provider}}));
}

#[test]
fn answer_is_streamed_before_it_is_complete() {
    let place = Place::new();
    let begun = says(&["Once upon", " a time"]);
    let begun = begun.split("data: {\"choices\":[{\"index\":0,\"delta\":{}").next().unwrap();
    let server = Loopback::start(vec![Reply::Hanging(begun.to_owned())]);
    models(&place, &server.url);
    let arguments = ["-p", "--no-session", "--no-tools", "--model", "p/m", "Tell me"];
    let mut terminal = Terminal::start(&place, &arguments);
    terminal.until("Once upon a time");
    let id = terminal.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(terminal.end().1, Some(130));
}

#[test]
fn tools_retries_and_waits_are_shown_beside_the_answer() {
    let script = "say Let me see.\ncall ls {\"path\": \".\"}\n\nerror retry 529 overloaded\n\nsay One \
                  script.";
    let place = Place::new().with("talk.script", script);
    settings(&place, "settings.json", &json!({"retry": {"baseDelayMs": 1}}));
    let arguments = ["-p", "--no-session", "--script", "talk.script", "-t", "ls", "What is here?"];
    let (seen, code) = Terminal::start(&place, &arguments).end();
    expect![[r#"
        waiting for tiller/script …^M^[[KLet me see.
        [ls] .
        waiting for tiller/script …^M^[[K[retry 1 of 3 in 0.001 s] 529 overloaded
        waiting for tiller/script …^M^[[KOne script.
    "#]]
    .assert_eq(&seen);
    assert_eq!(code, Some(0));
}

#[test]
fn answer_cut_off_at_the_output_limit_is_a_warning_and_exit_code_3() {
    let place = Place::new().with("talk.script", "say Once upon a\nstop length");
    let arguments = ["-p", "--no-session", "--script", "talk.script", "Tell me"];
    let output = place.output(&arguments, "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Once upon a\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.starts_with("Warning: the answer was cut off at the model's output limit"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn giving_up_says_after_how_many_retries() {
    let place = Place::new();
    let body = r#"{"error":{"message":"busy"}}"#;
    let replies = (0..3).map(|_| Reply::Refusal(503, body.to_owned())).collect();
    let server = Loopback::start(replies);
    models(&place, &server.url);
    settings(&place, "settings.json", &json!({"retry": {"baseDelayMs": 1, "maxRetries": 2}}));
    let output = place.output(&["-p", "--no-session", "--model", "p/m", "Hi"], "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "503 busy\n\nGave up after 2 retries.\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn conversation_that_does_not_fit_is_a_sentence() {
    let place = Place::new();
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    let server = Loopback::start(vec![Reply::Refusal(400, body.to_owned())]);
    let provider = json!({"api": "anthropic-messages", "baseUrl": server.url, "apiKey": "sk-secret",
        "models": [{"id": "m"}]});
    settings(&place, "models.json", &json!({"providers": {"p": provider}}));
    let output = place.output(&["-p", "--no-session", "--model", "p/m", "Hi"], "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains('{'), "{said}");
    assert!(said.starts_with("400 prompt is too long: 9 tokens > 8 maximum\n"), "{said}");
    assert!(said.contains("does not fit into the model's context window"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn rpc_on_a_terminal_says_what_it_waits_for() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place, &["--mode", "rpc", "--no-session"]);
    terminal.until("waits for commands on stdin, one JSON object a line");
    // Ctrl-D at the start of a line.
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end().1, Some(0));
    let output = place.output(&["--mode", "rpc", "--no-session"], "");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn key_of_an_unknown_provider_is_stored_only_after_a_yes() {
    let place = Place::new();
    let stored = place.path().join(".pi/agent/auth.json");
    for (answer, code) in [("n\n", 1), ("\n", 1), ("y\n", 0)] {
        let mut terminal = Terminal::start(&place, &["auth", "set", "opneai"]);
        terminal.until("Unknown provider: opneai (did you mean openai?)");
        terminal.until("[y/N] ");
        assert!(!stored.exists());
        terminal.type_in(answer);
        if code == 0 {
            terminal.until("Key for opneai: ");
            terminal.type_in("sk-secret\n");
        }
        let (seen, exit) = terminal.end();
        assert_eq!(exit, Some(code), "{seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }
    assert!(std::fs::read_to_string(stored).unwrap().contains("sk-secret"));
}

#[test]
fn tiller_alone_on_a_terminal_prints_the_usage() {
    let (seen, code) = Terminal::start(&Place::new(), &[]).end();
    assert!(seen.contains("Examples:") && seen.contains("tiller --help"), "{seen}");
    assert!(seen.contains("tiller chat --model tiller/demo"), "{seen}");
    assert_eq!(code, Some(2));
}
