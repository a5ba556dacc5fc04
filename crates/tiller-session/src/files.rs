//! The calls that create or change a session file, in one place, so that a test can make any of
//! them fail: [`FileSystem`] is the operating system unless a test provides another one.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The store's calls to the operating system. The default methods are the real ones.
pub trait FileSystem: Send + Sync + 'static {
    /// Called before a temporary file is created.
    fn create(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called before a complete file is renamed to its path.
    fn persist(&self) -> io::Result<()> {
        Ok(())
    }

    /// Appends the bytes. An error may leave a part of them in the file.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Waits until the file's content would survive a power failure.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Waits until the names in a folder would survive a power failure.
    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }

    /// Reads as much as is available at this offset; 0 at the end of the file.
    fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(buffer, at)
    }
}

struct OperatingSystem;

impl FileSystem for OperatingSystem {}

/// A handle to a [`FileSystem`]; the default is the operating system.
#[derive(Clone)]
pub struct Files(Arc<dyn FileSystem>);

impl Files {
    pub fn new(system: Arc<dyn FileSystem>) -> Files {
        Files(system)
    }

    pub(crate) fn system(&self) -> &dyn FileSystem {
        &*self.0
    }
}

impl Default for Files {
    fn default() -> Files {
        Files(Arc::new(OperatingSystem))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}
