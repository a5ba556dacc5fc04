//! A file system that fails at the calls a test chooses. All other calls are real, except that
//! syncs do not wait for the disk. The tests of `tiller` use this file, too.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use tiller_session::{FileSystem, Files};

/// The ways a disk fails.
pub const CODES: [(&str, i32); 4] =
    [("ENOSPC", ENOSPC), ("EIO", EIO), ("EROFS", 30), ("EDQUOT", 122)];
pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;

/// The first call to fail, how many fail, and how. A failing write leaves a part of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub at: usize,
    pub times: usize,
    pub code: i32,
    pub taken: Taken,
}

#[derive(Clone, Copy, Debug)]
pub enum Taken {
    Bytes(usize),
    /// All but so many at the end.
    AllBut(usize),
}

#[derive(Default)]
pub struct Faulty(Mutex<State>);

#[derive(Default)]
struct State {
    calls: usize,
    failed: usize,
    fault: Option<Fault>,
    fails_to_read: bool,
}

impl Faulty {
    pub fn new(fault: Option<Fault>) -> Arc<Faulty> {
        Arc::new(Faulty(Mutex::new(State { fault, ..State::default() })))
    }

    pub fn files(self: &Arc<Faulty>) -> Files {
        Files::new(self.clone())
    }

    /// The number of calls, and how many of them failed.
    pub fn calls(&self) -> (usize, usize) {
        let state = self.0.lock().unwrap();
        (state.calls, state.failed)
    }

    /// Fails from the next call on.
    pub fn fail(&self, times: usize, code: i32, taken: Taken) {
        self.fail_after(0, times, code, taken);
    }

    /// Fails after this many successful calls.
    pub fn fail_after(&self, calls: usize, times: usize, code: i32, taken: Taken) {
        let mut state = self.0.lock().unwrap();
        state.fault = Some(Fault { at: state.calls + calls, times, code, taken });
    }

    pub fn heal(&self) {
        self.0.lock().unwrap().fault = None;
    }

    pub fn fail_to_read(&self, fails: bool) {
        self.0.lock().unwrap().fails_to_read = fails;
    }

    fn call(&self) -> Result<(), (Taken, io::Error)> {
        let mut state = self.0.lock().unwrap();
        let call = state.calls;
        state.calls += 1;
        match state.fault {
            Some(fault) if (fault.at..fault.at.saturating_add(fault.times)).contains(&call) => {
                state.failed += 1;
                Err((fault.taken, io::Error::from_raw_os_error(fault.code)))
            }
            _ => Ok(()),
        }
    }

    fn plain_call(&self) -> io::Result<()> {
        self.call().map_err(|(_, err)| err)
    }
}

impl FileSystem for Faulty {
    fn create(&self) -> io::Result<()> {
        self.plain_call()
    }

    fn persist(&self) -> io::Result<()> {
        self.plain_call()
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        let Err((taken, err)) = self.call() else {
            return file.write_all(bytes);
        };
        let taken = match taken {
            Taken::Bytes(taken) => taken.min(bytes.len()),
            Taken::AllBut(left) => bytes.len().saturating_sub(left),
        };
        file.write_all(&bytes[..taken])?;
        Err(err)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.plain_call()?;
        file.set_len(len)
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.plain_call()
    }

    fn sync_folder(&self, _: &File) -> io::Result<()> {
        self.plain_call()
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if self.0.lock().unwrap().fails_to_read {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        // Never everything at once: short reads are allowed.
        let len = buffer.len().min(97);
        file.read_at(&mut buffer[..len], at)
    }
}
