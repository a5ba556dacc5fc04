//! The lines of a session that is stored in a database: a local copy, in memory while it is small
//! and in a temporary file without a name from then on. It ends with the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A longer copy is in a file.
const MEMORY_MAX: usize = 256 * 1024;

pub(crate) struct Spool {
    bytes: SpoolBytes,
    /// The folder of temporary files.
    scratch: PathBuf,
}

enum SpoolBytes {
    Memory(Vec<u8>),
    File(File),
}

impl Spool {
    pub(crate) fn new(bytes: Vec<u8>, scratch: PathBuf) -> Spool {
        Spool { bytes: SpoolBytes::Memory(bytes), scratch }
    }

    /// Writes the bytes at this offset, in place of all that was there and behind it.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let SpoolBytes::Memory(memory) = &mut self.bytes {
            memory.truncate(usize::try_from(at).unwrap_or(usize::MAX));
            if memory.len() + bytes.len() <= MEMORY_MAX {
                memory.extend_from_slice(bytes);
                return Ok(());
            }
            let file = tempfile::tempfile_in(&self.scratch)?;
            file.write_all_at(memory, 0)?;
            self.bytes = SpoolBytes::File(file);
        }
        match &self.bytes {
            SpoolBytes::Memory(_) => Ok(()),
            SpoolBytes::File(file) => file.write_all_at(bytes, at),
        }
    }

    /// All bytes, while they are in memory.
    pub(crate) fn memory(&self) -> Option<&[u8]> {
        match &self.bytes {
            SpoolBytes::Memory(bytes) => Some(bytes),
            SpoolBytes::File(_) => None,
        }
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.bytes {
            SpoolBytes::Memory(bytes) => Ok(copy_from(bytes, buffer, at)),
            SpoolBytes::File(file) => file.read_at(buffer, at),
        }
    }
}

/// Copies what there is from this offset on.
pub(crate) fn copy_from(bytes: &[u8], buffer: &mut [u8], at: u64) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_reads_the_same_in_memory_and_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(b"head\n".to_vec(), folder.path().to_owned());
        let mut expected = b"head\n".to_vec();
        for number in 0..200 {
            let line = format!("{number}").repeat(1000);
            spool.write(expected.len() as u64, line.as_bytes()).unwrap();
            expected.extend(line.as_bytes());
            // A line that could not be stored is written over by the next one.
            spool.write(expected.len() as u64, b"not stored").unwrap();
            let mut read = vec![0; expected.len()];
            let mut filled = 0;
            while filled < read.len() {
                filled += spool.read_at(&mut read[filled..], filled as u64).unwrap();
            }
            assert!(read == expected, "after {number} lines");
        }
        assert!(spool.memory().is_none(), "a long copy is in a file");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }
}
