//! The processes that the suite starts: signals, process groups, and what `/proc` knows of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tiller_agent::mutex;

/// The servers that run now, each the leader of its process group.
#[derive(Default)]
pub(super) struct Servers(Mutex<Groups>);

#[derive(Default)]
struct Groups {
    running: BTreeSet<u32>,
    closed: bool,
}

impl Servers {
    /// Starts a process in its own group, unless the suite is being ended.
    pub(super) fn spawn(&self, command: &mut Command) -> Result<Child, String> {
        let mut groups = mutex::lock(&self.0);
        if groups.closed {
            return Err("the suite was interrupted".to_owned());
        }
        std::os::unix::process::CommandExt::process_group(command, 0);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|err| format!("cannot start {name}: {err}"))?;
        groups.running.insert(child.id());
        Ok(child)
    }

    /// Kills the group of a server that is no longer needed. Call it before the server is reaped
    /// for the last time, while its id cannot belong to another process.
    pub(super) fn end(&self, pid: u32) {
        kill_group(pid);
        mutex::lock(&self.0).running.remove(&pid);
    }

    /// Kills all groups, and lets no further server start.
    pub(super) fn close(&self) {
        let mut groups = mutex::lock(&self.0);
        groups.closed = true;
        for pid in &groups.running {
            kill_group(*pid);
        }
    }
}

fn kill_group(pid: u32) {
    // Fails if the whole group has ended.
    killpg(id(pid), Signal::SIGKILL).ok();
}

/// Sends a signal to one process.
pub(super) fn signal(pid: u32, signal: Signal) {
    // Fails if the process has ended; the check then notices its exit.
    kill(id(pid), signal).ok();
}

fn id(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

/// Whether this system has a `/proc` as on Linux.
pub(super) fn are_listed() -> bool {
    fs::read_link("/proc/self/cwd").is_ok()
}

/// The processes whose working directory is in this folder. Zombies have none.
pub(super) fn working_in(folder: &Path) -> BTreeSet<u32> {
    let works_there = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    all().filter(works_there).collect()
}

/// The ended children that this process has not reaped.
pub(super) fn zombies_of(parent: u32) -> BTreeSet<u32> {
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state_and_parent(&stat) == Some(('Z', parent))
    };
    all().filter(is_zombie).collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The state and the parent in `/proc/PID/stat`. The name before them may contain anything.
fn state_and_parent(stat: &str) -> Option<(char, u32)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_parent_follow_any_name() {
        for (stat, expected) in [
            ("12 (sleep) S 11 12 12 0", Some(('S', 11))),
            ("12 (a) Z 9 (b) Z 7 1", Some(('Z', 7))),
            ("", None),
        ] {
            assert_eq!(state_and_parent(stat), expected, "{stat}");
        }
    }
}
