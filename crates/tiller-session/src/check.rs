//! Looking a session file over, and writing a sound copy of it.

use std::collections::HashSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use serde::de::IgnoredAny;
use tiller_agent::message::UnixMs;

use crate::error::Error;
use crate::head::Kind;
use crate::lines;
use crate::message_line;
use crate::problem::{Problem, Problems};
use crate::session::Session;
use crate::stats::Stats;

/// What is in a file, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Report {
    pub id: String,
    pub entries: usize,
    /// Entries without a child: the leaf, and the ends of branches that were left.
    pub ends: usize,
    pub stats: Stats,
    pub problems: Vec<Problem>,
    /// Entries, on all branches, whose message cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// How many problems are told one by one.
const PROBLEMS_MAX: usize = 10_000;

/// Reads a whole file without changing it, every line to its end.
pub fn check(path: &Path) -> Result<Report, Error> {
    report(&Session::look_at(path, Problems::up_to(PROBLEMS_MAX))?)
}

/// Writes the entries of a file into a new one, without what is not an entry; the old file stays
/// as it is. A line that is damaged but has its place in the tree becomes an entry that holds
/// what is left of it.
pub fn repair(path: &Path, into: &Path, now: UnixMs) -> Result<Report, Error> {
    let session = Session::look_at(path, Problems::up_to(PROBLEMS_MAX))?;
    session.write_clean(into, now)?;
    report(&session)
}

fn report(session: &Session) -> Result<Report, Error> {
    let tree = session.tree();
    let ends = tree.all().filter(|&index| tree.children(Some(index)).is_empty()).count();
    let mut problems = session.problems();
    problems.extend(not_json(session, &problems)?);
    Ok(Report {
        id: session.id().to_owned(),
        entries: session.len(),
        ends,
        stats: session.stats().clone(),
        problems,
        unreadable: unreadable(session)?,
    })
}

/// Lines that were taken for entries and are not JSON, or not text.
fn not_json(session: &Session, known: &[Problem]) -> Result<Vec<Problem>, Error> {
    let known: HashSet<u64> = known.iter().filter_map(Problem::broken_line).collect();
    let mut found = Problems::up_to(PROBLEMS_MAX);
    let mut number = 0;
    let mut look = |line: &[u8]| {
        number += 1;
        let checked = match str::from_utf8(line) {
            Ok("") => Ok(()),
            Ok(line) => message_line::check_json(line),
            Err(err) => Err(err.to_string()),
        };
        if let Err(reason) = checked
            && !known.contains(&number)
        {
            found.push(Problem::NotJson { line: number, reason });
        }
    };
    let log = session.log().read_from(0).take(session.log().end());
    let read = lines::lines(256 * 1024, log, 0, |line, _| {
        look(line);
        ControlFlow::<()>::Continue(())
    });
    // A last line without its end is part of the session if it is JSON; else it was told as torn.
    if let ControlFlow::Continue(tail) = read.map_err(session.read_error())?
        && serde_json::from_slice::<IgnoredAny>(&tail.bytes).is_ok()
    {
        look(tail.bytes.trim_ascii());
    }
    Ok(found.list())
}

/// Messages that are JSON and still cannot be read, on all branches.
fn unreadable(session: &Session) -> Result<Vec<(String, String)>, Error> {
    let tree = session.tree();
    let mut reader = session.log().reader();
    let mut unreadable = Vec::new();
    let is_read = |kind: Kind| kind.is_in_context() || kind == Kind::Compaction;
    for index in tree.all().filter(|&index| is_read(tree.kind(index))) {
        let line = reader.text(tree.at(index)).map_err(session.read_error())?;
        if message_line::check_json(&line).is_ok()
            && let Err(reason) = message_line::message(tree.kind(index), &line)
        {
            unreadable.push((tree.id(index).to_owned(), reason));
        }
    }
    Ok(unreadable)
}
