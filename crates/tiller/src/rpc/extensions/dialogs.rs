//! Dialogs and notices of extensions: requests to the client, and its answers.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_agent::event::Event;
use tiller_js::world::{Dialog, DialogKind, Notice};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ExtensionInput;
use crate::extensions::host_api::no_answer;
use crate::rpc::state::SessionState;
use crate::rpc::tasks::Responder;
use crate::rpc::wire::UiAnswer;

/// Dialogs without an answer, by their ids.
#[derive(Default)]
pub(super) struct Dialogs {
    open: HashMap<String, OpenDialog>,
}

struct OpenDialog {
    kind: DialogKind,
    answer: Responder<Value>,
}

impl SessionState {
    pub(super) fn open_dialog(
        &mut self,
        dialog: Dialog,
        cancel: CancellationToken,
        answer: Responder<Value>,
    ) {
        if self.extensions.client_gone {
            return answer.respond(no_answer(&dialog.kind));
        }
        let id = Uuid::new_v4().to_string();
        self.show(id.clone(), &dialog);
        let timeout = dialog.timeout.map(Duration::from_millis);
        self.extensions.dialogs.open.insert(id.clone(), OpenDialog { kind: dialog.kind, answer });
        self.tasks.spawn(async move {
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
            ExtensionInput::DialogOver(id)
        });
    }

    /// A dialog that timed out or was cancelled gets its default answer.
    pub(super) fn close_dialog(&mut self, id: &str) {
        if let Some(open) = self.extensions.dialogs.open.remove(id) {
            open.answer.respond(no_answer(&open.kind));
        }
    }

    /// stdin is at its end: open and later dialogs get their default answer.
    pub(crate) fn client_left(&mut self) {
        self.extensions.client_gone = true;
        let open: Vec<String> = self.extensions.dialogs.open.keys().cloned().collect();
        open.iter().for_each(|id| self.close_dialog(id));
    }

    /// The client answers a dialog. Unknown and closed dialogs are ignored.
    pub(crate) fn ui_answered(&mut self, id: &str, answer: UiAnswer) {
        let Some(open) = self.extensions.dialogs.open.remove(id) else { return };
        let none = no_answer(&open.kind);
        let value = match (&open.kind, answer) {
            (DialogKind::Confirm { .. }, UiAnswer::Confirmed(yes)) => Value::Bool(yes),
            (DialogKind::Confirm { .. }, _) => none,
            (_, UiAnswer::Value(text)) => Value::String(text),
            (_, _) => none,
        };
        open.answer.respond(value);
    }

    pub(super) fn show_notice(&mut self, notice: &Notice) {
        let is_title = matches!(notice, Notice::SetTitle { .. });
        if is_title && !self.emit_titles {
            return;
        }
        self.show(Uuid::new_v4().to_string(), notice);
    }

    fn show(&mut self, id: String, request: &impl Serialize) {
        let text = serde_json::to_string(request).expect("our own shapes can be written");
        let request = RawValue::from_string(text).expect("what was written is JSON");
        self.emit(Event::ExtensionUi { id, request });
    }
}
