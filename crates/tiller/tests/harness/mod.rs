//! Plays a transcript: the whole server in this process, a scripted model, a scratch folder and a
//! clock that advances only when every task waits.

pub mod acp;
pub mod acp_laws;
mod acp_printer;
mod approvals;
pub mod corpus;
mod disk;
pub mod door;
#[path = "../../../tiller-session/tests/common/faulty.rs"]
mod faulty;
pub mod faults;
mod launch;
mod laws;
mod message;
pub mod mutations;
mod names;
mod printer;
pub mod random;
mod reader;
mod schema;
mod server;
mod tools;
mod transcript;
mod typed;
mod wording;

use std::path::Path;

pub use launch::owner;

use door::Door;
use tiller_server::session_store::SessionStore;
use transcript::{Line, Transcript};

/// Plays the file and compares. Returns a description of the difference.
pub fn check(path: &Path, update: bool) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = match Transcript::parse(&text) {
        Ok(transcript) => transcript,
        Err(why) => return Some(format!("{name}: {why}")),
    };
    let mut played = String::new();
    if let Err(why) = play(&transcript, Extras::None, Door::Direct, &mut played) {
        return Some(format!("{name}: {why}\n{}", last_lines(&played, 12)));
    }
    let actual = format!("{}{played}", transcript.head);
    if actual == text {
        return check_extras(&name, &transcript, &actual);
    }
    if update {
        std::fs::write(path, actual).unwrap();
        return None;
    }
    Some(format!("{name} differs:\n{}", difference(&text, &actual)))
}

/// Whether `hello` asks for numbers and results before everything else.
#[derive(Clone, Copy, PartialEq)]
enum Extras {
    None,
    All,
}

/// Plays the conversation again with numbers and results. The laws check them; everything else is
/// the same.
fn check_extras(name: &str, transcript: &Transcript, expected: &str) -> Option<String> {
    if transcript.asks_for_extras() {
        return None;
    }
    let mut played = String::new();
    if let Err(why) = play(transcript, Extras::All, Door::Direct, &mut played) {
        return Some(format!("{name} with results: {why}\n{}", last_lines(&played, 12)));
    }
    let actual = format!("{}{played}", transcript.head);
    // The first play and the laws check the order; here tools may end in another one.
    if sorted(&actual) == sorted(expected) || transcript.shows_bytes() {
        return None;
    }
    Some(format!("{name} with results differs:\n{}", difference(expected, &actual)))
}

/// Plays the file through a server with many sessions. The records are the same.
pub fn check_behind(door: Door, path: &Path) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = Transcript::parse(&text).ok()?;
    let ends_by_eof = transcript.groups.iter().flatten().any(|line| *line == Line::Eof);
    // The end of a socket is not the end of a session.
    if transcript.is_about_the_process() || ends_by_eof && door != Door::Router {
        return None;
    }
    let mut played = String::new();
    if let Err(why) = play(&transcript, Extras::None, door, &mut played) {
        return Some(format!("{name} ({door:?}): {why}\n{}", last_lines(&played, 12)));
    }
    let actual = format!("{}{played}", transcript.head);
    let has_exit = |line: &&str| line.starts_with("tiller> exit ");
    let without_exit = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> =
            text.lines().filter(|line| !has_exit(line)).map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    if without_exit(&actual) == without_exit(&text) {
        return None;
    }
    Some(format!("{name} ({door:?}) differs:\n{}", difference(&text, &actual)))
}

/// Transcripts about a session that will never be stored, and about an extension that opens the file
/// of a session.
const ONLY_IN_FILES: [&str; 2] =
    ["export-html-of-nothing", "extension-cannot-write-the-open-session"];

/// Plays the file with sessions in a database. The records are the same, except for the location of
/// sessions.
pub fn check_in(database: SessionStore, path: &Path) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = Transcript::parse(&text).ok()?;
    if transcript.is_about_files() || ONLY_IN_FILES.contains(&name.as_str()) {
        return None;
    }
    let mut played = String::new();
    let start = || server::TestServer::start_in(&transcript, database);
    if let Err(why) = play_on(&transcript, Extras::None, start, &mut played) {
        return Some(format!("{name} (database): {why}\n{}", last_lines(&played, 12)));
    }
    let actual = without_locations(&format!("{}{played}", transcript.head));
    let expected = without_locations(&text);
    if sorted(&actual) == sorted(&expected) {
        return None;
    }
    Some(format!("{name} (database) differs:\n{}", difference(&expected, &actual)))
}

/// The text without the fields that say where a session is stored, in state that is shown as far as
/// it differs from the default.
fn without_locations(text: &str) -> String {
    const FIELD: &str = "\"sessionFile\":\"";
    let mut rest = text;
    let mut kept = String::new();
    while let Some(at) = rest.find(FIELD) {
        let value = at + FIELD.len();
        let end = rest[value..].find('"').map_or(rest.len(), |end| value + end + 1);
        kept.push_str(&rest[..at]);
        rest = &rest[end..];
        if let Some(behind) = rest.strip_prefix(',') {
            rest = behind;
        } else if kept.ends_with(',') {
            kept.pop();
        }
    }
    let shown = kept + rest;
    shown
        .replace("get_state ok {}", "get_state ok {…}")
        .replace("\"storage\":\"memory\"", "\"storage\":\"session\"")
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn play(
    transcript: &Transcript,
    extras: Extras,
    door: Door,
    played: &mut String,
) -> Result<(), String> {
    play_on(transcript, extras, || server::TestServer::start(transcript, door), played)
}

fn play_on(
    transcript: &Transcript,
    extras: Extras,
    start: impl FnOnce() -> Result<server::TestServer, String>,
    played: &mut String,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut server = start()?;
        if extras == Extras::All {
            server.ask_for_extras()?;
        }
        server.settle(played).await?;
        for group in &transcript.groups {
            for line in group {
                played.push_str(&line.text());
                played.push('\n');
            }
            server.take(group)?;
            server.settle(played).await?;
        }
        server.finish(played).await
    })
}

/// The first difference of two texts, with some lines around it.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(3);
    let show = |lines: &[&str], sign: &str| -> String {
        lines.iter().skip(same).take(12).map(|line| format!("{sign} {line}\n")).collect()
    };
    let before: String = expected[from..same].iter().map(|line| format!("  {line}\n")).collect();
    format!("{before}{}{}", show(&expected, "-"), show(&actual, "+"))
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].iter().map(|line| format!("  {line}\n")).collect()
}
