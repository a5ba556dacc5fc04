//! Checks a session file, and writes a repaired copy of it.

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

/// The contents of a session file in numbers, and its problems.
#[derive(Clone, Debug)]
pub struct Report {
    pub id: String,
    pub entries: usize,
    /// Entries without a child: the leaf, and the ends of abandoned branches.
    pub ends: usize,
    pub stats: Stats,
    pub problems: Vec<Problem>,
    /// Entries on all branches whose message cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// The most problems that are listed one by one.
const PROBLEMS_MAX: usize = 10_000;

/// Reads every line of a file to its end. Changes nothing.
pub fn check(path: &Path) -> Result<Report, Error> {
    report(&Session::read_only_with(path, Problems::up_to(PROBLEMS_MAX))?)
}

/// Writes the entries of a file into a new one and drops lines that are not entries. The old file
/// does not change. A damaged line whose place in the tree is known becomes an entry that holds the
/// rest of its text.
pub fn repair(path: &Path, into: &Path, now: UnixMs) -> Result<Report, Error> {
    let session = Session::read_only_with(path, Problems::up_to(PROBLEMS_MAX))?;
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

/// Lines that are in the tree but are not valid JSON, or not UTF-8.
fn not_json(session: &Session, known: &[Problem]) -> Result<Vec<Problem>, Error> {
    let known: HashSet<u64> = known.iter().filter_map(Problem::broken_line).collect();
    let mut found = Problems::up_to(PROBLEMS_MAX);
    let mut number = 0;
    let mut check_line = |line: &[u8]| {
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
        check_line(line);
        ControlFlow::<()>::Continue(())
    });
    // An unterminated last line is an entry if it is valid JSON; otherwise it was reported as torn.
    if let ControlFlow::Continue(tail) = read.map_err(session.read_error())?
        && serde_json::from_slice::<IgnoredAny>(&tail.bytes).is_ok()
    {
        check_line(tail.bytes.trim_ascii());
    }
    Ok(found.list())
}

/// Messages on all branches that are valid JSON but cannot be decoded.
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
