//! The process between us and a shell, which outlives neither.
//!
//! It is made by a fork without an exec, out of a program with many threads. Until it ends it may
//! therefore do nothing but make system calls and use its own stack: no allocation, no lock, no
//! panic. What it is for stands in `process.rs`.

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

/// How long we try to end processes that do not go away.
const GIVE_UP: Duration = Duration::from_secs(60);

/// To be called between fork and exec. Of the two processes that come out of it, the child returns
/// and becomes the shell; the parent is the guardian and never returns.
///
/// `link` leads to tiller, `output` is the end of the pipe that tiller reads, if there is one that
/// the guardian may have to read in its place.
pub(super) fn split(link: RawFd, output: Option<RawFd>) -> io::Result<()> {
    // Whoever has no output is never asked to read it.
    let output = output.unwrap_or(link);
    // SAFETY: tiller keeps both open until the shell runs, and the guardian closes neither.
    #[allow(unsafe_code)]
    let (link, output) = unsafe { (BorrowedFd::borrow_raw(link), BorrowedFd::borrow_raw(output)) };
    // Away from tiller's process group: what is sent to that is not meant for us.
    setsid()?;
    // Without it the tree is as before, only harder to find. There is nobody to tell.
    prctl::set_child_subreaper(true).ok();
    // Should we be stopped when tiller dies, this lets us see to the rest.
    prctl::set_pdeathsig(Signal::SIGCONT).ok();
    let guardian = getpid();
    // Ignored, as it may be by those who started tiller, it would take the exit codes from us.
    // SAFETY: restores the default; no handler is involved.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    // Only SIGKILL reaches a guardian. The shell gets its signals back.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: both sides keep to the rules at the top of this file, as they did before.
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
            // The first word is who the shell is. When tiller is gone, the link will say so.
            write(link, &child.as_raw().to_ne_bytes()).ok();
            Guardian { shell: child, exit: None, told: false, link, output }.watch()
        }
    }
}

struct Guardian {
    shell: Pid,
    /// How the shell ended, in the kernel's own form.
    exit: Option<i32>,
    /// Whether tiller knows.
    told: bool,
    link: BorrowedFd<'static>,
    output: BorrowedFd<'static>,
}

impl Guardian {
    fn watch(mut self) -> ! {
        take_another_name();
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
            if let Some(status) = self.exit.filter(|_| !self.told) {
                self.tell(status, !alone);
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
                    Ok(1) if word[0] & SIGNAL != 0 => self.pass_on(word[0] & !SIGNAL),
                    Ok(1) if word != [END] => (),
                    // Asked to, or left alone.
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

    /// Signals the shell and its group. Once the shell has been waited for, its number may belong
    /// to somebody else; that is why tiller leaves this to us.
    fn pass_on(&self, signal: u8) {
        if let (None, Ok(signal)) = (self.exit, Signal::try_from(i32::from(signal))) {
            killpg(self.shell, signal).ok();
        }
    }

    /// Says how the shell ended, or that it was killed.
    fn tell_once(&mut self) {
        if !self.told {
            self.tell(self.exit.unwrap_or(KILLED), false);
        }
    }

    fn tell(&mut self, status: i32, leaves_children: bool) {
        let [a, b, c, d] = status.to_ne_bytes();
        // When tiller is gone, the next look at the link will say so.
        write(self.link, &[a, b, c, d, u8::from(leaves_children)]).ok();
        self.told = true;
    }

    /// Ends everything below and then the guardian itself.
    fn end_tree(mut self, mut pause: impl FnMut()) -> ! {
        // The group falls in one blow and cannot fork in between. Once the shell has been waited
        // for, its number may belong to somebody else.
        if self.exit.is_none() {
            killpg(self.shell, Signal::SIGKILL).ok();
        }
        let begun = Instant::now();
        children::end_children(|step| {
            match step {
                Step::Reaped { pid, status } => self.note(pid, status),
                Step::Pause => pause(),
            }
            // Somebody may be waiting for the news; nobody waits for us.
            if begun.elapsed() > END_MAX {
                self.tell_once();
            }
            begun.elapsed() < GIVE_UP
        });
        self.tell_once();
        leave();
    }
}

/// Waits until something happens and says where. Signals are blocked, so nothing else wakes us.
fn wait_for(fds: [BorrowedFd<'_>; 3], draining: bool) -> [bool; 3] {
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let count = if draining { 3 } else { 2 };
    poll(fds.get_mut(..count).unwrap_or_default(), PollTimeout::NONE).ok();
    fds.map(|fd| fd.any().unwrap_or(false))
}

fn take_all(deaths: &SignalFd) {
    while let Ok(Some(_)) = deaths.read_signal() {}
}

/// Whoever ends tiller by its name, with `killall -9` or `pkill -f`, shall not hit the one who
/// cleans up after it. The kernel keeps two names: a short one, and the arguments in our memory.
fn take_another_name() {
    const NAME: &CStr = c"shell-guard";
    prctl::set_name(NAME).ok();
    let Some((start, end)) = argument_area() else { return };
    let name = NAME.to_bytes();
    if end.saturating_sub(start) <= name.len() {
        return;
    }
    let area = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments of this process there, on its first stack. The fork has
    // made this copy ours alone, and nothing in the guardian reads it.
    #[allow(unsafe_code)]
    unsafe {
        area.write_bytes(0, end - start);
        area.copy_from_nonoverlapping(name.as_ptr(), name.len());
    }
}

/// Where the kernel finds the arguments of this process: fields 48 and 49 of proc_pid_stat(5).
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

/// Above all the links to other guardians, which must close when tiller dies; and the shell's
/// output, which must end when the shell's tree does.
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
    // SAFETY: ends the process without running what tiller has registered for its own exit.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(0)
    }
}
