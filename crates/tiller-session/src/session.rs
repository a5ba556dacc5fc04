//! A session: the tree, the log with its lines, and the file it has or will have.
//!
//! Nothing here waits for a disk: reading or appending a single entry takes microseconds and can run
//! on a server's only thread. Slower methods say so. Appending to a session in a database takes a
//! request to the database.

mod in_database;

pub(crate) use in_database::cannot_copy;

use std::fs;
use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};

use tiller_agent::durability::Durability;
use tiller_agent::message::{Message, UnixMs};
use tiller_agent::time;
use uuid::Uuid;

use crate::context;
use crate::database::{Claim, DatabasePlace};
use crate::entry::{self, Body, Entry, Header};
use crate::error::Error;
use crate::file::{self, PendingFile, Syncer};
use crate::files::Files;
use crate::head::{HeadLine, Kind};
use crate::lock::{LockNote, Owner};
use crate::log::{Change, Log};
use crate::message_line;
use crate::name::{self, SessionId};
use crate::paths;
use crate::problem::{Problem, Problems};
use crate::scan::{Ending, Scan, Stop};
use crate::sibling_file::FileId;
use crate::stats::Stats;
use crate::tree::{Index, Tree};

/// The `customType` of the entry that records a navigation. Its parent is the target entry.
pub const LEAF_MARK: &str = "tiller.leaf";

pub struct Session {
    // Dropped before the log, which holds the lock: see `lock::LockNote`.
    storage_state: StorageState,
    log: Log,
    header: Header,
    tree: Tree,
    problems: Problems,
    /// Lines read from the store, and not those appended here.
    lines_read: u64,
    /// The number of messages in the context, kept up to date because `get_state` reads it often.
    context_len: usize,
    durability: Durability,
}

/// Where a session is stored.
pub(crate) enum StorageState {
    /// Only in memory.
    Memory,
    /// In a file that is created with the first entry worth keeping.
    Planned {
        path: PathBuf,
        owner: Owner,
        files: Files,
    },
    File {
        path: PathBuf,
        owner: Owner,
        files: Files,
        note: LockNote,
    },
    /// In a database, in which it is created with the first entry worth keeping.
    PlannedInDatabase {
        address: PathBuf,
        place: DatabasePlace,
        /// Tells the attempts to create it from those of others.
        token: String,
    },
    Database {
        address: PathBuf,
        claim: Box<dyn Claim>,
        /// The database has not told whether the last append was stored.
        is_uncertain: bool,
    },
    ReadOnly {
        path: PathBuf,
    },
}

/// What a new session is created with.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    pub cwd: PathBuf,
    /// Not checked.
    pub parent_session: Option<String>,
    pub now: UnixMs,
}

/// Where a new session will be stored.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Only in memory (`--no-session`).
    Memory,
    /// In a new file in this folder, named after time and id.
    Folder { dir: PathBuf, owner: Owner, files: Files },
    /// In this file, which must be empty or not exist.
    File { path: PathBuf, owner: Owner, files: Files },
    /// In a database.
    Database(DatabasePlace),
}

impl Session {
    /// Creates a session. Nothing is written yet: the file is created with the first user message.
    pub fn new(new: NewSession, storage: Storage) -> Session {
        let storage_state = StorageState::of(storage, &new.id, new.now);
        let cwd = new.cwd.to_string_lossy().into_owned();
        let timestamp = time::iso(new.now);
        let header = Header::new(new.id.to_string(), timestamp, cwd, new.parent_session);
        let log = Log::in_memory((header.line() + "\n").into_bytes());
        Session::of(storage_state, log, Scan::resume(header, Tree::new(), Problems::default(), 1))
    }

    pub(crate) fn of(storage_state: StorageState, log: Log, scan: Scan) -> Session {
        let lines_read = scan.lines_read();
        let Scan { header, tree, problems, .. } = scan;
        let header = header.expect("a session has a header");
        let context_len = context::project(&tree, tree.leaf()).items.len();
        let durability = Durability::Os;
        Session { storage_state, log, header, tree, problems, lines_read, context_len, durability }
    }

