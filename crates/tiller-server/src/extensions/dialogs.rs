//! Dialogs and notices of extensions, and questions about tool calls: requests to the client, and
//! its answers.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tiller_agent::dialog::UiRequest;
use tiller_agent::event::Event;
use tiller_js::host_api::{Dialog, DialogKind, Notice};
use tiller_protocol::UiAnswer;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ExtensionTaskDone;
use crate::approvals::{self, OpenApproval};
use crate::extensions::host_api::no_answer;
use crate::state::SessionState;
use crate::tasks::Responder;

/// Dialogs and notices for the client.
pub(super) struct Dialogs {
    /// Dialogs without an answer, by their ids.
    open: HashMap<String, OpenDialog>,
    /// stdin is at its end: dialogs get their default answer.
    is_client_gone: bool,
    /// Whether `setTitle` is sent to the client.
    emits_titles: bool,
}

enum OpenDialog {
    /// An extension waits for the answer.
    Extension { kind: DialogKind, answer: Responder<Value> },
    /// A tool call waits for the user's decision.
    Approval(Box<OpenApproval>),
}

impl Dialogs {
    pub(super) fn new(emits_titles: bool) -> Dialogs {
        Dialogs { open: HashMap::new(), is_client_gone: false, emits_titles }
    }

    /// A dialog that timed out or was cancelled gets its default answer. Returns whether it was open.
    fn close(&mut self, id: &str) -> bool {
        match self.open.remove(id) {
            Some(OpenDialog::Extension { kind, answer }) => answer.respond(no_answer(&kind)),
            Some(OpenDialog::Approval(open)) => open.expire(),
            None => return false,
        }
        true
    }

    /// stdin is at its end: open and later dialogs get their default answer.
    fn client_left(&mut self) {
        self.is_client_gone = true;
        for (_, open) in self.open.drain() {
            match open {
                OpenDialog::Extension { kind, answer } => answer.respond(no_answer(&kind)),
                OpenDialog::Approval(open) => open.client_left(),
            }
        }
    }

    /// Takes the open questions about tool calls, with their ids.
    fn take_approvals(&mut self) -> Vec<(String, OpenApproval)> {
        let is_approval =
            |_: &String, open: &mut OpenDialog| matches!(open, OpenDialog::Approval(_));
        let approvals = self.open.extract_if(is_approval);
        let taken = approvals.filter_map(|(id, open)| match open {
            OpenDialog::Approval(open) => Some((id, *open)),
            OpenDialog::Extension { .. } => None,
        });
        taken.collect()
    }
}

/// The answer of an extension's dialog.
fn value_of(kind: &DialogKind, answer: UiAnswer) -> Value {
    match (kind, answer) {
        (DialogKind::Confirm { .. }, UiAnswer::Confirmed(yes)) => Value::Bool(yes),
        (DialogKind::Confirm { .. }, _) => no_answer(kind),
        (_, UiAnswer::Value(text) | UiAnswer::Reasoned { value: text, .. }) => Value::String(text),
        (_, _) => no_answer(kind),
    }
}

pub(super) fn open_dialog(
    state: &mut SessionState,
    dialog: Dialog,
    cancel: CancellationToken,
    answer: Responder<Value>,
) {
    if state.extensions.dialogs.is_client_gone {
        return answer.respond(no_answer(&dialog.kind));
    }
    let open = OpenDialog::Extension { kind: dialog.kind.clone(), answer };
    open_any(state, dialog, cancel, open);
}

/// Asks the user about a tool call.
pub(crate) fn open_approval(
    state: &mut SessionState,
    dialog: Dialog,
    cancel: CancellationToken,
    open: OpenApproval,
) {
    open_any(state, dialog, cancel, OpenDialog::Approval(Box::new(open)));
}

fn open_any(state: &mut SessionState, dialog: Dialog, cancel: CancellationToken, open: OpenDialog) {
    let id = Uuid::new_v4().to_string();
    let timeout = dialog.timeout.map(Duration::from_millis);
    show(state, id.clone(), UiRequest::Dialog(dialog));
    state.extensions.dialogs.open.insert(id.clone(), open);
    state.tasks.spawn(async move {
        let expired = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = expired => {}
        }
        ExtensionTaskDone::DialogOver(id)
    });
}

/// stdin is at its end.
pub(crate) fn client_left(state: &mut SessionState) {
    state.extensions.dialogs.client_left();
}

/// No client can answer questions about tool calls any more.
pub(crate) fn deny_approvals(state: &mut SessionState) {
    for (id, open) in state.extensions.dialogs.take_approvals() {
        open.client_left();
        state.outbox.dialog_closed(id);
    }
}

/// The client answers a dialog. Unknown and closed dialogs are ignored.
pub(crate) fn ui_answered(state: &mut SessionState, id: &str, answer: UiAnswer) {
    match state.extensions.dialogs.open.remove(id) {
        Some(OpenDialog::Extension { kind, answer: responder }) => {
            responder.respond(value_of(&kind, answer));
        }
        Some(OpenDialog::Approval(open)) => approvals::answered(state, *open, answer),
        None => return,
    }
    state.outbox.dialog_closed(id.to_owned());
}

/// A dialog has timed out or was cancelled.
pub(super) fn dialog_over(state: &mut SessionState, id: &str) {
    if state.extensions.dialogs.close(id) {
        state.outbox.dialog_closed(id.to_owned());
    }
}

pub(super) fn show_notice(state: &mut SessionState, notice: Notice) {
    let is_title = matches!(notice, Notice::SetTitle { .. });
    if is_title && !state.extensions.dialogs.emits_titles {
        return;
    }
    show(state, Uuid::new_v4().to_string(), UiRequest::Notice(notice));
}

fn show(state: &mut SessionState, id: String, request: UiRequest) {
    state.emit(Event::ExtensionUi { id, request: Box::new(request) });
}
