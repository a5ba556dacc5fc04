//! A session file on disk: created atomically, then append-only.
//!
//! A new file is written to a temporary file in its folder and renamed, so that no reader finds
//! half a header, not even after a crash. From then on each line is one `write` at the end of the
//! file. Once the write returns, the line is in the kernel: killing the process loses nothing.
//! [`Syncer::sync`] decides what a power failure may lose.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

use crate::files::Files;
use crate::lock;
use crate::sibling_file::{self, FileId, SiblingFile};

/// An open session file.
pub(crate) struct FileDisk {
    file: Arc<File>,
    path: PathBuf,
    dir: Arc<Dir>,
    files: Files,
}

/// Whether the open file still is at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLocation {
    InPlace,
    /// It was deleted, and its path is free.
    Deleted,
    /// It was renamed, and its path is free.
    Moved,
    /// Another file is at its path.
    Replaced,
}

/// The folder of a file. A new file's name is not durable until its folder is synced, too.
struct Dir {
    path: PathBuf,
    changed: AtomicBool,
}

impl FileDisk {
    pub(crate) fn new(file: File, path: &Path, files: Files, is_new: bool) -> FileDisk {
        let dir = Dir { path: dir_of(path).to_owned(), changed: AtomicBool::new(is_new) };
        FileDisk { file: Arc::new(file), path: path.to_owned(), dir: Arc::new(dir), files }
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&self.file.metadata()?))
    }

    /// Whether the path still refers to this file. Checking that the path exists is not enough: if
    /// another file was put there while this one was renamed, there would be two writers.
    pub(crate) fn location(&self) -> io::Result<FileLocation> {
        let open = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(at_path) if FileId::of(&at_path) == FileId::of(&open) => Ok(FileLocation::InPlace),
            Ok(_) => Ok(FileLocation::Replaced),
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            Err(_) if open.nlink() == 0 => Ok(FileLocation::Deleted),
            Err(_) => Ok(FileLocation::Moved),
        }
    }

    /// Reads as much as is available at this offset; 0 at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.files.system().read_at(&self.file, buffer, at)
    }

    /// Appends the bytes and returns their offset.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        // The file is in append mode: the kernel finds the end, even if another program that
        // ignores the lock has just written to it.
        self.files.system().write(&self.file, bytes)?;
        let end = (&*self.file).stream_position()?;
        Ok(end - bytes.len() as u64)
    }

    pub(crate) fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.files.system().truncate(&self.file, len)
    }

    pub(crate) fn syncer(&self) -> Syncer {
        let (file, dir) = (Arc::clone(&self.file), Arc::clone(&self.dir));
        Syncer { file, dir, files: self.files.clone() }
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        // Closing the file would not be enough: a child that another thread is starting has a copy
        // of the descriptor for a moment, and with it the lock. If this fails, there was no lock.
        drop(self.file.unlock());
    }
}

/// Makes everything appended so far survive a power failure. It is separate from the session so
/// that the wait, which can be long, can run on any thread.
#[derive(Clone)]
pub struct Syncer {
    file: Arc<File>,
    dir: Arc<Dir>,
    files: Files,
}

impl Syncer {
    pub fn sync(&self) -> io::Result<()> {
        self.files.system().sync(&self.file)?;
        if self.dir.changed.load(Ordering::Acquire) {
            match self.files.system().sync_folder(&File::open(&self.dir.path)?) {
                Ok(()) => (),
                // Some file systems cannot sync a folder and do not need it.
                Err(err) if err.kind() == io::ErrorKind::InvalidInput => (),
                Err(err) => return Err(err),
            }
            self.dir.changed.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// A temporary file that will become a session file. It and the folders created for it are private
/// to the user.
pub(crate) struct PendingFile {
    temp: BufWriter<Temp>,
}

/// Writes through [`FileSystem`](crate::FileSystem), so that tests can inject errors.
struct Temp {
    file: NamedTempFile,
    files: Files,
}

impl Write for Temp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.files.system().write(self.file.as_file(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PendingFile {
    /// Creates a temporary file in this folder, which is created if it does not exist.
    pub(crate) fn begin(dir: &Path, files: &Files) -> io::Result<PendingFile> {
        files.system().create()?;
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let file = tempfile::Builder::new()
            .prefix(".tiller-")
            .suffix(".tmp")
            .permissions(fs::Permissions::from_mode(0o600))
            .append(true)
            .tempfile_in(dir)?;
        let temp = Temp { file, files: files.clone() };
        Ok(PendingFile { temp: BufWriter::with_capacity(256 * 1024, temp) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.temp.write_all(bytes)
    }

    pub(crate) fn copy(&mut self, source: &mut impl Read) -> io::Result<()> {
        io::copy(source, &mut self.temp).map(|_| ())
    }

    /// Moves the file to a path where no file is, or an empty one. It is locked before it gets its
    /// name.
    pub(crate) fn persist(self, path: &Path) -> io::Result<FileDisk> {
        let Temp { file: temp, files } = self.finish()?;
        lock::hold(temp.as_file())?;
        let existing = fs::symlink_metadata(path);
        let is_empty = existing.is_ok_and(|existing| existing.is_file() && existing.len() == 0);
        files.system().persist()?;
        let persisted = if is_empty { temp.persist(path) } else { temp.persist_noclobber(path) };
        let file = persisted.map_err(|err| err.error)?;
        Ok(FileDisk::new(file, path, files, true))
    }

    /// Replaces a file that we have locked, keeping its permissions. Safe against power failures at
    /// every step: the path always has the old file or the new one.
    pub(crate) fn replace(self, path: &Path) -> io::Result<FileDisk> {
        let Temp { file: temp, files } = self.finish()?;
        temp.as_file().set_permissions(fs::symlink_metadata(path)?.permissions())?;
        files.system().sync(temp.as_file())?;
        lock::hold(temp.as_file())?;
        files.system().persist()?;
        let file = temp.persist(path).map_err(|err| err.error)?;
        let disk = FileDisk::new(file, path, files, true);
        disk.syncer().sync()?;
        Ok(disk)
    }

    /// Moves the file, without locking it, to a path where no file is.
    pub(crate) fn persist_unlocked(self, path: &Path) -> io::Result<()> {
        let Temp { file: temp, files } = self.finish()?;
        files.system().sync(temp.as_file())?;
        files.system().persist()?;
        temp.persist_noclobber(path).map_err(|err| err.error)?;
        Ok(())
    }

    fn finish(self) -> io::Result<Temp> {
        self.temp.into_inner().map_err(|err| err.into_error())
    }
}

/// Saves bytes that are about to be cut from a session file in `FILE.torn` beside it.
pub(crate) fn save_torn_tail(path: &Path, id: FileId, bytes: &[u8]) -> io::Result<PathBuf> {
    SiblingFile::of(path, id, "torn")?.append(&[bytes, b"\n"].concat())?;
    Ok(sibling_file::path_of(path, "torn"))
}

pub(crate) fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
