//! Finds and kills the children of this process.
//!
//! The guardian uses this after a fork, so nothing here allocates, locks or panics.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpid, read};

/// A child of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildProcess {
    pub pid: i32,
    /// Ended, but not waited for.
    pub zombie: bool,
    pub session: i32,
}

/// The result of waiting for any child.
pub(super) enum Waited {
    Reaped { pid: i32, status: i32 },
    AllBusy,
    NoChildren,
}

/// Progress of `end_children`.
pub(super) enum Step {
    Reaped {
        pid: i32,
        /// The raw wait status, see wait(2).
        status: i32,
    },
    /// Some children are left: time to sleep briefly.
    Pause,
}

/// Kills children until there are none. As this process is a subreaper, the children of a killed
/// child become its own in the next round: generation by generation, parents first, so that they
/// cannot restart their children. Stops when `keep_going` returns false.
pub(super) fn end_children(mut keep_going: impl FnMut(Step) -> bool) {
    loop {
        each_child(|child| end(child.pid));
        loop {
            let step = match wait_any() {
                Waited::Reaped { pid, status } => Step::Reaped { pid, status },
                Waited::AllBusy => Step::Pause,
                Waited::NoChildren => return,
            };
            let round_is_over = matches!(step, Step::Pause);
            if !keep_going(step) {
                return;
            }
            if round_is_over {
                break;
            }
        }
    }
}

/// A child's pid is not reused until it has been waited for, so this cannot hit another process.
pub(super) fn end(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
}

pub(super) fn wait_any() -> Waited {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Waited::AllBusy,
        1.. => Waited::Reaped { pid, status },
        _ => Waited::NoChildren,
    }
}

/// Whether any child is a zombie. One system call, while reading /proc takes many.
pub(super) fn has_zombie() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::All, flags), Ok(WaitStatus::StillAlive) | Err(_))
}

/// Reads /proc to find this process's children.
pub(super) fn each_child(mut found: impl FnMut(ChildProcess)) {
    let us = getpid().as_raw();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(dir) = open("/proc", flags, Mode::empty()) else { return };
    let mut buffer = [0; 8192];
    while let Some(mut entries) = read_entries(&dir, &mut buffer) {
        while let Some((name, rest)) = split_entry(entries) {
            entries = rest;
            if let Some((child, parent)) = number(name).and_then(read_stat)
                && parent == us
            {
                found(child);
            }
        }
    }
}

/// The next raw directory entries; `None` at the end.
fn read_entries<'b>(dir: &OwnedFd, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: the kernel writes no more than the buffer's length. libc's `readdir` would allocate.
    #[allow(unsafe_code)]
    let n = unsafe {
        libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
    };
    let n = usize::try_from(n).ok().filter(|&n| n > 0)?;
    buffer.get(..n)
}

/// The name of the first entry, and the entries after it. See getdents64(2): 16 unused bytes, the
/// length of the entry in two, its type in one, and the name up to a NUL.
fn split_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]);
    let name = entries.get(19..usize::from(length))?;
    let name = name.split(|&byte| byte == 0).next()?;
    Some((name, entries.get(usize::from(length)..)?))
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The process and its parent's pid.
fn read_stat(pid: i32) -> Option<(ChildProcess, i32)> {
    let mut path = [0; 24];
    let path = stat_path(pid, &mut path)?;
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let mut buffer = [0; 512];
    let n = read(&file, &mut buffer).ok()?;
    parse_stat(buffer.get(..n)?).map(|(state, parent, session)| {
        (ChildProcess { pid, zombie: matches!(state, b'Z' | b'X'), session }, parent)
    })
}

/// Formats `/proc/PID/stat` into a buffer, from the end.
fn stat_path(pid: i32, buffer: &mut [u8; 24]) -> Option<&[u8]> {
    const SUFFIX: &[u8] = b"/stat";
    const PREFIX: &[u8] = b"/proc/";
    let mut start = buffer.len().checked_sub(SUFFIX.len())?;
    buffer.get_mut(start..)?.copy_from_slice(SUFFIX);
    let mut rest = u32::try_from(pid).ok()?;
    while rest > 0 {
        start = start.checked_sub(1)?;
        *buffer.get_mut(start)? = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let end = start;
    start = start.checked_sub(PREFIX.len())?;
    buffer.get_mut(start..end)?.copy_from_slice(PREFIX);
    buffer.get(start..)
}

/// State, parent and session. The name stands before them in parentheses and may itself contain
/// parentheses and spaces.
fn parse_stat(stat: &[u8]) -> Option<(u8, i32, i32)> {
    let name_end = memchr::memrchr(b')', stat)?;
    let mut fields = stat.get(name_end + 2..)?.split(|&byte| byte == b' ');
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    let _group = fields.next()?;
    Some((state, parent, number(fields.next()?)?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn parses_stat_lines() {
        assert_eq!(parse_stat(b"42 (sh) S 7 42 41 0 -1"), Some((b'S', 7, 41)));
        assert_eq!(parse_stat(b"42 (a) Z 1 1 (x)) R 7 42 41 0"), Some((b'R', 7, 41)));
        assert_eq!(parse_stat(b"42 (sh"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn paths_are_written_without_allocating() {
        let write = |pid| stat_path(pid, &mut [0; 24]).map(<[u8]>::to_vec);
        assert_eq!(write(1).unwrap(), b"/proc/1/stat");
        assert_eq!(write(i32::MAX).unwrap(), b"/proc/2147483647/stat");
        assert_eq!(write(-1), None);
    }

    #[test]
    fn spawned_child_is_found_in_proc() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut pids = Vec::new();
        each_child(|kin| pids.push((kin.pid, kin.zombie)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(pids.contains(&(child.id() as i32, false)), "{pids:?}");
    }
}
