//! What extensions want of the world outside their engine. This crate knows no session, no model,
//! no socket and no client; whoever starts it brings a [`HostApi`] that does.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

mod ask;
mod request_callbacks;
mod ui;

pub use ask::{Action, Delivery, ModelRead, Query, Request, SessionRead};
pub use request_callbacks::RequestCallbacks;
pub(crate) use request_callbacks::{Answers, Wants};
pub use ui::{Dialog, DialogKind, Notice};

/// An answer that takes its time.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Everything an engine asks of others. All methods are called on an engine's own thread,
/// [`HostApi::log`] also on one that reads what a sidecar prints, and [`HostApi::report`] also on
/// others that may be made to wait.
///
/// Text in the error places is for the author of the extension; it becomes the message of a
/// JavaScript error.
pub trait HostApi: Send + Sync + 'static {
    /// How things stand. The engine's thread waits for the answer, so it must come at once; it
    /// must not depend on anything that waits for this engine.
    fn query(&self, query: Query) -> Result<Value, String>;

    /// Something to be done that nobody waits for. Actions take effect in the order they come,
    /// and before any later query is answered. What goes wrong is told by [`HostApi::report`]'s
    /// receiver itself, as an `extension_error`.
    fn act(&self, action: Action);

    /// Something to be done whose end the extension waits for.
    fn request(&self, request: Request) -> BoxFuture<Result<Value, String>>;

    /// A question to the user. The answer is `null` (for [`DialogKind::Confirm`] `false`) when
    /// there is none: cancelled, timed out, or nobody there to ask. When `cancel` fires, nobody
    /// waits for the answer any more.
    fn dialog(&self, dialog: Dialog, cancel: CancellationToken) -> BoxFuture<Value>;

    /// Something to show that needs no answer.
    fn notice(&self, notice: Notice);

    /// One HTTP exchange. Redirects are the caller's business unless the request says otherwise.
    fn http(&self, request: HttpRequest) -> BoxFuture<Result<HttpResponse, String>>;

    /// A child process that must not outlive us. `sink` is called from a thread that may be made
    /// to wait when the extension reads slowly; the last thing it is told is
    /// [`ChildEvent::Closed`].
    fn spawn(&self, request: SpawnRequest, sink: ChildSink) -> io::Result<Box<dyn Child>>;

    /// A model's answer as the events of an assistant message stream, the last of which is `done`
    /// or `error`. They come without the growing message, which is put together on our side; what
    /// changes it and is no event of its own is told as `usage` and `response`. Dropping the
    /// stream ends the request.
    fn model(&self, request: ModelRequest) -> BoxStream<'static, Value>;

    /// An extension failed. The run goes on.
    fn report(&self, error: ExtensionError);

    /// What an extension wrote with `console` or to its standard streams.
    fn log(&self, line: LogLine);

    /// Tools, commands, flags or providers are others than before: see
    /// [`Extensions::registrations`](crate::Extensions::registrations).
    fn changed(&self);
}

/// What became of an extension's mistake: the fields of an `extension_error`, and where it was.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionError {
    /// The extension's file, or a word such as `command:name`.
    pub extension_path: String,
    /// The event it was handling, or what else it was doing.
    pub event: String,
    pub error: String,
    /// The line the author wrote, as `path:line:column`.
    pub at: Option<String>,
    /// The whole stack with the author's lines.
    pub stack: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The extension's file where that is known.
    pub extension_path: Option<String>,
    pub level: LogLevel,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    /// In the order and spelling they were given.
    pub headers: Vec<(String, String)>,
    #[serde(skip)]
    pub body: Option<Vec<u8>>,
    /// Whether the client should follow redirects itself.
    pub follow_redirects: bool,
}

pub struct HttpResponse {
    pub status: u16,
    pub status_text: String,
    /// Where the answer came from in the end.
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Decoded, in pieces as they come. Dropping it closes the connection.
    pub body: BoxStream<'static, Result<Vec<u8>, String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnRequest {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// The whole environment of the child.
    pub env: Vec<(String, String)>,
    /// Whether there is something to be written to it; otherwise its input is empty.
    pub stdin: bool,
    /// Another first argument than the command's name.
    #[serde(default)]
    pub argv0: Option<String>,
    /// Open files the child gets beside the usual three, under the numbers they have with us.
    #[serde(skip)]
    pub keeps: Vec<Arc<OwnedFd>>,
}

/// What a child does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The process ended; there may be more output of its children.
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// Nothing more will come.
    Closed,
}

pub type ChildSink = Box<dyn FnMut(ChildEvent) + Send>;

/// A process under way.
pub trait Child: Send + Sync {
    fn pid(&self) -> u32;
    /// May buffer; errors are ignored, as a process that is gone shows by its exit. `hold` is
    /// dropped when the bytes need no more room.
    fn write(&self, bytes: Vec<u8>, hold: Box<dyn Send>);
    fn close_stdin(&self);
    fn kill(&self, signal: i32);
}

/// One request to a model.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRequest {
    /// The model object as extensions see it.
    pub model: Value,
    /// `{systemPrompt?, messages, tools?}`.
    pub context: Value,
    /// `{apiKey?, headers?, maxTokens?, reasoning?, temperature?, …}`.
    #[serde(default)]
    pub options: Value,
    /// Set where the extension wants to look at what is sent and how it is answered.
    #[serde(skip)]
    pub looks: Option<RequestCallbacks>,
}