    /// Sets what a power failure may lose from now on. The initial value is [`Durability::Os`].
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    pub fn durability(&self) -> Durability {
        self.durability
    }

    pub fn id(&self) -> &str {
        &self.header.id
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn cwd(&self) -> &Path {
        Path::new(&self.header.cwd)
    }

    /// The path of the file, or the address in the database, also if it does not exist yet. None if
    /// the session is in memory only.
    pub fn path(&self) -> Option<&Path> {
        let location = self.storage_state.location();
        (!location.as_os_str().is_empty()).then_some(location)
    }

    /// Whether the file, or the session in the database, exists.
    pub fn is_stored(&self) -> bool {
        matches!(
            self.storage_state,
            StorageState::File { .. }
                | StorageState::Database { .. }
                | StorageState::ReadOnly { .. }
        )
    }

    /// Whether it is, or will be, in a database.
    pub fn is_in_database(&self) -> bool {
        matches!(
            self.storage_state,
            StorageState::Database { .. } | StorageState::PlannedInDatabase { .. }
        )
    }

    /// Whether this path is the file of this session, whose lock we already hold.
    pub fn is_at(&self, path: &Path) -> bool {
        let id = |path: &Path| fs::metadata(path).ok().map(|found| FileId::of(&found));
        match self.path().filter(|_| self.is_stored() && !self.is_in_database()) {
            Some(own_path) => {
                own_path == path || id(own_path).is_some_and(|own_id| id(path) == Some(own_id))
            }
            None => self.path() == Some(path),
        }
    }

    pub fn is_read_only(&self) -> bool {
        matches!(self.storage_state, StorageState::ReadOnly { .. })
    }

    /// The problems found in the file when it was opened and since.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.list()
    }

    /// Appends an entry below the leaf and makes it the leaf.
    ///
    /// When this returns, the line is with the operating system, and as safe as the session's
    /// [`Durability`] demands. On an error neither the session nor the file has changed, and the
    /// call may be repeated; the only exception is [`Error::NotSynced`].
    pub fn append(&mut self, body: Body, now: UnixMs) -> Result<String, Error> {
        let leaf = self.tree.leaf();
        self.append_below(leaf, body, now)
    }

    /// Appends an entry below any entry, or as a root, and makes it the leaf.
    pub fn append_under(
        &mut self,
        parent: Option<&str>,
        body: Body,
        now: UnixMs,
    ) -> Result<String, Error> {
        let parent = parent.map(|id| self.find(id)).transpose()?;
        self.append_below(parent, body, now)
    }

    /// Moves the leaf to an entry, or before the first one, and records it, so that pi and a reload
    /// find the same leaf. Records nothing if the leaf is already there.
    pub fn navigate(&mut self, to: Option<&str>, now: UnixMs) -> Result<(), Error> {
        let to = to.map(|id| self.find(id)).transpose()?;
        if to != self.tree.leaf() {
            let mark = Body::Custom { custom_type: LEAF_MARK.to_owned(), data: None };
            self.append_below(to, mark, now)?;
        }
        Ok(())
    }

    /// Sets the session's name and returns it as stored.
    pub fn set_name(&mut self, name: &str, now: UnixMs) -> Result<String, Error> {
        let name = name::clean(name)?;
        self.append(Body::SessionInfo { name: name.clone() }, now)?;
        Ok(name)
    }

    /// Sets or removes the label of an entry.
    pub fn set_label(
        &mut self,
        target: &str,
        label: Option<&str>,
        now: UnixMs,
    ) -> Result<String, Error> {
        self.find(target)?;
        let label = label.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        self.append(Body::Label { target_id: target.to_owned(), label }, now)
    }

