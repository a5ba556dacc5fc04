//! What tiller does when a guardian ends, or cannot do its work.
//!
//! A thread per guardian waits for its end and reaps it, because a guardian with background children
//! ends long after the command, when no other code waits for it.
//!
//! A command can reach its guardian by `$PPID`. If it kills the guardian, the kernel kills the
//! shell, and all other descendants become tiller's, which kills them. If it stops the guardian,
//! the guardian gets SIGCONT, and is killed if that happens repeatedly. A guardian that does not
//! end its tree in time is killed too. The same thread waits for these events.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use super::{END_MAX, GuardianSocket, children, is_orphan, registry};

/// A guardian that is stopped more often is killed.
const STOPS_MAX: u32 = 8;
/// How long a guardian may take to end its tree. It reports within [`END_MAX`].
const OBEY_MAX: Duration = Duration::from_millis(1500);
/// How long orphans are searched and killed while new ones appear.
const SWEEP_MAX: Duration = Duration::from_secs(60);
/// These threads only wait and make system calls.
const STACK_BYTES: usize = 128 * 1024;

/// Watches a guardian until it has ended, reaps it, and kills what it could not.
pub(super) fn follow(link: Arc<GuardianSocket>) {
    spawn(move || {
        let mut stops = 0;
        loop {
            match next_change(&link) {
                Change::Stopped => {
                    stops += 1;
                    let again = if stops > STOPS_MAX { Signal::SIGKILL } else { Signal::SIGCONT };
                    signal(&link, again);
                }
                Change::Ended => return registry().forget(&link),
                Change::Killed => return sweep(SWEEP_MAX),
            }
        }
    });
}

/// Kills a guardian that was asked to end its tree and has not done so in time. The thread that
/// watches it then kills the rest of the tree.
pub(super) fn insist(link: Arc<GuardianSocket>) {
    // A stopped guardian does not read its socket.
    signal(&link, Signal::SIGCONT);
    spawn(move || {
        thread::sleep(OBEY_MAX);
        signal(&link, Signal::SIGKILL);
    });
}

/// Kills what killed guardians left behind, for a limited time. A guardian that is being killed
/// passes on its descendants before it becomes a zombie, so `link` is waited for first.
pub(super) fn sweep_after(link: &GuardianSocket) {
    while let Change::Stopped = next_change(link) {
        signal_now(link, Signal::SIGKILL);
    }
    sweep(END_MAX);
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    let builder = thread::Builder::new().name("guardian".to_owned()).stack_size(STACK_BYTES);
    // Without a thread, the guardian still works, the next `launch` reaps it, and `end_all` still
    // kills its tree.
    builder.spawn(work).ok();
}

enum Change {
    Stopped,
    /// It exited by itself when nothing was left below it.
    Ended,
    Killed,
}

/// Blocks until the guardian is stopped or ends. A guardian that has ended stays a zombie until the
/// registry reaps it, so that its pid is not reused.
fn next_change(link: &GuardianSocket) -> Change {
    let id = || Id::Pid(link.pid);
    loop {
        let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        match waitid(id(), ends | WaitPidFlag::WSTOPPED) {
            Ok(WaitStatus::Stopped(..)) => {
                // Consumes the event. Another thread may have been faster.
                waitid(id(), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG).ok();
                return Change::Stopped;
            }
            Ok(WaitStatus::Signaled(..)) => return Change::Killed,
            Ok(WaitStatus::Exited(..)) => return Change::Ended,
            // The registry has reaped it, and holds its status once the lock is free.
            Err(Errno::ECHILD) => {
                let _registry = registry();
                let killed = link.killed.load(Ordering::Relaxed);
                return if killed { Change::Killed } else { Change::Ended };
            }
            Err(Errno::EINTR) => {}
            // Killed by a signal without a name.
            Err(_) => return Change::Killed,
            Ok(_) => {}
        }
    }
}

/// Signals a guardian unless it has been reaped.
fn signal(link: &Arc<GuardianSocket>, signal: Signal) {
    let registry = registry();
    if registry.contains(link) {
        signal_now(link, signal);
    }
}

fn signal_now(link: &GuardianSocket, signal: Signal) {
    // It may be a zombie by now, which is fine.
    kill(link.pid, signal).ok();
}

/// Kills orphans, generation by generation, until there are none.
fn sweep(max: Duration) {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    while started.elapsed() < max {
        let mut registry = registry();
        registry.reap();
        let mut left = false;
        children::each_child(|child| {
            if is_orphan(&registry.links, &child) {
                left = true;
                children::end(child.pid);
            }
        });
        // Releases the lock, so that other threads can start children meanwhile.
        drop(registry);
        if !left {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
