//! Child processes, and the guarantee that none of them outlives tiller.
//!
//! Every shell, and every other program that tiller starts, runs under a guardian, a process that
//! does nothing but wait:
//!
//! ```text
//! tiller ── guardian ── shell ── whatever the command starts
//! ```
//!
//! The guardian is a subreaper: when a process below it ends, the children of that process become
//! the guardian's, whether they called `setsid`, forked twice or were started with `nohup`. So the
//! command's tree is always below its guardian, and ending it means killing the guardian's children
//! until there are none left. It does that on request, and when the socket that connects it to
//! tiller closes: however tiller ends, even by SIGKILL, the kernel closes that socket.
//!
//! A guardian whose shell has ended stays as long as there are background children, and no longer.
//! A thread waits for each guardian and reaps it as soon as it has ended, so there are no zombies.
//! If a guardian is killed, its tree becomes tiller's, since tiller is a subreaper too; if it is
//! stopped, it gets SIGCONT. See `process/watch.rs`.
//!
//! The guardian needs Linux. Elsewhere a shell still has a session of its own and is ended with its
//! process group, which misses children that left the group.

#[cfg(target_os = "linux")]
mod guardian;
#[cfg(target_os = "linux")]
mod children;
#[cfg(target_os = "linux")]
mod watch;

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::wait::WaitPidFlag;
#[cfg(target_os = "linux")]
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tiller_agent::mutex;
use tiller_agent::sandbox::Confinement;

/// Command to a guardian: end your tree.
const END: u8 = b'e';
/// Command to a guardian: read and discard the output from now on, so that the pipe does not fill
/// up.
const DRAIN: u8 = b'd';
/// Command to a guardian: signal the shell. The other seven bits are the signal's number.
const SIGNAL: u8 = 0x80;
/// The wait status of a process killed by SIGKILL.
const KILLED: i32 = nix::libc::SIGKILL;
/// How long to wait for killed processes to disappear. A process in uninterruptible sleep, as on a
/// broken disk, cannot be killed.
const END_MAX: Duration = Duration::from_secs(1);

/// Reported to the observer: a child, by its process id.
#[derive(Debug)]
pub enum ChildEvent {
    Started {
        pid: i32,
        program: String,
        arguments: Vec<String>,
    },
    /// How it ended, and how long it ran; `signal` is the kernel's number.
    Ended {
        pid: i32,
        code: Option<i32>,
        signal: Option<i32>,
        after: Duration,
    },
}

type Observer = Box<dyn Fn(ChildEvent) + Send + Sync>;

/// Global, because children are started by tools, by extensions and to obtain keys, and belong to
/// the whole process.
static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Reports every child from now on to an observer, for a log. Only the first call has an effect.
pub fn observe(observer: impl Fn(ChildEvent) + Send + Sync + 'static) {
    // There is at most one log.
    OBSERVER.set(Box::new(observer)).ok();
}

/// Makes tiller the parent of orphaned descendants instead of init. Call it once at the start; the
/// first child does it too.
pub fn install() {
    // The result is ignored: only cleaning up after a killed guardian depends on it.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true).ok();
}

/// Kills every descendant and refuses to start more. Returns when none is left, or after about a
/// second. Call it before the program exits; if that is impossible, the guardians end their trees
/// themselves.
pub fn end_all() {
    let mut registry = registry();
    registry.closed = true;
    for link in &registry.links {
        link.end();
    }
    let deadline = Instant::now() + END_MAX;
    // The guardians end their own trees; what is left after that is killed here.
    registry.reap_until(Instant::now() + END_MAX / 4);
    #[cfg(target_os = "linux")]
    children::end_children(|step| {
        if let children::Step::Pause = step {
            std::thread::sleep(Duration::from_millis(2));
        }
        Instant::now() < deadline
    });
    registry.reap_until(deadline);
}

