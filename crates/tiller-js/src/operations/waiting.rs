//! Files that may block: FIFOs, terminals, devices. No system call here blocks; every few
//! milliseconds the wait checks whether it was abandoned.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{OpError, OpFuture, OpReply};
use crate::engine_state::EngineState;
use crate::memory::{Memory, MemoryHold};

const PAUSE: Duration = Duration::from_millis(10);
const CHUNK_BYTES: usize = 256 << 10;

/// When to stop waiting.
pub(crate) struct BlockingWait<'p> {
    pub memory: &'p Arc<Memory>,
    /// Whether the time is over or the caller is gone.
    pub is_over: &'p dyn Fn() -> bool,
}

/// Signals a blocking task that its future was dropped.
struct AbandonFlag(Arc<AtomicBool>);

/// Runs a task on another thread until it is done or its future is dropped.
pub(super) fn in_background(
    state: &EngineState,
    work: impl FnOnce(&BlockingWait<'_>) -> OpReply + Send + 'static,
) -> OpFuture {
    let flag = Arc::new(AtomicBool::new(false));
    let abandoned = AbandonFlag(flag.clone());
    let memory = state.memory.clone();
    let working = state.config.runtime.spawn_blocking(move || {
        let is_over = || flag.load(Ordering::Relaxed);
        work(&BlockingWait { memory: &memory, is_over: &is_over })
    });
    Box::pin(async move {
        let done = working.await.unwrap_or_else(|err| Err(OpError::new(err.to_string())));
        drop(abandoned);
        done
    })
}

impl Drop for AbandonFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why an operation failed: an error of the system, or of ours.
#[derive(Debug)]
pub(super) enum WaitError {
    System(io::Error),
    Ours(OpError),
}

impl From<io::Error> for WaitError {
    fn from(err: io::Error) -> WaitError {
        WaitError::System(err)
    }
}

impl From<OpError> for WaitError {
    fn from(err: OpError) -> WaitError {
        WaitError::Ours(err)
    }
}

/// Opens a file without blocking on the other end of a FIFO.
pub(super) fn open(
    options: &mut OpenOptions,
    path: &Path,
    wait: &BlockingWait<'_>,
) -> io::Result<File> {
    options.custom_flags(nix::libc::O_NONBLOCK);
    loop {
        match options.open(path) {
            // The FIFO has no reader yet.
            Err(err) if err.raw_os_error() == Some(nix::libc::ENXIO) && is_fifo(path) => {
                wait.check()?;
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

impl BlockingWait<'_> {
    fn check(&self) -> io::Result<()> {
        if (self.is_over)() { Err(io::Error::from_raw_os_error(nix::libc::EINTR)) } else { Ok(()) }
    }

    /// Reads to the end.
    pub(super) fn read_all(
        &self,
        mut from: impl Read + AsFd,
    ) -> Result<(Vec<u8>, MemoryHold), WaitError> {
        let mut hold = self.memory.hold(0)?;
        let mut bytes = Vec::new();
        loop {
            hold.grow(CHUNK_BYTES)?;
            let before = bytes.len();
            bytes.resize(before + CHUNK_BYTES, 0);
            let count = self.read(&mut from, &mut bytes[before..])?;
            bytes.truncate(before + count);
            if count == 0 {
                return Ok((bytes, hold));
            }
            // Releases the unused part of the chunk.
            hold.shrink(CHUNK_BYTES - count);
        }
    }

    /// One read, which waits for data.
    pub(super) fn read(&self, from: &mut (impl Read + AsFd), into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.check()?;
            self.wait_for(from, PollFlags::POLLIN)?;
            match from.read(into) {
                Err(err) if is_for_later(&err) => (),
                read => return read,
            }
        }
    }

    pub(super) fn write_all(&self, to: &mut (impl Write + AsFd), bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.check()?;
            self.wait_for(to, PollFlags::POLLOUT)?;
            let some = &rest[..rest.len().min(CHUNK_BYTES)];
            match to.write(some) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(err) if is_for_later(&err) => (),
                Err(err) => return Err(err),
            }
        }
        Ok(())
    }

    /// Returns when the file is ready, or when it is time to check for abandonment. Regular files
    /// are always ready.
    fn wait_for(&self, file: &impl AsFd, ready: PollFlags) -> io::Result<()> {
        let pause = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO);
        loop {
            match poll(&mut [PollFd::new(file.as_fd(), ready)], pause) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => self.check()?,
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn is_for_later(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
