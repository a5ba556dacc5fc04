//! The way of a session from `session/new`, `session/load` or `session/resume` to its answer.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    AuthenticateResponse, Error, ErrorCode, LoadSessionRequest, NewSessionRequest, RequestId,
    ResumeSessionRequest, SessionId,
};
use tiller_protocol::{
    ErrorCode as Code, InUseData, OpenSession, Response, ServerCommand, SetMcpServers,
};

use crate::json_rpc::{error, internal, invalid_params};
use crate::mcp_servers::set_mcp_servers;

/// A request that opens a session.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest {
    pub(crate) request: RequestId,
    pub(crate) kind: OpenKind,
    pub(crate) cwd: PathBuf,
    pub(crate) mcp_servers: Option<SetMcpServers>,
    /// The client has cancelled the request meanwhile.
    pub(crate) is_cancelled: bool,
    /// The client has the session open.
    pub(crate) is_open_already: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpenKind {
    New,
    /// The conversation is replayed.
    Load(SessionId),
    Resume(SessionId),
    /// `authenticate`: a session in memory, to learn whether there is a model with a key.
    Authenticate,
}

impl OpenRequest {
    pub(crate) fn new(
        request: &RequestId,
        params: NewSessionRequest,
        here: &Path,
    ) -> Result<Self, Error> {
        Ok(OpenRequest {
            request: request.clone(),
            kind: OpenKind::New,
            cwd: only_folder(&params.cwd, &params.additional_directories, here)?,
            mcp_servers: set_mcp_servers(params.mcp_servers)?,
            is_cancelled: false,
            is_open_already: false,
        })
    }

    pub(crate) fn load(
        request: &RequestId,
        params: LoadSessionRequest,
        here: &Path,
    ) -> Result<Self, Error> {
        Ok(OpenRequest {
            request: request.clone(),
            kind: OpenKind::Load(stored(params.session_id)?),
            cwd: only_folder(&params.cwd, &params.additional_directories, here)?,
            mcp_servers: set_mcp_servers(params.mcp_servers)?,
            is_cancelled: false,
            is_open_already: false,
        })
    }

    pub(crate) fn resume(
        request: &RequestId,
        params: ResumeSessionRequest,
        here: &Path,
    ) -> Result<Self, Error> {
        Ok(OpenRequest {
            request: request.clone(),
            kind: OpenKind::Resume(stored(params.session_id)?),
            cwd: only_folder(&params.cwd, &params.additional_directories, here)?,
            mcp_servers: set_mcp_servers(params.mcp_servers)?,
            is_cancelled: false,
            is_open_already: false,
        })
    }

    pub(crate) fn authenticate(request: &RequestId) -> Self {
        OpenRequest {
            request: request.clone(),
            kind: OpenKind::Authenticate,
            cwd: PathBuf::new(),
            mcp_servers: None,
            is_cancelled: false,
            is_open_already: false,
        }
    }

    /// The stored session that is asked for.
    pub(crate) fn stored_session(&self) -> Option<&SessionId> {
        match &self.kind {
            OpenKind::Load(id) | OpenKind::Resume(id) => Some(id),
            OpenKind::New | OpenKind::Authenticate => None,
        }
    }

    pub(crate) fn command(&self) -> ServerCommand {
        let is_check = self.kind == OpenKind::Authenticate;
        ServerCommand::OpenSession(OpenSession {
            session_id: self.stored_session().map(|id| id.to_string()),
            cwd: (!is_check).then(|| self.cwd.clone()),
            in_memory: is_check,
            ..OpenSession::default()
        })
    }

    /// Why the session could not be opened.
    pub(crate) fn refusal(&self, response: &Response<'_>) -> Error {
        let why = response.error.as_deref().unwrap_or("the session could not be opened");
        let Some(id) = self.stored_session() else { return internal(why) };
        match response.code {
            Some(Code::CannotOpen) => error(ErrorCode::ResourceNotFound, why),
            Some(Code::SessionInUse) => {
                let data = response.data.as_ref().and_then(|data| data.read::<InUseData>().ok());
                match data.and_then(|data| data.session_id) {
                    // The server takes the beginning of an id, and ACP does not.
                    Some(_) => not_found(id),
                    None => internal(why),
                }
            }
            _ => internal(why),
        }
    }
}

/// There is no model to send a request to.
pub(crate) fn no_key() -> Error {
    error(
        ErrorCode::AuthRequired,
        "no model can be used: set the API key of a provider in the environment of tiller, such as \
         ANTHROPIC_API_KEY, or store one with `tiller auth set PROVIDER`",
    )
}

pub(crate) fn authenticated() -> AuthenticateResponse {
    AuthenticateResponse::new()
}

pub(crate) fn not_found(id: &SessionId) -> Error {
    error(ErrorCode::ResourceNotFound, format!("there is no session {id}"))
}

/// The working directory, which is the only folder that a session has. It should be absolute, but some
/// clients send `.`: then it is the folder in which tiller was started.
fn only_folder(cwd: &Path, others: &[PathBuf], here: &Path) -> Result<PathBuf, Error> {
    if !others.is_empty() {
        return Err(invalid_params("additionalDirectories is not supported; leave it out"));
    }
    // `components` takes `.` away.
    Ok(here.join(cwd).components().collect())
}

/// An empty id would be the beginning of every id.
fn stored(id: SessionId) -> Result<SessionId, Error> {
    if id.0.is_empty() { Err(invalid_params("sessionId is empty")) } else { Ok(id) }
}
