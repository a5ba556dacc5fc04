//! `tiller session list` and `tiller session check FILE`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use tiller_server::clock::Clock;
use tiller_session::check::{Report, check, repair};

use crate::launch::ProcessEnv;
use crate::startup_session::one_line;

/// List and check stored sessions
#[derive(Debug, Parser)]
#[command(name = "tiller session", disable_version_flag = true)]
pub enum SessionCommand {
    /// List the sessions of this folder, newest first
    List {
        /// Include the sessions of all folders
        #[arg(long)]
        all: bool,
        /// Maximum number of sessions
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Read sessions from this folder
        #[arg(long, value_name = "DIR")]
        session_dir: Option<PathBuf>,
    },
    /// Report damage in a session file, without changing the file
    Check {
        file: PathBuf,
        /// Write what can be recovered to a new file
        #[arg(long, value_name = "NEW")]
        repair: Option<PathBuf>,
    },
}

impl SessionCommand {
    /// Runs the command. Returns the exit code: 1 if damage was found.
    pub fn run(self, env: &ProcessEnv) -> Result<u8, String> {
        match self {
            SessionCommand::List { all, limit, session_dir } => list(env, all, limit, session_dir),
            SessionCommand::Check { file, repair } => check_file(&file, repair.as_deref()),
        }
    }
}

fn list(
    env: &ProcessEnv,
    all: bool,
    limit: usize,
    session_dir: Option<PathBuf>,
) -> Result<u8, String> {
    let mut store = env.session_store(session_dir, Clock::System);
    store.chosen = store.chosen.or_else(|| env.settings().session_dir);
    let cwd = (!all).then_some(env.cwd.as_path());
    let listing = store.list(cwd, limit, None);
    let listing = listing.map_err(|err| format!("cannot list sessions: {err}"))?;
    let lines = listing.sessions.iter().map(one_line);
    print(lines.chain(listing.next.map(|_| "… and more; --limit shows them".to_owned())))?;
    Ok(0)
}

fn check_file(file: &Path, into: Option<&Path>) -> Result<u8, String> {
    let report = match into {
        Some(into) => repair(file, into, Clock::System.now()),
        None => check(file),
    };
    let Report { entries, problems, unreadable, .. } = report.map_err(|err| err.to_string())?;
    let is_sound = problems.is_empty() && unreadable.is_empty();
    let state = if is_sound { "sound" } else { "damaged" };
    let head = format!("{}: {state}, {entries} entries", file.display());
    let unreadable = unreadable.iter().map(|(id, why)| format!("  entry {id}: {why}"));
    let problems = problems.iter().map(|problem| format!("  {problem}"));
    let saved = into.map(|into| format!("  recovered content is in {}", into.display()));
    print([head].into_iter().chain(problems).chain(unreadable).chain(saved))?;
    Ok(u8::from(!is_sound))
}

fn print(lines: impl Iterator<Item = String>) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}").map_err(|err| format!("cannot write: {err}"))?;
    }
    Ok(())
}
