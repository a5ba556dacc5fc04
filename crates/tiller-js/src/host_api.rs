//! The interface between extensions and the program outside their engine. This crate knows no
//! session, model, socket or client; the program that uses it implements [`HostApi`].

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiller_agent::program::{Program, ProgramSink};
use tokio_util::sync::CancellationToken;

mod requests;
mod request_callbacks;

pub use request_callbacks::RequestCallbacks;
pub(crate) use request_callbacks::{Answers, Wants};
pub use requests::{Action, Delivery, ModelRead, Query, Request, SessionRead};
pub use tiller_agent::dialog::{Dialog, DialogKind, Notice};

/// A boxed future.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Everything an engine asks of the program. All methods are called on an engine's own thread,
/// except that [`HostApi::log`] is also called on the thread that reads a sidecar's output, and
/// [`HostApi::report`] on threads that may block.
///
/// Error strings are for the author of the extension; they become the message of a JavaScript
/// error.
pub trait HostApi: Send + Sync + 'static {
    /// Reads state. The engine's thread blocks until this returns, so it must return at once and
    /// must not depend on anything that waits for this engine.
    fn query(&self, query: Query) -> Result<Value, String>;

    /// Performs an action without a result. Actions take effect in order, and before any later
    /// query is answered. The implementation reports errors itself, as an `extension_error`.
    fn act(&self, action: Action);

    /// Performs an action whose result the extension awaits.
    fn request(&self, request: Request) -> BoxFuture<Result<Value, String>>;

    /// Asks the user. The answer is `null` (`false` for [`DialogKind::Confirm`]) if the dialog was
    /// cancelled, timed out, or no client can show it. After `cancel` fires, the answer is ignored.
    fn dialog(&self, dialog: Dialog, cancel: CancellationToken) -> BoxFuture<Value>;

    /// Shows something that needs no answer.
    fn notice(&self, notice: Notice);

    /// Performs one HTTP exchange. Does not follow redirects unless the request says so.
    fn http(&self, request: HttpRequest) -> BoxFuture<Result<HttpResponse, String>>;

    /// Spawns a child process that must not outlive tiller. `sink` is called on a thread that may
    /// block while the extension reads slowly; the last event is [`ChildEvent::Closed`].
    fn spawn(&self, request: Program, sink: ProgramSink) -> io::Result<Box<dyn Child>>;

    /// Streams a model's answer as the events of an assistant message stream; the last one is
    /// `done` or `error`. The events carry no partial message, which JavaScript assembles; `usage`
    /// and `response` carry changes to the message that have no event of their own. Dropping the
    /// stream cancels the request.
    fn model(&self, request: ModelRequest) -> BoxStream<'static, Value>;

    /// Reports an error of an extension. The run goes on.
    fn report(&self, error: ExtensionError);

    /// Logs what an extension wrote with `console` or to its standard streams.
    fn log(&self, line: LogLine);

    /// Reads settings. The engine's thread blocks while files are read.
    fn settings(&self, layers: Vec<SettingsLayer>) -> SettingsRead;

    /// Tools, commands, flags or providers have changed: see
    /// [`Extensions::registrations`](crate::Extensions::registrations).
    fn changed(&self);
}

/// Settings that override those of the layers before.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingsLayer {
    /// A settings file. A missing or invalid one counts as empty.
    File(PathBuf),
    Values(Map<String, Value>),
}

#[derive(Clone, Debug, Serialize)]
pub struct SettingsRead {
    /// The values of each layer.
    pub layers: Vec<Map<String, Value>>,
    pub merged: Map<String, Value>,
}

/// An error of an extension: the fields of an `extension_error`, and where it was thrown.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionError {
    /// The extension's file, or a label such as `command:name`.
    pub extension_path: String,
    /// The event it was handling, or another operation such as `load`.
    pub event: String,
    pub error: String,
    /// The line the author wrote, as `path:line:column`.
    pub at: Option<String>,
    /// The stack with the author's lines.
    pub stack: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The extension's file, if it is known.
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
    /// In the given order and spelling.
    pub headers: Vec<(String, String)>,
    #[serde(skip)]
    pub body: Option<Vec<u8>>,
    /// Whether the HTTP client follows redirects.
    pub follow_redirects: bool,
}

pub struct HttpResponse {
    pub status: u16,
    pub status_text: String,
    /// The URL after redirects.
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// The decoded body in chunks. Dropping it closes the connection.
    pub body: BoxStream<'static, Result<Vec<u8>, String>>,
}

/// A running child process.
pub trait Child: Send + Sync {
    fn pid(&self) -> u32;
    /// May buffer. Write errors are ignored: a process that is gone is reported by its exit. `hold`
    /// is dropped when the bytes are written.
    fn write(&self, bytes: Vec<u8>, hold: Box<dyn Send>);
    fn close_stdin(&self);
    fn kill(&self, signal: i32);
}

/// One request to a model.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRequest {
    /// The model object that extensions see.
    pub model: Value,
    /// `{systemPrompt?, messages, tools?}`.
    pub context: Value,
    /// `{apiKey?, headers?, maxTokens?, reasoning?, temperature?, …}`.
    #[serde(default)]
    pub options: Value,
    /// The extension's `onPayload` and `onResponse` callbacks, if it has any.
    #[serde(skip)]
    pub callbacks: Option<RequestCallbacks>,
}
