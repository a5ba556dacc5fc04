//! Plays a transcript: the whole server in this process, a scripted model, a scratch folder and a
//! clock that advances only when every task waits.

pub mod corpus;
mod disk;
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

use transcript::Transcript;

/// Plays the file and compares. Returns a description of the difference.
pub fn check(path: &Path, update: bool) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = match Transcript::parse(&text) {
        Ok(transcript) => transcript,
        Err(why) => return Some(format!("{name}: {why}")),
    };
    let mut played = String::new();
    if let Err(why) = play(&transcript, Extras::None, &mut played) {
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
    if let Err(why) = play(transcript, Extras::All, &mut played) {
        return Some(format!("{name} with results: {why}\n{}", last_lines(&played, 12)));
    }
    let actual = format!("{}{played}", transcript.head);
    // The first play and the laws check the order; here tools may end in another one.
    if sorted(&actual) == sorted(expected) || transcript.shows_bytes() {
        return None;
    }
    Some(format!("{name} with results differs:\n{}", difference(expected, &actual)))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn play(transcript: &Transcript, extras: Extras, played: &mut String) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut server = server::TestServer::start(transcript)?;
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
