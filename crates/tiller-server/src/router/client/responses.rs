//! The responses of the server itself to a client.

use serde::Serialize;
use serde_json::value::RawValue;
use tiller_protocol::{ErrorCode, InUseData, Label, Refusal, RefusalKind, Response};

use super::Client;
use crate::router::NoRoom;
use crate::router::lines::{json, raw, refusal_line, success};
use crate::router::session_task::LoadError;

impl Client {
    pub(super) fn respond(&mut self, id: Option<&RawValue>, command: &str, data: &impl Serialize) {
        self.output.line(&success(id, command, data));
    }

    pub(super) fn refuse(&mut self, id: Option<&RawValue>, refusal: &Refusal) {
        self.output.line(&refusal_line(id, refusal));
    }

    pub(super) fn refuse_with(
        &mut self,
        id: Option<&RawValue>,
        command: &str,
        code: ErrorCode,
        error: String,
    ) {
        let refusal = Refusal {
            command: command.to_owned(),
            kind: RefusalKind::Refused,
            error,
            code: Some(code),
        };
        self.refuse(id, &refusal);
    }

    pub(super) fn refuse_unknown(&mut self, label: &Label, handle: &str) {
        let error = format!("No open session {handle:?}");
        self.refuse_with(label.id.as_deref(), label.command, ErrorCode::UnknownSession, error);
    }

    pub(super) fn refuse_room(&mut self, label: &Label, why: NoRoom) {
        let (code, error) = match why {
            NoRoom::Stopping => {
                (ErrorCode::ServerStopping, "The server is about to end".to_owned())
            }
            NoRoom::TooMany(max) => {
                let error = format!("{max} sessions are open already (--max-sessions)");
                (ErrorCode::TooManySessions, error)
            }
        };
        self.refuse_with(label.id.as_deref(), label.command, code, error);
    }

    pub(super) fn refuse_opening(&mut self, label: &Label, why: &LoadError) {
        let error = why.text();
        let in_use = match why {
            LoadError::Refused(refused) => refused.in_use.as_deref(),
            LoadError::TooManyExtensions { .. } => {
                let code = ErrorCode::TooManySessions;
                return self.refuse_with(label.id.as_deref(), label.command, code, error);
            }
        };
        let Some(file) = in_use else {
            let code = ErrorCode::CannotOpen;
            return self.refuse_with(label.id.as_deref(), label.command, code, error);
        };
        let mut response = Response::refusal(label.id.as_deref(), label.command, &error)
            .with_code(Some(ErrorCode::SessionInUse));
        if let Some(handle) = self.shared.with_file(file) {
            response.data = Some(raw(&InUseData { session_id: handle.to_string() }));
        }
        self.output.line(&json(&response));
    }
}
