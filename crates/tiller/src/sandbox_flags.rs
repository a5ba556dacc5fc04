//! The flags of the sandbox, and the sandbox that they and the settings ask for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use tiller_agent::sandbox::{Confinement, SandboxMode};
use tiller_config::project::Project;
use tiller_config::settings::{Scope, Settings, resolve};
use tiller_sandbox::canary::CanaryPlan;
use tiller_sandbox::{Places, Sandbox, SandboxConfig};

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SandboxFlags {
    /// What tools may change: off, read-only, workspace-write
    #[arg(long, help_heading = "Sandbox", value_name = "MODE", value_parser = mode)]
    sandbox: Option<SandboxMode>,
    /// Whether tools may use the network: on or off
    #[arg(
        long,
        help_heading = "Sandbox",
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true
    )]
    sandbox_network: Option<NetworkSwitch>,
    /// A further folder that tools may change
    #[arg(long, help_heading = "Sandbox", value_name = "DIR")]
    sandbox_write: Vec<PathBuf>,
    /// Run tools although something is not enforced
    #[arg(long, help_heading = "Sandbox")]
    sandbox_best_effort: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum NetworkSwitch {
    On,
    Off,
}

fn mode(text: &str) -> Result<SandboxMode, String> {
    SandboxMode::read(text).ok_or_else(|| {
        let names = SandboxMode::ALL.map(SandboxMode::name);
        format!("expected one of: {}", names.join(", "))
    })
}

/// How long the canary may take.
const CANARY_MAX: Duration = Duration::from_secs(10);

impl SandboxFlags {
    /// What these flags and the settings ask for.
    fn config(&self, project: &Project, settings: &Settings, cwd: &Path) -> SandboxConfig {
        let of_project: Option<ProjectSandbox> = project.layers().value(Scope::Project, "sandbox");
        let of_project = of_project.unwrap_or_default();
        let of_settings = &settings.sandbox;
        let mode = self.sandbox.map_or(of_settings.mode, |mode| mode.max(of_project.mode));
        let network = match self.sandbox_network {
            Some(switch) => switch == NetworkSwitch::On && of_project.network != Some(false),
            None => of_settings.network,
        };
        let home = project.dirs().home.as_deref();
        let absolute = |root: &PathBuf| real(&resolve(&root.to_string_lossy(), cwd, home));
        let roots = of_settings.write_roots.iter().chain(&self.sandbox_write);
        SandboxConfig {
            mode,
            network,
            write_roots: roots.map(absolute).collect(),
            best_effort: self.sandbox_best_effort || of_settings.best_effort,
        }
    }

    /// The same with the mode `workspace-write` where neither flags nor settings name one.
    pub(crate) fn or_workspace_write(mut self, settings: &Settings) -> SandboxFlags {
        if settings.sandbox.mode == SandboxMode::Off {
            self.sandbox.get_or_insert(SandboxMode::WorkspaceWrite);
        }
        self
    }

    /// The sandbox for this directory, if one is asked for.
    pub(crate) fn sandbox(
        &self,
        project: &Project,
        settings: &Settings,
        cwd: &Path,
        session_dir: Option<PathBuf>,
    ) -> Option<Sandbox> {
        let config = self.config(project, settings, cwd);
        if config.mode == SandboxMode::Off {
            return None;
        }
        let dirs = project.dirs();
        let places = Places {
            cwd: real(cwd),
            home: dirs.home.as_deref().map(real),
            agent_dir: real(&dirs.agent_dir),
            session_dir: session_dir.as_deref().map(real),
            is_root: nix::unistd::geteuid().is_root(),
        };
        Some(Sandbox::new(config, places, Arc::new(run_canary)))
    }
}

/// A project's part of `sandbox`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectSandbox {
    mode: SandboxMode,
    network: Option<bool>,
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Starts this program as the canary.
fn run_canary(confinement: Arc<dyn Confinement>, plan: &CanaryPlan) -> Result<String, String> {
    let cannot = |err: std::io::Error| format!("the canary cannot be started: {err}");
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(["sandbox", "canary", &plan.to_text()]).env_clear();
    tiller_tools::process::output_of(command, confinement, CANARY_MAX).map_err(cannot)
}
