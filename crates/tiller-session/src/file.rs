//! A session file in the file system: made whole or not at all, then only ever added to.
//!
//! A new file is written beside its place and moved there, so that nobody, not even after a
//! crash, finds half a header. From then on a line is one `write` at the end of the file. Once
//! that returns, the line is the operating system's: killing us loses nothing. What a power
//! failure costs is decided by [`Syncer::sync`].

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

use crate::beside::{self, Beside, FileId};
use crate::files::Files;
use crate::lock;

/// A session file that is open.
pub(crate) struct FileDisk {
    file: Arc<File>,
    path: PathBuf,
    dir: Arc<Dir>,
    files: Files,
}

/// Where the file is that we have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    InPlace,
    /// It has no name any more, and nothing is in its place.
    Deleted,
    /// It has another name, and nothing is in its place.
    Moved,
    /// Another file is in its place.
    Replaced,
}

/// The folder a file lies in. A new file's name is not safe until its folder is written, too.
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

    /// Whether the path still leads to this very file. Its name alone says nothing: another file
    /// may have been put there while this one has another name, and then there would be two
    /// writers.
    pub(crate) fn whereabouts(&self) -> io::Result<Whereabouts> {
        let ours = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) if FileId::of(&there) == FileId::of(&ours) => Ok(Whereabouts::InPlace),
            Ok(_) => Ok(Whereabouts::Replaced),
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            Err(_) if ours.nlink() == 0 => Ok(Whereabouts::Deleted),
            Err(_) => Ok(Whereabouts::Moved),
        }
    }

    /// As much as there is at this place; 0 at the end of the file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.files.system().read_at(&self.file, buffer, at)
    }

    /// Writes at the end and says where that was.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        // The file is in append mode: the kernel finds the end, even when another program,
        // which knows nothing of our lock, has just moved it.
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
        // Closing the file would not be enough: a child that is being started on another thread
        // has a copy of it for a moment, and with it the lock. If this fails, there was no lock.
        drop(self.file.unlock());
    }
}

/// Makes what was appended so far survive a power failure. It is apart from the session so that
/// the wait, which can be long, need not be the server's: it may run on any thread.
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
                // Not every file system can do this to a folder. Then it needs no doing.
                Err(err) if err.kind() == io::ErrorKind::InvalidInput => (),
                Err(err) => return Err(err),
            }
            self.dir.changed.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// A file being written beside its place. It and the folders made for it are for the user alone.
pub(crate) struct PendingFile {
    temp: BufWriter<Temp>,
}

/// The file, written through the seam that tests know.
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
    /// Begins a file that will end up in this folder, which is made when it is not there.
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

    /// Puts the file where no file is, or an empty one. It is locked before anybody can see it.
    pub(crate) fn place(self, path: &Path) -> io::Result<FileDisk> {
        let Temp { file: temp, files } = self.finish()?;
        lock::hold(temp.as_file())?;
        let there = fs::symlink_metadata(path);
        let is_empty = there.is_ok_and(|there| there.is_file() && there.len() == 0);
        files.system().place()?;
        let placed = if is_empty { temp.persist(path) } else { temp.persist_noclobber(path) };
        let file = placed.map_err(|err| err.error)?;
        Ok(FileDisk::new(file, path, files, true))
    }

    /// Puts the file in the place of one that we have locked, with its permissions. Safe against
    /// power failures at every step: there is always the old file or the new one.
    pub(crate) fn replace(self, path: &Path) -> io::Result<FileDisk> {
        let Temp { file: temp, files } = self.finish()?;
        temp.as_file().set_permissions(fs::symlink_metadata(path)?.permissions())?;
        files.system().sync(temp.as_file())?;
        lock::hold(temp.as_file())?;
        files.system().place()?;
        let file = temp.persist(path).map_err(|err| err.error)?;
        let disk = FileDisk::new(file, path, files, true);
        disk.syncer().sync()?;
        Ok(disk)
    }

    /// Puts a plain copy where no file is.
    pub(crate) fn place_unlocked(self, path: &Path) -> io::Result<()> {
        let Temp { file: temp, files } = self.finish()?;
        files.system().sync(temp.as_file())?;
        files.system().place()?;
        temp.persist_noclobber(path).map_err(|err| err.error)?;
        Ok(())
    }

    fn finish(self) -> io::Result<Temp> {
        self.temp.into_inner().map_err(|err| err.into_error())
    }
}

/// Keeps a piece that is about to be cut from a session file, in `FILE.torn` beside it.
pub(crate) fn save_torn(path: &Path, id: FileId, bytes: &[u8]) -> io::Result<PathBuf> {
    Beside::of(path, id, "torn")?.append(&[bytes, b"\n"].concat())?;
    Ok(beside::path_of(path, "torn"))
}

pub(crate) fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
