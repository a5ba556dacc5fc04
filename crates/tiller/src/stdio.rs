//! The server at a real client: stdin, stdout and signals, each in its own thread or task.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tiller_server::ServerConfig;
use tiller_server::connection::{Channels, ClientInput, Signal};
use tiller_server::lines::{LINE_MAX_BYTES, Line, Lines};
use tiller_server::out::{Drain, pipe};
use tiller_server::server::{INPUTS_MAX, serve};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::print_mode::print_stderr;

/// How many reads from stdin, each with all its lines, may wait for the server.
const READS_MAX: usize = 8;
/// How long a slow reader may take to read the rest at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves the client at stdin and stdout. Returns the exit code.
pub async fn serve_stdio(launch: ServerConfig) -> u8 {
    let (lines_sender, lines) = mpsc::channel(READS_MAX);
    let (control_sender, control) = mpsc::channel(INPUTS_MAX);
    let (pipe, drain, caught_up) = pipe();
    let (done, wrote_everything) = channel();
    listen_for_signals(control_sender.clone());
    let last_lines = control_sender.clone();
    thread::spawn(move || read_stdin(&lines_sender, &last_lines));
    thread::spawn(move || {
        let written = write_stdout(drain, &control_sender);
        // The main thread may have stopped waiting.
        done.send(written).ok();
    });
    let code = serve(launch, Channels { lines, control, pipe, caught_up }).await;
    match wrote_everything.recv_timeout(FLUSH_TIMEOUT) {
        Ok(Err(err)) if err.kind() != ErrorKind::BrokenPipe => {
            print_stderr(&format!("Error: cannot write to stdout: {err}"));
            1
        }
        // If the client has closed stdout, the rest is dropped.
        Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => code,
    }
}

fn read_stdin(inputs: &mpsc::Sender<ClientInput>, control: &mpsc::Sender<ClientInput>) {
    // The server may have ended; then this thread ends with the process.
    let send = |input| inputs.blocking_send(input).is_ok();
    let last_line = read_complete_lines(|lines| send(ClientInput::Lines(lines)));
    control.blocking_send(ClientInput::LastLines).ok();
    if let Some(line) = last_line {
        send(ClientInput::Lines(vec![line]));
    }
    send(ClientInput::EndOfInput);
}

/// Reads stdin to its end, and sends the lines of each read.
pub(crate) fn read_lines(mut send: impl FnMut(Vec<Line>) -> bool) {
    if let Some(line) = read_complete_lines(&mut send) {
        send(vec![line]);
    }
}

/// The same without the last line, if it has no end. Stops early if the lines cannot be sent.
fn read_complete_lines(mut send: impl FnMut(Vec<Line>) -> bool) -> Option<Line> {
    let mut stdin = io::stdin().lock();
    let mut lines = Lines::new(LINE_MAX_BYTES);
    let mut chunk = vec![0; 64 << 10];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                let mut complete = Vec::new();
                lines.push(&chunk[..count], |line| complete.push(line));
                if !complete.is_empty() && !send(complete) {
                    break;
                }
            }
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.finish()
}

fn write_stdout(mut drain: Drain, control: &mpsc::Sender<ClientInput>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    while let Some(chunk) = drain.wait() {
        if let Err(err) = stdout.write_all(&chunk).and_then(|()| stdout.flush()) {
            // The server may have ended.
            control.blocking_send(ClientInput::OutputClosed).ok();
            return Err(err);
        }
        drain.wrote(chunk.len());
    }
    Ok(())
}

pub(crate) fn listen_for_signals(control: mpsc::Sender<ClientInput>) {
    let kinds = [
        (SignalKind::interrupt(), Signal::Interrupt),
        (SignalKind::terminate(), Signal::Terminate),
        (SignalKind::hangup(), Signal::HangUp),
    ];
    // A file that may not grow any further is an error of that write, not the end of the process;
    // and a handler, even one that does nothing, is what makes it so.
    const SIGXFSZ: i32 = 25;
    if let Ok(mut stream) = signal(SignalKind::from_raw(SIGXFSZ)) {
        tokio::spawn(async move { while stream.recv().await.is_some() {} });
    }
    for (kind, name) in kinds {
        // Without a handler the signal ends the process, as it should.
        let Ok(mut stream) = signal(kind) else { continue };
        let control = control.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                // The server may have ended.
                control.send(ClientInput::Signal(name)).await.ok();
            }
        });
    }
}