/// A shell and everything it started.
pub(crate) struct Tree {
    link: Arc<GuardianSocket>,
    output: Option<PipeReader>,
    exit: Option<Exit>,
}

/// How a shell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The raw wait status. nix would refuse real-time signals, which have no names.
    status: i32,
    leaves_children: bool,
}

impl Exit {
    /// The exit code, if it exited.
    pub(crate) fn code(self) -> Option<i32> {
        nix::libc::WIFEXITED(self.status).then(|| nix::libc::WEXITSTATUS(self.status))
    }

    /// The signal, if it was killed.
    pub(crate) fn signal(self) -> Option<i32> {
        nix::libc::WIFSIGNALED(self.status).then(|| nix::libc::WTERMSIG(self.status))
    }

    /// The code as shells report it: 128 plus the signal's number if it was killed.
    fn shell_code(self) -> i32 {
        self.code().or(self.signal().map(|signal| 128 + signal)).unwrap_or(1)
    }
}

/// The result of [`Tree::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    /// The number of bytes read.
    Output(usize),
    /// The output pipe is closed.
    OutputClosed,
    /// The shell ended; there may be more output.
    Ended(i32),
    /// Nothing happened before the timeout.
    Quiet,
}

impl Tree {
    /// Starts a shell without input. stdout and stderr share one pipe, so they keep their order.
    /// Blocks until the shell runs.
    pub(crate) fn spawn(
        mut command: Command,
        memory: Option<u64>,
        confinement: Option<Arc<dyn Confinement>>,
    ) -> io::Result<Tree> {
        let (output, input) = io::pipe()?;
        #[cfg(target_os = "linux")]
        enlarge(&input);
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let link = launch(command, Some(&output), memory, confinement)?;
        Ok(Tree { link, output: Some(output), exit: None })
    }

    /// Waits for the next event. Output comes before the end of the shell that wrote it.
    pub(crate) fn next(
        &mut self,
        buffer: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<ProcessEvent> {
        let mut fds = Vec::with_capacity(2);
        fds.extend(self.output.iter().map(|output| PollFd::new(output.as_fd(), PollFlags::POLLIN)));
        if self.exit.is_none() {
            fds.push(PollFd::new(self.link.socket.as_fd(), PollFlags::POLLIN));
        }
        let ready = match poll(&mut fds, poll_timeout(wait)) {
            // The caller checks its deadline and calls again.
            Ok(0) | Err(Errno::EINTR) => return Ok(ProcessEvent::Quiet),
            Ok(_) => fds.first().and_then(PollFd::any).unwrap_or(false),
            Err(err) => return Err(err.into()),
        };
        match &mut self.output {
            Some(output) if ready => match output.read(buffer)? {
                0 => {
                    self.output = None;
                    Ok(ProcessEvent::OutputClosed)
                }
                n => Ok(ProcessEvent::Output(n)),
            },
            _ => {
                let exit = self.link.exit();
                self.exit = Some(exit);
                Ok(ProcessEvent::Ended(exit.shell_code()))
            }
        }
    }

    /// A handle that kills the tree, usable from any thread.
    pub(crate) fn ender(&self) -> KillHandle {
        KillHandle(self.link.clone())
    }
}

impl Drop for Tree {
    /// Kills a shell that has not ended. Background children continue, and their output is
    /// discarded.
    fn drop(&mut self) {
        match self.exit {
            None => self.ender().end(),
            Some(exit) => {
                if exit.leaves_children {
                    self.link.send(DRAIN);
                }
                self.link.release(exit);
            }
        }
    }
}

/// Kills a tree.
#[derive(Clone)]
pub(crate) struct KillHandle(Arc<GuardianSocket>);

impl KillHandle {
    /// Kills everything the shell started, even if its guardian does not respond. Does nothing if
    /// the tree is already gone.
    pub(crate) fn end(&self) {
        end(&self.0);
    }
}

/// Kills a program and everything it started, even if its guardian does not respond.
pub(crate) fn end(link: &Arc<GuardianSocket>) {
    link.end();
    #[cfg(target_os = "linux")]
    watch::insist(link.clone());
}

/// Starts a program under a guardian, which drains `output` on request. `memory` is the most address
/// space, in bytes, that the program and each process it starts may have. They enter `confinement`,
/// which is prepared, and the guardian does not. Blocks until the program runs.
pub(crate) fn launch(
    command: Command,
    output: Option<&PipeReader>,
    memory: Option<u64>,
    confinement: Option<Arc<dyn Confinement>>,
) -> io::Result<Arc<GuardianSocket>> {
    install();
    // Held during the fork, so that the guardian is registered before any other code can see it.
    let mut registry = registry();
    if registry.closed {
        return Err(io::Error::other("tiller is about to exit"));
    }
    registry.reap();
    let observed = OBSERVER.get().map(|observer| (observer, program_and_arguments(&command)));
    let link = Arc::new(start(command, output, memory, confinement)?);
    registry.links.push(link.clone());
    drop(registry);
    #[cfg(target_os = "linux")]
    watch::follow(link.clone());
    if let Some((observer, (program, arguments))) = observed {
        observer(ChildEvent::Started { pid: link.program.as_raw(), program, arguments });
    }
    Ok(link)
}

fn program_and_arguments(command: &Command) -> (String, Vec<String>) {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    (text(command.get_program()), command.get_args().map(text).collect())
}

/// tiller's end of the connection to a guardian.
pub(crate) struct GuardianSocket {
    /// The guardian; on systems without guardians, the shell itself.
    pid: Pid,
    /// The shell.
    program: Pid,
    socket: UnixStream,
    /// Whether the guardian was killed by a signal, once it was waited for.
    #[cfg(target_os = "linux")]
    killed: AtomicBool,
    started: Instant,
}

impl GuardianSocket {
    pub(crate) fn program(&self) -> Pid {
        self.program
    }

