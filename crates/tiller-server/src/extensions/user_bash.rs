//! The `user_bash` hook for shell commands of the client: an extension may return the result, or
//! run the command itself. If the hook cannot run, the command is not run.

use std::time::Duration;

use serde_json::value::RawValue;
use tiller_agent::event::Event;
use tiller_agent::tool::Failure;
use tiller_js::Extensions;
use tiller_js::hook::{Operations, UserBash};
use tiller_tools::command::{BashCommand, BashOutcome};
use tokio_util::sync::CancellationToken;

use super::hooks;
use crate::tasks::Tasks;

/// How long an extension's own operations may go on after they were cancelled.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the hook. Returns nothing if the command is to be run as usual.
pub(crate) async fn decide(
    host: &Extensions,
    bash: &BashCommand,
    hidden: bool,
    tasks: &Tasks,
    id: Option<Box<RawValue>>,
    cancel: &CancellationToken,
) -> Result<Option<BashOutcome>, Failure> {
    let hook = UserBash {
        command: bash.command.clone(),
        exclude_from_context: hidden,
        cwd: bash.cwd.display().to_string(),
    };
    let result = hooks::ask(host, hook, cancel).await;
    let decided = result.map_err(|refused| Failure::new(refused.reason))?;
    if let Some(result) = decided.result {
        let outcome = serde_json::from_value(result);
        return outcome.map(Some).map_err(|err| Failure::new(err.to_string()));
    }
    match decided.operations {
        Some(operations) => run(host, operations, bash, tasks, id, cancel).await.map(Some),
        None => Ok(None),
    }
}

/// Runs the command through the extension's operations, and forwards its output.
async fn run(
    host: &Extensions,
    operations: Operations,
    bash: &BashCommand,
    tasks: &Tasks,
    id: Option<Box<RawValue>>,
    cancel: &CancellationToken,
) -> Result<BashOutcome, Failure> {
    let cwd = bash.cwd.display().to_string();
    let (mut deltas, running) =
        host.run_operations(&operations, &bash.command, &cwd, cancel.clone());
    tokio::pin!(running);
    let overdue = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::pin!(overdue);
    loop {
        tokio::select! {
            biased;
            Some(delta) = deltas.next() => tasks.send_output(Event::BashUpdate { id: id.clone(), delta }).await,
            result = &mut running => {
                let outcome = result.map_err(|refused| Failure::new(refused.reason))?;
                let outcome = serde_json::from_value(outcome);
                return outcome.map_err(|err| Failure::new(err.to_string()));
            }
            () = &mut overdue => return Ok(BashOutcome { cancelled: true, ..BashOutcome::default() }),
        }
    }
}
