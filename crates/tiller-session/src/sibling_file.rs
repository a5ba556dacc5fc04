//! Files that tiller puts beside a session file: `FILE.owner` and `FILE.torn`.
//!
//! A session may lie in a folder that came with a cloned repository. That folder can also contain a
//! symbolic link with one of these names that points at any file of the user's. So these files are
//! opened by name relative to the session's folder, never through a link; an existing one must be a
//! regular file with a single hard link, and a new one is created exclusively.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat, unlinkat};

use crate::file::dir_of;

/// Identifies a file independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> FileId {
        FileId { dev: metadata.dev(), ino: metadata.ino() }
    }
}

/// The largest note that is read; a larger file was not written by tiller.
const NOTE_BYTES_MAX: u64 = 64 * 1024;

/// The folder of a session file, and the name of a file beside it.
pub(crate) struct SiblingFile {
    folder: File,
    name: OsString,
}

impl SiblingFile {
    /// `FILE.suffix`; the suffix keeps the file out of session lists.
    pub(crate) fn new(session: &Path, suffix: &str) -> io::Result<SiblingFile> {
        let mut name = session.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(suffix);
        Ok(SiblingFile { folder: open_folder(dir_of(session))?, name })
    }

    /// Like `new`, but fails unless the session file in that folder has this `id`.
    pub(crate) fn of(session: &Path, id: FileId, suffix: &str) -> io::Result<SiblingFile> {
        let sibling_file = SiblingFile::new(session, suffix)?;
        match sibling_file.id_of(session.file_name().unwrap_or_default()) {
            Ok(found) if found == id => Ok(sibling_file),
            Ok(_) => Err(io::ErrorKind::NotFound.into()),
            Err(err) => Err(err),
        }
    }

    /// Appends bytes to the file and creates it if it does not exist.
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // Without this, opening a pipe would block until it has a reader.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let mut file = self.open(flags)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            return Err(io::Error::other("not a regular file with one name"));
        }
        file.write_all(bytes)?;
        file.sync_data()
    }

    /// Creates a new file in place of the existing one. An existing link is removed; its target
    /// stays.
    pub(crate) fn replace(&self, bytes: &[u8]) -> io::Result<File> {
        self.remove()?;
        let mut file = self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        file.write_all(bytes)?;
        Ok(file)
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let file = self.open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::new();
        file.take(NOTE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Removes the file if it is still the one that `file` refers to.
    pub(crate) fn remove_if_same(&self, file: &File) -> io::Result<()> {
        let is_same = self.id_of(&self.name)? == FileId::of(&file.metadata()?);
        if is_same { self.remove() } else { Ok(()) }
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.folder, &self.name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(opened))
    }

    fn id_of(&self, name: &OsStr) -> io::Result<FileId> {
        let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // The field types differ between operating systems.
        #[allow(clippy::unnecessary_cast)]
        Ok(FileId { dev: found.st_dev as u64, ino: found.st_ino as u64 })
    }
}

/// The path of a file beside a session, for messages.
pub(crate) fn path_of(session: &Path, suffix: &str) -> PathBuf {
    let mut name = session.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}
