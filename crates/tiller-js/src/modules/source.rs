//! Reads source files. Only regular files of limited size are accepted.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Larger files are refused.
const SOURCE_MAX_BYTES: u64 = 32 << 20;

pub(super) fn read(path: &Path) -> io::Result<String> {
    // Without O_NONBLOCK, opening a FIFO without a writer would block the engine.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if meta.len() > SOURCE_MAX_BYTES {
        return Err(io::Error::other("larger than 32 MB"));
    }
    let mut text = String::new();
    file.take(SOURCE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