    /// Readable when the shell has ended.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Signals the shell's process group, unless the shell has ended.
    pub(crate) fn signal(&self, signal: i32) {
        let Ok(signal @ 1..) = u8::try_from(signal) else { return };
        if signal & SIGNAL != 0 {
            return;
        }
        #[cfg(target_os = "linux")]
        self.send(SIGNAL | signal);
        #[cfg(not(target_os = "linux"))]
        if let Ok(signal) = nix::sys::signal::Signal::try_from(i32::from(signal)) {
            // An empty group is not an error.
            nix::sys::signal::killpg(self.program, signal).ok();
        }
    }

    /// Releases a shell that has ended. Its background children stay, under their guardian.
    pub(crate) fn release(self: &Arc<GuardianSocket>, exit: Exit) {
        if !exit.leaves_children {
            // The guardian is about to exit.
            registry().forget(self);
        }
    }

    fn end(&self) {
        self.send(END);
        #[cfg(not(target_os = "linux"))]
        {
            // Errors are ignored: the shell leads its group, and an empty group is fine.
            _ = nix::sys::signal::killpg(self.pid, nix::sys::signal::Signal::SIGKILL);
        }
    }

    fn send(&self, word: u8) {
        // If the write fails, the guardian has ended, which is what most commands ask for.
        _ = (&self.socket).write_all(&[word]).ok();
    }

    /// Reads the guardian's report that the shell has ended.
    pub(crate) fn exit(&self) -> Exit {
        let exit = self.read_exit();
        if let Some(observer) = OBSERVER.get() {
            observer(ChildEvent::Ended {
                pid: self.program.as_raw(),
                code: exit.code(),
                signal: exit.signal(),
                after: self.started.elapsed(),
            });
        }
        exit
    }

