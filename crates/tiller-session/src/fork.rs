//! Creates sessions from existing ones: a branch copied into a file of its own, or a copy of
//! everything.
//!
//! Entries keep their ids and, where their parent stays the same, their exact text. Copying takes
//! time proportional to the amount copied: a server runs it on a blocking thread.

use std::collections::HashMap;
use std::path::Path;

use serde_json::json;
use tiller_agent::message::UnixMs;

use crate::blobs::Blobs;
use crate::database::SessionRow;
use crate::entry::{self, Body, Entry};
use crate::error::Error;
use crate::fields::Fields;
use crate::file::{self, PendingFile};
use crate::files::Files;
use crate::head::Kind;
use crate::lock::LockNote;
use crate::log::{Log, Reader};
use crate::message_line;
use crate::name::{self, SessionId};
use crate::problem::Problems;
use crate::row::Row;
use crate::scan::Scan;
use crate::session::{LEAF_MARK, NewSession, Session, Storage, StorageState, cannot_copy};
use crate::spool::Spool;
use crate::tree::{Index, Tree};

/// The `customType` of an entry that replaces a damaged line in a copy.
pub const DAMAGE_MARK: &str = "tiller.damaged";

/// A new session that ends before a user message.
pub struct Forked {
    pub session: Session,
    /// The text of that message.
    pub text: String,
}

impl Session {
    /// Creates a session with everything before a user message on any branch.
    pub fn fork(
        &self,
        entry_id: &str,
        id: SessionId,
        storage: Storage,
        now: UnixMs,
    ) -> Result<Forked, Error> {
        let entry = self.tree().find(entry_id);
        let entry = entry.filter(|&entry| self.tree().kind(entry) == Kind::User);
        let entry = entry.ok_or(Error::NotAUserMessage)?;
        let text = message_line::user_text(&self.line(entry)?).unwrap_or_default();
        let session = self.branch_off(self.tree().parent(entry), id, storage, now)?;
        Ok(Forked { session, text })
    }

    /// Creates a session with everything up to and including an entry.
    pub fn fork_at(
        &self,
        entry_id: &str,
        id: SessionId,
        storage: Storage,
        now: UnixMs,
    ) -> Result<Session, Error> {
        let entry = self.find(entry_id)?;
        self.branch_off(Some(entry), id, storage, now)
    }

    /// Creates a session with everything up to the leaf.
    pub fn clone_at_leaf(
        &self,
        id: SessionId,
        storage: Storage,
        now: UnixMs,
    ) -> Result<Session, Error> {
        let leaf = self.tree().leaf().ok_or(Error::NoLeaf)?;
        self.branch_off(Some(leaf), id, storage, now)
    }

    /// Creates a session with all entries of this one, on all branches (`--fork`). This session
    /// becomes its parent session unless `new` names another.
    pub fn copy_all(&self, mut new: NewSession, storage: Storage) -> Result<Session, Error> {
        let entries: Vec<Index> = self.tree().all().collect();
        let now = new.now;
        new.parent_session = new.parent_session.or_else(|| self.saved_path());
        let mut copy = Copy::begin(self, new, storage, &entries)?;
        let mut reader = self.log().reader();
        let blobs = Blobs::next_to(self.path());
        for index in entries {
            let line = blobs.inline(self.readable_line(&mut reader, index, now)?);
            copy.add(&line)?;
        }
        copy.finish()
    }

    /// Writes all entries into a file that does not exist yet, one per line. Lines that are not
    /// entries are dropped.
    pub(crate) fn write_clean(&self, path: &Path, now: UnixMs) -> Result<(), Error> {
        let mut draft = PendingFile::begin(file::dir_of(path), &Files::default())
            .map_err(Error::write(path))?;
        let mut reader = self.log().reader();
        draft.write((self.header().line() + "\n").as_bytes()).map_err(Error::write(path))?;
        for index in self.tree().all() {
            let line = self.readable_line(&mut reader, index, now)?;
            draft.write((line + "\n").as_bytes()).map_err(Error::write(path))?;
        }
        draft.persist_unlocked(path).map_err(Error::write(path))
    }

