//! The messages between tiller and a server, as `rmcp` sends and receives them: the transport that
//! both kinds of servers share. Progress is passed to its call here, in the order in which it comes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, ProgressNotificationParam,
    ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tiller_agent::mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock_hold::ClockHold;
use crate::http::HttpSender;
use crate::stdio::Child;

/// How many messages of a server wait before it is not read any further.
pub(crate) const INCOMING_MAX: usize = 64;

/// Where a call's progress goes. A slow reader sees only the latest.
#[derive(Clone)]
pub(crate) struct ProgressSink(pub(crate) Arc<watch::Sender<Progress>>);

/// The newest progress of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.done)?;
        if let Some(total) = self.total {
            write!(f, "/{total}")?;
        }
        match &self.message {
            Some(message) => write!(f, " {message}"),
            None => Ok(()),
        }
    }
}

/// What a connection's tasks share.
#[derive(Default)]
pub(crate) struct Traffic {
    open: Mutex<Open>,
    /// Whether the clock of a paused runtime stands still while a server has something to do.
    holds_clock: bool,
    /// The server has announced another list of tools.
    pub(crate) tools_changed: Notify,
    /// Fires when the server cannot be reached any more.
    pub(crate) closed: CancellationToken,
}

/// What belongs to requests without a response.
#[derive(Default)]
struct Open {
    progress: HashMap<ProgressToken, ProgressSink>,
    clock: HashMap<RequestId, ClockHold>,
}

impl Traffic {
    pub(crate) fn new(holds_clock: bool) -> Traffic {
        Traffic { holds_clock, ..Traffic::default() }
    }

    /// A message is about to be sent.
    fn sending(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        let mut open = mutex::lock(&self.open);
        let sink = request.request.extensions().get::<ProgressSink>();
        let token = request.request.get_meta().get_progress_token();
        if let (Some(sink), Some(token)) = (sink, token) {
            // Those of calls that have ended.
            open.progress.retain(|_, sink| !sink.0.is_closed());
            open.progress.insert(token, sink.clone());
        }
        if let Some(hold) = ClockHold::new(self.holds_clock) {
            open.clock.insert(request.id.clone(), hold);
        }
    }

    /// Returns the message unless it is for tiller alone.
    fn received(&self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    self.report(&progress.params);
                    return None;
                }
                ServerNotification::ToolListChangedNotification(_) => {
                    self.tools_changed.notify_one();
                }
                // `rmcp` starts a task for each, and nothing reads them.
                ServerNotification::LoggingMessageNotification(_) => return None,
                _ => {}
            },
            JsonRpcMessage::Response(response) => self.answered(Some(&response.id)),
            JsonRpcMessage::Error(error) => self.answered(error.id.as_ref()),
            JsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    fn report(&self, progress: &ProgressNotificationParam) {
        let open = mutex::lock(&self.open);
        if let Some(sink) = open.progress.get(&progress.progress_token) {
            sink.0.send_replace(Progress {
                done: progress.progress,
                total: progress.total,
                message: progress.message.clone(),
            });
        }
    }

    fn answered(&self, id: Option<&RequestId>) {
        if let Some(id) = id {
            mutex::lock(&self.open).clock.remove(id);
        }
    }

    fn close(&self) {
        mutex::lock(&self.open).clock.clear();
        self.closed.cancel();
    }
}

/// The way to a server.
pub(crate) enum Outgoing {
    Stdio(Arc<Child>),
    Http(HttpSender),
    /// The server is a part of a test.
    #[cfg(test)]
    Test(mpsc::UnboundedSender<ClientJsonRpcMessage>),
}

/// The transport of a connection.
pub(crate) struct Wire {
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    pub(crate) traffic: Arc<Traffic>,
}

/// A message could not be sent.
#[derive(Clone, Debug)]
pub(crate) struct SendError(pub(crate) String);

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SendError {}

impl Transport<RoleClient> for Wire {
    type Error = SendError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        self.traffic.sending(&message);
        let sent: BoxFuture<'static, Result<(), SendError>> = match &self.outgoing {
            Outgoing::Stdio(child) => Box::pin(std::future::ready(child.write(&message))),
            Outgoing::Http(sender) => Box::pin(sender.send(message)),
            #[cfg(test)]
            Outgoing::Test(server) => {
                let sent = server.send(message).map_err(|err| SendError(err.to_string()));
                Box::pin(std::future::ready(sent))
            }
        };
        sent
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let Some(message) = self.incoming.recv().await else {
                self.traffic.close();
                return None;
            };
            if let Some(message) = self.traffic.received(message) {
                return Some(message);
            }
        }
    }

    /// The owner of the connection ends the server; see `Connection::stop`.
    async fn close(&mut self) -> Result<(), SendError> {
        self.traffic.close();
        Ok(())
    }
}
