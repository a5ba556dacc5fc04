//! Dialogs and notices of extensions: requests to the client, and its answers.

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

struct OpenDialog {
    kind: DialogKind,
    answer: Responder<Value>,
}

impl Dialogs {
    pub(super) fn new(emits_titles: bool) -> Dialogs {
        Dialogs { open: HashMap::new(), is_client_gone: false, emits_titles }
    }

    /// A dialog that timed out or was cancelled gets its default answer. Returns whether it was open.
    fn close(&mut self, id: &str) -> bool {
        let Some(open) = self.open.remove(id) else { return false };
        open.answer.respond(no_answer(&open.kind));
        true
    }

    /// stdin is at its end: open and later dialogs get their default answer.
    fn client_left(&mut self) {
        self.is_client_gone = true;
        for (_, open) in self.open.drain() {
            open.answer.respond(no_answer(&open.kind));
        }
    }

    /// The client answers a dialog. Unknown and closed dialogs are ignored. Returns whether it was
    /// open.
    fn answer(&mut self, id: &str, answer: UiAnswer) -> bool {
        let Some(open) = self.open.remove(id) else { return false };
        let none = no_answer(&open.kind);
        let value = match (&open.kind, answer) {
            (DialogKind::Confirm { .. }, UiAnswer::Confirmed(yes)) => Value::Bool(yes),
            (DialogKind::Confirm { .. }, _) => none,
            (_, UiAnswer::Value(text)) => Value::String(text),
            (_, _) => none,
        };
        open.answer.respond(value);
        true
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
    let id = Uuid::new_v4().to_string();
    show(state, id.clone(), UiRequest::Dialog(dialog.clone()));
    let timeout = dialog.timeout.map(Duration::from_millis);
    state.extensions.dialogs.open.insert(id.clone(), OpenDialog { kind: dialog.kind, answer });
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

pub(crate) fn ui_answered(state: &mut SessionState, id: &str, answer: UiAnswer) {
    if state.extensions.dialogs.answer(id, answer) {
        state.outbox.dialog_closed(id.to_owned());
    }
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
