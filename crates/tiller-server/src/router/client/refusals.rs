//! The commands that the server refuses, and its reasons.

use serde_json::value::RawValue;
use tiller_protocol::{
    ErrorCode, InUseData, Label, Refusal, RefusalKind, Request, Response, SessionOwner,
};
use tiller_session::Owner;

use super::super::NoRoom;
use super::super::lines::{json, raw, refusal_line};
use super::super::session_task::LoadError;
use super::Client;
use crate::lines::Line;

impl Client {
    pub(super) fn refuse_line(&mut self, line: Line, code: ErrorCode, error: &str) {
        let Some(Request { id, command, .. }) = Request::read(line) else { return };
        let name = match &command {
            Ok(command) => command.name().to_owned(),
            Err(refusal) => refusal.command.clone(),
        };
        self.refuse_with(id.as_deref(), &name, code, error.to_owned());
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

    pub(super) fn refuse_watching(&mut self, id: Option<&RawValue>, command: &str) {
        let error = "This client watches the session. Attach with the mode `control` to change \
                     something";
        self.refuse_with(id, command, ErrorCode::Watching, error.to_owned());
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
            LoadError::Refused { .. } => {
                let code = ErrorCode::CannotOpen;
                return self.refuse_with(label.id.as_deref(), label.command, code, error);
            }
            LoadError::TooManyExtensions { .. } => {
                let code = ErrorCode::TooManySessions;
                return self.refuse_with(label.id.as_deref(), label.command, code, error);
            }
            LoadError::Unknown { .. } => {
                let code = ErrorCode::UnknownSession;
                return self.refuse_with(label.id.as_deref(), label.command, code, error);
            }
            LoadError::OpenHere { handle, .. } => {
                InUseData { session_id: Some(handle.to_string()), owner: None }
            }
            LoadError::OpenElsewhere { owner, .. } => {
                InUseData { session_id: None, owner: owner.as_deref().map(session_owner) }
            }
        };
        let mut response = Response::refusal(label.id.as_deref(), label.command, &error)
            .with_code(Some(ErrorCode::SessionInUse));
        if in_use != InUseData::default() {
            response.data = Some(raw(&in_use));
        }
        self.output.line(&json(&response));
    }
}

/// The owner of a session on the wire.
fn session_owner(owner: &Owner) -> SessionOwner {
    let Owner { program, pid, host, started, address } = owner.clone();
    SessionOwner { program, pid, host, started, address }
}
