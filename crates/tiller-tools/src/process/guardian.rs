//! The guardian: the process between tiller and a shell. `process.rs` explains its purpose.
//!
//! It is created by a fork without an exec, from a program with many threads. Until it exits it may
//! therefore only make system calls and use its own stack: no allocation, no lock, no panic.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, read, setsid, write};

use super::children::{self, Step, Waited};
use super::{DRAIN, END, END_MAX, KILLED, SIGNAL};

/// How long to keep killing processes that do not disappear.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Call it between fork and exec. It forks again: the child returns and becomes the shell; the
/// parent is the guardian and never returns.
///
/// `link` is the socket to tiller. `output` is the read end of the output pipe, if the guardian may
/// have to drain it.
pub(super) fn split(link: RawFd, output: Option<RawFd>) -> io::Result<()> {
    // Without an output pipe, the guardian is never asked to drain one.
    let output = output.unwrap_or(link);
    // SAFETY: tiller keeps both open until the shell runs, and the guardian closes neither.
    #[allow(unsafe_code)]
    let (link, output) = unsafe { (BorrowedFd::borrow_raw(link), BorrowedFd::borrow_raw(output)) };
    // Leaves tiller's process group, so that signals to the group do not reach the guardian.
    setsid()?;
    // If this fails, the tree is only harder to find. There is no way to report it.
    prctl::set_child_subreaper(true).ok();
    // If the guardian is stopped when tiller dies, this lets it continue and clean up.
    prctl::set_pdeathsig(Signal::SIGCONT).ok();
    let guardian = getpid();
    // If tiller's parent ignored SIGCHLD, the guardian would not get exit codes. SAFETY: restores
    // the default; no handler is involved.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    // Only SIGKILL reaches a guardian. The shell gets its signal mask back.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: both processes follow the rules at the top of this file.
    #[allow(unsafe_code)]
    match unsafe { fork() }? {
        ForkResult::Child => {
            // In a session of its own, nothing the shell starts can ask a terminal for a password.
            setsid()?;
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The guardian may have died before the line above took effect.
            if getppid() != guardian {
                return Err(Errno::ESRCH.into());
            }
            signals.thread_set_mask()?;
            Ok(())
        }
        ForkResult::Parent { child } => {
            // The first message is the shell's pid. If tiller is gone, the loop sees the closed
            // socket.
            write(link, &child.as_raw().to_ne_bytes()).ok();
            Guardian { shell: child, exit: None, reported: false, link, output }.watch()
        }
    }
}

struct Guardian {
    shell: Pid,
    /// The shell's raw wait status, once it has ended.
    exit: Option<i32>,
    /// Whether the exit was reported to tiller.
    reported: bool,
    link: BorrowedFd<'static>,
    output: BorrowedFd<'static>,
}

impl Guardian {
    fn watch(mut self) -> ! {
        rename_process();
        close_all_but(self.link.as_raw_fd(), self.output.as_raw_fd());
        let mut death = SigSet::empty();
        death.add(Signal::SIGCHLD);
        let Ok(deaths) = SignalFd::with_flags(&death, SfdFlags::SFD_NONBLOCK) else {
            self.end_tree(|| ());
        };
        let mut draining = false;
        loop {
            let alone = loop {
                match children::wait_any() {
                    Waited::Reaped { pid, status } => self.note(pid, status),
                    Waited::AllBusy => break false,
                    Waited::NoChildren => break true,
                }
            };
            if let Some(status) = self.exit.filter(|_| !self.reported) {
                self.report(status, !alone);
            }
            if alone {
                leave();
            }
            let [died, link, output] = wait_for([deaths.as_fd(), self.link, self.output], draining);
            if died {
                take_all(&deaths);
            }
            if link {
                let mut word = [0];
                match read(self.link, &mut word) {
                    Ok(1) if word == [DRAIN] => draining = true,
                    Ok(1) if word[0] & SIGNAL != 0 => self.forward_signal(word[0] & !SIGNAL),
                    Ok(1) if word != [END] => (),
                    // Asked to end, or tiller is gone.
                    _ => self.end_tree(|| {
                        let soon = PollTimeout::from(5u8);
                        poll(&mut [PollFd::new(deaths.as_fd(), PollFlags::POLLIN)], soon).ok();
                        take_all(&deaths);
                    }),
                }
            }
            if output && draining {
                draining = matches!(read(self.output, &mut [0; 16 * 1024]), Ok(1..));
            }
        }
    }

