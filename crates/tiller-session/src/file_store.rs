//! Sessions in files: a folder per working directory, or one folder that the user has chosen.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::database::Watch;
use crate::error::Error;
use crate::files::Files;
use crate::list::{self, ListQuery, Listing, Scope};
use crate::lock::Owner;
use crate::name::SessionId;
use crate::paths;
use crate::session::{Session, Storage};
use crate::store::Store;

/// How often the lock of a dead process is tried, and the pause between.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Sessions in files.
#[derive(Clone, Debug)]
pub struct FileStore {
    /// The folder with a subfolder for every project.
    pub root: PathBuf,
    /// The single folder the user chose instead.
    pub chosen: Option<PathBuf>,
    /// Names this process in the lock of a session.
    pub owner: Owner,
    /// The file system, or a test's substitute.
    pub files: Files,
}

impl FileStore {
    fn dir(&self, cwd: &Path) -> PathBuf {
        self.chosen.clone().unwrap_or_else(|| paths::project_dir(&self.root, cwd))
    }

    fn in_folder(&self, dir: PathBuf) -> Storage {
        Storage::Folder { dir, owner: self.owner.clone(), files: self.files.clone() }
    }

    fn has_died(&self, owner: &Owner) -> bool {
        let processes = Path::new("/proc");
        owner.host == self.owner.host
            && processes.join("self").exists()
            && !processes.join(owner.pid.to_string()).exists()
    }
}

impl Store for FileStore {
    fn storage(&self, cwd: &Path) -> Storage {
        self.in_folder(self.dir(cwd))
    }

    fn storage_beside(&self, session: &Session) -> Storage {
        match session.path().and_then(Path::parent) {
            Some(dir) => self.in_folder(dir.to_owned()),
            None => self.storage(session.cwd()),
        }
    }

    fn location(&self, named: &Path, cwd: &Path) -> PathBuf {
        cwd.join(named)
    }

    fn may_have(&self, location: &Path) -> bool {
        location.exists()
    }

    fn open(&self, location: &Path) -> Result<Session, Error> {
        let mut tries = 0;
        loop {
            match Session::open_on(self.files.clone(), location, self.owner.clone()) {
                // A killed process holds its lock until the last of its children, which are being
                // killed too, has released it.
                Err(Error::InUse { owner: Some(owner), .. })
                    if self.has_died(&owner) && tries < LOCK_TRIES =>
                {
                    tries += 1;
                    thread::sleep(LOCK_PAUSE);
                }
                result => return result,
            }
        }
    }

    fn open_read_only(&self, location: &Path) -> Result<Session, Error> {
        Session::open_read_only(location)
    }

    fn list(&self, query: &ListQuery) -> Result<Listing, Error> {
        let project;
        let scope = match (&self.chosen, query.cwd.as_deref()) {
            (Some(dir), cwd) => Scope::Dir { dir, cwd },
            (None, None) => Scope::All { sessions: &self.root },
            (None, Some(cwd)) => {
                project = paths::project_dir(&self.root, cwd);
                Scope::Dir { dir: &project, cwd: None }
            }
        };
        list::list(scope, query).map_err(|err| unlisted("list", &err))
    }

    fn newest(&self, cwd: &Path) -> Result<Option<PathBuf>, Error> {
        let dir = self.dir(cwd);
        let cwd = self.chosen.is_some().then_some(cwd);
        list::newest(Scope::Dir { dir: &dir, cwd }).map_err(|err| unlisted("search", &err))
    }

    fn exact(&self, id: &SessionId, cwd: &Path) -> Result<Option<PathBuf>, Error> {
        let dir = self.dir(cwd);
        let found = list::find(Scope::Dir { dir: &dir, cwd: None }, id.as_str());
        let is_it = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(&format!("_{id}.jsonl")) || name == format!("{id}.jsonl")
        };
        // A folder that cannot be read has no such session.
        Ok(found.unwrap_or_default().into_iter().find(is_it))
    }

    fn find(&self, query: &str, cwd: &Path) -> Result<PathBuf, Error> {
        if query.contains(['/', '\\']) || query.ends_with(".jsonl") {
            return Ok(cwd.join(query));
        }
        let dir = self.dir(cwd);
        let in_folder = Scope::Dir { dir: &dir, cwd: None };
        let everywhere = Scope::All { sessions: &self.root };
        for scope in [in_folder, everywhere] {
            let found = list::find(scope, query).map_err(|err| unlisted("search", &err))?;
            if let Some(path) = found.into_iter().next() {
                return Ok(path);
            }
        }
        Err(Error::NoMatch(query.to_owned()))
    }

    fn delete(&self, location: &Path) -> Result<(), Error> {
        let session = self.open(location)?;
        fs::remove_file(location).map_err(Error::write(location))?;
        drop(session);
        Ok(())
    }

    fn lines_since(&self, _: &Path, _: u64) -> Result<Option<Vec<String>>, Error> {
        Ok(None)
    }

    fn watch(&self, _: &Path, _: Box<dyn Fn() + Send>) -> Option<Box<dyn Watch>> {
        None
    }

    fn project_dir(&self, cwd: &Path, open: &Session) -> Option<PathBuf> {
        Some(match open.path().and_then(Path::parent) {
            Some(dir) if open.cwd() == cwd => dir.to_owned(),
            _ => self.dir(cwd),
        })
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

fn unlisted(what: &'static str, source: &io::Error) -> Error {
    Error::List { what, reason: source.to_string() }
}
