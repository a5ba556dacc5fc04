//! The session store: where sessions are stored, and how one is found.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tiller_agent::message::UnixMs;
use tiller_session::list::{self, Cursor, Listing, Scope};
use tiller_session::{Error, Files, NewSession, Owner, Session, SessionId, Storage, paths};

/// How long to wait for the lock of a dead process.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Creates, opens and lists the user's sessions.
#[derive(Clone, Debug)]
pub struct SessionStore {
    /// `--no-session`: new sessions stay in memory.
    pub persists: bool,
    /// The folder with a subfolder for every project.
    pub root: PathBuf,
    /// The single folder the user chose instead.
    pub chosen: Option<PathBuf>,
    /// Names this process in the lock of a session.
    pub owner: Owner,
    /// The file system, or a test's substitute.
    pub files: Files,
}

impl SessionStore {
    /// A store that keeps no session.
    pub fn memory() -> SessionStore {
        let owner =
            Owner { program: String::new(), pid: 0, host: String::new(), started: String::new() };
        let root = PathBuf::new();
        let files = Files::default();
        SessionStore { persists: false, root, chosen: None, owner, files }
    }

    /// A new, empty session.
    pub fn begin(&self, id: SessionId, cwd: &Path, parent: Option<String>, now: UnixMs) -> Session {
        let new = NewSession { id, cwd: cwd.to_owned(), parent_session: parent, now };
        Session::new(new, self.storage(cwd))
    }

    /// Where a new session of this working directory is stored.
    pub fn storage(&self, cwd: &Path) -> Storage {
        if self.persists {
            let owner = self.owner.clone();
            let files = self.files.clone();
            Storage::Folder { dir: self.dir(cwd), owner, files }
        } else {
            Storage::Memory
        }
    }

    /// Where a session that follows this one is stored: in the same folder.
    pub fn storage_beside(&self, session: &Session) -> Storage {
        match (self.storage(session.cwd()), session.path().and_then(Path::parent)) {
            (Storage::Folder { owner, files, .. }, Some(dir)) => {
                Storage::Folder { dir: dir.to_owned(), owner, files }
            }
            (storage, _) => storage,
        }
    }

    /// The folder for sessions of a project: beside the open session, if it is the same project.
    pub fn project_dir(&self, cwd: &Path, open: &Session) -> PathBuf {
        match open.path().and_then(Path::parent) {
            Some(dir) if open.cwd() == cwd => dir.to_owned(),
            _ => self.dir(cwd),
        }
    }

    fn dir(&self, cwd: &Path) -> PathBuf {
        self.chosen.clone().unwrap_or_else(|| paths::project_dir(&self.root, cwd))
    }

    /// Opens a stored session to continue it. Reads the whole file, so call it on a blocking
    /// thread.
    pub fn open(&self, path: &Path) -> Result<Session, Error> {
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match Session::open_on(self.files.clone(), path, self.owner.clone()) {
                // A killed process holds its lock until the last of its children, which are being
                // killed too, has released it.
                Err(Error::InUse { owner: Some(owner), .. })
                    if self.has_died(&owner) && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    fn has_died(&self, owner: &Owner) -> bool {
        let processes = Path::new("/proc");
        owner.host == self.owner.host
            && processes.join("self").exists()
            && !processes.join(owner.pid.to_string()).exists()
    }

    /// The sessions of one working directory, or all of them.
    pub fn list(
        &self,
        cwd: Option<&Path>,
        limit: usize,
        before: Option<&Cursor>,
    ) -> std::io::Result<Listing> {
        let project;
        let scope = match (&self.chosen, cwd) {
            (Some(dir), cwd) => Scope::Dir { dir, cwd },
            (None, None) => Scope::All { sessions: &self.root },
            (None, Some(cwd)) => {
                project = paths::project_dir(&self.root, cwd);
                Scope::Dir { dir: &project, cwd: None }
            }
        };
        list::list(scope, limit, before)
    }

    /// The most recently written session of this working directory.
    pub fn newest(&self, cwd: &Path) -> std::io::Result<Option<PathBuf>> {
        let dir = self.dir(cwd);
        let cwd = self.chosen.is_some().then_some(cwd);
        list::newest(Scope::Dir { dir: &dir, cwd })
    }

    /// The session of this working directory with exactly this id.
    pub fn exact(&self, id: &SessionId, cwd: &Path) -> Option<PathBuf> {
        let dir = self.dir(cwd);
        let found = list::find(Scope::Dir { dir: &dir, cwd: None }, id.as_str()).ok()?;
        let is_it = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(&format!("_{id}.jsonl")) || name == format!("{id}.jsonl")
        };
        found.into_iter().find(is_it)
    }

    /// Resolves `--session X`: a path, else an id or its beginning, first in this project and then
    /// in all.
    pub fn find(&self, query: &str, cwd: &Path) -> Result<PathBuf, String> {
        if query.contains(['/', '\\']) || query.ends_with(".jsonl") {
            return Ok(cwd.join(query));
        }
        let dir = self.dir(cwd);
        let in_folder = Scope::Dir { dir: &dir, cwd: None };
        let everywhere = Scope::All { sessions: &self.root };
        for scope in [in_folder, everywhere] {
            let found =
                list::find(scope, query).map_err(|err| format!("cannot search sessions: {err}"))?;
            if let Some(path) = found.into_iter().next() {
                return Ok(path);
            }
        }
        Err(format!("No session found matching '{query}'"))
    }
}
