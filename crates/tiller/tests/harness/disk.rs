//! The server's file system: real files in the scratch folder, with calls that fail on request.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tiller_session::{FileSystem, Files};

/// The ways a disk fails.
pub const CODES: [(&str, i32); 4] = [("ENOSPC", 28), ("EIO", 5), ("EROFS", 30), ("EDQUOT", 122)];

/// Which calls fail, from which one on, and how. A failing write leaves a part of its bytes.
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
    /// All but the last byte, which is the line end.
    AllButOne,
}

#[derive(Default)]
pub struct Disk(Mutex<State>);

#[derive(Default)]
struct State {
    calls: usize,
    failed: usize,
    fault: Option<Fault>,
}

impl Disk {
    pub fn new(fault: Option<Fault>) -> Arc<Disk> {
        Arc::new(Disk(Mutex::new(State { fault, ..State::default() })))
    }

    pub fn files(self: &Arc<Disk>) -> Files {
        Files::new(self.clone())
    }

    /// How many calls there were, and how many of them failed.
    pub fn calls(&self) -> (usize, usize) {
        let state = self.0.lock().unwrap();
        (state.calls, state.failed)
    }

    pub fn heal(&self) {
        self.0.lock().unwrap().fault = None;
    }

    /// `EIO`, `EIO once`, `EIO once after 2` successful calls, or `works`.
    pub fn change(&self, words: &str) -> Result<(), String> {
        if words == "works" {
            self.heal();
            return Ok(());
        }
        let (words, after) = words.split_once(" after ").unwrap_or((words, "0"));
        let (name, times) = match words.strip_suffix(" once") {
            Some(name) => (name, 1),
            None => (words, 1000),
        };
        let code = CODES.iter().find(|(known, _)| *known == name);
        let (Some((_, code)), Ok(after)) = (code, after.parse::<usize>()) else {
            return Err(format!("{words:?} is nothing a disk does"));
        };
        let mut state = self.0.lock().unwrap();
        let at = state.calls + after;
        state.fault = Some(Fault { at, times, code: *code, taken: Taken::Bytes(10) });
        Ok(())
    }

    fn call(&self) -> Result<(), (Taken, io::Error)> {
        let mut state = self.0.lock().unwrap();
        let call = state.calls;
        state.calls += 1;
        match state.fault {
            Some(fault) if (fault.at..fault.at + fault.times).contains(&call) => {
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

impl FileSystem for Disk {
    fn create(&self) -> io::Result<()> {
        self.plain_call()
    }

    fn place(&self) -> io::Result<()> {
        self.plain_call()
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        let Err((taken, err)) = self.call() else {
            return file.write_all(bytes);
        };
        let taken = match taken {
            Taken::Bytes(taken) => taken.min(bytes.len()),
            Taken::AllButOne => bytes.len() - 1,
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
}
