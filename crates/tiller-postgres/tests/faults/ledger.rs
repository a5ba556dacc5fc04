//! What happened to a session, as its writers tell, and the comparison with what the database has.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use tiller_session::{SessionId, Store};

use crate::host::Host;
use crate::postgres::Cluster;
use crate::rounds::Totals;

/// What was done to a session.
#[derive(Debug)]
pub struct Ledger {
    pub id: String,
    /// Who has opened it for writing, in this order, and how many lines it had. None: it is not
    /// known whether the writer has opened it.
    claims: Vec<(String, Option<u64>)>,
    acknowledged: Vec<Acknowledged>,
    /// Entries that a failed append has stored all the same, as its session found out.
    recovered: Vec<String>,
    /// Appends that failed: their entries may be stored.
    failed: HashSet<(String, u64)>,
    /// Appends that failed because another process had claimed the session.
    refused: HashSet<(String, u64)>,
    /// How many lines the session had when a writer closed it.
    closed: HashMap<String, u64>,
    /// The last append of a process that was killed may be stored.
    killed: HashSet<String>,
}

#[derive(Debug)]
struct Acknowledged {
    writer: String,
    number: u64,
    id: String,
}

/// An entry in the database.
#[derive(Debug)]
struct Stored {
    seq: u64,
    id: String,
    parent: String,
    writer: String,
    number: u64,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger {
            id: SessionId::fresh().to_string(),
            claims: Vec::new(),
            acknowledged: Vec::new(),
            recovered: Vec::new(),
            failed: HashSet::new(),
            refused: HashSet::new(),
            closed: HashMap::new(),
            killed: HashSet::new(),
        }
    }

    pub fn address(&self) -> PathBuf {
        PathBuf::from(format!("postgres:{}", self.id))
    }

    /// Records that this writer is the next one to open the session.
    pub fn expect(&mut self, writer: &str) {
        self.claims.push((writer.to_owned(), None));
    }

    pub fn claim(&mut self, writer: &str, lines: u64) {
        if self.claims.iter().all(|(claimant, _)| claimant != writer) {
            self.expect(writer);
        }
        let claim = self.claims.iter_mut().find(|(claimant, _)| claimant == writer);
        claim.unwrap().1 = Some(lines);
    }

    pub fn acknowledge(&mut self, writer: &str, number: u64, id: &str) {
        let (writer, id) = (writer.to_owned(), id.to_owned());
        self.acknowledged.push(Acknowledged { writer, number, id });
    }

    pub fn recover(&mut self, id: &str) {
        self.recovered.push(id.to_owned());
    }

    pub fn fail(&mut self, writer: &str, number: u64) {
        self.failed.insert((writer.to_owned(), number));
    }

    pub fn refuse(&mut self, writer: &str, number: u64) {
        self.refused.insert((writer.to_owned(), number));
    }

    pub fn close_at(&mut self, writer: &str, lines: u64) {
        self.closed.insert(writer.to_owned(), lines);
    }

    pub fn kill(&mut self, writer: &str) {
        self.killed.insert(writer.to_owned());
    }

    /// Whether an append has succeeded.
    pub fn is_acknowledged(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    /// Compares this with the rows, and panics if they cannot be explained. Losses, double entries
    /// and writes of fenced-out processes are counted.
    pub fn compare(&self, cluster: &Cluster, database: &str) -> Totals {
        let rows = self.rows(cluster, database);
        let mut totals =
            Totals { acknowledged: self.acknowledged.len() as u64, ..Totals::default() };
        let mut by_id: HashMap<&str, Vec<&Stored>> = HashMap::new();
        let mut by_content: HashMap<(&str, u64), u64> = HashMap::new();
        let mut last_numbers: HashMap<&str, u64> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.seq, index as u64, "{}: lines are missing", self.id);
            let parent = index.checked_sub(1).map_or("", |before| &rows[before].id);
            assert_eq!(row.parent, parent, "{}: {row:?} is not below the entry before", self.id);
            by_id.entry(&row.id).or_default().push(row);
            *by_content.entry((&row.writer, row.number)).or_default() += 1;
            let last = last_numbers.insert(&row.writer, row.number);
            let is_in_order = last.is_none_or(|last| last < row.number);
            assert!(is_in_order, "{}: {row:?} is behind {last:?}", self.id);
        }
        totals.twice += by_id.values().map(|rows| rows.len() as u64 - 1).sum::<u64>();
        totals.twice += by_content.values().map(|count| count - 1).sum::<u64>();
        for Acknowledged { writer, number, id } in &self.acknowledged {
            let is_there = by_id.get(id.as_str()).is_some_and(|rows| {
                rows.iter().any(|row| row.writer == *writer && row.number == *number)
            });
            totals.lost += u64::from(!is_there);
        }
        for id in &self.recovered {
            assert!(by_id.contains_key(id.as_str()), "{}: {id} was said to be stored", self.id);
        }
        totals.fenced = rows.iter().filter(|row| self.is_fenced_out(row)).count() as u64;
        self.explain(&rows);
        self.check_closed();
        let has_fault = totals.lost + totals.twice + totals.fenced > 0;
        assert!(!has_fault, "{totals:?} {self:#?} {rows:#?}");
        totals
    }

    /// Whether another process had claimed the session before the row's writer stored it.
    fn is_fenced_out(&self, row: &Stored) -> bool {
        let claims = self.claims.iter().skip_while(|(claimant, _)| *claimant != row.writer).skip(1);
        claims.into_iter().any(|(_, lines)| lines.is_some_and(|lines| lines <= row.seq))
    }

    /// Every row is of a writer that was told to write it.
    fn explain(&self, rows: &[Stored]) {
        let acknowledged: HashSet<&str> =
            self.acknowledged.iter().map(|entry| entry.id.as_str()).collect();
        let mut unanswered: HashMap<&str, u64> = HashMap::new();
        for row in rows {
            let is_known = self.claims.iter().any(|(writer, _)| *writer == row.writer);
            assert!(is_known || self.killed.contains(&row.writer), "{}: {row:?}", self.id);
            let is_refused = self.refused.contains(&(row.writer.clone(), row.number));
            assert!(!is_refused, "{}: {row:?} was refused", self.id);
            let has_failed = self.failed.contains(&(row.writer.clone(), row.number));
            if !acknowledged.contains(row.id.as_str()) && !has_failed {
                assert!(self.killed.contains(&row.writer), "{}: {row:?} has no append", self.id);
                let count = unanswered.entry(&row.writer).or_default();
                *count += 1;
                assert_eq!(*count, 1, "{}: a killed writer had one append under way", self.id);
            }
        }
    }

    /// A writer that has closed the session knew all of its lines.
    fn check_closed(&self) {
        let known = self.claims.iter().filter_map(|(writer, lines)| Some((writer, (*lines)?)));
        let known: Vec<(&String, u64)> = known.collect();
        for ((writer, _), (_, lines)) in known.iter().zip(known.iter().skip(1)) {
            if let Some(closed) = self.closed.get(*writer) {
                assert_eq!(lines, closed, "{}: lines that {writer} did not know", self.id);
            }
        }
    }

    fn rows(&self, cluster: &Cluster, database: &str) -> Vec<Stored> {
        let statement = format!(
            "SELECT seq || ' ' || id || ' ' || coalesce(parent, '') || ' ' \
             || (body::json #>> '{{message,content}}') FROM tiller.entry \
             WHERE session = '{}' ORDER BY seq",
            self.id
        );
        let rows = cluster.sql(database, &statement);
        let rows = rows.lines().map(|line| {
            let mut fields = line.splitn(4, ' ');
            let mut field = || fields.next().unwrap();
            let (seq, id, parent) = (field(), field(), field());
            let (writer, number) = read_text(field());
            let (id, parent) = (id.to_owned(), parent.to_owned());
            Stored { seq: seq.parse().unwrap(), id, parent, writer: writer.to_owned(), number }
        });
        rows.collect()
    }

    /// Compares, opens the session, and deletes it, so that the database stays small.
    pub fn close(self, cluster: &Cluster, database: &str, host: &Host) -> Totals {
        let totals = self.compare(cluster, database);
        let session = host.store.open_read_only(&self.address());
        match session {
            Ok(session) => {
                assert_eq!(session.problems(), [], "{}", self.id);
                let path = session.path_to(session.leaf().unwrap()).unwrap().len();
                assert_eq!(path, session.len(), "{}: every entry is below the one before", self.id);
                host.store.delete(&self.address()).unwrap();
            }
            Err(tiller_session::Error::NotFound(_)) => {
                assert!(!self.is_acknowledged(), "{} is lost", self.id);
            }
            Err(error) => panic!("{}: {error}", self.id),
        }
        totals
    }
}

/// The content of an entry: its writer, its number, and bytes that make it as long as wanted.
pub fn text(writer: &str, number: u64, padding: usize) -> String {
    format!("{writer} {number} {}", "x".repeat(padding))
}

/// The writer and the number in a content, which may be a list with one text.
fn read_text(content: &str) -> (&str, u64) {
    let text = content.split_once("\"text\":\"").map_or(content, |(_, text)| text);
    let (writer, rest) = text.split_once(' ').unwrap();
    (writer, rest.split(' ').next().unwrap().parse().unwrap())
}
