//! A database in memory, as several processes see it, that fails at the calls a test chooses.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tiller_agent::message::UnixMs;
use tiller_agent::time;
use tiller_session::database::{
    AppendError, Claim, CreateError, Database, SessionRow, StoredSession, Watch,
};
use tiller_session::list::{Cursor, ListQuery, Listing, SessionInfo};
use tiller_session::{DatabaseStore, Error, Header, Owner, Row};

use crate::common::{NOW, owner_of};

/// What a failing call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Nothing, and says so.
    NotStored,
    /// Nothing, and its outcome is not known.
    Lost,
    /// All it was asked, but the answer is lost.
    AnswerLost,
}

/// The first call to fail, how many fail, and how. Calls that only read are counted like others.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseFault {
    pub at: usize,
    pub times: usize,
    pub failing: Failing,
}

/// The database as one process sees it.
#[derive(Clone)]
pub struct FakeDatabase {
    tables: Arc<Mutex<Tables>>,
    watches: Arc<Mutex<Watches>>,
    owner: Owner,
    /// Its calls are not counted and do not fail.
    is_observer: bool,
}

#[derive(Default)]
struct Tables {
    sessions: BTreeMap<String, Stored>,
    now: UnixMs,
    calls: usize,
    failed: usize,
    fault: Option<DatabaseFault>,
}

struct Stored {
    row: SessionRow,
    lines: Vec<Row<'static>>,
    owner: Option<Owner>,
    fence: u64,
    modified: UnixMs,
}

type Wake = Box<dyn Fn() + Send>;

#[derive(Default)]
struct Watches {
    last: u64,
    by_number: BTreeMap<u64, (String, Wake)>,
}

impl std::fmt::Debug for FakeDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FakeDatabase of {}", self.owner)
    }
}

impl FakeDatabase {
    pub fn new() -> FakeDatabase {
        let tables = Tables { now: NOW, ..Tables::default() };
        let tables = Arc::new(Mutex::new(tables));
        FakeDatabase { tables, watches: Arc::default(), owner: owner_of(0), is_observer: false }
    }

    /// The same database as another process sees it.
    pub fn process(&self, number: usize) -> FakeDatabase {
        FakeDatabase { owner: owner_of(number), ..self.clone() }
    }

    /// The same database without faults.
    pub fn observer(&self) -> FakeDatabase {
        FakeDatabase { owner: owner_of(9), is_observer: true, ..self.clone() }
    }

    pub fn store(&self, scratch: PathBuf) -> DatabaseStore {
        DatabaseStore::new(Arc::new(self.clone()), scratch)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    /// The lines of a session, the header first.
    pub fn lines(&self, id: &str) -> Option<Vec<String>> {
        let tables = self.tables();
        let stored = tables.sessions.get(id)?;
        let lines = stored.lines.iter().map(|row| row.line.to_string());
        Some([stored.row.header.clone()].into_iter().chain(lines).collect())
    }

    pub fn count(&self) -> usize {
        self.tables().sessions.len()
    }

    pub fn set_modified(&self, id: &str, time: UnixMs) {
        self.tables().sessions.get_mut(id).unwrap().modified = time;
    }

    /// The ids of sessions that a process has claimed.
    pub fn claimed(&self) -> Vec<String> {
        let tables = self.tables();
        let claimed = tables.sessions.iter().filter(|(_, stored)| stored.owner.is_some());
        claimed.map(|(id, _)| id.clone()).collect()
    }

    pub fn watched(&self) -> usize {
        self.watches.lock().unwrap().by_number.len()
    }

    /// Claims a session as if its owner had died.
    pub fn take_over(&self, id: &str) {
        let mut tables = self.tables();
        let stored = tables.sessions.get_mut(id).unwrap();
        stored.owner = Some(self.owner.clone());
        stored.fence += 1;
    }

    /// Deletes a session as if its owner had died.
    pub fn remove(&self, id: &str) {
        self.tables().sessions.remove(id).unwrap();
        self.wake(id);
    }

    pub fn fail(&self, times: usize, failing: Failing) {
        self.fail_after(0, times, failing);
    }

    /// Fails after this many successful calls.
    pub fn fail_after(&self, calls: usize, times: usize, failing: Failing) {
        let mut tables = self.tables();
        tables.fault = Some(DatabaseFault { at: tables.calls + calls, times, failing });
    }

    /// Fails at these calls, counted from the first one ever.
    pub fn set_fault(&self, fault: Option<DatabaseFault>) {
        self.tables().fault = fault;
    }

    pub fn heal(&self) {
        self.set_fault(None);
    }

    /// The number of calls, and how many of them failed.
    pub fn calls(&self) -> (usize, usize) {
        let tables = self.tables();
        (tables.calls, tables.failed)
    }

    fn address(&self, id: &str) -> PathBuf {
        PathBuf::from(format!("{}:{id}", self.scheme()))
    }

    fn unanswered(&self, id: &str) -> Error {
        let task = format!("cannot open session {}", self.address(id).display());
        Error::Database { task, reason: LOST.to_owned() }
    }

    /// Counts a call, and returns how it fails.
    fn call(&self, tables: &mut Tables) -> Option<Failing> {
        if self.is_observer {
            return None;
        }
        let call = tables.calls;
        tables.calls += 1;
        let fault = tables.fault?;
        let fails = (fault.at..fault.at.saturating_add(fault.times)).contains(&call);
        tables.failed += usize::from(fails);
        fails.then_some(fault.failing)
    }

    fn wake(&self, id: &str) {
        for (watched, wake) in self.watches.lock().unwrap().by_number.values() {
            if watched == id {
                wake();
            }
        }
    }

    fn claim_of(&self, id: &str, fence: u64, line: usize) -> Box<dyn Claim> {
        let (database, id) = (self.clone(), id.to_owned());
        Box::new(FakeClaim { database, id, fence, line, is_uncertain: false })
    }
}

const LOST: &str = "the connection was lost";

impl Stored {
    fn name(&self) -> Option<String> {
        let name = self.lines.iter().rev().find_map(|row| row.name.clone());
        name.or_else(|| self.row.name.clone()).filter(|name| !name.is_empty())
    }

