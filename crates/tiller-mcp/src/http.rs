//! A server that is reached by streamable HTTP.

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::traffic::SendError;

#[derive(Clone)]
pub(crate) struct HttpSender;

impl HttpSender {
    pub(crate) fn new(
        _url: String,
        _headers: Vec<(String, String)>,
        _incoming: mpsc::Sender<ServerJsonRpcMessage>,
        _closed: CancellationToken,
    ) -> HttpSender {
        HttpSender
    }

    pub(crate) fn send(
        &self,
        _message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        std::future::ready(Err(SendError("HTTP is not connected".to_owned())))
    }

    pub(crate) fn listen(&self) {}

    pub(crate) fn ending(&self) -> String {
        "the connection was closed".to_owned()
    }

    pub(crate) fn needs_authorization(&self) -> bool {
        false
    }

    pub(crate) async fn stop(&self) {}
}
