//! The sandbox on Linux: Landlock, seccomp, no new privileges, and fewer capabilities.

mod readable;
mod ruleset;
mod filter;
mod capabilities;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::policy::Policy;
use seccompiler::BpfProgram;

/// The version of Landlock from which on everything is enforced that is promised: since 3 files
/// cannot be truncated, since 6 signals stay inside.
const NEEDED_ABI: u32 = 6;

/// Everything a thread or a process needs to enter the sandbox.
#[derive(Debug)]
pub(crate) struct Restrictions {
    /// For processes. None if the kernel has no Landlock.
    ruleset: Option<OwnedFd>,
    /// For threads of tiller: /proc/self is tiller's own there, with its environment and memory.
    ruleset_without_proc: Option<OwnedFd>,
    filters: Vec<BpfProgram>,
}

impl Restrictions {
    /// Opens the files and folders of a policy. `temp` is the private folder for temporary files.
    pub(crate) fn new(policy: &Policy, temp: &Path) -> io::Result<Restrictions> {
        let ruleset = ruleset::create(policy, temp)?;
        let mut without_proc = policy.clone();
        without_proc.hidden.push("/proc".into());
        let ruleset_without_proc = ruleset::create(&without_proc, temp)?;
        let filters = filter::programs(policy.network).map_err(io::Error::other)?;
        Ok(Restrictions { ruleset, ruleset_without_proc, filters })
    }

    /// What is missing on this kernel, as a sentence.
    pub(crate) fn missing() -> Option<String> {
        match ruleset::abi() {
            0 => {
                Some("the kernel has no Landlock, so it cannot restrict access to files".to_owned())
            }
            abi if abi < NEEDED_ABI => Some(format!(
                "Landlock of this kernel has version {abi}; version {NEEDED_ABI} (Linux 6.12) is \
                 needed to restrict files and signals"
            )),
            _ => None,
        }
    }

    /// The version of Landlock that the kernel has; 0 without Landlock.
    pub(crate) fn landlock() -> u32 {
        ruleset::abi()
    }

    /// Whether this kernel keeps signals inside.
    pub(crate) fn restricts_signals() -> bool {
        ruleset::abi() >= 6
    }

    /// Puts a process into the sandbox. Makes system calls and does nothing else.
    pub(crate) fn enter_process(&self) -> io::Result<()> {
        close_inherited()?;
        self.enter(self.ruleset.as_ref())
    }

    /// Puts the calling thread, and all it will start, into the sandbox.
    pub(crate) fn enter_thread(&self) -> io::Result<()> {
        self.enter(self.ruleset_without_proc.as_ref())
    }

    fn enter(&self, ruleset: Option<&OwnedFd>) -> io::Result<()> {
        capabilities::drop_dangerous()?;
        no_new_privileges()?;
        if let Some(ruleset) = ruleset {
            restrict(ruleset)?;
        }
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(())
    }
}

/// All descriptors but the standard streams are closed at the exec: one that tiller has inherited
/// could lead outside.
fn close_inherited() -> io::Result<()> {
    // SAFETY: takes numbers.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn no_new_privileges() -> io::Result<()> {
    // SAFETY: sets an attribute of the calling thread.
    #[allow(unsafe_code)]
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn restrict(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel copies what it refers to.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