    fn note(&mut self, pid: i32, status: i32) {
        if pid == self.shell.as_raw() {
            self.exit = Some(status);
        }
    }

    /// Signals the shell's process group. Once the shell has been reaped, its pid may be reused;
    /// only the guardian knows when, so tiller does not send signals itself.
    fn forward_signal(&self, signal: u8) {
        if let (None, Ok(signal)) = (self.exit, Signal::try_from(i32::from(signal))) {
            killpg(self.shell, signal).ok();
        }
    }

    /// Reports how the shell ended, or that it was killed.
    fn report_once(&mut self) {
        if !self.reported {
            self.report(self.exit.unwrap_or(KILLED), false);
        }
    }

    fn report(&mut self, status: i32, leaves_children: bool) {
        let [a, b, c, d] = status.to_ne_bytes();
        // If tiller is gone, the loop sees the closed socket.
        write(self.link, &[a, b, c, d, u8::from(leaves_children)]).ok();
        self.reported = true;
    }

    /// Kills everything below the guardian and then exits.
    fn end_tree(mut self, mut pause: impl FnMut()) -> ! {
        // Kills the whole group at once, so that it cannot fork in between. Once the shell has been
        // reaped, its pid may be reused.
        if self.exit.is_none() {
            killpg(self.shell, Signal::SIGKILL).ok();
        }
        let started = Instant::now();
        children::end_children(|step| {
            match step {
                Step::Reaped { pid, status } => self.note(pid, status),
                Step::Pause => pause(),
            }
            // tiller may be waiting for the report; nothing waits for the guardian itself.
            if started.elapsed() > END_MAX {
                self.report_once();
            }
            started.elapsed() < GIVE_UP
        });
        self.report_once();
        leave();
    }
}

/// Waits until a descriptor is ready and returns which. Signals are blocked, so nothing else
/// interrupts it.
fn wait_for(fds: [BorrowedFd<'_>; 3], draining: bool) -> [bool; 3] {
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let count = if draining { 3 } else { 2 };
    poll(fds.get_mut(..count).unwrap_or_default(), PollTimeout::NONE).ok();
    fds.map(|fd| fd.any().unwrap_or(false))
}

fn take_all(deaths: &SignalFd) {
    while let Ok(Some(_)) = deaths.read_signal() {}
}

/// Renames the process, so that `killall -9` or `pkill -f` with tiller's name does not kill the
/// guardian. The kernel keeps two names: a short one, and the arguments in the process's memory.
fn rename_process() {
    const NAME: &CStr = c"shell-guard";
    prctl::set_name(NAME).ok();
    let Some((start, end)) = argument_area() else { return };
    let name = NAME.to_bytes();
    if end.saturating_sub(start) <= name.len() {
        return;
    }
    let area = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments of this process there, on its first stack. The fork made
    // a private copy, and nothing in the guardian reads it.
    #[allow(unsafe_code)]
    unsafe {
        area.write_bytes(0, end - start);
        area.copy_from_nonoverlapping(name.as_ptr(), name.len());
    }
}

/// The address range of this process's arguments: fields 48 and 49 of proc_pid_stat(5).
fn argument_area() -> Option<(usize, usize)> {
    let file = open("/proc/self/stat", OFlag::O_RDONLY, Mode::empty()).ok()?;
    let mut buffer = [0; 1024];
    let n = read(&file, &mut buffer).ok()?;
    let stat = buffer.get(..n)?;
    let name_end = memchr::memrchr(b')', stat)?;
    // The field after the name is the third.
    let mut fields = stat.get(name_end + 2..)?.split(|&byte| byte == b' ').skip(48 - 3);
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<usize>().ok();
    Some((number()?, number()?))
}

/// Closes inherited descriptors: above all the sockets to other guardians, which must close when
/// tiller dies, and the write end of the shell's output, which must close when the shell's tree
/// ends.
fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other), one.max(other));
    close_range(0, low - 1);
    close_range(low + 1, high - 1);
    close_range(high + 1, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: nothing in the guardian uses what is closed here.
    #[allow(unsafe_code)]
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) == 0 {
            return;
        }
        // Kernels before 5.9.
        let open_max = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 1 << 20) as RawFd;
        for fd in first..=last.min(open_max) {
            libc::close(fd);
        }
    }
}

fn leave() -> ! {
    // SAFETY: exits without running tiller's exit handlers.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(0)
    }
}
