//! `attach` with the durable id of a session: one that is open here, or one in the database that
//! another process writes and this server follows.

use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use tiller_protocol::{Attach, AttachMode, OpenSession};
use tiller_session::SessionId;
use tokio::time::Instant;

use super::super::Shared;
use super::super::lines::label;
use super::super::session_task::LoadError;
use super::{Client, Opening};

impl Client {
    /// Attaches to the session with this durable id. The session of another process is opened for
    /// reading.
    pub(super) fn follow(&mut self, id: Option<&RawValue>, request: Attach) {
        if let Some(handle) = self.shared.with_durable_id(&request.session_id) {
            return self.attach(id, Attach { session_id: handle.to_string(), ..request });
        }
        let label = label(id, "attach");
        let Ok(durable_id) = SessionId::read(&request.session_id) else {
            return self.refuse_unknown(&label, &request.session_id);
        };
        let reservation = match self.shared.reserve() {
            Ok(reservation) => reservation,
            Err(why) => return self.refuse_room(&label, why),
        };
        let shared = self.shared.clone();
        let since = Instant::now();
        self.load_beside(async move {
            let loaded = shared.load_followed(durable_id).await;
            let loaded = loaded.map(|session| (reservation, session));
            let mode = AttachMode::Watch;
            Opening { label, is_dedicated: false, mode, since, loaded }
        });
    }
}

impl Shared {
    /// Loads a session for reading that is in the database.
    async fn load_followed(
        self: &Arc<Self>,
        id: SessionId,
    ) -> Result<super::super::session_task::NewSession, LoadError> {
        let shared = self.clone();
        let wanted = id.clone();
        let found = tokio::task::spawn_blocking(move || {
            let store = shared.opener.store()?;
            if store.has_files() {
                return Ok(None);
            }
            store.store.exact(&wanted, Path::new("")).map_err(|err| err.to_string())
        });
        let found = found.await.unwrap_or_else(|crash| Err(format!("internal error: {crash}")));
        match found {
            Ok(Some(address)) => {
                let session_path = Some(address);
                let request =
                    OpenSession { session_path, read_only: true, ..OpenSession::default() };
                self.load(request).await
            }
            Ok(None) => Err(LoadError::Unknown { session: id.to_string() }),
            Err(error) => Err(LoadError::Refused { error }),
        }
    }
}
