//! A program with pipes of its own, for whoever wants to talk to one: what it writes to its output
//! and to its errors comes apart, and something can be written to it.
//!
//! It stands under a guardian like every shell (see `process`), so nothing it starts outlives us.
//! Two threads serve it: one reads and tells, and waits with the program when its listener does;
//! one writes, from the first thing there is to write.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::process::{self, GuardianSocket};

/// What to start, and how.
#[derive(Clone, Debug)]
pub struct Program {
    /// A path, or a name to look for in the `PATH` of `env`.
    pub command: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Whether there is something to be written to it; otherwise its input is empty.
    pub stdin: bool,
    /// Another first argument than the command's name.
    pub argv0: Option<String>,
    /// Open files it gets beside the usual three, under the numbers they have with us.
    pub keeps: Vec<Arc<OwnedFd>>,
}

/// What a program does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// It ended, by itself with a code or violently by a signal. What it wrote before was told
    /// before, but there may be more of its children.
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// Nothing more will come: it ended, and nobody can write to its pipes any more.
    Closed,
}

/// Whom to tell. It may take its time: the program then waits in its next write, and nothing piles
/// up here.
pub type Sink = Box<dyn FnMut(ProgramEvent) + Send>;

/// The most that is told at once.
const CHUNK_MAX_BYTES: usize = 64 * 1024;
/// What may be in the pipes when a program ends, and is told before its end is. Its children might
/// write for ever.
const LEFTOVER_MAX_BYTES: usize = 1024 * 1024;

/// Starts a program. Returns when it runs, or says why it does not; the operating system's number
/// is in the error. `sink` is called from a thread of its own, for the last time with
/// [`Happening::Closed`].
pub fn spawn(program: Program, sink: Sink) -> io::Result<Handle> {
    let Program { command, args, cwd, env, stdin, argv0, keeps } = program;
    let mut command = Command::new(command);
    command.args(args).current_dir(cwd).env_clear().envs(env);
    if let Some(argv0) = argv0 {
        command.arg0(argv0);
    }
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    command.stdout(their_stdout).stderr(their_stderr);
    let stdin = if stdin {
        let (their_stdin, stdin) = io::pipe()?;
        command.stdin(their_stdin);
        Stdin::Idle(stdin)
    } else {
        command.stdin(Stdio::null());
        Stdin::Closed
    };
    if !keeps.is_empty() {
        // SAFETY: between fork and exec this makes one system call a file and nothing else.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(move || keep(&keeps));
        }
    }
    let link = process::launch(command, None)?;
    let pipes = Pipes { stdout: Some(stdout), stderr: Some(stderr) };
    let reader = Reader { pipes, link: link.clone(), sink };
    let listen = thread::Builder::new().name("child".to_owned()).spawn(move || reader.listen());
    if let Err(err) = listen {
        process::end(&link);
        return Err(err);
    }
    Ok(Handle { link, stdin: Mutex::new(stdin) })
}

