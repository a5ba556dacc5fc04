//! Opens a session file: locks it, reads it, and repairs what a crash left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::Error;
use crate::file::{self, FileDisk, PendingFile};
use crate::files::Files;
use crate::lock::{self, LockNote, Owner};
use crate::log::Log;
use crate::migrate;
use crate::problem::{Problem, Problems};
use crate::scan::{Ending, Scan, Stop};
use crate::session::{Session, StorageState};
use crate::sibling_file::FileId;

impl Session {
    /// Opens a session for writing. This reads the whole file, at some hundred megabytes a second:
    /// a server runs it on a blocking thread.
    ///
    /// The file is changed only where necessary: a torn last line is moved to `FILE.torn`, a
    /// missing line end is added, an old version is migrated. [`Session::problems`] lists what was
    /// found.
    pub fn open(path: &Path, owner: Owner) -> Result<Session, Error> {
        Session::open_on(Files::default(), path, owner)
    }

    /// Like `open`, on the caller's file system.
    pub fn open_on(files: Files, path: &Path, owner: Owner) -> Result<Session, Error> {
        let (file, not_locked) = open_locked(path)?;
        let mut log = log_of(FileDisk::new(file, path, files.clone(), false), path)?;
        let mut loaded = load(&log, path, Problems::default())?;
        let mut migrated = None;
        if let Loaded::Old(from, problems) = loaded {
            log = rewrite(&log, path, &files)?;
            loaded = load(&log, path, problems)?;
            migrated = Some(Problem::Migrated { from });
        }
        let Loaded::Current(mut scan, ending) = loaded else {
            return Err(Error::NotASession(path.to_owned()));
        };
        for problem in [not_locked, migrated].into_iter().flatten() {
            scan.problems.push(problem);
        }
        let id = log.disk().map(FileDisk::id).transpose().map_err(Error::read(path))?;
        let id = id.ok_or_else(|| Error::NotASession(path.to_owned()))?;
        mend(&mut log, ending, path, id, &mut scan.problems);
        let note = LockNote::write(path, id, &owner);
        let storage_state = StorageState::File { path: path.to_owned(), owner, files, note };
        Ok(Session::of(storage_state, log, *scan))
    }

    /// Opens a session read-only, also while another process writes to it. Nothing on disk is
    /// changed; entries appended there later are not seen.
    pub fn open_read_only(path: &Path) -> Result<Session, Error> {
        Session::read_only_with(path, Problems::default())
    }

    /// Like `open_read_only`, with the caller's limit on problems.
    pub(crate) fn read_only_with(path: &Path, problems: Problems) -> Result<Session, Error> {
        let opened = OpenOptions::new().read(true).custom_flags(flags(OFlags::NONBLOCK)).open(path);
        let file = opened.map_err(Error::read(path))?;
        check_is_file(&file, path)?;
        let mut log = log_of(FileDisk::new(file, path, Files::default(), false), path)?;
        let mut loaded = load(&log, path, problems)?;
        if let Loaded::Old(_, problems) = loaded {
            log = Log::in_memory(migrate::to_current(&read_all(&log, path)?));
            loaded = load(&log, path, problems)?;
        }
        let Loaded::Current(mut scan, ending) = loaded else {
            return Err(Error::NotASession(path.to_owned()));
        };
        if let Ending::Torn { bytes, .. } = ending {
            scan.problems.push(Problem::TornTailLeft { bytes: bytes.len() as u64 });
        }
        Ok(Session::of(StorageState::ReadOnly { path: path.to_owned() }, log, *scan))
    }
}

/// Opens and locks the file, then checks that it still is the one at this path: another program may
/// have replaced it in between. A link is refused: the user did not name its target, and the files
/// beside the session would end up beside the link.
fn open_locked(path: &Path) -> Result<(File, Option<Problem>), Error> {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        // Without this, opening a pipe would block.
        let flags = flags(OFlags::NOFOLLOW | OFlags::NONBLOCK);
        let opened = OpenOptions::new().read(true).append(true).custom_flags(flags).open(path);
        let file = opened.map_err(|err| match err.kind() {
            _ if path.is_symlink() => Error::Link(path.to_owned()),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::write(path)(err)
            }
            _ => Error::read(path)(err),
        })?;
        check_is_file(&file, path)?;
        let not_locked = lock::take(&file, path)?;
        let open = file.metadata().map_err(Error::read(path))?;
        let at_path = fs::symlink_metadata(path).map_err(Error::read(path))?;
        if FileId::of(&open) == FileId::of(&at_path) {
            return Ok((file, not_locked));
        }
    }
    Err(Error::InUse { path: path.to_owned(), owner: None })
}

/// Opens a regular file for reading; refuses links.
pub(crate) fn plain_file(path: &Path) -> io::Result<File> {
    let flags = flags(OFlags::NOFOLLOW | OFlags::NONBLOCK);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Reading a pipe or a device would block.
fn check_is_file(file: &File, path: &Path) -> Result<(), Error> {
    let metadata = file.metadata().map_err(Error::read(path))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::NotASession(path.to_owned())) }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn log_of(disk: FileDisk, path: &Path) -> Result<Log, Error> {
    let len = disk.len().map_err(Error::read(path))?;
    Ok(Log::on_disk(disk, len))
}

enum Loaded {
    Current(Box<Scan>, Ending),
    /// The old version to migrate from, and the problem list, which is still empty.
    Old(u64, Problems),
}

fn load(log: &Log, path: &Path, problems: Problems) -> Result<Loaded, Error> {
    let mut scan = Scan::new(log.end(), problems);
    // Only up to the known length: another process may be writing beyond it.
    match scan.read_all(log.read_from(0), 0, log.end()).map_err(Error::read(path))? {
        Err(Stop::OldVersion(version)) => Ok(Loaded::Old(version, scan.problems)),
        Ok(ending) if scan.header.is_some() => Ok(Loaded::Current(Box::new(scan), ending)),
        Ok(_) | Err(Stop::NotASession) => Err(Error::NotASession(path.to_owned())),
    }
}

/// Replaces an old file by its migrated version.
fn rewrite(log: &Log, path: &Path, files: &Files) -> Result<Log, Error> {
    let migrated = migrate::to_current(&read_all(log, path)?);
    let replaced = PendingFile::begin(file::dir_of(path), files).and_then(|mut draft| {
        draft.write(&migrated)?;
        draft.replace(path)
    });
    log_of(replaced.map_err(Error::write(path))?, path)
}

fn read_all(log: &Log, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    log.read_from(0).read_to_end(&mut bytes).map_err(Error::read(path))?;
    Ok(bytes)
}

/// Repairs the end of the file so that lines can be appended. If that fails, the next appended line
/// begins with the missing line end.
fn mend(log: &mut Log, ending: Ending, path: &Path, id: FileId, problems: &mut Problems) {
    match ending {
        Ending::Clean => (),
        Ending::Open { is_blank } => {
            log.close_line();
            if !is_blank {
                problems.push(Problem::MissingNewline);
            }
        }
        Ending::Torn { at, bytes: torn } => {
            let bytes = torn.len() as u64;
            let cut = file::save_torn_tail(path, id, &torn).and_then(|saved_to| {
                log.truncate(at)?;
                Ok(saved_to)
            });
            problems.push(match cut {
                Ok(saved_to) => Problem::TornTail { bytes, saved_to },
                Err(_) => {
                    log.close_line();
                    Problem::TornTailLeft { bytes }
                }
            });
        }
    }
}