    /// Writes the file now, without waiting for the first user message.
    pub fn persist(&mut self) -> Result<(), Error> {
        match &self.storage_state {
            StorageState::Planned { .. } => self.create(None).map(|_| ()),
            StorageState::PlannedInDatabase { .. } => self.create_in_database(None).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Waits until everything appended so far would survive a power failure.
    pub fn sync(&self) -> Result<(), Error> {
        match (self.path(), self.log.syncer()) {
            (Some(path), Some(syncer)) => syncer.sync().map_err(Error::write(path)),
            _ => Ok(()),
        }
    }

    /// Like `sync`, to be run on another thread. None if there is no file.
    pub fn syncer(&self) -> Option<Syncer> {
        self.log.syncer()
    }

    pub fn name(&self) -> Option<&str> {
        self.tree.name()
    }

    pub fn leaf(&self) -> Option<&str> {
        self.tree.leaf().map(|leaf| self.tree.id(leaf))
    }

    /// The number of entries on all branches.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it contains only model and thinking level changes.
    pub fn holds_only_choices(&self) -> bool {
        let is_choice = |kind| matches!(kind, Kind::ModelChange | Kind::ThinkingLevelChange);
        self.tree.all().all(|index| is_choice(self.tree.kind(index)))
    }

    pub fn contains(&self, id: &str) -> bool {
        self.tree.find(id).is_some()
    }

    pub fn entry(&self, id: &str) -> Result<Option<Entry>, Error> {
        Ok(self.raw(id)?.as_deref().and_then(Entry::read))
    }

    /// The raw line of an entry. None if there is no such entry or its line is damaged.
    pub fn raw(&self, id: &str) -> Result<Option<String>, Error> {
        match self.tree.find(id) {
            Some(index) if self.tree.kind(index) != Kind::Damaged => {
                let line = self.line(index)?;
                Ok(message_line::check_json(&line).is_ok().then_some(line))
            }
            _ => Ok(None),
        }
    }

    pub fn label(&self, id: &str) -> Option<&str> {
        let target = self.tree.find(id)?;
        self.tree.label(target).map(|label| label.text.as_str())
    }

    /// The ids from the root to this entry.
    pub fn path_to(&self, id: &str) -> Result<Vec<&str>, Error> {
        let path = self.tree.path(Some(self.find(id)?));
        Ok(path.into_iter().map(|index| self.tree.id(index)).collect())
    }

    /// The ids of this entry's children, or of the roots, in file order.
    pub fn children(&self, of: Option<&str>) -> Result<Vec<&str>, Error> {
        let of = of.map(|id| self.find(id)).transpose()?;
        Ok(self.tree.children(of).into_iter().map(|index| self.tree.id(index)).collect())
    }

    /// Totals over the whole session.
    pub fn stats(&self) -> &Stats {
        self.tree.stats()
    }

    /// The number of messages in [`Session::context`].
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Takes apart a session that was just created.
    pub(crate) fn into_parts(self) -> (StorageState, Header) {
        (self.storage_state, self.header)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn find(&self, id: &str) -> Result<Index, Error> {
        self.tree.find(id).ok_or_else(|| Error::EntryNotFound(id.to_owned()))
    }

    pub(crate) fn line(&self, index: Index) -> Result<String, Error> {
        self.log.text(self.tree.at(index)).map_err(self.read_error())
    }

    pub(crate) fn read_error(&self) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.path().map(Path::to_owned).unwrap_or_default();
        move |source| Error::Read { path: path.clone(), source }
    }

    fn append_below(
        &mut self,
        parent: Option<Index>,
        body: Body,
        now: UnixMs,
    ) -> Result<String, Error> {
        let (body, now) = as_stored(body, now)?;
        let is_user =
            matches!(&body, Body::Message(message) if matches!(**message, Message::User(_)));
        let syncs = self.durability.syncs_after_entry(is_user);
        if !matches!(self.storage_state, StorageState::ReadOnly { .. }) {
            // First, because another program may have appended ids that must not be used again.
            self.take_in_changes()?;
        }
        let id = name::new_entry_id(|id| self.contains(id));
        let parent_id = parent.map(|parent| self.tree.id(parent));
        let line = entry::line(&body, &id, parent_id, now);
        self.commit(&line, syncs)?;
        Ok(id)
    }

    /// Writes a line and, if that succeeds, adds it to the tree.
    fn commit(&mut self, line: &str, syncs: bool) -> Result<(), Error> {
        let HeadLine::Entry(head) = HeadLine::read(line.as_bytes()) else {
            unreachable!("wrote a line that is not an entry: {line}");
        };
        if self.tree.is_full(&head.id, line.len() as u64) {
            let path = self.path().map(Path::to_owned).unwrap_or_default();
            return Err(Error::Write { path, source: io::ErrorKind::FileTooLarge.into() });
        }
        let before = self.log.mark();
        let at = match &self.storage_state {
            StorageState::ReadOnly { .. } => return Err(Error::ReadOnly),
            StorageState::Planned { .. } if head.kind.begins_file() => {
                let start = self.create(Some(line))?;
                start..start + line.len() as u64
            }
            StorageState::PlannedInDatabase { .. } if head.kind.begins_file() => {
                let start = self.create_in_database(Some(line))?;
                start..start + line.len() as u64
            }
            StorageState::Database { .. } => self.append_to_database(line)?,
            StorageState::Memory
            | StorageState::Planned { .. }
            | StorageState::PlannedInDatabase { .. }
            | StorageState::File { .. } => {
                let path = self.path().map(Path::to_owned).unwrap_or_default();
                self.log.append(line).map_err(Error::write(&path))?
            }
        };
        // A line that could not be synced is removed. If it cannot be removed, it stays in memory,
        // too.
        let synced = if syncs { self.sync() } else { Ok(()) };
        let synced = match synced {
            Err(err) if self.log.take_back(before) => return Err(err),
            Err(Error::Write { path, source }) => Err(Error::NotSynced { path, source }),
            other => other,
        };
        let leaf_before = self.tree.leaf();
        let pushed = self.tree.push(&head, at);
        let is_plain = !matches!(head.kind, Kind::Compaction | Kind::ContextEdit)
            && self.tree.parent(pushed.index) == leaf_before;
        if is_plain {
            self.context_len += usize::from(head.kind.is_in_context());
        } else {
            self.context_len = context::project(&self.tree, self.tree.leaf()).items.len();
        }
        synced
    }

    /// Creates the file with everything so far and, optionally, one more line, whose offset it
    /// returns.
    fn create(&mut self, line: Option<&str>) -> Result<u64, Error> {
        let StorageState::Planned { path, owner, files } = &self.storage_state else {
            unreachable!("only a planned file is created");
        };
        let start = self.log.end();
        let written = PendingFile::begin(file::dir_of(path), files).and_then(|mut draft| {
            draft.write(self.log.memory().unwrap_or_default())?;
            if let Some(line) = line {
                draft.write(line.as_bytes())?;
                draft.write(b"\n")?;
            }
            let disk = draft.persist(path)?;
            Ok((disk.id()?, disk))
        });
        let (id, disk) = written.map_err(Error::write(path))?;
        let end = start + line.map_or(0, |line| line.len() as u64 + 1);
        let note = LockNote::write(path, id, owner);
        self.log = Log::on_disk(disk, end);
        let (path, owner, files) = (path.clone(), owner.clone(), files.clone());
        self.storage_state = StorageState::File { path, owner, files, note };
        Ok(start)
    }

    /// pi ignores our lock. Finds out before a write whether another program or the user has
    /// changed the file.
    fn take_in_changes(&mut self) -> Result<(), Error> {
        let path = match &self.storage_state {
            StorageState::File { path, .. } => path,
            StorageState::Database { .. } => return self.refresh().map(|_| ()),
            _ => return Ok(()),
        };
        match self.log.change().map_err(Error::write(path))? {
            Change::None => Ok(()),
            Change::Grown(end) => self.take_in_lines(end),
            Change::Deleted => self.restore(),
            Change::Moved => Err(Error::Moved(path.clone())),
            Change::Replaced | Change::Shrunk => Err(Error::Replaced(path.clone())),
        }
    }

    /// Writes a deleted file again.
    fn restore(&mut self) -> Result<(), Error> {
        let StorageState::File { path, owner, files, note } = &mut self.storage_state else {
            return Ok(());
        };
        let written = PendingFile::begin(file::dir_of(path), files).and_then(|mut draft| {
            draft.copy(&mut self.log.read_from(0).take(self.log.end()))?;
            let disk = draft.persist(path)?;
            Ok((disk.id()?, disk))
        });
        let (id, disk) = written.map_err(Error::write(path))?;
        note.renew(id, owner);
        self.log.move_to(disk);
        self.problems.push(Problem::Restored);
        Ok(())
    }

    fn take_in_lines(&mut self, end: u64) -> Result<(), Error> {
        let at = self.log.end();
        // Read completely before anything is added: otherwise a failure could add entries twice.
        let mut bytes = Vec::new();
        let read = self.log.read_from(at).take(end - at).read_to_end(&mut bytes);
        read.map_err(self.read_error())?;
        let end = at + bytes.len() as u64;
        let (leaf, len) = (self.tree.leaf(), self.tree.len());
        let read = self.scan_further(&bytes, at);
        self.tree.set_leaf(leaf);
        let count = (self.tree.len() - len) as u64;
        if count > 0 {
            self.problems.push(Problem::ForeignEntries { count });
        }
        self.log.extend(end);
        // An incomplete line becomes a malformed one, which is kept like any other.
        if !matches!(read, Ok(Ok(Ending::Clean))) {
            self.log.close_line();
        }
        Ok(())
    }

    /// Adds the entries of further lines to the tree.
    pub(crate) fn scan_further(
        &mut self,
        bytes: &[u8],
        at: u64,
    ) -> io::Result<Result<Ending, Stop>> {
        let mut scan = Scan::resume(
            self.header.clone(),
            mem::replace(&mut self.tree, Tree::new()),
            mem::take(&mut self.problems),
            self.lines_read,
        );
        let read = scan.read_all(bytes, at, bytes.len() as u64);
        self.lines_read = scan.lines_read();
        (self.tree, self.problems) = (scan.tree, scan.problems);
        read
    }
}

impl StorageState {
    /// The path of the file, or the address in the database. Empty if there is none.
    pub(crate) fn location(&self) -> &Path {
        match self {
            StorageState::Memory => Path::new(""),
            StorageState::Planned { path, .. }
            | StorageState::File { path, .. }
            | StorageState::ReadOnly { path }
            | StorageState::PlannedInDatabase { address: path, .. }
            | StorageState::Database { address: path, .. } => path,
        }
    }

    pub(crate) fn of(storage: Storage, id: &SessionId, now: UnixMs) -> StorageState {
        match storage {
            Storage::Memory => StorageState::Memory,
            Storage::Folder { dir, owner, files } => {
                StorageState::Planned { path: dir.join(paths::file_name(id, now)), owner, files }
            }
            Storage::File { path, owner, files } => StorageState::Planned { path, owner, files },
            Storage::Database(place) => StorageState::PlannedInDatabase {
                address: place.address(id.as_str()),
                place,
                token: Uuid::new_v4().to_string(),
            },
        }
    }
}

/// Some messages have entry types of their own. An extension's message carries a time, which
/// becomes its entry's time.
fn as_stored(body: Body, now: UnixMs) -> Result<(Body, UnixMs), Error> {
    match body {
        Body::Message(message) => match &*message {
            Message::Custom(custom) => {
                let time = custom.timestamp;
                Ok((Body::CustomMessage(custom.clone()), time))
            }
            Message::BranchSummary(_) | Message::CompactionSummary(_) => Err(Error::DerivedMessage),
            _ => Ok((Body::Message(message), now)),
        },
        body => Ok((body, now)),
    }
}
