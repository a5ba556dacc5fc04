//! Opening a session file: lock it, read it, mend what a crash left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Error;
use crate::file::{self, Disk, Draft, FileDisk};
use crate::lock::{self, Note, Owner};
use crate::log::Log;
use crate::migrate;
use crate::problem::{Problem, Problems};
use crate::scan::{Ending, Scan, Stop};
use crate::session::{Home, Session};

impl Session {
    /// Opens a session to go on with it. This reads the whole file, at some hundred megabytes a
    /// second: a server lets a blocking thread do it.
    ///
    /// The file is changed only where it must be: a torn last line is moved to `FILE.torn`, a
    /// missing line end added, an old version brought up to date. [`Session::problems`] tells.
    pub fn open(path: &Path, owner: Owner) -> Result<Session, Error> {
        let (file, not_locked) = open_locked(path)?;
        let mut log = log_of(FileDisk::new(file, path, false), path)?;
        let mut loaded = load(&log, path)?;
        let mut migrated = None;
        if let Loaded::Old(from) = loaded {
            log = rewrite(&log, path)?;
            loaded = load(&log, path)?;
            migrated = Some(Problem::Migrated { from });
        }
        let Loaded::Current(mut scan, ending) = loaded else {
            return Err(Error::NotASession(path.to_owned()));
        };
        for problem in [not_locked, migrated].into_iter().flatten() {
            scan.problems.push(problem);
        }
        mend(&mut log, ending, path, &mut scan.problems);
        let note = Note::write(path, &owner);
        Ok(Session::of(Home::File { path: path.to_owned(), owner, note }, log, *scan))
    }

    /// Opens a session to look at it, also while somebody else writes to it. Nothing is changed
    /// on disk; what is appended there later is not seen.
    pub fn open_read_only(path: &Path) -> Result<Session, Error> {
        check_is_file(path)?;
        let file = File::open(path).map_err(Error::read(path))?;
        let mut log = log_of(FileDisk::new(file, path, false), path)?;
        let mut loaded = load(&log, path)?;
        if let Loaded::Old(_) = loaded {
            log = Log::in_memory(migrate::to_current(&whole(&log, path)?));
            loaded = load(&log, path)?;
        }
        let Loaded::Current(mut scan, ending) = loaded else {
            return Err(Error::NotASession(path.to_owned()));
        };
        if let Ending::Torn { bytes, .. } = ending {
            scan.problems.push(Problem::TornTailLeft { bytes: bytes.len() as u64 });
        }
        Ok(Session::of(Home::ReadOnly { path: path.to_owned() }, log, *scan))
    }
}

/// Opens the file that is at this path once we hold its lock: between the two, somebody may have
/// put another there.
fn open_locked(path: &Path) -> Result<(File, Option<Problem>), Error> {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        check_is_file(path)?;
        let opened = OpenOptions::new().read(true).append(true).open(path);
        let file = opened.map_err(|err| match err.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::write(path)(err)
            }
            _ => Error::read(path)(err),
        })?;
        let not_locked = lock::take(&file, path)?;
        let ours = file.metadata().map_err(Error::read(path))?;
        let there = fs::metadata(path).map_err(Error::read(path))?;
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            return Ok((file, not_locked));
        }
    }
    Err(Error::InUse { path: path.to_owned(), owner: None })
}

/// A pipe or a device would keep us waiting for its first line.
fn check_is_file(path: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(Error::read(path))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::NotASession(path.to_owned())) }
}

fn log_of(disk: FileDisk, path: &Path) -> Result<Log, Error> {
    let len = disk.state().map_err(Error::read(path))?.len;
    Ok(Log::on_disk(Box::new(disk), len))
}

enum Loaded {
    Current(Box<Scan>, Ending),
    /// A version that must be migrated first.
    Old(u64),
}

fn load(log: &Log, path: &Path) -> Result<Loaded, Error> {
    let mut scan = Scan::new(log.end());
    // Not beyond the length we know: whatever is written there meanwhile is not ours to judge.
    match scan.read_all(log.read_from(0), 0, log.end()).map_err(Error::read(path))? {
        Err(Stop::OldVersion(version)) => Ok(Loaded::Old(version)),
        Ok(ending) if scan.header.is_some() => Ok(Loaded::Current(Box::new(scan), ending)),
        Ok(_) | Err(Stop::NotASession) => Err(Error::NotASession(path.to_owned())),
    }
}

/// Puts a file of the current version in the place of an old one.
fn rewrite(log: &Log, path: &Path) -> Result<Log, Error> {
    let migrated = migrate::to_current(&whole(log, path)?);
    let replaced = Draft::begin(file::dir_of(path)).and_then(|mut draft| {
        draft.write(&migrated)?;
        draft.replace(path)
    });
    log_of(replaced.map_err(Error::write(path))?, path)
}

fn whole(log: &Log, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    log.read_from(0).read_to_end(&mut bytes).map_err(Error::read(path))?;
    Ok(bytes)
}

/// Gives the file an end to write on from. When the disk does not let us, the next line that is
/// written begins with the line end that is missing here.
fn mend(log: &mut Log, ending: Ending, path: &Path, problems: &mut Problems) {
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
            let cut = file::save_torn(path, &torn).and_then(|saved_to| {
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
