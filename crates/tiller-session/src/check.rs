//! Looking a session file over, and writing a sound copy of it.

use std::path::Path;

use tiller_agent::message::UnixMs;

use crate::error::Error;
use crate::problem::Problem;
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
    /// Entries of the context whose message cannot be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// Reads a whole file without changing it.
pub fn check(path: &Path) -> Result<Report, Error> {
    report(&Session::open_read_only(path)?)
}

/// Writes the entries of a file into a new one, without what is not an entry; the old file stays
/// as it is. A line that is damaged but has its place in the tree becomes an entry that holds
/// what is left of it.
pub fn repair(path: &Path, into: &Path, now: UnixMs) -> Result<Report, Error> {
    let session = Session::open_read_only(path)?;
    session.write_clean(into, now)?;
    report(&session)
}

fn report(session: &Session) -> Result<Report, Error> {
    let tree = session.tree();
    let ends = tree.all().filter(|&index| tree.children(Some(index)).is_empty()).count();
    Ok(Report {
        id: session.id().to_owned(),
        entries: session.len(),
        ends,
        stats: session.stats().clone(),
        problems: session.problems(),
        unreadable: session.context()?.unreadable,
    })
}
