//! The calls that make or change a session file, in one place, so that a test can let any of them
//! fail: [`FileSystem`] is the operating system unless a test brings another one.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What the store asks of the operating system. Each method's own body is the real thing.
pub trait FileSystem: Send + Sync + 'static {
    /// A new file is about to be made, beside the place it is for.
    fn create(&self) -> io::Result<()> {
        Ok(())
    }

    /// A complete file is about to be moved into its place.
    fn place(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes at the end. An error may leave a part of it in the file.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Waits until what is in a file would survive a power failure.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// The same for the names in a folder.
    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }

    /// As much as there is at this place; 0 at the end of the file.
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
