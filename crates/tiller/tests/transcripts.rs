//! Conversations with the whole server, as text. Each file under `transcripts/` begins with a few
//! sentences, may contain files, and is then played: people write `client>` and `model>` lines,
//! tiller's lines are checked, and `UPDATE_EXPECT=1 cargo test` writes them.
//!
//! `TRANSCRIPT=name` plays only the files whose name contains the word, `TRANSCRIPTS=folder` those
//! of another folder.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::{Path, PathBuf};

const RANDOM_CONVERSATIONS: u64 = 200;

#[test]
fn failing_disk_announces_nothing_that_is_not_stored() {
    let faults = harness::faults::sweep();
    assert!(faults >= 1000, "only {faults} calls failed");
}

#[test]
fn every_accepted_prompt_has_exactly_one_result() {
    let results: usize = (1..=RANDOM_CONVERSATIONS)
        .map(|seed| harness::random::play(seed).unwrap_or_else(|why| panic!("{why}")))
        .sum();
    assert!(results > 1000, "only {results} prompts were accepted");
}

#[test]
fn transcripts() {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let folder = std::env::var_os("TRANSCRIPTS").map_or_else(ours, PathBuf::from);
    let wanted = std::env::var("TRANSCRIPT").unwrap_or_default();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_stem().unwrap().to_string_lossy().contains(&wanted))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcript is called {wanted:?}");
    let failures: Vec<_> = paths.iter().filter_map(|path| harness::check(path, update)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if wanted.is_empty() {
        let refused = harness::schema::mutate_seen().unwrap();
        assert!(refused > 500, "only {refused} changed records were refused");
    }
}
