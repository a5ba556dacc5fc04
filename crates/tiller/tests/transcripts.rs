//! Conversations with the whole server, as text. Each file under `transcripts/` begins with a few
//! sentences, may contain files, and is then played: people write `client>` and `model>` lines,
//! tiller's lines are checked, and `UPDATE_EXPECT=1 cargo test` writes them.
//!
//! `TRANSCRIPT=name` plays only the files whose name contains the word, `TRANSCRIPTS=folder` those
//! of another folder.

#![allow(clippy::unwrap_used)]

#[path = "support/acp_clients.rs"]
mod acp_clients;
#[path = "support/examples.rs"]
mod examples;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/schema.rs"]
mod schema;
#[path = "support/skip.rs"]
mod skip;
mod harness;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harness::door::Door;
use tiller_postgres::{Options, Postgres};
use tiller_server::session_store::SessionStore;
use tiller_session::DatabaseStore;

const RANDOM_CONVERSATIONS: u64 = 200;
const RANDOM_CONVERSATIONS_WITH_APPROVALS: u64 = 1000;
/// Fields that may have any value: those of settings, one of a stored message, and those of the
/// results of tools of clients, extensions and MCP servers.
const FREE: [&str; 9] = [
    "SetSettingCommand.value",
    "SetSettingResponse.data.value",
    "assistant.mood",
    "result.isError",
    "result.isWarning",
    "result.structuredContent",
    "result.terminate",
    "result.usage",
    "structuredContent.greeted",
];
/// Fields of examples that no transcript has, because they depend on the machine: the times of files,
/// and why a connection fails.
const MACHINE_DEPENDENT: [&str; 2] = [".data.sessions[].", ".message(assistant).errorHint"];

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
fn no_call_runs_without_its_approval() {
    let allowed: usize = (1..=RANDOM_CONVERSATIONS_WITH_APPROVALS)
        .map(|seed| {
            harness::random::play_with_approvals(seed).unwrap_or_else(|why| panic!("{why}"))
        })
        .sum();
    assert!(allowed > 200, "only {allowed} calls were allowed");
}

#[test]
fn transcripts_through_multi_session() {
    check_behind(Door::Router);
}

#[test]
fn transcripts_through_a_unix_socket() {
    check_behind(Door::UnixSocket);
}

#[test]
fn transcripts_through_a_web_socket() {
    check_behind(Door::WebSocket);
}

#[test]
fn transcripts_with_sessions_in_postgres() {
    let Some(cluster) = postgres::cluster() else { return };
    let url = cluster.create_database();
    let paths = paths();
    let play = |number: usize| {
        // Sessions have the same ids, so each transcript has tables of its own.
        let options = Options::read(&format!("{url}?schema=transcript_{number}")).unwrap();
        let database = Postgres::start(options, harness::owner()).unwrap();
        database.init(1).unwrap();
        let store = DatabaseStore::new(Arc::new(database.clone()), std::env::temp_dir());
        let failure = harness::check_in(SessionStore::new(Arc::new(store)), &paths[number]);
        let problems = database.check().unwrap();
        database.close();
        failure.or_else(|| (!problems.is_empty()).then(|| problems.join("\n")))
    };
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let play_some = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= paths.len() {
                return;
            }
            failures.lock().unwrap().extend(play(number));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(play_some);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn acp_transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp_transcripts");
    let wanted = std::env::var("TRANSCRIPT").unwrap_or_default();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let paths = paths_in(folder, &wanted);
    let failures: Vec<_> =
        paths.iter().filter_map(|path| harness::acp::check(path, update)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let Some(schema) = acp_clients::schema() else { return };
    let lines = std::mem::take(&mut *harness::acp_laws::WRITTEN.lock().unwrap());
    for (line, answers) in &lines {
        schema.check(line, answers.as_deref()).unwrap_or_else(|why| panic!("{why}: {line}"));
    }
}

/// Each session is the same behind a server with many.
fn check_behind(door: Door) {
    let paths = paths();
    let failures: Vec<_> =
        paths.iter().filter_map(|path| harness::check_behind(door, path)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn transcripts() {
    let is_complete = std::env::var_os("TRANSCRIPTS").is_none();
    let wanted = std::env::var("TRANSCRIPT").unwrap_or_default();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let failures: Vec<_> = paths().iter().filter_map(|path| harness::check(path, update)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if is_complete && wanted.is_empty() {
        check_schema();
    }
}

/// The transcripts that are wanted, in order.
fn paths() -> Vec<PathBuf> {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let others = std::env::var_os("TRANSCRIPTS");
    let folder = others.map_or_else(ours, PathBuf::from);
    let wanted = std::env::var("TRANSCRIPT").unwrap_or_default();
    let paths = paths_in(folder, &wanted);
    assert!(!paths.is_empty(), "no transcript is called {wanted:?}");
    paths
}

fn paths_in(folder: PathBuf, wanted: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_stem().unwrap().to_string_lossy().contains(wanted))
        .collect();
    paths.sort();
    paths
}

/// The schema refuses changed lines, and the examples of the documentation have fields that tiller
/// writes.
fn check_schema() {
    let mutations = harness::mutations::mutate();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/optional_fields.txt");
    expect_test::expect_file![list].assert_eq(&mutations.optional());
    assert_eq!(Vec::from_iter(&mutations.free), FREE);
    let ambiguous = harness::mutations::ambiguous();
    assert!(ambiguous.is_empty(), "{}", ambiguous.concat());
    let unseen = harness::mutations::unseen();
    assert!(unseen.is_empty(), "no transcript has a {unseen:?}");
    assert!(mutations.refused > 4000, "only {} changed lines were refused", mutations.refused);
    let mut unwritten = harness::corpus::unwritten_fields(&examples::examples());
    unwritten.retain(|(_, place)| !MACHINE_DEPENDENT.iter().any(|one| place.starts_with(one)));
    assert!(unwritten.is_empty(), "no transcript has these lines of protocol.md: {unwritten:?}");
}