/// Files close when another program takes over, unless somebody says otherwise.
fn keep(files: &[Arc<OwnedFd>]) -> io::Result<()> {
    for file in files {
        fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

/// A program under way. Letting go of it closes its input and does not end it.
pub struct Handle {
    link: Arc<GuardianSocket>,
    stdin: Mutex<Stdin>,
}

enum Stdin {
    /// Nothing was written yet.
    Idle(PipeWriter),
    Writing(Sender<(Vec<u8>, Box<dyn Send>)>),
    Closed,
}

impl Handle {
    /// The program's own number, not its guardian's.
    pub fn pid(&self) -> u32 {
        self.link.program().as_raw().unsigned_abs()
    }

    /// Hands something to the thread that writes. A program that does not read makes nobody wait
    /// here; one that is gone shows by its end.
    pub fn write(&self, bytes: Vec<u8>) {
        self.write_holding(bytes, Box::new(()));
    }

    /// The same, with something that is dropped when the bytes were written or never will be.
    pub fn write_holding(&self, bytes: Vec<u8>, hold: Box<dyn Send>) {
        let mut stdin = self.stdin();
        if let Stdin::Idle(_) = *stdin
            && let Stdin::Idle(pipe) = std::mem::replace(&mut *stdin, Stdin::Closed)
        {
            let (sender, receiver) = mpsc::channel();
            let name = "child stdin".to_owned();
            let writer = thread::Builder::new().name(name).spawn(move || feed(pipe, &receiver));
            // Without a thread the pipe is closed, and the program sees the end of its input.
            if writer.is_ok() {
                *stdin = Stdin::Writing(sender);
            }
        }
        if let Stdin::Writing(sender) = &*stdin {
            // The thread ends when nobody reads, which is the program's own affair.
            sender.send((bytes, hold)).ok();
        }
    }

    /// The program sees the end of its input behind everything that was written.
    pub fn close_stdin(&self) {
        *self.stdin() = Stdin::Closed;
    }

    /// Sends a signal to the program and to all in its process group, which its children are in
    /// unless they have left it. Does nothing once the program has ended.
    pub fn kill(&self, signal: i32) {
        self.link.signal(signal);
    }

    fn stdin(&self) -> MutexGuard<'_, Stdin> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn feed(mut pipe: PipeWriter, receiver: &Receiver<(Vec<u8>, Box<dyn Send>)>) {
    while let Ok((bytes, _hold)) = receiver.recv() {
        if pipe.write_all(&bytes).is_err() {
            return;
        }
    }
}

struct Pipes {
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
}

struct Reader {
    pipes: Pipes,
    link: Arc<GuardianSocket>,
    sink: Sink,
}

/// What is ready to be looked at.
struct Ready {
    stdout: bool,
    stderr: bool,
    exit: bool,
}

impl Reader {
    fn listen(mut self) {
        let mut exit = None;
        // How much is still read for the sake of order once the program is known to have ended.
        let mut leftover = LEFTOVER_MAX_BYTES;
        let mut buffer = vec![0; CHUNK_MAX_BYTES];
        while exit.is_none() || self.pipes.stdout.is_some() || self.pipes.stderr.is_some() {
            let ready = match self.wait(exit.is_none()) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                // A number that is no file: nothing more can be heard.
                Err(_) => break,
            };
            let mut read = 0;
            if ready.stdout {
                read += take(&mut self.pipes.stdout, &mut buffer, |bytes| {
                    (self.sink)(ProgramEvent::Stdout(bytes));
                });
            }
            if ready.stderr {
                read += take(&mut self.pipes.stderr, &mut buffer, |bytes| {
                    (self.sink)(ProgramEvent::Stderr(bytes));
                });
            }
            if ready.exit && exit.is_none() {
                leftover = leftover.saturating_sub(read);
                if read == 0 || leftover == 0 {
                    let ended = self.link.exit();
                    exit = Some(ended);
                    (self.sink)(ProgramEvent::Exit { code: ended.code(), signal: ended.signal() });
                }
            }
        }
        match exit {
            Some(exit) => self.link.release(exit),
            None => process::end(&self.link),
        }
        (self.sink)(ProgramEvent::Closed);
    }

    fn wait(&self, until_exit: bool) -> Result<Ready, Errno> {
        let Pipes { stdout, stderr } = &self.pipes;
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = Vec::with_capacity(3);
        fds.extend(stdout.iter().map(|pipe| readable(pipe.as_fd())));
        fds.extend(stderr.iter().map(|pipe| readable(pipe.as_fd())));
        if until_exit {
            fds.push(readable(self.link.as_fd()));
        }
        poll(&mut fds, PollTimeout::NONE)?;
        let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
        let mut next = |is_there: bool| is_there && ready.next().unwrap_or(false);
        Ok(Ready {
            stdout: next(stdout.is_some()),
            stderr: next(stderr.is_some()),
            exit: next(until_exit),
        })
    }
}

/// Reads once and says how much. A pipe at its end is closed.
fn take(pipe: &mut Option<PipeReader>, buffer: &mut [u8], mut tell: impl FnMut(Vec<u8>)) -> usize {
    let Some(reader) = pipe else { return 0 };
    match reader.read(buffer) {
        Err(err) if err.kind() == io::ErrorKind::Interrupted => 0,
        Ok(0) | Err(_) => {
            *pipe = None;
            0
        }
        Ok(n) => {
            tell(buffer[..n].to_vec());
            n
        }
    }
}

#[cfg(test)]
mod tests;
