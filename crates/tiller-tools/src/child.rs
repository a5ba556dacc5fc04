//! A child process with pipes: separate stdout and stderr, and optionally stdin.
//!
//! It runs under a guardian like every shell (see `process`), so nothing it starts outlives tiller.
//! Two threads serve it: one reads and calls the sink, so that a slow sink slows down the program;
//! the other writes, and is started with the first write.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tiller_agent::mutex;
use tiller_agent::program::{Program, ProgramEvent, ProgramSink};

use crate::process::{self, GuardianSocket};

/// The largest chunk of output in one event.
const CHUNK_MAX_BYTES: usize = 64 * 1024;
/// How much buffered output is read after the program has ended and before `Exit` is reported.
/// Without a limit, its children could delay `Exit` forever.
const LEFTOVER_MAX_BYTES: usize = 1024 * 1024;

/// Starts a program. Returns when it runs, or with the error of the operating system. `sink` is
/// called on its own thread, for the last time with [`ProgramEvent::Closed`].
pub fn spawn(program: Program, sink: ProgramSink) -> io::Result<Handle> {
    let Program { command, args, cwd, env, stdin, argv0, inherited } = program;
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
    if !inherited.is_empty() {
        // SAFETY: between fork and exec this makes one system call per file and nothing else.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(move || keep(&inherited));
        }
    }
    let link = process::launch(command, None, None, None)?;
    let pipes = Pipes { stdout: Some(stdout), stderr: Some(stderr) };
    let reader = Reader { pipes, link: link.clone(), sink };
    let listen = thread::Builder::new().name("child".to_owned()).spawn(move || reader.listen());
    if let Err(err) = listen {
        process::end(&link);
        return Err(err);
    }
    Ok(Handle { link, stdin: Mutex::new(stdin) })
}

/// Clears close-on-exec, which is set by default.
fn keep(files: &[Arc<OwnedFd>]) -> io::Result<()> {
    for file in files {
        fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

/// A running program. Dropping the handle closes its stdin and does not kill it.
pub struct Handle {
    link: Arc<GuardianSocket>,
    stdin: Mutex<Stdin>,
}

enum Stdin {
    /// Nothing has been written yet.
    Idle(PipeWriter),
    Writing(Sender<(Vec<u8>, Box<dyn Send>)>),
    Closed,
}

impl Handle {
    /// The process id of the program, not of its guardian.
    pub fn pid(&self) -> u32 {
        self.link.program().as_raw().unsigned_abs()
    }

    /// Queues bytes for the writer thread. Never blocks, even if the program does not read; if the
    /// program has ended, its `Exit` event says so.
    pub fn write(&self, bytes: Vec<u8>) {
        self.write_holding(bytes, Box::new(()));
    }

    /// Like `write`; `hold` is dropped when the bytes were written or never will be.
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
            // The writer thread ends when the program closes its stdin. That is not an error.
            sender.send((bytes, hold)).ok();
        }
    }

    /// Closes stdin after everything queued was written.
    pub fn close_stdin(&self) {
        *self.stdin() = Stdin::Closed;
    }

    /// Sends a signal to the program's process group, which includes its children unless they left
    /// it. Does nothing once the program has ended.
    pub fn kill(&self, signal: i32) {
        self.link.signal(signal);
    }

    /// Kills the program and everything it has started, also what has left its process group. Does
    /// nothing if all of it is gone.
    pub fn end(&self) {
        process::end(&self.link);
    }

    fn stdin(&self) -> MutexGuard<'_, Stdin> {
        mutex::lock(&self.stdin)
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
    sink: ProgramSink,
}

/// Which descriptors can be read.
struct Ready {
    stdout: bool,
    stderr: bool,
    exit: bool,
}

impl Reader {
    fn listen(mut self) {
        let mut exit = None;
        // How much output may still be read before the exit is reported.
        let mut leftover = LEFTOVER_MAX_BYTES;
        let mut buffer = vec![0; CHUNK_MAX_BYTES];
        while exit.is_none() || self.pipes.stdout.is_some() || self.pipes.stderr.is_some() {
            let ready = match self.wait(exit.is_none()) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                // The descriptor is invalid: there is nothing left to read.
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

/// Reads once and returns the number of bytes. Closes the pipe at its end.
fn take(
    pipe: &mut Option<PipeReader>,
    buffer: &mut [u8],
    mut on_chunk: impl FnMut(Vec<u8>),
) -> usize {
    let Some(reader) = pipe else { return 0 };
    match reader.read(buffer) {
        Err(err) if err.kind() == io::ErrorKind::Interrupted => 0,
        Ok(0) | Err(_) => {
            *pipe = None;
            0
        }
        Ok(n) => {
            on_chunk(buffer[..n].to_vec());
            n
        }
    }
}

#[cfg(test)]
mod tests;
