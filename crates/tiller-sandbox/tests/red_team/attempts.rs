//! The attempts, by what they are about: files, secrets, mounts, processes, the network, privileges,
//! the kernel.

mod files;
mod secrets;
mod mounts;
mod processes;
mod network;
mod privileges;
mod machine;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What attempts are aimed at.
#[derive(Clone, Debug)]
pub struct Aim {
    /// Has `workspace`, `outside` with the file `victim`, and `agent` with a key.
    pub root: PathBuf,
    /// A server on this machine.
    pub port: u16,
    /// A process outside.
    pub victim_pid: u32,
    /// The name of an abstract Unix socket.
    pub abstract_name: String,
}

impl Aim {
    fn outside(&self, name: &str) -> PathBuf {
        self.root.join("outside").join(name)
    }

    fn victim(&self) -> PathBuf {
        self.outside("victim")
    }

    fn own(&self, name: &str) -> PathBuf {
        self.root.join("workspace").join(name)
    }

    fn key(&self) -> PathBuf {
        self.root.join("agent/auth.json")
    }

    /// In the folder of the process outside.
    fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.victim_pid))
    }

    fn pid(&self) -> libc::pid_t {
        self.victim_pid.cast_signed()
    }
}

pub struct Attempt {
    pub name: &'static str,
    pub expected: Expected,
    /// Whether it succeeds without a sandbox on every machine and does no harm: then the suite tries
    /// that, too.
    pub is_control: bool,
    pub make: fn(&Aim) -> io::Result<()>,
}

#[derive(Clone, Copy)]
pub enum Expected {
    Blocked,
    /// A sentence of the report with these words says that it is possible.
    NotCovered(&'static str),
}

/// Blocked in the sandbox, and tried without it as well.
const fn control(name: &'static str, make: fn(&Aim) -> io::Result<()>) -> Attempt {
    Attempt { name, expected: Expected::Blocked, is_control: true, make }
}

const fn blocked(name: &'static str, make: fn(&Aim) -> io::Result<()>) -> Attempt {
    Attempt { name, expected: Expected::Blocked, is_control: false, make }
}

const fn named(
    name: &'static str,
    words: &'static str,
    make: fn(&Aim) -> io::Result<()>,
) -> Attempt {
    Attempt { name, expected: Expected::NotCovered(words), is_control: false, make }
}

pub fn all() -> Vec<&'static Attempt> {
    let all = [
        files::ATTEMPTS,
        secrets::ATTEMPTS,
        mounts::ATTEMPTS,
        processes::ATTEMPTS,
        network::ATTEMPTS,
        privileges::ATTEMPTS,
        machine::ATTEMPTS,
    ];
    all.into_iter().flatten().collect()
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// The result of a system call.
fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a system call; its arguments are numbers or pointers that live until it returns.
macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {{
        // SAFETY: the attempts pass valid pointers or none, and their process ends after the call.
        #[allow(unsafe_code)]
        let result = unsafe { libc::syscall($number $(, $argument)*) };
        crate::attempts::done(result)
    }};
}
use call;
