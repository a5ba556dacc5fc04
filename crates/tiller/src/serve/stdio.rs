//! `--multi-session`: one client of many sessions, at stdin and stdout.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tiller_server::connection::{ClientInput, Signal};
use tiller_server::out::OutputQueue;
use tiller_server::server::INPUTS_MAX;
use tiller_server::{Router, RouterConfig, RouterEnd};
use tokio::sync::{mpsc, oneshot};

use super::opener::Opener;
use super::runtime;
use crate::args::{Args, RunMode};
use crate::launch::ProcessEnv;
use crate::print_mode::print_stderr;
use crate::stdio::{listen_for_signals, read_lines};
use crate::usage::StartError;

/// How long sessions have to end after a signal, and the writer to write the rest.
const END_LIMIT: Duration = Duration::from_secs(2);

/// How many sessions one client may have open.
pub(crate) const SESSIONS_MAX: usize = 20_000;
/// How many extensions they may load, all together.
pub(crate) const EXTENSIONS_MAX: usize = 256;

/// Runs `--mode rpc --multi-session` to its end. `arguments` are those that `args` was read from.
pub fn multi_session(
    args: &Args,
    arguments: &[OsString],
    env: ProcessEnv,
) -> Result<u8, StartError> {
    if args.mode() != RunMode::Rpc {
        return Err(StartError::Usage("--multi-session needs --mode rpc".to_owned()));
    }
    let config = RouterConfig {
        level: args.level(&env.variables),
        idle_limit: None,
        max_sessions: SESSIONS_MAX,
        max_extensions: EXTENSIONS_MAX,
    };
    let opener = Opener::new(session_flags(arguments), env)?;
    tiller_tools::process::install();
    let runtime = runtime::start()?;
    let code = runtime.block_on(serve(Router::new(config, Arc::new(opener))));
    // Threads that wait for a slow disk end with the process.
    runtime.shutdown_background();
    Ok(code)
}

/// The flags of each session: all but those that are for the process.
pub(crate) fn session_flags(arguments: &[OsString]) -> Vec<OsString> {
    let mut flags = Vec::new();
    let mut arguments = arguments.get(1..).unwrap_or_default().iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        match &*text {
            "--multi-session" => {}
            "--cwd" => drop(arguments.next()),
            _ if text.starts_with("--cwd=") => {}
            "--mode" if arguments.as_slice().first().is_some_and(|mode| mode == "acp") => {
                arguments.next();
            }
            "--mode=acp" => {}
            _ => flags.push(argument.clone()),
        }
    }
    flags
}

/// Serves many sessions until stdin ends, stdout is closed or a signal comes. Returns the exit code.
async fn serve(router: Router) -> u8 {
    let (control_sender, mut control) = mpsc::channel(INPUTS_MAX);
    listen_for_signals(control_sender.clone());
    let (inputs, output) = router.connect_only_client();
    thread::spawn(move || {
        read_lines(|lines| inputs.send_blocking(ClientInput::Lines(lines)));
        inputs.send_blocking(ClientInput::EndOfInput);
    });
    let queue = output.clone();
    let runtime = tokio::runtime::Handle::current();
    let (done, mut written) = oneshot::channel();
    thread::spawn(move || {
        let result = runtime.block_on(write_stdout(&queue));
        if result.is_err() {
            control_sender.blocking_send(ClientInput::OutputClosed).ok();
        }
        // The process may have stopped waiting.
        done.send(result).ok();
    });
    // The output ends when stdin has ended and the last session has written its last record.
    let (code, end) = tokio::select! {
        written = &mut written => {
            let code = exit_code_now(&mut control);
            router.end(RouterEnd::EndOfInput).await;
            (code, written.ok())
        }
        code = exit_code(&mut control) => {
            router.end(RouterEnd::Stop { within: Duration::ZERO }).await;
            output.finish();
            (code, tokio::time::timeout(END_LIMIT, written).await.ok().and_then(Result::ok))
        }
    };
    match end {
        Some(Err(err)) if err.kind() != ErrorKind::BrokenPipe => {
            print_stderr(&format!("Error: cannot write to stdout: {err}"));
            1
        }
        // If the client has closed stdout, the rest is dropped.
        _ => code,
    }
}

/// The code of what has happened already, or 0.
fn exit_code_now(control: &mut mpsc::Receiver<ClientInput>) -> u8 {
    match control.try_recv() {
        Ok(ClientInput::OutputClosed) => 1,
        _ => 0,
    }
}

/// Waits for a signal or for a closed stdout.
pub(crate) async fn exit_code(control: &mut mpsc::Receiver<ClientInput>) -> u8 {
    loop {
        match control.recv().await {
            Some(ClientInput::Signal(Signal::Interrupt)) => return 130,
            Some(ClientInput::Signal(Signal::Terminate)) => return 143,
            Some(ClientInput::Signal(Signal::HangUp)) => return 129,
            Some(ClientInput::OutputClosed) => return 1,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

async fn write_stdout(output: &OutputQueue) -> io::Result<()> {
    while let Some(chunk) = output.next().await {
        let mut stdout = io::stdout().lock();
        stdout.write_all(chunk.bytes()).and_then(|()| stdout.flush())?;
        drop(stdout);
        chunk.written();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_process_are_not_for_sessions() {
        let typed = ["tiller", "--mode", "rpc", "--cwd", "/w", "--multi-session", "--model", "m"];
        assert_eq!(session_flags(&typed.map(OsString::from)), ["--mode", "rpc", "--model", "m"]);
        let typed = ["tiller", "--cwd=/w", "--mode=rpc"];
        assert_eq!(session_flags(&typed.map(OsString::from)), ["--mode=rpc"]);
        let typed = ["tiller", "--mode", "acp", "--model", "m"];
        assert_eq!(session_flags(&typed.map(OsString::from)), ["--model", "m"]);
    }
}
