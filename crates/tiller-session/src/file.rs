//! A session file in the file system: made whole or not at all, then only ever added to.
//!
//! A new file is written beside its place and moved there, so that nobody, not even after a
//! crash, finds half a header. From then on a line is one `write` at the end of the file. Once
//! that returns, the line is the operating system's: killing us loses nothing. What a power
//! failure costs is decided by [`Syncer::sync`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

use crate::lock;

/// What the log needs of a file; tests put failing disks in its place.
pub(crate) trait Disk: Send {
    fn state(&self) -> io::Result<DiskState>;

    /// As much as there is at this place; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes at the end and says where that was.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64>;

    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// None for a disk that cannot lose anything.
    fn syncer(&self) -> Option<Syncer>;
}

pub(crate) struct DiskState {
    pub len: u64,
    /// Still reachable by a name. A file that was deleted or replaced is not.
    pub linked: bool,
}

/// A [`Disk`] that is a file.
pub(crate) struct FileDisk {
    file: Arc<File>,
    dir: Arc<Dir>,
}

/// The folder a file lies in. A new file's name is not safe until its folder is written, too.
struct Dir {
    path: PathBuf,
    changed: AtomicBool,
}

impl FileDisk {
    pub(crate) fn new(file: File, path: &Path, is_new: bool) -> FileDisk {
        let dir = Dir { path: dir_of(path).to_owned(), changed: AtomicBool::new(is_new) };
        FileDisk { file: Arc::new(file), dir: Arc::new(dir) }
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        // Closing the file would not be enough: a child that is being started on another thread
        // has a copy of it for a moment, and with it the lock. If this fails, there was no lock.
        drop(self.file.unlock());
    }
}

impl Disk for FileDisk {
    fn state(&self) -> io::Result<DiskState> {
        let metadata = self.file.metadata()?;
        Ok(DiskState { len: metadata.len(), linked: metadata.nlink() > 0 })
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        // The file is in append mode: the kernel finds the end, even when another program,
        // which knows nothing of our lock, has just moved it.
        (&*self.file).write_all(bytes)?;
        let end = (&*self.file).stream_position()?;
        Ok(end - bytes.len() as u64)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn syncer(&self) -> Option<Syncer> {
        Some(Syncer { file: Arc::clone(&self.file), dir: Arc::clone(&self.dir) })
    }
}

/// Makes what was appended so far survive a power failure. It is apart from the session so that
/// the wait, which can be long, need not be the server's: it may run on any thread.
#[derive(Clone)]
pub struct Syncer {
    file: Arc<File>,
    dir: Arc<Dir>,
}

impl Syncer {
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.dir.changed.load(Ordering::Acquire) {
            match File::open(&self.dir.path)?.sync_all() {
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

/// A file being written beside its place.
pub(crate) struct Draft {
    temp: BufWriter<NamedTempFile>,
}

impl Draft {
    /// Begins a file that will end up in this folder, which is made when it is not there.
    pub(crate) fn begin(dir: &Path) -> io::Result<Draft> {
        fs::create_dir_all(dir)?;
        let temp = tempfile::Builder::new()
            .prefix(".tiller-")
            .suffix(".tmp")
            // As any program would make it; the user's umask applies.
            .permissions(fs::Permissions::from_mode(0o666))
            .append(true)
            .tempfile_in(dir)?;
        Ok(Draft { temp: BufWriter::with_capacity(256 * 1024, temp) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.temp.write_all(bytes)
    }

    pub(crate) fn copy(&mut self, source: &mut impl Read) -> io::Result<()> {
        io::copy(source, &mut self.temp).map(|_| ())
    }

    /// Puts the file where no file is, or an empty one. It is locked before anybody can see it.
    pub(crate) fn place(self, path: &Path) -> io::Result<FileDisk> {
        let temp = self.finish()?;
        lock::hold(temp.as_file())?;
        let is_empty = fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() == 0);
        let placed = if is_empty { temp.persist(path) } else { temp.persist_noclobber(path) };
        let file = placed.map_err(|err| err.error)?;
        Ok(FileDisk::new(file, path, true))
    }

    /// Puts the file in the place of one that we have locked. Safe against power failures at
    /// every step: there is always the old file or the new one.
    pub(crate) fn replace(self, path: &Path) -> io::Result<FileDisk> {
        let temp = self.finish()?;
        fs::set_permissions(temp.path(), fs::metadata(path)?.permissions())?;
        temp.as_file().sync_all()?;
        lock::hold(temp.as_file())?;
        let file = temp.persist(path).map_err(|err| err.error)?;
        let disk = FileDisk::new(file, path, true);
        if let Some(syncer) = disk.syncer() {
            syncer.sync()?;
        }
        Ok(disk)
    }

    /// Puts a plain copy where no file is.
    pub(crate) fn place_unlocked(self, path: &Path) -> io::Result<()> {
        let temp = self.finish()?;
        temp.as_file().sync_all()?;
        temp.persist_noclobber(path).map_err(|err| err.error)?;
        Ok(())
    }

    fn finish(self) -> io::Result<NamedTempFile> {
        self.temp.into_inner().map_err(|err| err.into_error())
    }
}

/// Keeps a piece that is about to be cut from a session file, in `FILE.torn` beside it.
pub(crate) fn save_torn(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let beside = beside(path, "torn");
    let mut file = OpenOptions::new().create(true).append(true).open(&beside)?;
    file.write_all(&[bytes, b"\n"].concat())?;
    file.sync_data()?;
    Ok(beside)
}

/// `FILE.suffix`; the ending keeps it out of every list of sessions.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn dir_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
