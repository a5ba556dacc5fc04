//! What a sandbox costs: the first call of a tool and the next ones, with `workspace-write` and
//! without a sandbox. The trial of the sandbox at the start is measured by itself.
//!
//! `cargo bench -p tiller --bench sandbox`. What approvals and sandboxes cost where they are off is
//! a matter of instructions: run `valgrind --tool=callgrind` on
//! `tiller -p --no-session --script SCRIPT Go` of two versions.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiller_agent::sandbox::{Confinement, SandboxMode};
use tiller_agent::tool::{Tool, ToolContext};
use tiller_sandbox::canary::{self, CanaryPlan};
use tiller_sandbox::{Places, Sandbox, SandboxConfig};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, plan] = &arguments[..]
        && command == "canary"
    {
        return canary::report(plan, std::io::stdout()).expect("stdout is open");
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let root = folder.path().canonicalize().expect("it exists");
    std::fs::create_dir_all(root.join("work")).expect("a folder");
    std::fs::create_dir_all(root.join("agent")).expect("a folder");
    let sandbox = Arc::new(sandbox(&root));
    let start = Instant::now();
    let report = sandbox.report();
    println!("trial at the start {:.2?}, enforced: {}", start.elapsed(), report.enforced);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let calls = [
        (tiller_tools::write::tool(), json!({"path": "a.txt", "content": "a"})),
        (tiller_tools::bash::tool(), json!({"command": "true"})),
    ];
    for (tool, arguments) in &calls {
        for confinement in [None, Some(sandbox.clone() as Arc<dyn Confinement>)] {
            let place = if confinement.is_some() { "workspace-write" } else { "no sandbox" };
            let cwd = Arc::new(root.join("work"));
            let mut times = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                let start = Instant::now();
                runtime.block_on(call(tool, arguments, &cwd, confinement.clone()));
                times.push(start.elapsed());
            }
            let first = times[0];
            println!("{} {place}: first {first:.2?}, median {:.2?}", tool.name(), median(times));
        }
    }
}

async fn call(
    tool: &Tool,
    arguments: &Value,
    cwd: &Arc<PathBuf>,
    confinement: Option<Arc<dyn Confinement>>,
) {
    let (mut cx, _shown) =
        ToolContext::new(cwd.clone(), CancellationToken::new(), false, Arc::new([]));
    cx.confinement = confinement;
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    tool.run(arguments, cx).await.expect("the call succeeds");
}

fn sandbox(root: &Path) -> Sandbox {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let places = Places {
        cwd: root.join("work"),
        home,
        agent_dir: root.join("agent"),
        session_dir: None,
        is_root: true,
    };
    let config = SandboxConfig { mode: SandboxMode::WorkspaceWrite, ..SandboxConfig::default() };
    Sandbox::new(config, places, Arc::new(run_canary))
}

fn run_canary(confinement: Arc<dyn Confinement>, plan: &CanaryPlan) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|err| err.to_string())?;
    let mut command = Command::new(program);
    command.args(["canary", &plan.to_text()]);
    let output = tiller_tools::process::output_of(command, confinement, Duration::from_secs(10));
    output.map_err(|err| err.to_string())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
