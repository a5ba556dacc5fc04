//! A session: the tree, the log its lines lie in, and the file it has or will have.
//!
//! Nothing here waits: reading and appending single entries are calls of microseconds, fit for a
//! server's only thread. What takes longer says so.

use std::fs;
use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};

use tiller_agent::message::{Message, UnixMs};

use crate::beside::FileId;
use crate::context;
use crate::durability::Durability;
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
use crate::scan::{Ending, Scan};
use crate::stats::Stats;
use crate::time;
use crate::tree::{Index, Tree};

/// The `customType` of the entry that records a navigation. Its parent is the entry navigated to.
pub const LEAF_MARK: &str = "tiller.leaf";

pub struct Session {
    // Dropped before the log, which holds the lock: see `lock::LockNote`.
    home: StorageState,
    log: Log,
    header: Header,
    tree: Tree,
    problems: Problems,
    lines_read: u64,
    /// How many messages the context has, kept up to date because `get_state` asks all the time.
    context_len: usize,
    durability: Durability,
}

/// Where a session lives.
pub(crate) enum StorageState {
    /// Nowhere else.
    Memory,
    /// There will be a file once there is something to keep.
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
    ReadOnly {
        path: PathBuf,
    },
}

/// What a new session begins with.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    pub cwd: PathBuf,
    /// Stored unchecked.
    pub parent_session: Option<String>,
    pub now: UnixMs,
}

/// Where a new session is to live.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Only in memory (`--no-session`).
    Memory,
    /// In a new file in this folder, named after time and id.
    Folder { dir: PathBuf, owner: Owner, files: Files },
    /// In this file, which must not exist or be empty.
    File { path: PathBuf, owner: Owner, files: Files },
}

impl Session {
    /// Begins a session. Nothing is on disk yet: the file is made with the first user message.
    pub fn new(new: NewSession, storage: Storage) -> Session {
        let home = StorageState::of(storage, &new.id, new.now);
        let cwd = new.cwd.to_string_lossy().into_owned();
        let timestamp = time::iso(new.now);
        let header = Header::new(new.id.to_string(), timestamp, cwd, new.parent_session);
        let log = Log::in_memory((header.line() + "\n").into_bytes());
        Session::of(home, log, Scan::resume(header, Tree::new(), Problems::default(), 1))
    }

    pub(crate) fn of(home: StorageState, log: Log, scan: Scan) -> Session {
        let lines_read = scan.lines_read();
        let Scan { header, tree, problems, .. } = scan;
        let header = header.expect("a scan without a header is no session");
        let context_len = context::project(&tree, tree.leaf()).items.len();
        let durability = Durability::Os;
        Session { home, log, header, tree, problems, lines_read, context_len, durability }
    }

    /// What a power failure may cost from here on. A session begins with [`Durability::Os`].
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

    /// The file, also when it is not there yet. None when there will never be one.
    pub fn path(&self) -> Option<&Path> {
        match &self.home {
            StorageState::Memory => None,
            StorageState::Planned { path, .. }
            | StorageState::File { path, .. }
            | StorageState::ReadOnly { path } => Some(path),
        }
    }