    fn branch_off(
        &self,
        at: Option<Index>,
        id: SessionId,
        storage: Storage,
        now: UnixMs,
    ) -> Result<Session, Error> {
        let path = self.tree().path(at);
        let new =
            NewSession { id, cwd: self.cwd().to_owned(), parent_session: self.saved_path(), now };
        let mut copy = Copy::begin(self, new, storage, &path)?;
        let mut reader = self.log().reader();
        let blobs = Blobs::next_to(self.path());
        // Maps an entry that is left out to its next descendant that is copied.
        let mut stand_ins: HashMap<Index, Index> = HashMap::new();
        let mut left_out = Vec::new();
        for index in path {
            let kind = self.tree().kind(index);
            let line = blobs.inline(self.readable_line(&mut reader, index, now)?);
            // Labels are added again below; a recorded navigation has no use in a new file.
            if kind == Kind::Label || kind == Kind::Custom && is_leaf_mark(&line) {
                left_out.push(index);
                continue;
            }
            stand_ins.extend(left_out.drain(..).chain([index]).map(|left_out| (left_out, index)));
            let first_kept = self.tree().refers(index).filter(|_| kind == Kind::Compaction);
            let first_kept = first_kept.and_then(|first| stand_ins.get(&first));
            copy.add_below_last(&line, first_kept.map(|&first| self.tree().id(first)))?;
        }
        for (target, label) in self.tree().labels() {
            if stand_ins.get(&target) == Some(&target) {
                let given = message_line::time(&self.line(label.entry)?);
                copy.label(self.tree().id(target), &label.text, given)?;
            }
        }
        copy.finish()
    }

    fn saved_path(&self) -> Option<String> {
        let path = self.path().filter(|_| self.is_stored());
        path.map(|path| path.to_string_lossy().into_owned())
    }

    /// The line of an entry, or, for a damaged one, a new entry that holds the rest of its text.
    fn readable_line(
        &self,
        reader: &mut Reader<'_>,
        index: Index,
        now: UnixMs,
    ) -> Result<String, Error> {
        let text = reader.text(self.tree().at(index)).map_err(self.read_error())?;
        if self.tree().kind(index) != Kind::Damaged && message_line::check_json(&text).is_ok() {
            return Ok(text.into_owned());
        }
        let parent = self.tree().parent(index).map(|parent| self.tree().id(parent));
        let body = Body::Custom {
            custom_type: DAMAGE_MARK.to_owned(),
            data: Some(json!({ "line": text })),
        };
        Ok(entry::line(&body, self.tree().id(index), parent, now))
    }
}

fn is_leaf_mark(line: &str) -> bool {
    matches!(
        Entry::read(line),
        Some(Entry { body: Some(Body::Custom { custom_type, .. }), .. }) if custom_type == LEAF_MARK
    )
}

/// Stores a complete copy in its database.
fn create_in_database(state: &StorageState, log: &Log, scan: &Scan) -> Result<StorageState, Error> {
    let (StorageState::PlannedInDatabase { address, place, token }, Some(header)) =
        (state, &scan.header)
    else {
        unreachable!("a copy for a database is planned there and has a header");
    };
    let session = SessionRow::new(header, scan.tree.name(), token);
    let mut reader = log.reader();
    let mut rows = scan.tree.all().map(|index| match reader.text(scan.tree.at(index)) {
        Ok(line) => Ok(Row::read(line.into_owned())),
        Err(why) => Err(cannot_copy(address, &why)),
    });
    let created = place.database.create(&session, &mut rows);
    let claim = created.map_err(|why| why.into_error(address))?;
    Ok(StorageState::Database { address: address.clone(), claim, is_uncertain: false })
}

/// A session being copied. It is written straight to disk once it gets a file, so that a large one
/// is never in memory.
struct Copy {
    storage_state: StorageState,
    to: Target,
    scan: Scan,
    at: u64,
    last: Option<String>,
}

enum Target {
    Memory(Vec<u8>),
    File(PendingFile),
    /// It becomes the local copy of a session in a database.
    Database(Spool),
}

