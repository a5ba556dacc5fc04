//! `get_sandbox`.

use tiller_agent::sandbox::{
    NetworkAccess, ReadAccess, SandboxMechanisms, SandboxMode, SandboxReport, SignalAccess,
    WriteAccess,
};
use tiller_protocol::{Label, Reply};

use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

/// What is true of the sandbox. It is tried before the response, if that has not happened yet.
pub(crate) fn get_sandbox(state: &mut SessionState, label: &Label) -> Handled {
    let Some(sandbox) = state.workspace.sandbox().cloned() else {
        return Ok(Response::Now(Reply::data(&none())));
    };
    state.respond_from_thread(label.clone(), move || Ok(Reply::data(sandbox.report())));
    Ok(Response::Later)
}

/// The report where no sandbox was requested.
fn none() -> SandboxReport {
    SandboxReport {
        mode: SandboxMode::Off,
        enforced: false,
        problem: None,
        mechanisms: SandboxMechanisms::default(),
        writes: WriteAccess::default(),
        reads: ReadAccess::default(),
        network: NetworkAccess { enforced: false, allowed: true },
        signals: SignalAccess::default(),
        not_covered: vec![
            "There is no sandbox: tools can do whatever the user can do who started tiller."
                .to_owned(),
        ],
        canary: Vec::new(),
    }
}
