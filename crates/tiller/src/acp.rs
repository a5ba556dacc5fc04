//! `tiller acp` and `tiller --mode acp`: an editor at stdin and stdout that speaks the Agent Client
//! Protocol. docs/acp.md describes it; `tiller-acp` translates it.

mod bridge;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use tiller_protocol::Level;
use tiller_server::connection::ClientInput;
use tiller_server::server::INPUTS_MAX;
use tiller_server::{Router, RouterConfig, RouterEnd};
use tokio::sync::{mpsc, oneshot};

pub use bridge::Bridge;

use crate::auth_command::AuthCommand;
use crate::launch::ProcessEnv;
use crate::print_mode::print_stderr;
use crate::serve::{EXTENSIONS_MAX, Opener, SESSIONS_MAX, exit_code, runtime, session_flags};
use crate::stdio::{listen_for_signals, read_lines};
use crate::usage::StartError;

/// How many reads from stdin, and writes to stdout, may wait.
const WAITING_MAX: usize = 8;
/// How long sessions have to end after a signal, and the client to read the rest.
const END_LIMIT: Duration = Duration::from_secs(7);
/// How long the writer has when nothing more is written.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// The option that a client adds for the authentication in a terminal.
const LOGIN: &str = "--login";

/// Serve an editor that speaks the Agent Client Protocol
#[derive(Debug, Parser)]
#[command(
    name = "tiller acp",
    disable_version_flag = true,
    long_about = include_str!("../texts/acp-about.md"),
    after_help = include_str!("../texts/acp-examples.md")
)]
pub struct AcpCommand {
    /// Store an API key in this terminal, and exit
    #[arg(long)]
    login: bool,
    /// Options of `tiller --mode rpc` for every session
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SESSION_OPTIONS")]
    options: Vec<OsString>,
}

impl AcpCommand {
    /// The command for `tiller --mode acp` with these arguments.
    pub fn of_mode(arguments: &[OsString]) -> AcpCommand {
        AcpCommand { login: false, options: session_flags(arguments) }
    }

    /// Serves the client until its input ends or a signal comes. Returns the exit code.
    pub fn run(mut self, env: ProcessEnv) -> Result<u8, StartError> {
        // A client appends it to the options that are configured.
        let login = self.options.iter().position(|option| option == LOGIN);
        if let Some(at) = login {
            self.options.remove(at);
        }
        if self.login || login.is_some() {
            return log_in(&env);
        }
        let config = RouterConfig {
            level: Level::PiDelta,
            idle_limit: None,
            max_sessions: SESSIONS_MAX,
            max_extensions: EXTENSIONS_MAX,
        };
        let databases = env.databases().clone();
        let cwd = env.cwd.clone();
        let opener = Opener::new(self.options, env)?;
        tiller_tools::process::install();
        if io::stdin().is_terminal() {
            print_stderr(include_str!("../texts/acp-on-terminal.md").trim_end());
        }
        let runtime = runtime::start()?;
        let code = runtime.block_on(serve(Router::new(config, Arc::new(opener)), cwd));
        databases.close();
        // Threads that wait for a slow disk end with the process.
        runtime.shutdown_background();
        Ok(code)
    }
}

/// Asks for a provider and stores its key.
fn log_in(env: &ProcessEnv) -> Result<u8, StartError> {
    let asked = |err| format!("cannot ask for the provider: {err}");
    let mut stderr = io::stderr().lock();
    write!(stderr, "Provider [anthropic]: ").and_then(|()| stderr.flush()).map_err(asked)?;
    drop(stderr);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(asked)?;
    let provider = match line.trim() {
        "" => "anthropic".to_owned(),
        typed => typed.to_owned(),
    };
    print_stderr(AuthCommand::Set { provider, yes: false }.run(env)?.trim_end());
    Ok(0)
}

/// Serves the client at stdin and stdout.
async fn serve(router: Router, cwd: PathBuf) -> u8 {
    let (control_sender, mut control) = mpsc::channel(INPUTS_MAX);
    listen_for_signals(control_sender.clone());
    let (lines_sender, lines) = mpsc::channel(WAITING_MAX);
    thread::spawn(move || read_lines(|lines| lines_sender.blocking_send(lines).is_ok()));
    let (chunks_sender, chunks) = mpsc::channel(WAITING_MAX);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        let result = write_stdout(chunks);
        if result.is_err() {
            control_sender.blocking_send(ClientInput::OutputClosed).ok();
        }
        // The process may have stopped waiting.
        done.send(result).ok();
    });
    let (inputs, output) = router.connect_only_client();
    let mut bridge = Bridge::new(inputs, output.clone(), lines, chunks_sender, cwd);
    let code = tokio::select! {
        () = bridge.run() => {
            router.end(RouterEnd::EndOfInput).await;
            0
        }
        code = exit_code(&mut control) => {
            let end = async {
                router.end(RouterEnd::Stop { within: Duration::ZERO }).await;
                output.finish();
            };
            // A client that does not read is given up.
            let rest = async { tokio::join!(end, bridge.run()) };
            tokio::time::timeout(END_LIMIT, rest).await.ok();
            code
        }
    };
    drop(bridge);
    let written = tokio::time::timeout(FLUSH_LIMIT, written).await;
    let Ok(Ok(Err(err))) = written else { return code };
    // If the client has closed stdout, the rest is dropped.
    if err.kind() != io::ErrorKind::BrokenPipe {
        print_stderr(&format!("Error: cannot write to stdout: {err}"));
    }
    code.max(1)
}

fn write_stdout(mut chunks: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    while let Some(chunk) = chunks.blocking_recv() {
        stdout.write_all(&chunk).and_then(|()| stdout.flush())?;
    }
    Ok(())
}