    fn read_exit(&self) -> Exit {
        let mut words = [0; 5];
        match (&self.socket).read_exact(&mut words) {
            Ok(()) => {
                let [a, b, c, d, leaves_children] = words;
                Exit {
                    status: i32::from_ne_bytes([a, b, c, d]),
                    leaves_children: leaves_children != 0,
                }
            }
            Err(_) => {
                // The guardian was killed, and the kernel killed the shell with it.
                #[cfg(target_os = "linux")]
                watch::sweep_after(self);
                Exit { status: KILLED, leaves_children: false }
            }
        }
    }

    /// Whether the process has ended. If so, it is reaped.
    #[cfg(target_os = "linux")]
    fn ended(&self, flags: Option<WaitPidFlag>) -> bool {
        match waitpid(self.pid, flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => false,
            Ok(WaitStatus::Exited(..)) | Err(Errno::ECHILD) => true,
            // Killed, perhaps by a signal without a name.
            Ok(_) | Err(_) => {
                self.killed.store(true, Ordering::Relaxed);
                true
            }
        }
    }

    /// Whether the process has ended. The thread that waits for it reaps it.
    #[cfg(not(target_os = "linux"))]
    fn ended(&self, _flags: Option<WaitPidFlag>) -> bool {
        nix::sys::signal::kill(self.pid, None).is_err()
    }
}

/// All guardians, so that they can be ended together and are reaped.
struct Registry {
    links: Vec<Arc<GuardianSocket>>,
    /// No more children may be started.
    closed: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { links: Vec::new(), closed: false });

fn registry() -> MutexGuard<'static, Registry> {
    mutex::lock(&REGISTRY)
}

impl Registry {
    /// Reaps a process that has ended or is about to exit. Does nothing if it was reaped before: its
    /// pid may be that of another process by now.
    fn forget(&mut self, link: &Arc<GuardianSocket>) {
        if self.contains(link) {
            while !link.ended(None) {}
            self.links.retain(|other| !Arc::ptr_eq(other, link));
        }
    }

    /// Whether a process is still to be reaped.
    fn contains(&self, link: &Arc<GuardianSocket>) -> bool {
        self.links.iter().any(|other| Arc::ptr_eq(other, link))
    }

    /// Reaps processes that have ended: guardians, and orphans whose guardian was killed.
    fn reap(&mut self) {
        self.links.retain(|link| !link.ended(Some(WaitPidFlag::WNOHANG)));
        #[cfg(target_os = "linux")]
        if children::has_zombie() {
            let links = &self.links;
            children::each_child(|child| {
                if child.zombie && is_orphan(links, &child) {
                    // The exit status of an orphan is not used.
                    waitpid(Pid::from_raw(child.pid), Some(WaitPidFlag::WNOHANG)).ok();
                }
            });
        }
    }

