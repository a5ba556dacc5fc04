//! Where the agent works: the folder, and the environment of its child processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::sandbox::Confinement;
use tiller_config::settings::Settings;
use tiller_sandbox::Sandbox;
use tiller_tools::Shell;
use tiller_tools::command::BashCommand;
use tiller_tools::image::Resize;

/// The working directory of tools, and how they run commands.
pub struct Workspace {
    cwd: Arc<PathBuf>,
    /// Environment of every child process.
    env: Arc<[(String, String)]>,
    shell: Shell,
    resize: Resize,
    /// Where tools and commands run, if not wherever the user may.
    sandbox: Option<Arc<Sandbox>>,
}

impl Workspace {
    /// A workspace in this directory; `env` is added to the environment of every command.
    pub fn new(cwd: PathBuf, env: Arc<[(String, String)]>, settings: &Settings) -> Workspace {
        Workspace {
            cwd: Arc::new(cwd),
            env,
            shell: settings.shell(),
            resize: settings.resize(),
            sandbox: None,
        }
    }

    /// The same with a sandbox for this directory.
    pub fn in_sandbox(self, sandbox: Sandbox) -> Workspace {
        Workspace { sandbox: Some(Arc::new(sandbox)), ..self }
    }

    pub(crate) fn sandbox(&self) -> Option<&Arc<Sandbox>> {
        self.sandbox.as_ref()
    }

    /// Where the work of tools runs, if there is a sandbox.
    pub(crate) fn confinement(&self) -> Option<Arc<dyn Confinement>> {
        self.sandbox.clone().map(|sandbox| sandbox as Arc<dyn Confinement>)
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(crate) fn shared_cwd(&self) -> Arc<PathBuf> {
        self.cwd.clone()
    }

    pub(crate) fn env(&self) -> Arc<[(String, String)]> {
        self.env.clone()
    }

    pub(crate) fn resize(&self) -> Resize {
        self.resize
    }

    /// Changes the folder. Returns whether it is another one.
    pub(super) fn set_cwd(&mut self, cwd: PathBuf) -> bool {
        let is_other = *self.cwd != cwd;
        if is_other {
            if let Some(sandbox) = &mut self.sandbox {
                *sandbox = Arc::new(sandbox.in_folder(cwd.clone()));
            }
            self.cwd = Arc::new(cwd);
        }
        is_other
    }

    /// Returns whether anything has changed.
    pub(super) fn apply_settings(&mut self, settings: &Settings) -> bool {
        let shell = settings.shell();
        let resize = settings.resize();
        if (&self.shell, self.resize) == (&shell, resize) {
            return false;
        }
        (self.shell, self.resize) = (shell, resize);
        true
    }

    /// A shell command of the client.
    pub(super) fn command(&self, command: String) -> BashCommand {
        let cwd = self.cwd.clone();
        let env = self.env.clone();
        let shell = self.shell.clone();
        BashCommand { command, cwd, env, shell, confinement: self.confinement() }
    }

    /// Additional environment for the child processes of a tool, about the conversation.
    pub(super) fn tool_env(
        &self,
        session_id: &str,
        model: &Model,
        thinking: ThinkingLevel,
    ) -> Arc<[(String, String)]> {
        let pairs = [
            ("PI_SESSION_ID", session_id),
            ("PI_PROVIDER", &model.provider),
            ("PI_MODEL", &model.id),
            ("PI_REASONING_LEVEL", thinking.name()),
        ];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.env.iter().cloned().chain(pairs).collect()
    }
}
