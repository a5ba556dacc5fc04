//! Opens sessions for the router as the command line would: each has its own flags, working
//! directory, project and environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tiller_config::start_error::StartError;
use tiller_protocol::OpenSession;
use tiller_server::clock::Clock;
use tiller_server::session_store::SessionStore;
use tiller_server::{OpenError, ServerConfig, SessionOpener};
use tiller_session::Error;

use crate::api_key;
use crate::args::{Args, EarlyExit};
use crate::launch::{Launch, NotLaunched, ProcessEnv};
use crate::startup_session::is_missing_or_empty;

/// Starts sessions with the flags that all of them share.
pub struct Opener {
    /// The command line of every session, without the program's name.
    flags: Vec<OsString>,
    env: ProcessEnv,
    session_dir: Option<PathBuf>,
    /// The key of the flags, which may have come from a file or from stdin.
    api_key: Option<String>,
}

impl Opener {
    /// Checks the flags. Those that select a session, or are for another mode, are refused.
    pub fn new(flags: Vec<OsString>, env: ProcessEnv) -> Result<Opener, StartError> {
        let mut args = read(&flags).map_err(StartError::Usage)?;
        if let Some(flag) = refused_flag(&args) {
            let why = format!("{flag} cannot be used with many sessions");
            return Err(StartError::Usage(why));
        }
        api_key::take(&mut args)?;
        let env = env.with_store(args.store.as_deref());
        Ok(Opener { flags, env, session_dir: args.session_dir, api_key: args.api_key })
    }

    /// The arguments of a session.
    fn args(&self, request: &OpenSession) -> Result<Args, String> {
        let mut flags = self.flags.clone();
        let mut add = |name: &str, value: &Path| {
            flags.push(name.into());
            flags.push(value.into());
        };
        if let (Some(provider), Some(model)) = (&request.provider, &request.model_id) {
            add("--provider", Path::new(provider));
            add("--model", Path::new(model));
        }
        if let Some(level) = request.thinking_level {
            add("--thinking", Path::new(level.name()));
        }
        if let Some(name) = &request.name {
            add("--name", Path::new(name));
        }
        if let Some(path) = &request.session_path {
            add("--session", path);
        }
        if let Some(id) = &request.session_id {
            add("--resume", Path::new(id));
        }
        if let Some(tools) = &request.tools {
            if tools.is_empty() {
                flags.push("--no-tools".into());
            } else {
                add("--tools", Path::new(&tools.join(",")));
            }
        }
        if request.in_memory {
            flags.push("--no-session".into());
        }
        if request.read_only {
            flags.push("--read-only".into());
        }
        let mut args = read(&flags)?;
        args.api_key = self.api_key.clone();
        args.api_key_file = None;
        if request.is_stored_session() && request.model_id.is_none() {
            // A stored session has its own model; the flags are for new ones.
            args.model = None;
            args.provider = None;
        }
        Ok(args)
    }

    /// The environment of a session.
    fn env(&self, request: &OpenSession) -> Result<ProcessEnv, String> {
        let cwd = request.cwd.clone().unwrap_or_else(|| self.env.cwd.clone());
        if !cwd.is_dir() {
            return Err(format!("Working directory not found: {}", cwd.display()));
        }
        Ok(self.env.clone().in_folder(cwd))
    }

    /// The location of the stored session that is asked for.
    fn find(&self, request: &OpenSession, cwd: &Path) -> Result<Option<PathBuf>, String> {
        match (&request.session_path, &request.session_id) {
            (Some(path), _) => {
                let store = self.store()?;
                let location = store.store.location(path, cwd);
                // As a flag, a missing file would become a new session.
                if store.has_files() && is_missing_or_empty(&location) {
                    return Err(Error::NotFound(location).to_string());
                }
                Ok(Some(location))
            }
            (None, Some(id)) => {
                self.store()?.store.find(id, cwd).map(Some).map_err(|err| err.to_string())
            }
            (None, None) => Ok(None),
        }
    }
}

impl SessionOpener for Opener {
    fn open(&self, request: &OpenSession) -> Result<ServerConfig, OpenError> {
        let other = |error| OpenError { error, in_use: None };
        let env = self.env(request).map_err(other)?;
        let location = self.find(request, &env.cwd).map_err(other)?;
        let request = OpenSession { session_path: location, session_id: None, ..request.clone() };
        let args = self.args(&request).map_err(other)?;
        match Launch::prepare(&args, env) {
            Ok(launch) => Ok(launch.config),
            Err(NotLaunched { why, in_use, .. }) => {
                Err(OpenError { error: why.message().to_owned(), in_use })
            }
        }
    }

    fn location(&self, request: &OpenSession) -> Option<PathBuf> {
        let cwd = request.cwd.as_ref().unwrap_or(&self.env.cwd);
        // What is wrong with the request is reported when the session is opened.
        self.find(request, cwd).ok().flatten()
    }

    fn store(&self) -> Result<SessionStore, String> {
        let settings = self.env.settings();
        self.env.session_store(self.session_dir.clone(), &settings, Clock::System)
    }
}

fn read(flags: &[OsString]) -> Result<Args, String> {
    let mode = ["tiller", "--mode", "rpc"].map(OsString::from);
    match Args::read(mode.into_iter().chain(flags.iter().cloned())) {
        Ok(args) => Ok(args),
        Err(EarlyExit::UsageError(why)) => Err(why),
        Err(EarlyExit::Help(..)) => {
            Err("--help is not for a session; see `tiller serve --help`".to_owned())
        }
    }
}

/// A flag that makes no sense for each of many sessions.
fn refused_flag(args: &Args) -> Option<&'static str> {
    [
        ("--session", args.session.is_some()),
        ("--session-id", args.session_id.is_some()),
        ("--resume", args.resume.is_some()),
        ("--continue", args.r#continue),
        ("--fork", args.fork.is_some()),
        ("--export", args.export.is_some()),
        ("--list-models", args.list_models.is_some()),
        ("--print", args.print),
        ("--cwd", args.cwd.is_some()),
        ("a message", !args.messages.is_empty()),
    ]
    .into_iter()
    .find_map(|(flag, is_given)| is_given.then_some(flag))
}