    fn reap_until(&mut self, deadline: Instant) {
        loop {
            self.reap();
            if self.links.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether a child is an orphan that became tiller's because its parent died. Children that other
/// code starts are in tiller's session; what a shell starts never is.
#[cfg(target_os = "linux")]
fn is_orphan(links: &[Arc<GuardianSocket>], child: &children::ChildProcess) -> bool {
    let own_session = nix::unistd::getsid(None).map_or(0, Pid::as_raw);
    child.session != own_session && !links.iter().any(|link| link.pid.as_raw() == child.pid)
}

/// Starts the shell under a guardian.
#[cfg(target_os = "linux")]
fn start(
    mut command: Command,
    output: Option<&PipeReader>,
    memory: Option<u64>,
    confinement: Option<Arc<dyn Confinement>>,
) -> io::Result<GuardianSocket> {
    let (mut near, far) = UnixStream::pair()?;
    let link = far.as_raw_fd();
    let output = output.map(PipeReader::as_raw_fd);
    // SAFETY: after the fork only this thread exists and any lock may be held forever. `split`
    // makes system calls and touches its own stack; it neither allocates, locks nor panics.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || guardian::split(link, output));
    }
    // After the split, so that the guardian has no limit.
    limit_memory(&mut command, memory);
    confine(&mut command, confinement);
    let child = command.spawn()?;
    // Only our end is left open, so that reading returns if the guardian is killed right now.
    drop(far);
    // If the shell kills its guardian at once, its pid is never sent. The socket then reports the
    // end, and what the shell started is killed.
    let mut program = [0; 4];
    near.read_exact(&mut program).ok();
    let program = Pid::from_raw(i32::from_ne_bytes(program));
    let pid = Pid::from_raw(child.id() as i32);
    let killed = AtomicBool::new(false);
    let started = Instant::now();
    Ok(GuardianSocket { pid, program, socket: near, killed, started })
}

/// Starts the shell without a guardian. A thread sends the guardian's messages.
#[cfg(not(target_os = "linux"))]
fn start(
    mut command: Command,
    _output: Option<&PipeReader>,
    memory: Option<u64>,
    confinement: Option<Arc<dyn Confinement>>,
) -> io::Result<GuardianSocket> {
    use std::os::unix::process::ExitStatusExt;
    let (near, mut far) = UnixStream::pair()?;
    // SAFETY: `setsid` is a system call and nothing else.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(io::Error::from));
    }
    limit_memory(&mut command, memory);
    confine(&mut command, confinement);
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    std::thread::spawn(move || {
        let Ok(status) = child.wait() else { return };
        let [a, b, c, d] = status.into_raw().to_ne_bytes();
        // Fails only if the reader is gone, which is fine.
        far.write_all(&[a, b, c, d, 0]).ok();
    });
    Ok(GuardianSocket { pid, program: pid, socket: near, started: Instant::now() })
}

/// Limits the address space of the program, and so of each process that it starts.
fn limit_memory(command: &mut Command, memory: Option<u64>) {
    let Some(bytes) = memory else { return };
    let limit = move || {
        let (_, allowed) = getrlimit(Resource::RLIMIT_AS)?;
        let max = bytes.min(allowed);
        setrlimit(Resource::RLIMIT_AS, max, max).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec this makes two system calls and nothing else.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(limit);
    }
}

/// Lets the program enter the sandbox as the last thing before it runs: the guardian stays outside,
/// where the program cannot signal it or read its memory.
fn confine(command: &mut Command, confinement: Option<Arc<dyn Confinement>>) {
    let Some(confinement) = confinement else { return };
    // SAFETY: between fork and exec this makes system calls and nothing else, as the trait demands.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || confinement.enter().map_err(io::Error::from_raw_os_error));
    }
}

/// The output of a program that is started like a command of a tool, for a short one.
pub fn output_of(
    command: Command,
    confinement: Arc<dyn Confinement>,
    within: Duration,
) -> io::Result<String> {
    let mut tree = Tree::spawn(command, None, Some(confinement))?;
    let deadline = Instant::now() + within;
    let (mut output, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match tree.next(&mut buffer, Some(left))? {
            ProcessEvent::Output(n) => output.extend_from_slice(&buffer[..n]),
            ProcessEvent::Ended(_) => break,
            ProcessEvent::OutputClosed => {}
            ProcessEvent::Quiet if left.is_zero() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            ProcessEvent::Quiet => {}
        }
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// A larger pipe lets a busy command continue while its output is written to disk. The kernel may
/// refuse, which is harmless.
#[cfg(target_os = "linux")]
fn enlarge(pipe: &io::PipeWriter) {
    use nix::fcntl::{FcntlArg, fcntl};
    fcntl(pipe, FcntlArg::F_SETPIPE_SZ(1024 * 1024)).ok();
}

fn poll_timeout(wait: Option<Duration>) -> PollTimeout {
    match wait {
        None => PollTimeout::NONE,
        // Rounded up: a wait of less than a millisecond must not become zero.
        Some(wait) => {
            PollTimeout::try_from(wait + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
        }
    }
}
