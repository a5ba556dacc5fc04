//! `tiller session`: lists, checks, moves and deletes stored sessions.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use tiller_server::clock::Clock;
use tiller_session::check::{Report, check, repair};
use tiller_session::list::ListQuery;
use tiller_session::transfer::{self, Transfer};
use tiller_session::{DatabaseStore, Store};

use crate::launch::ProcessEnv;
use crate::startup_session::one_line;
use crate::stores::{NO_DATABASE, StoreChoice};

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
        /// Read sessions from this database, or from `files` [default: TILLER_STORE]
        #[arg(long, value_name = "URL")]
        store: Option<String>,
        /// Only sessions with a message that has these words, or words that begin with them
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
    },
    /// Write a session of the database to a file, which pi can read
    Export {
        /// The session's id, or its beginning
        session: String,
        /// The new file [default: named after the session, in this folder]
        file: Option<PathBuf>,
        /// The database [default: TILLER_STORE]
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Store the session of a file in the database; the file stays
    Import {
        file: PathBuf,
        /// The database [default: TILLER_STORE]
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Delete a stored session that no process has open
    Delete {
        /// A file, an id, or the beginning of an id
        session: String,
        /// The database, or `files` [default: TILLER_STORE]
        #[arg(long, value_name = "URL")]
        store: Option<String>,
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
        let done = self.carry_out(env);
        env.databases().close();
        done
    }

    fn carry_out(self, env: &ProcessEnv) -> Result<u8, String> {
        match self {
            SessionCommand::List { all, limit, session_dir, store, search } => {
                let env = env.clone().with_store(store.as_deref());
                let cwd = (!all).then(|| env.cwd.clone());
                let query = ListQuery { cwd, limit, text: search, ..ListQuery::default() };
                list(&env, session_dir, &query)
            }
            SessionCommand::Check { file, repair } => check_file(&file, repair.as_deref()),
            SessionCommand::Export { session, file, store } => {
                let env = env.clone().with_store(store.as_deref());
                export(&env, &session, file)
            }
            SessionCommand::Import { file, store } => {
                import(&env.clone().with_store(store.as_deref()), &file)
            }
            SessionCommand::Delete { session, store } => {
                delete(&env.clone().with_store(store.as_deref()), &session)
            }
        }
    }
}

fn list(env: &ProcessEnv, session_dir: Option<PathBuf>, query: &ListQuery) -> Result<u8, String> {
    let store = env.session_store(session_dir, &env.settings(), Clock::System)?;
    let listing = store.store.list(query).map_err(|err| err.to_string())?;
    let lines = listing.sessions.iter().map(one_line);
    print(lines.chain(listing.next.map(|_| "… and more; --limit shows them".to_owned())))?;
    Ok(0)
}

fn export(env: &ProcessEnv, session: &str, file: Option<PathBuf>) -> Result<u8, String> {
    let store = database(env)?;
    let address = store.find(session, &env.cwd).map_err(|err| err.to_string())?;
    let stored = store.open_read_only(&address).map_err(|err| err.to_string())?;
    let name = || PathBuf::from(format!("{}.jsonl", stored.id()));
    let to = env.cwd.join(file.unwrap_or_else(name));
    let done = transfer::export(&store, &address, &to).map_err(|err| err.to_string())?;
    print([line_of(&done)].into_iter())?;
    Ok(0)
}

fn import(env: &ProcessEnv, file: &Path) -> Result<u8, String> {
    let store = database(env)?;
    let done = transfer::import(&store, &env.cwd.join(file)).map_err(|err| err.to_string())?;
    print([line_of(&done)].into_iter())?;
    Ok(0)
}

fn line_of(done: &Transfer) -> String {
    let Transfer { id, to, lines } = done;
    format!("Session {id} is in {}: {lines} lines and its header", to.display())
}

fn delete(env: &ProcessEnv, session: &str) -> Result<u8, String> {
    let store = env.session_store(None, &env.settings(), Clock::System)?.store;
    let location = store.find(session, &env.cwd).map_err(|err| err.to_string())?;
    store.delete(&location).map_err(|err| err.to_string())?;
    print([format!("Deleted {}", location.display())].into_iter())?;
    Ok(0)
}

/// The database that is meant.
fn database(env: &ProcessEnv) -> Result<DatabaseStore, String> {
    match env.store_choice(false, &env.settings())? {
        StoreChoice::Database(url) => {
            env.databases().database_store(&url, env.owner(Clock::System))
        }
        StoreChoice::Files => Err(NO_DATABASE.to_owned()),
    }
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

pub(crate) fn print(lines: impl Iterator<Item = String>) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}").map_err(|err| format!("cannot write: {err}"))?;
    }
    Ok(())
}