impl Copy {
    fn begin(
        source: &Session,
        new: NewSession,
        storage: Storage,
        entries: &[Index],
    ) -> Result<Copy, Error> {
        let is_worth_a_file = entries.iter().any(|&index| source.tree().kind(index).begins_file());
        let (storage_state, header) = Session::new(new, storage).into_parts();
        let to = match &storage_state {
            StorageState::Planned { path, files, .. } if is_worth_a_file => {
                let draft = PendingFile::begin(file::dir_of(path), files);
                Target::File(draft.map_err(Error::write(path))?)
            }
            StorageState::PlannedInDatabase { place, .. } if is_worth_a_file => {
                Target::Database(Spool::new(Vec::new(), place.scratch.clone()))
            }
            _ => Target::Memory(Vec::new()),
        };
        let scan = Scan::resume(header.clone(), Tree::new(), Problems::default(), 0);
        let mut copy = Copy { storage_state, to, scan, at: 0, last: None };
        copy.write(&header.line())?;
        Ok(copy)
    }

    fn write(&mut self, line: &str) -> Result<(), Error> {
        match (&mut self.to, &self.storage_state) {
            (Target::Memory(bytes), _) => {
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
            }
            (Target::File(draft), StorageState::Planned { path, .. }) => draft
                .write(line.as_bytes())
                .and_then(|()| draft.write(b"\n"))
                .map_err(Error::write(path))?,
            (Target::File(_), _) => unreachable!("a draft is for a planned file"),
            (Target::Database(spool), state) => {
                let text = [line, "\n"].concat();
                let written = spool.write(self.at, text.as_bytes());
                let address = state.location();
                written.map_err(|why| cannot_copy(address, &why))?;
            }
        }
        self.at += line.len() as u64 + 1;
        Ok(())
    }

    /// Appends a line unchanged.
    fn add(&mut self, line: &str) -> Result<(), Error> {
        let at = self.at;
        self.write(line)?;
        self.scan.line(line, at);
        Ok(())
    }

    /// Appends an entry as a child of the previous one. For a compaction, `first_kept` replaces the
    /// first entry it keeps.
    fn add_below_last(&mut self, line: &str, first_kept: Option<&str>) -> Result<(), Error> {
        let Ok(mut fields) = Fields::read(line) else {
            // Not valid JSON, so not an entry: skipped.
            return Ok(());
        };
        let id = fields.text("id");
        let is_below_last = fields.text("parentId") == self.last;
        let keeps_it =
            first_kept.is_none() || fields.text("firstKeptEntryId").as_deref() == first_kept;
        if is_below_last && keeps_it {
            self.add(line)?;
        } else {
            fields.set("parentId", &self.last);
            if let Some(first_kept) = first_kept {
                fields.set("firstKeptEntryId", first_kept);
            }
            self.add(&fields.write())?;
        }
        self.last = id;
        Ok(())
    }

    fn label(&mut self, target: &str, label: &str, given: UnixMs) -> Result<(), Error> {
        let body = Body::Label { target_id: target.to_owned(), label: Some(label.to_owned()) };
        let id = name::new_entry_id(|id| self.scan.tree.find(id).is_some());
        let line = entry::line(&body, &id, self.last.as_deref(), given);
        self.add(&line)?;
        self.last = Some(id);
        Ok(())
    }

    fn finish(self) -> Result<Session, Error> {
        let Copy { storage_state, to, scan, at, .. } = self;
        let (storage_state, log) = match (to, storage_state) {
            (Target::Memory(bytes), storage_state) => (storage_state, Log::in_memory(bytes)),
            (Target::File(draft), StorageState::Planned { path, owner, files }) => {
                let persisted = draft.persist(&path).and_then(|disk| Ok((disk.id()?, disk)));
                let (id, disk) = persisted.map_err(Error::write(&path))?;
                let note = LockNote::write(&path, id, &owner);
                (StorageState::File { path, owner, files, note }, Log::on_disk(disk, at))
            }
            (Target::File(_), _) => unreachable!("a draft is for a planned file"),
            (Target::Database(spool), storage_state) => {
                let log = Log::spooled(spool, at);
                (create_in_database(&storage_state, &log, &scan)?, log)
            }
        };
        Ok(Session::of(storage_state, log, scan))
    }
}
