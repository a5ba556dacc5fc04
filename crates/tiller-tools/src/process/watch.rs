//! tiller behind its guardians: what it does when a guardian cannot do its part.
//!
//! A command can reach its guardian by `$PPID`. If it kills the guardian, the kernel kills the
//! shell and hands all other descendants to tiller, which ends them. If it stops the guardian, the
//! guardian is told to go on, and killed when that happens again and again. A guardian that does
//! not obey in time is killed too. For each guardian a thread waits for such news; it costs
//! nothing while there is none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use super::{END_MAX, GuardianSocket, children, is_stray, registry};

/// A guardian that is stopped more often is killed.
const STOPS_MAX: u32 = 8;
/// How long a guardian may take to end its tree. It reports within [`END_MAX`].
const OBEY_MAX: Duration = Duration::from_millis(1500);
/// How long strays are searched and killed while there are new ones.
const SWEEP_MAX: Duration = Duration::from_secs(60);
/// These threads wait and make system calls.
const STACK_BYTES: usize = 128 * 1024;

/// Follows a guardian until it has ended, and ends what it could not.
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
                Change::Ended => return,
                Change::Killed => return sweep(SWEEP_MAX),
            }
        }
    });
}

/// Kills a guardian that has been told to end its tree and has not done so. What is left of the
/// tree is then ended by the thread that follows it.
pub(super) fn insist(link: Arc<GuardianSocket>) {
    // One that is stopped hears nothing.
    signal(&link, Signal::SIGCONT);
    spawn(move || {
        thread::sleep(OBEY_MAX);
        signal(&link, Signal::SIGKILL);
    });
}

/// Ends what killed guardians left behind, for so long. A guardian that is being killed hands its
/// descendants over before it is a zombie, so `link` is waited for first.
pub(super) fn sweep_after(link: &GuardianSocket) {
    while let Change::Stopped = next_change(link) {
        signal_now(link, Signal::SIGKILL);
    }
    sweep(END_MAX);
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    let builder = thread::Builder::new().name("guardian".to_owned()).stack_size(STACK_BYTES);
    // Without a thread the guardian is still there, and so is the end of the program.
    builder.spawn(work).ok();
}

enum Change {
    Stopped,
    /// By itself, when nothing was left below it.
    Ended,
    Killed,
}

/// Blocks until the guardian is stopped or ends. One that has ended stays a zombie, so that its
/// number is its own until the registry forgets it.
fn next_change(link: &GuardianSocket) -> Change {
    let id = || Id::Pid(link.pid);
    loop {
        let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        match waitid(id(), ends | WaitPidFlag::WSTOPPED) {
            Ok(WaitStatus::Stopped(..)) => {
                // Takes this news off the list. Another thread may have been faster.
                waitid(id(), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG).ok();
                return Change::Stopped;
            }
            Ok(WaitStatus::Signaled(..)) => return Change::Killed,
            Ok(WaitStatus::Exited(..)) => return Change::Ended,
            // The registry has waited for it, and knows how it ended once it is free again.
            Err(Errno::ECHILD) => {
                let _registry = registry();
                let killed = link.killed.load(Ordering::Relaxed);
                return if killed { Change::Killed } else { Change::Ended };
            }
            Err(Errno::EINTR) => {}
            // A signal without a name killed it.
            Err(_) => return Change::Killed,
            Ok(_) => {}
        }
    }
}

/// Signals a guardian that has not been waited for.
fn signal(link: &Arc<GuardianSocket>, signal: Signal) {
    let registry = registry();
    if registry.links.iter().any(|other| Arc::ptr_eq(other, link)) {
        signal_now(link, signal);
    }
}

fn signal_now(link: &GuardianSocket, signal: Signal) {
    // It may be a zombie by now, which is as good.
    kill(link.pid, signal).ok();
}

/// Kills strays, generation by generation, until there are none.
fn sweep(max: Duration) {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    while begun.elapsed() < max {
        let mut registry = registry();
        registry.reap();
        let mut left = false;
        children::each_child(|child| {
            if is_stray(&registry.links, &child) {
                left = true;
                children::end(child.pid);
            }
        });
        // Others may start children meanwhile.
        drop(registry);
        if !left {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
