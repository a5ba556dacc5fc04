//! `tiller sandbox check`: what a sandbox prevents on this machine; and the canary that finds out.

use clap::Parser;
use tiller_agent::sandbox::SandboxReport;
use tiller_config::project::{Project, ResourceFlags};
use tiller_sandbox::canary;

use crate::launch::ProcessEnv;
use crate::sandbox_flags::SandboxFlags;
use crate::session_command::print;

/// Find out what the sandbox prevents on this machine
#[derive(Debug, Parser)]
#[command(name = "tiller sandbox", disable_version_flag = true)]
pub enum SandboxCommand {
    /// Try to leave the sandbox, and show what happened
    Check(CheckArgs),
    /// Make the attempts; the check runs it in the sandbox
    #[command(hide = true)]
    Canary {
        /// What to try, as JSON
        plan: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    flags: SandboxFlags,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl SandboxCommand {
    /// Runs the command. Returns the exit code: 1 if the sandbox is not enforced.
    pub fn run(self, env: &ProcessEnv) -> Result<u8, String> {
        match self {
            SandboxCommand::Canary { plan } => {
                let mut output = Vec::new();
                canary::report(&plan, &mut output).map_err(|err| err.to_string())?;
                print([String::from_utf8_lossy(&output).trim().to_owned()].into_iter())?;
                Ok(0)
            }
            SandboxCommand::Check(CheckArgs { flags, json }) => {
                tiller_tools::process::install();
                let project = Project::find(env.dirs(), ResourceFlags::default());
                let settings = project.settings();
                let dir = settings.session_dir.clone();
                let flags = flags.or_workspace_write(&settings);
                let sandbox = flags.sandbox(&project, &settings, &env.cwd, dir);
                let sandbox = sandbox.ok_or("the mode is off: name one with --sandbox")?;
                let report = sandbox.report();
                let text = if json {
                    serde_json::to_string_pretty(report).map_err(|err| err.to_string())?
                } else {
                    described(report)
                };
                print([text].into_iter())?;
                Ok(u8::from(!report.enforced))
            }
        }
    }
}

fn described(report: &SandboxReport) -> String {
    let word = |enforced: bool| if enforced { "yes" } else { "NO" };
    let mut lines = vec![
        format!("mode        {}", report.mode.name()),
        format!("enforced    {}", word(report.enforced)),
    ];
    lines.extend(report.problem.iter().map(|problem| format!("problem     {problem}")));
    lines.push(format!("landlock    version {}", report.mechanisms.landlock));
    lines.push(format!("writes      enforced: {}", word(report.writes.enforced)));
    lines.extend(report.writes.roots.iter().map(|root| format!("            {}", root.display())));
    lines.push(format!("reads       enforced: {}", word(report.reads.enforced)));
    lines.push(if report.network.allowed {
        "network     on".to_owned()
    } else {
        format!("network     off, enforced: {}", word(report.network.enforced))
    });
    lines.push(format!("signals     enforced: {}", word(report.signals.enforced)));
    lines.push(String::new());
    for result in &report.canary {
        let outcome = if result.blocked { "as it should be" } else { "NOT BLOCKED" };
        let detail = result.detail.iter().map(|detail| format!(" ({detail})")).collect::<String>();
        lines.push(format!("tried to {}: {outcome}{detail}", result.attempt));
    }
    lines.push("\nNot covered:".to_owned());
    lines.extend(report.not_covered.iter().map(|sentence| format!("- {sentence}")));
    lines.join("\n")
}