    fn matches(&self, query: &ListQuery) -> bool {
        let words = query.words();
        let has_words = |row: &Row<'_>| {
            let has = |wanted: &String| row.words.iter().any(|word| word.starts_with(wanted));
            words.iter().all(has)
        };
        let name = query.name.as_ref().map(|name| name.replace('\0', "").to_lowercase());
        query.cwd.as_ref().is_none_or(|cwd| cwd.to_str() == Some(&self.row.cwd))
            && name.is_none_or(|part| {
                self.name().is_some_and(|name| name.to_lowercase().contains(&part))
            })
            && (words.is_empty() || self.lines.iter().any(has_words))
            && query.modified_since.is_none_or(|since| self.modified >= since)
            && query.modified_until.is_none_or(|until| self.modified < until)
    }
}

impl Database for FakeDatabase {
    fn scheme(&self) -> &'static str {
        "fake"
    }

    fn create(
        &self,
        session: &SessionRow,
        rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>,
    ) -> Result<Box<dyn Claim>, CreateError> {
        let lines: Vec<Row<'static>> =
            rows.collect::<Result<_, Error>>().map_err(CreateError::Source)?;
        let count = lines.len();
        {
            let mut tables = self.tables();
            let failing = self.call(&mut tables);
            if matches!(failing, Some(Failing::NotStored | Failing::Lost)) {
                return Err(CreateError::Failed(LOST.to_owned()));
            }
            // What an earlier attempt has stored is replaced.
            let is_own = |found: &Stored| found.row.token == session.token && found.fence == 1;
            if tables.sessions.get(&session.id).is_some_and(|found| !is_own(found)) {
                return Err(CreateError::Exists);
            }
            let (owner, row, modified) = (Some(self.owner.clone()), session.clone(), tables.now);
            let stored = Stored { row, lines, owner, fence: 1, modified };
            tables.sessions.insert(session.id.clone(), stored);
            if failing == Some(Failing::AnswerLost) {
                return Err(CreateError::Failed(LOST.to_owned()));
            }
        }
        Ok(self.claim_of(&session.id, 1, count))
    }

    fn claim(&self, id: &str) -> Result<(StoredSession, Box<dyn Claim>), Error> {
        let mut tables = self.tables();
        if self.call(&mut tables).is_some() {
            return Err(self.unanswered(id));
        }
        let stored =
            tables.sessions.get_mut(id).ok_or_else(|| Error::NotFound(self.address(id)))?;
        if let Some(owner) = &stored.owner {
            return Err(Error::InUse {
                path: self.address(id),
                owner: Some(Box::new(owner.clone())),
            });
        }
        stored.owner = Some(self.owner.clone());
        stored.fence += 1;
        let (fence, count) = (stored.fence, stored.lines.len());
        let header = stored.row.header.clone();
        Ok((StoredSession { header, lines: count as u64 }, self.claim_of(id, fence, count)))
    }

    fn stored(&self, id: &str) -> Result<Option<StoredSession>, Error> {
        let mut tables = self.tables();
        if self.call(&mut tables).is_some() {
            return Err(self.unanswered(id));
        }
        Ok(tables.sessions.get(id).map(|stored| StoredSession {
            header: stored.row.header.clone(),
            lines: stored.lines.len() as u64,
        }))
    }

    fn read(&self, id: &str, range: Range<u64>) -> Result<Vec<String>, Error> {
        let mut tables = self.tables();
        if self.call(&mut tables).is_some() {
            return Err(self.unanswered(id));
        }
        let lines = tables
            .sessions
            .get(id)
            .and_then(|stored| stored.lines.get(range.start as usize..range.end as usize));
        let lines = lines.ok_or_else(|| self.unanswered(id))?;
        Ok(lines.iter().map(|row| row.line.to_string()).collect())
    }

    fn list(&self, query: &ListQuery) -> Result<Listing, Error> {
        let tables = self.tables();
        let key =
            |stored: &Stored| (u128::from(stored.modified) * 1_000_000, stored.row.id.clone());
        let mut found: Vec<&Stored> =
            tables.sessions.values().filter(|stored| stored.matches(query)).collect();
        found.sort_by_key(|stored| Reverse(key(stored)));
        if let Some(Cursor { modified_ns, name }) = query.before.clone() {
            let before = (modified_ns, name.replace('\0', ""));
            found.retain(|stored| key(stored) < before);
        }
        let is_more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().filter(|_| is_more).map(|stored| {
            let (modified_ns, name) = key(stored);
            Cursor { modified_ns, name }
        });
        let sessions = found.into_iter().map(|stored| SessionInfo {
            id: stored.row.id.clone(),
            path: self.address(&stored.row.id),
            name: stored.name(),
            cwd: stored.row.cwd.clone(),
            parent_session: stored.row.parent.clone(),
            created: Header::read(&stored.row.header).unwrap().timestamp,
            modified: time::iso(stored.modified),
            message_count: stored.lines.iter().filter(|row| row.is_message).count() as u64,
            first_message: stored
                .lines
                .iter()
                .find_map(|row| row.user_text.clone())
                .unwrap_or_default(),
        });
        Ok(Listing { sessions: sessions.collect(), next })
    }

    fn find(&self, id: &str, cwd: &str) -> Result<Vec<String>, Error> {
        let tables = self.tables();
        if tables.sessions.contains_key(id) {
            return Ok(vec![id.to_owned()]);
        }
        let mut found: Vec<&Stored> =
            tables.sessions.values().filter(|stored| stored.row.id.starts_with(id)).collect();
        found.sort_by_key(|stored| Reverse((stored.row.cwd == cwd, stored.modified)));
        Ok(found.into_iter().map(|stored| stored.row.id.clone()).collect())
    }

    fn delete(&self, id: &str) -> Result<(), Error> {
        let (_, claim) = self.claim(id)?;
        self.remove(id);
        drop(claim);
        Ok(())
    }

    fn watch(&self, id: &str, wake: Wake) -> Box<dyn Watch> {
        let mut watches = self.watches.lock().unwrap();
        watches.last += 1;
        let number = watches.last;
        watches.by_number.insert(number, (id.to_owned(), wake));
        Box::new(FakeWatch { watches: self.watches.clone(), number })
    }
}