    /// Whether the file is there.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.home, StorageState::File { .. } | StorageState::ReadOnly { .. })
    }

    /// Whether this path leads to the file of this session, so that opening it would find the
    /// lock taken by ourselves.
    pub fn is_at(&self, path: &Path) -> bool {
        let id = |path: &Path| fs::metadata(path).ok().map(|found| FileId::of(&found));
        match self.path().filter(|_| self.is_on_disk()) {
            Some(ours) => ours == path || id(ours).is_some_and(|ours| id(path) == Some(ours)),
            None => self.path() == Some(path),
        }
    }

    pub fn is_read_only(&self) -> bool {
        matches!(self.home, StorageState::ReadOnly { .. })
    }

    /// What was odd about the file, when it was opened and since.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.list()
    }

    /// Adds an entry under the leaf and makes it the leaf.
    ///
    /// When this returns, the line is with the operating system, and as safe as the session's
    /// [`Durability`] wants it. On an error nothing has happened, neither here nor in the file, and
    /// the call may be made again; the one exception is [`Error::NotSynced`].
    pub fn append(&mut self, body: Body, now: UnixMs) -> Result<String, Error> {
        let leaf = self.tree.leaf();
        self.append_below(leaf, body, now)
    }

    /// Adds an entry under any entry, or as a root, and makes it the leaf.
    pub fn append_under(
        &mut self,
        parent: Option<&str>,
        body: Body,
        now: UnixMs,
    ) -> Result<String, Error> {
        let parent = parent.map(|id| self.find(id)).transpose()?;
        self.append_below(parent, body, now)
    }

    /// Moves the leaf, to an entry or before all of them, and records it: a reload, and pi,
    /// find the leaf where it was moved to. Not recorded when the leaf is there already.
    pub fn navigate(&mut self, to: Option<&str>, now: UnixMs) -> Result<(), Error> {
        let to = to.map(|id| self.find(id)).transpose()?;
        if to != self.tree.leaf() {
            let mark = Body::Custom { custom_type: LEAF_MARK.to_owned(), data: None };
            self.append_below(to, mark, now)?;
        }
        Ok(())
    }

    /// Names the session and gives the name as it is stored.
    pub fn set_name(&mut self, name: &str, now: UnixMs) -> Result<String, Error> {
        let name = name::clean(name)?;
        self.append(Body::SessionInfo { name: name.clone() }, now)?;
        Ok(name)
    }

    /// Labels an entry, or takes its label away.
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
        match &self.home {
            StorageState::Planned { .. } => self.create(None).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Waits until everything appended so far is safe against power failures.
    pub fn sync(&self) -> Result<(), Error> {
        match (self.path(), self.log.syncer()) {
            (Some(path), Some(syncer)) => syncer.sync().map_err(Error::write(path)),
            _ => Ok(()),
        }
    }

    /// The same, to be done on another thread. None while there is no file.
    pub fn syncer(&self) -> Option<Syncer> {
        self.log.syncer()
    }

    pub fn name(&self) -> Option<&str> {
        self.tree.name()
    }

    pub fn leaf(&self) -> Option<&str> {
        self.tree.leaf().map(|leaf| self.tree.id(leaf))
    }

    /// How many entries there are, on all branches.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing is stored in it but who answers.
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

    /// The line of an entry as it stands in the file, or nothing when there is no such entry or
    /// its line is damaged.
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

    /// The ids below this entry, or of the roots, in the order they were written.
    pub fn children(&self, of: Option<&str>) -> Result<Vec<&str>, Error> {
        let of = of.map(|id| self.find(id)).transpose()?;
        Ok(self.tree.children(of).into_iter().map(|index| self.tree.id(index)).collect())
    }

    /// Counts over the whole session.
    pub fn stats(&self) -> &Stats {
        self.tree.stats()
    }

    /// How many messages [`Session::context`] has.
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// What a session that has only just begun consists of.
    pub(crate) fn into_beginning(self) -> (StorageState, Header) {
        (self.home, self.header)
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
        let syncs = self.durability.syncs_after(&body);
        if !matches!(self.home, StorageState::ReadOnly { .. }) {
            // First, because it may bring ids that are then taken.
            self.take_in_changes()?;
        }
        let id = name::fresh_entry_id(|id| self.contains(id));
        let parent_id = parent.map(|parent| self.tree.id(parent));
        let line = entry::line(&body, &id, parent_id, now);
        self.commit(&line, syncs)?;
        Ok(id)
    }

    /// Writes a line and, once that has succeeded, knows it.
    fn commit(&mut self, line: &str, syncs: bool) -> Result<(), Error> {
        let HeadLine::Entry(head) = HeadLine::read(line.as_bytes()) else {
            unreachable!("we wrote something that is no entry: {line}");
        };
        if self.tree.is_full(&head.id, line.len() as u64) {
            let path = self.path().map(Path::to_owned).unwrap_or_default();
            return Err(Error::Write { path, source: io::ErrorKind::FileTooLarge.into() });
        }
        let before = self.log.mark();
        let at = match &self.home {
            StorageState::ReadOnly { .. } => return Err(Error::ReadOnly),
            StorageState::Planned { .. } if head.kind.begins_file() => {
                let start = self.create(Some(line))?;
                start..start + line.len() as u64
            }
            StorageState::Memory | StorageState::Planned { .. } | StorageState::File { .. } => {
                let path = self.path().map(Path::to_owned).unwrap_or_default();
                self.log.append(line).map_err(Error::write(&path))?
            }
        };
        // A line that could not be made safe is taken back. Where it stays, it stays here too.
        let synced = if syncs { self.sync() } else { Ok(()) };
        let synced = match synced {
            Err(err) if self.log.take_back(before) => return Err(err),
            Err(Error::Write { path, source }) => Err(Error::NotSynced { path, source }),
            other => other,
        };
        let goes_on = self.tree.leaf();
        let pushed = self.tree.push(&head, at);
        let is_plain = !matches!(head.kind, Kind::Compaction | Kind::ContextEdit)
            && self.tree.parent(pushed.index) == goes_on;
        if is_plain {
            self.context_len += usize::from(head.kind.is_in_context());
        } else {
            self.context_len = context::project(&self.tree, self.tree.leaf()).items.len();
        }
        synced
    }

    /// Makes the file, with everything so far and, perhaps, one more line. Says where that lies.
    fn create(&mut self, line: Option<&str>) -> Result<u64, Error> {
        let StorageState::Planned { path, owner, files } = &self.home else {
            unreachable!("only a planned file is created");
        };
        let start = self.log.end();
        let written = PendingFile::begin(file::dir_of(path), files).and_then(|mut draft| {
            draft.write(self.log.memory().unwrap_or_default())?;
            if let Some(line) = line {
                draft.write(line.as_bytes())?;
                draft.write(b"\n")?;
            }
            let disk = draft.place(path)?;
            Ok((disk.id()?, disk))
        });
        let (id, disk) = written.map_err(Error::write(path))?;
        let end = start + line.map_or(0, |line| line.len() as u64 + 1);
        let note = LockNote::write(path, id, owner);
        self.log = Log::on_disk(disk, end);
        let (path, owner, files) = (path.clone(), owner.clone(), files.clone());
        self.home = StorageState::File { path, owner, files, note };
        Ok(start)
    }

    /// Our lock means nothing to pi. If it, or a user, did something to the file, we find out
    /// before we write.
    fn take_in_changes(&mut self) -> Result<(), Error> {
        let StorageState::File { path, .. } = &self.home else {
            return Ok(());
        };
        match self.log.change().map_err(Error::write(path))? {
            Change::None => Ok(()),
            Change::Grown(end) => self.take_in_lines(end),
            Change::Deleted => self.restore(),
            Change::Moved => Err(Error::Moved(path.clone())),
            Change::Replaced | Change::Shrunk => Err(Error::Replaced(path.clone())),
        }
    }

    /// Writes a file again that was deleted.
    fn restore(&mut self) -> Result<(), Error> {
        let StorageState::File { path, owner, files, note } = &mut self.home else {
            return Ok(());
        };
        let written = PendingFile::begin(file::dir_of(path), files).and_then(|mut draft| {
            draft.copy(&mut self.log.read_from(0).take(self.log.end()))?;
            let disk = draft.place(path)?;
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
        // Read before anything is taken in: half of it would be taken in twice.
        let mut bytes = Vec::new();
        let read = self.log.read_from(at).take(end - at).read_to_end(&mut bytes);
        read.map_err(self.read_error())?;
        let end = at + bytes.len() as u64;
        let (leaf, len) = (self.tree.leaf(), self.tree.len());
        let mut scan = Scan::resume(
            self.header.clone(),
            mem::replace(&mut self.tree, Tree::new()),
            mem::take(&mut self.problems),
            self.lines_read,
        );
        let read = scan.read_all(bytes.as_slice(), at, end - at);
        self.lines_read = scan.lines_read();
        (self.tree, self.problems) = (scan.tree, scan.problems);
        self.tree.set_leaf(leaf);
        let count = (self.tree.len() - len) as u64;
        if count > 0 {
            self.problems.push(Problem::ForeignEntries { count });
        }
        self.log.extend(end);
        // A line that is not whole becomes a malformed one, which is kept like any other.
        if !matches!(read, Ok(Ok(Ending::Clean))) {
            self.log.close_line();
        }
        Ok(())
    }
}

impl StorageState {
    pub(crate) fn of(storage: Storage, id: &SessionId, now: UnixMs) -> StorageState {
        match storage {
            Storage::Memory => StorageState::Memory,
            Storage::Folder { dir, owner, files } => {
                StorageState::Planned { path: dir.join(paths::file_name(id, now)), owner, files }
            }
            Storage::File { path, owner, files } => StorageState::Planned { path, owner, files },
        }
    }
}

/// Some messages have entries of their own kind. An extension's message carries its time, which
/// in its entry is the entry's time.
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
