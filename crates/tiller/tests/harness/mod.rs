//! Plays a transcript: the whole server in this process, a scripted model, a scratch folder and a
//! clock that moves only when everybody waits.

mod printer;
mod server;
mod tools;
mod transcript;

use std::path::Path;

use transcript::{Line, Transcript};

/// Plays the file and compares. Returns what went wrong, in words.
pub fn check(path: &Path, update: bool) -> Option<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let transcript = match Transcript::parse(&text) {
        Ok(transcript) => transcript,
        Err(why) => return Some(format!("{name}: {why}")),
    };
    let played = match play(&transcript) {
        Ok(played) => played,
        Err(why) => return Some(format!("{name}: {why}")),
    };
    let actual = format!("{}{played}", transcript.head);
    if actual == text {
        return None;
    }
    if update {
        std::fs::write(path, actual).unwrap();
        return None;
    }
    Some(format!("{name} differs:\n{}", difference(&text, &actual)))
}

fn play(transcript: &Transcript) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut server = server::TestServer::start(transcript)?;
        let mut played = String::new();
        server.settle(&mut played).await?;
        for group in transcript.groups() {
            for line in group {
                played.push_str(&line.text());
                played.push('\n');
            }
            server.take(group)?;
            server.settle(&mut played).await?;
        }
        server.finish(&mut played).await?;
        Ok(played)
    })
}

/// The first place where two texts part, with some lines around it.
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
