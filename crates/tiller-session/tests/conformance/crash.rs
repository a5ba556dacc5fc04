//! A writer that is killed. Everything it announced is there afterwards, and its session opens.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use tiller_session::{Problem, Store};

use super::{TestStore, begin, location_of};
use crate::common::{NOW, answer, say, user};

/// In the environment of a child: what [`TestStore::for_child`] has returned, and the location of a
/// session.
const STORE: &str = "TILLER_CONFORMANCE_CHILD_STORE";
const LOCATION: &str = "TILLER_CONFORMANCE_CHILD_LOCATION";

/// The process that the law below starts and kills. A program of tests calls it from a test `child`,
/// and passes what opens its store.
pub fn child(store: impl FnOnce(&str) -> Box<dyn Store>) {
    let Ok(named) = std::env::var(STORE) else { return };
    let location = std::env::var(LOCATION).unwrap();
    let store = store(&named);
    let mut session = store.open(Path::new(&location)).unwrap();
    let mut out = std::io::stdout();
    let big = "x".repeat(20_000);
    for number in 0.. {
        let body = match number % 3 {
            0 => user("small"),
            1 => answer("small"),
            _ => user(&big),
        };
        // A printed line counts as announced.
        let id = session.append(body, NOW).unwrap();
        out.write_all(format!("\nid {id}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

pub fn killed_writer_loses_no_announced_entry(store: &dyn TestStore) {
    let Some(named) = store.for_child() else { return };
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "first");
    drop(session);
    let mut announced_in_all = Vec::new();
    let rounds = store.rounds(25);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(STORE, &named)
            .env(LOCATION, &location)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut announced = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut take = |line: String| {
            if let Some(id) = line.strip_prefix("id ").filter(|id| id.len() == 8) {
                announced.push(id.to_owned());
            }
            announced.len() as u64
        };
        while take(lines.next().expect("the child goes on until it is killed")) < 1 + round * 7 {}
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines still in the pipe were announced, too.
        for line in lines {
            take(line);
        }
        announced_in_all.extend(announced);
        let session = store.process(1).open(&location).unwrap();
        for id in &announced_in_all {
            assert!(session.contains(id), "round {round}: {id} was announced and is lost");
        }
        for problem in session.problems() {
            assert!(matches!(problem, Problem::TornTail { .. }), "round {round}: {problem}");
        }
        // At most the entry that was under way was not announced.
        assert!(session.len() as u64 <= 2 + round + announced_in_all.len() as u64);
        assert_eq!(session.path_to(session.leaf().unwrap()).unwrap().len(), session.len());
    }
    assert!(announced_in_all.len() as u64 >= (0..rounds).map(|round| 1 + round * 7).sum());
}
