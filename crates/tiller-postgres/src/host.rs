//! This process as the owner of sessions: its name, its sign of life, and whether another owner is
//! still alive.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tiller_session::Owner;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::failure::Failure;
use crate::shared::Shared;

/// The process in the table `host`.
#[derive(Debug)]
pub(crate) struct HostName {
    /// Unique, also among processes that have ended.
    pub(crate) id: String,
    pub(crate) owner: Owner,
    pid: i64,
    machine: String,
    process_start: String,
}

impl HostName {
    pub(crate) fn new(owner: Owner) -> HostName {
        let pid = i64::from(owner.pid);
        let process_start = match Process::find(pid) {
            Process::Running { start } => start,
            Process::Ended | Process::Unknown => String::new(),
        };
        let id = Uuid::new_v4().to_string();
        HostName { id, machine: machine(), pid, process_start, owner }
    }

    /// The values of [`HOST_VALUES`], with their types.
    pub(crate) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 8] {
        let HostName { id, owner, pid, machine, process_start } = self;
        [
            (id, Type::TEXT),
            (&owner.program, Type::TEXT),
            (pid, Type::INT8),
            (&owner.host, Type::TEXT),
            (machine, Type::TEXT),
            (process_start, Type::TEXT),
            (&owner.address, Type::TEXT),
            (&owner.started, Type::TEXT),
        ]
    }
}

/// Another process in that table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OtherHost {
    pub(crate) id: String,
    pub(crate) owner: Owner,
    pid: i64,
    machine: String,
    process_start: String,
}

/// The columns of a host, for [`OtherHost::read`].
pub(crate) const HOST_COLUMNS: &str = "h.id AS host, h.program, h.pid, h.name AS host_name, \
     h.machine, h.process_start, h.address, h.started";

impl OtherHost {
    /// Reads the columns. None: there is no such host.
    pub(crate) fn read(row: &Row) -> Option<OtherHost> {
        let text = |name: &str| row.get::<_, Option<String>>(name).unwrap_or_default();
        let id = row.get::<_, Option<String>>("host")?;
        let pid = row.get::<_, i64>("pid");
        Some(OtherHost {
            id,
            pid,
            owner: Owner {
                program: text("program"),
                pid: pid.try_into().unwrap_or(0),
                host: text("host_name"),
                started: text("started"),
                address: row.get("address"),
            },
            machine: text("machine"),
            process_start: text("process_start"),
        })
    }

    /// Whether the process is known to be dead: it ran on this machine, and does not any more.
    pub(crate) fn has_died(&self, ours: &HostName) -> bool {
        let is_here = !self.machine.is_empty() && self.machine == ours.machine;
        is_here && self.has_ended(&Process::find(self.pid))
    }

    /// `process` has its number now.
    fn has_ended(&self, process: &Process) -> bool {
        match process {
            Process::Running { start } => *start != self.process_start,
            Process::Ended => true,
            Process::Unknown => false,
        }
    }
}

/// The machine since it was started, with the namespace of process numbers. Empty where the
/// operating system does not tell: no process is known to be dead there.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if boot.is_empty() || namespace.as_os_str().is_empty() || hides_processes(&mounts) {
        return String::new();
    }
    format!("{} {}", boot.trim(), namespace.display())
}

/// Whether processes of other users look as if they did not exist. `mounts` is the list of mounted
/// file systems; without one, the answer is yes.
fn hides_processes(mounts: &str) -> bool {
    let mut options = mounts.lines().filter_map(|mount| {
        let mut fields = mount.split(' ').skip(1);
        (fields.next()? == "/proc").then(|| fields.nth(1))?
    });
    // A later mount covers the earlier ones.
    options.next_back().is_none_or(|options| options.contains("hidepid="))
}

/// What the operating system tells of a process number.
#[derive(Debug, PartialEq)]
enum Process {
    /// `start` is the time of its start, so that its number is not taken for that of a later one.
    Running {
        start: String,
    },
    /// There is none, or one that only waits for its parent to notice its end.
    Ended,
    Unknown,
}

impl Process {
    fn find(pid: i64) -> Process {
        const NO_SUCH_PROCESS: i32 = 3;
        match fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
            Ok(status) => Process::read(&status),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Process::Ended,
            Err(err) if err.raw_os_error() == Some(NO_SUCH_PROCESS) => Process::Ended,
            // For example too many open files.
            Err(_) => Process::Unknown,
        }
    }

    fn read(status: &str) -> Process {
        // The name of the program, in parentheses, may contain anything. The state and the start
        // are the fields 3 and 22.
        let mut fields = status.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        match (fields.next(), fields.nth(18)) {
            (Some("Z" | "X"), _) => Process::Ended,
            (Some(_), Some(start)) => Process::Running { start: start.to_owned() },
            _ => Process::Unknown,
        }
    }
}

/// The values of a host that are parameters of a statement: its first ones, in this order.
pub(crate) const HOST_VALUES: &str = "(id, program, pid, name, machine, process_start, address, \
     started, seen_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now())";

const RENEW: &str = "UPDATE {schema}.host SET seen_at = now() WHERE id = $1 RETURNING id";

