//! What extensions can reach outside their engine: the server, with session, models and client, and
//! also the network and child processes.
//!
//! The methods run on an engine's own thread. A request to the server becomes an [`Input`] like any
//! other; the server never waits for an engine, so an engine may wait for the server.

use std::io;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::Value;
use tiller_agent::program::{Program, ProgramSink};
use tiller_config::settings;
use tiller_js::host_api::{
    Action, BoxFuture, Child, Dialog, DialogKind, ExtensionError, HostApi, HttpRequest,
    HttpResponse, LogLine, ModelRequest, Notice, Query, Request, SettingsLayer, SettingsRead,
};
use tiller_llm::http::{self, HttpExchange};
use tiller_tools::child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::model_stream::failed;
use crate::clock::Clock;
use crate::extensions::ExtensionRequest;
use crate::server::Input;
use crate::tasks::Responder;

pub(crate) struct ServerHostApi {
    pub(crate) inputs: mpsc::Sender<Input>,
}

impl ServerHostApi {
    /// Sends from the engine's thread. If the receiver is gone, the process is ending.
    fn send(&self, input: ExtensionRequest) {
        self.inputs.blocking_send(Input::ExtensionRequest(Box::new(input))).ok();
    }
}

impl HostApi for ServerHostApi {
    fn query(&self, query: Query) -> Result<Value, String> {
        let (answer, wait) = Responder::channel();
        self.send(ExtensionRequest::Query(query, answer));
        wait.blocking_recv().unwrap_or_else(|_| Err(GONE.to_owned()))
    }

    fn act(&self, action: Action) {
        self.send(ExtensionRequest::Act(action));
    }

    fn request(&self, request: Request) -> BoxFuture<Result<Value, String>> {
        let (answer, wait) = Responder::channel();
        self.send(ExtensionRequest::Request(request, answer));
        Box::pin(async move { wait.await.unwrap_or_else(|_| Err(GONE.to_owned())) })
    }

    fn dialog(&self, dialog: Dialog, cancel: CancellationToken) -> BoxFuture<Value> {
        let none = no_answer(&dialog.kind);
        let (answer, wait) = Responder::channel();
        self.send(ExtensionRequest::Dialog { dialog, cancel, answer });
        Box::pin(async move { wait.await.unwrap_or(none) })
    }

    fn notice(&self, notice: Notice) {
        self.send(ExtensionRequest::Notice(notice));
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<Result<HttpResponse, String>> {
        let HttpRequest { method, url, headers, body, follow_redirects } = request;
        let exchange = HttpExchange { method, url, headers, body, follow_redirects };
        Box::pin(async move {
            let answer = http::exchange(exchange).await?;
            Ok(HttpResponse {
                status: answer.status,
                status_text: answer.status_text,
                url: answer.url,
                headers: answer.headers,
                body: answer.body,
            })
        })
    }

    fn spawn(&self, program: Program, sink: ProgramSink) -> io::Result<Box<dyn Child>> {
        child::spawn(program, sink).map(|handle| Box::new(Process(handle)) as Box<dyn Child>)
    }

    fn model(&self, request: ModelRequest) -> BoxStream<'static, Value> {
        let (answer, wait) = Responder::channel();
        self.send(ExtensionRequest::Model(Box::new(request), answer));
        let events =
            async move { wait.await.unwrap_or_else(|_| failed(None, GONE, Clock::System.now())) };
        stream::once(events).flatten().boxed()
    }

    fn report(&self, error: ExtensionError) {
        self.send(ExtensionRequest::Report(error));
    }

    fn log(&self, line: LogLine) {
        self.send(ExtensionRequest::Log(line));
    }

    fn settings(&self, layers: Vec<SettingsLayer>) -> SettingsRead {
        let read = |layer| match layer {
            // Problems of the user's and the project's files were reported when tiller read them.
            SettingsLayer::File(path) => settings::read_file(&path, &mut Vec::new()),
            SettingsLayer::Values(values) => values,
        };
        let layers: Vec<_> = layers.into_iter().map(read).collect();
        let merged = settings::merge_layers(&layers);
        SettingsRead { layers, merged }
    }

    fn changed(&self) {
        self.send(ExtensionRequest::Changed);
    }
}

const GONE: &str = "tiller is about to exit";

/// The result of a dialog without an answer.
pub(crate) fn no_answer(kind: &DialogKind) -> Value {
    match kind {
        DialogKind::Confirm { .. } => Value::Bool(false),
        _ => Value::Null,
    }
}

struct Process(child::Handle);

impl Child for Process {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn write(&self, bytes: Vec<u8>, hold: Box<dyn Send>) {
        self.0.write_holding(bytes, hold);
    }

    fn close_stdin(&self) {
        self.0.close_stdin();
    }

    fn kill(&self, signal: i32) {
        self.0.kill(signal);
    }
}
