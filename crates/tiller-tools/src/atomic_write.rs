//! Replaces a file's content atomically: readers see the old file or the new one, never a mixture,
//! even after a crash.
//!
//! The new content is written to a temporary file in the same directory and renamed. The file keeps
//! its permissions and its owner; other hard links keep the old content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use nix::libc::O_NONBLOCK;

/// `path` is not a link; see [`crate::lock`]. Blocks until the content is on disk.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = match fs::metadata(path) {
        Ok(old) => Some(old),
        Err(err) if err.kind() == io::ErrorKind::NotFound => None,
        Err(err) => return Err(err),
    };
    if let Some(old) = &old {
        // A rename needs no write permission on the file itself, so this checks for it. A pipe
        // without a reader fails here instead of blocking.
        OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path)?;
        if !old.is_file() {
            return write_over(path, content);
        }
    }
    match write_beside(path, old.as_ref(), content) {
        Err(err) if needs_overwrite(&err) && old.is_some() => write_over(path, content),
        done => done,
    }
}

/// The directory may not be writable, the file may be a mount point, or belong to another user:
/// then it cannot be replaced, only overwritten.
fn needs_overwrite(err: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(err.kind(), CrossesDevices | PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

fn write_beside(path: &Path, old: Option<&fs::Metadata>, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    // With the usual mode; the user's umask applies.
    let temp = tempfile::Builder::new()
        .prefix(".tiller-")
        .suffix(".tmp")
        .make_in(dir, |path| File::create_new(path))?;
    let mut file = temp.as_file();
    if let Some(old) = old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(old.permissions())?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    temp.persist(path).map_err(|err| err.error)?;
    Ok(())
}

fn write_over(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(content)
}