/// Processes that ended long ago, and have no sessions.
const FORGET_OLD: &str = "DELETE FROM {schema}.host h \
     WHERE h.seen_at < now() - make_interval(secs => greatest($1, 86400)) \
     AND NOT EXISTS (SELECT FROM {schema}.session s WHERE s.owner = h.id)";

impl Shared {
    /// Enters this process among the hosts.
    pub(crate) async fn show_life(&self, deadline: Instant) -> Result<(), Failure> {
        let statement = format!(
            "INSERT INTO {{schema}}.host {HOST_VALUES} \
             ON CONFLICT (id) DO UPDATE SET seen_at = now()"
        );
        self.query_again(deadline, &statement, &self.host.parameters()).await.map(|_| ())
    }

    /// Shows life again. A late attempt does not enter a process that has left.
    async fn show_life_again(&self, deadline: Instant) -> Result<(), Failure> {
        let renewed = self.query_again(deadline, RENEW, &[(&self.host.id, Type::TEXT)]).await?;
        if renewed.is_empty() {
            // This process was paused for so long that another one has forgotten it.
            self.show_life(deadline).await?;
        }
        Ok(())
    }

    /// Shows life again and again. A failure is not reported: if it lasts, the next append fails.
    pub(crate) async fn keep_showing_life(self: Arc<Self>) {
        let takeover = self.options.takeover;
        let pause = (takeover / 6).max(Duration::from_millis(100));
        // Silence on one connection must not use up the time that others wait for a sign of life.
        let limit = self.options.timeout.min(takeover / 3);
        let secs = takeover.as_secs_f64();
        let mut has_forgotten = false;
        loop {
            tokio::time::sleep(pause).await;
            if self.show_life_again(Instant::now() + limit).await.is_err() {
                continue;
            }
            if !has_forgotten {
                let forget = &[(&secs as _, Type::FLOAT8)];
                has_forgotten =
                    self.query(Instant::now() + limit, FORGET_OLD, forget).await.is_ok();
            }
            // A failure is repaired by the next attempt.
            self.settle_doubts(Instant::now() + limit).await.ok();
        }
    }

    /// The process ends. Its sessions are free at once.
    pub(crate) async fn leave(&self) -> Result<(), Failure> {
        let statement = "DELETE FROM {schema}.host WHERE id = $1";
        let parameters = &[(&self.host.id as _, Type::TEXT)];
        self.query_again(self.deadline(), statement, parameters).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pid: u32) -> Owner {
        let text = String::new;
        Owner { program: text(), pid, host: text(), started: text(), address: None }
    }

    fn other(pid: u32, machine: &str, process_start: &str) -> OtherHost {
        let (machine, process_start) = (machine.to_owned(), process_start.to_owned());
        let id = "other".to_owned();
        OtherHost { id, owner: owner(pid), pid: pid.into(), machine, process_start }
    }

    #[test]
    fn only_a_process_of_this_machine_is_known_to_be_dead() {
        let ours = HostName::new(owner(std::process::id()));
        let (here, start) = (ours.machine.as_str(), ours.process_start.as_str());
        assert!(!here.is_empty() && !start.is_empty(), "Linux tells both");
        let me = std::process::id();
        for (other, expected, why) in [
            (other(me, here, start), false, "it is alive"),
            (other(me, here, "1"), true, "another process has its number now"),
            (other(u32::MAX, here, "1"), true, "no process has its number"),
            (other(u32::MAX, "another machine", "1"), false, "it may live there"),
            (other(u32::MAX, "", ""), false, "its machine is not known"),
        ] {
            assert_eq!(other.has_died(&ours), expected, "{why}");
        }
    }

    #[test]
    fn process_that_cannot_be_read_is_not_known_to_be_dead() {
        let other = other(7, "", "100");
        let status = |state: &str, start: &str| {
            let fields = ["0"; 18].join(" ");
            format!("7 (a ) b) {state} {fields} {start} 0 0")
        };
        for (process, expected, why) in [
            (Process::read(&status("S", "100")), false, "it sleeps"),
            (Process::read(&status("T", "100")), false, "it is paused"),
            (Process::read(&status("Z", "100")), true, "only its parent has not noticed"),
            (Process::read(&status("S", "101")), true, "another one has its number"),
            (Process::read("7 (a"), false, "nothing is known"),
            (Process::Ended, true, "there is none"),
            (Process::Unknown, false, "nothing is known"),
        ] {
            assert_eq!(other.has_ended(&process), expected, "{process:?}: {why}");
        }
    }

    #[test]
    fn hidden_processes_are_not_taken_for_dead_ones() {
        for (mounts, expected) in [
            ("proc /proc proc rw,nosuid,relatime 0 0\n", false),
            ("proc /proc proc rw,relatime,hidepid=invisible 0 0\n", true),
            ("proc /proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n", false),
            ("proc /mnt/proc proc rw 0 0\n", true),
            ("", true),
        ] {
            assert_eq!(hides_processes(mounts), expected, "{mounts}");
        }
    }
}
