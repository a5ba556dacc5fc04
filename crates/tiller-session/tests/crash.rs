//! What a crash leaves of a file: everything announced is there afterwards, and the file always
//! opens. Writers that are killed are a law of every store, in `conformance/crash.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{NOW, answer, begin, owner, reopen, say, snapshot, user};
use tiller_session::{Body, Compaction, Problem, Session};

/// A compaction is one line: cut anywhere in it, the conversation is as before; with the whole line
/// it is compacted.
#[test]
fn truncated_compaction_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    for text in ["first", "second"] {
        say(&mut session, text);
        session.append(answer(text), NOW).unwrap();
    }
    let kept = say(&mut session, "third");
    let messages = |session: &Session| session.context().unwrap().messages.len();
    assert_eq!(messages(&session), 5);
    let before = fs::read(&path).unwrap().len();
    let compaction = Compaction {
        summary: "What was said: f\u{f6}rst and second.".into(),
        first_kept_entry_id: Some(kept),
        tokens_before: 1000,
        details: None,
        usage: None,
        from_hook: false,
    };
    session.append(Body::Compaction(compaction), NOW).unwrap();
    drop(session);
    let whole = fs::read(&path).unwrap();
    for cut in before..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let session = reopen(&path);
        // The line is complete even if only its line end is missing.
        let happened = cut + 1 >= whole.len();
        assert_eq!(messages(&session), if happened { 2 } else { 5 }, "cut at {cut}");
        assert_eq!(session.ends_with_compaction(), happened);
    }
}

/// A file cut anywhere in its last three lines loses the line it was cut in, nothing before it, and
/// can be appended to.
#[test]
fn truncated_file_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    for text in ["first", "sec\u{f6}nd", "third \u{1f980}", "fourth"] {
        say(&mut session, text);
        session.append(answer(text), NOW).unwrap();
    }
    let whole_session = snapshot(&session);
    drop(session);
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    let torn = path.with_extension("jsonl.torn");
    for cut in ends[ends.len() - 4]..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        drop(fs::remove_file(&torn));
        let mut session = reopen(&path);
        // The header is not an entry. A line is complete even if only its line end is missing.
        let whole_lines = ends.iter().filter(|&&end| end <= cut + 1).count();
        assert_eq!(session.len(), whole_lines - 1, "cut at {cut}");
        let last_end = *ends.iter().rfind(|&&end| end <= cut).unwrap();
        let problems = session.problems();
        if cut == last_end {
            assert_eq!(problems, []);
        } else if ends.contains(&(cut + 1)) {
            assert_eq!(problems, [Problem::MissingNewline]);
        } else {
            let bytes = (cut - last_end) as u64;
            assert_eq!(problems, [Problem::TornTail { bytes, saved_to: torn.clone() }]);
            let saved = [&whole[last_end..cut], b"\n"].concat();
            assert_eq!(fs::read(&torn).unwrap(), saved, "cut at {cut}");
        }
        let kept = fs::read(&path).unwrap();
        assert!(whole.starts_with(&kept) && kept.ends_with(b"\n"));
        let id = say(&mut session, "after the crash");
        let after = snapshot(&session);
        drop(session);
        let again = reopen(&path);
        assert_eq!(again.problems(), []);
        assert_eq!(snapshot(&again), after);
        assert_eq!(again.leaf(), Some(id.as_str()));
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(snapshot(&reopen(&path)), whole_session);
}

/// Opening a torn file read-only changes nothing: its writer may not be done.
#[test]
fn torn_file_opens_read_only_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"{"type":"message","id":"#).unwrap();
    let before = fs::read(&path).unwrap();
    let looked_at = Session::open_read_only(&path).unwrap();
    assert_eq!(looked_at.problems(), [Problem::TornTailLeft { bytes: 23 }]);
    assert_eq!(looked_at.len(), 1);
    assert_eq!(fs::read(&path).unwrap(), before);
}

const CHILD: &str = "TILLER_SESSION_TEST_CHILD";

/// The process that fills the disk; not a test by itself.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let mut session = Session::open(Path::new(&path), owner()).unwrap();
    let mut out = std::io::stdout();
    let big = "x".repeat(20_000);
    for number in 0.. {
        let body = match number % 3 {
            0 => user("small"),
            1 => answer("small"),
            _ => user(&big),
        };
        // A printed line counts as announced. When the disk is full, nothing is printed.
        match session.append(body, NOW) {
            Ok(id) => out.write_all(format!("\nid {id}\n").as_bytes()).unwrap(),
            Err(err) => {
                out.write_all(format!("\nfull {} {err}\n", session.len()).as_bytes()).unwrap();
                break;
            }
        }
        out.flush().unwrap();
    }
}

fn start_child(path: &Path, shell: &str) -> Child {
    Command::new("sh")
        .args(["-c", shell, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn session_with_one_message(dir: &Path) -> std::path::PathBuf {
    let mut session = begin(dir);
    say(&mut session, "first");
    session.path().unwrap().to_owned()
}

/// A full disk, simulated by a limit on file sizes. The kernel writes part of the last line and
/// refuses the rest.
#[test]
fn full_disk_keeps_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = session_with_one_message(dir.path());
    // In blocks of 512 or 1024 bytes, depending on the shell; either is more than one line.
    let child = start_child(&path, "trap '' XFSZ; ulimit -f 100; exec \"$@\"");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let announced: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id ")).collect();
    let full = text.lines().find_map(|line| line.strip_prefix("full ")).expect("it filled up");
    assert!(announced.len() >= 4, "{text}");
    // The session in memory had what was announced and the message before, no more.
    assert!(
        full.starts_with(&format!("{} cannot write session file", announced.len() + 1)),
        "{full}"
    );
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.ends_with(b"\n"), "nothing torn is left");
    let session = reopen(&path);
    assert_eq!(session.problems(), []);
    assert_eq!(session.len(), announced.len() + 1);
}