struct FakeClaim {
    database: FakeDatabase,
    id: String,
    fence: u64,
    line: usize,
    is_uncertain: bool,
}

impl FakeClaim {
    fn stored<'a>(&self, tables: &'a mut Tables) -> Result<&'a mut Stored, AppendError> {
        let stored = tables.sessions.get_mut(&self.id).ok_or(AppendError::Deleted)?;
        if stored.fence != self.fence {
            return Err(AppendError::TakenOver(stored.owner.clone()));
        }
        Ok(stored)
    }
}

impl Claim for FakeClaim {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), AppendError> {
        assert!(!self.is_uncertain, "after an unknown outcome, the session recovers first");
        {
            let mut tables = self.database.tables();
            let (failing, now) = (self.database.call(&mut tables), tables.now);
            match failing {
                Some(Failing::NotStored) => return Err(AppendError::NotStored(LOST.to_owned())),
                Some(Failing::Lost) => {
                    self.is_uncertain = true;
                    return Err(AppendError::Unknown(LOST.to_owned()));
                }
                Some(Failing::AnswerLost) | None => {}
            }
            let stored = self.stored(&mut tables)?;
            assert_eq!(stored.lines.len(), self.line, "the session knows how many lines it has");
            stored.lines.extend(rows.iter().cloned().map(Row::into_owned));
            stored.modified = now;
            if failing.is_some() {
                self.is_uncertain = true;
                return Err(AppendError::Unknown(LOST.to_owned()));
            }
        }
        self.line += rows.len();
        self.database.wake(&self.id);
        Ok(())
    }

    fn recover(&mut self) -> Result<Vec<String>, AppendError> {
        assert!(self.is_uncertain, "the session recovers only when it has to");
        let mut tables = self.database.tables();
        let failing = self.database.call(&mut tables);
        if matches!(failing, Some(Failing::NotStored | Failing::Lost)) {
            return Err(AppendError::Unknown(LOST.to_owned()));
        }
        let stored = self.stored(&mut tables)?;
        stored.fence += 1;
        self.fence = stored.fence;
        if failing.is_some() {
            return Err(AppendError::Unknown(LOST.to_owned()));
        }
        let lines = stored.lines[self.line..].iter().map(|row| row.line.to_string()).collect();
        self.line = stored.lines.len();
        self.is_uncertain = false;
        Ok(lines)
    }
}

impl Drop for FakeClaim {
    fn drop(&mut self) {
        if let Ok(stored) = self.stored(&mut self.database.tables()) {
            stored.owner = None;
        }
    }
}

struct FakeWatch {
    watches: Arc<Mutex<Watches>>,
    number: u64,
}

impl Watch for FakeWatch {}

impl Drop for FakeWatch {
    fn drop(&mut self) {
        self.watches.lock().unwrap().by_number.remove(&self.number);
    }
}
