//! A test stage for extensions: a folder of files, and a host that records what is asked of it.
#![allow(dead_code, reason = "each test file uses its own part of the stage")]
#![allow(clippy::unwrap_used)]

#[path = "../../../tiller/tests/support/skip.rs"]
pub mod skip;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use nix::fcntl::{FcntlArg, FdFlag};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiller_agent::program::{Program, ProgramEvent, ProgramSink};
use tiller_js::host_api::{
    Action, BoxFuture, Child, Dialog, DialogKind, ExtensionError, HostApi, HttpRequest,
    HttpResponse, LogLine, ModelRead, ModelRequest, Notice, Query, Request, SessionRead,
    SettingsLayer, SettingsRead,
};
use tiller_js::{Config, Extension, Extensions, Limits, LoadReport};
use tokio_util::sync::CancellationToken;

pub struct Stage {
    pub dir: TempDir,
    pub host: Arc<Fake>,
    pub extensions: Extensions,
}

impl Stage {
    /// Writes the files and loads those whose names begin with `ext`.
    pub async fn play(files: &[(&str, &str)]) -> Stage {
        let stage = Stage::set(files, quick_limits());
        let report = stage.load().await;
        stage.host.note(shown(&report, &stage));
        stage.extensions.bind().await;
        stage
    }

    pub fn set(files: &[(&str, &str)], limits: Limits) -> Stage {
        let path = std::env::var("PATH").unwrap_or_default();
        Stage::set_with(files, limits, false, path)
    }

    pub fn set_with(files: &[(&str, &str)], limits: Limits, sidecars: bool, path: String) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = Arc::new(Fake::default());
        *host.root.lock().unwrap() = dir.path().to_string_lossy().into_owned();
        Stage::raise(dir, host, limits, sidecars, path)
    }

    /// The same stage with another `PATH`.
    pub fn with_path(self, limits: Limits, path: String) -> Stage {
        Stage::raise(self.dir, self.host, limits, true, path)
    }

    fn raise(dir: TempDir, host: Arc<Fake>, limits: Limits, sidecars: bool, path: String) -> Stage {
        let config = Config {
            runtime: tokio::runtime::Handle::current(),
            limits,
            cwd: dir.path().to_owned(),
            agent_dir: dir.path().join("agent"),
            home_dir: dir.path().join("home"),
            mode: "rpc".into(),
            has_ui: true,
            version: "0.87.1".into(),
            exec_path: "/usr/bin/tiller".into(),
            env: vec![("PATH".into(), path), ("COLOUR".into(), "blue".into())],
            sidecars,
            clock: Default::default(),
            hook_observer: None,
        };
        let extensions = Extensions::new(config, host.clone());
        Stage { dir, host, extensions }
    }

    pub fn extension_files(&self) -> Vec<Extension> {
        let mut names: Vec<_> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("ext"))
            .collect();
        names.sort();
        names.into_iter().map(Extension::new).collect()
    }

    pub async fn load(&self) -> LoadReport {
        self.extensions.load(&self.extension_files()).await
    }

    pub async fn command(&self, name: &str) {
        match self.extensions.command(name, "").await {
            None => self.host.note(format!("no command {name}")),
            Some(Ok(())) => (),
            Some(Err(error)) => self.host.report(error),
        }
    }

    /// The recorded lines, sorted, for tests without a fixed order.
    pub fn sorted_log(&self) -> String {
        let log = self.log();
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// The lines recorded since the last call, with the folder's path replaced.
    pub fn log(&self) -> String {
        let lines = std::mem::take(&mut *self.host.lines.lock().unwrap());
        let root = self.dir.path().to_string_lossy().into_owned();
        let real = std::fs::canonicalize(self.dir.path()).unwrap();
        lines.join("\n").replace(&*real.to_string_lossy(), "DIR").replace(&root, "DIR")
    }
}

/// Short limits, for tests that exceed them.
pub fn quick_limits() -> Limits {
    Limits {
        memory_bytes: 64 << 20,
        slice: Duration::from_millis(400),
        long_slice: Duration::from_secs(10),
        hook: Duration::from_secs(5),
        ..Limits::default()
    }
}

pub fn shown(report: &LoadReport, _stage: &Stage) -> String {
    let mut lines = Vec::new();
    let all = &report.registrations;
    for extension in &all.extensions {
        let handlers: Vec<String> =
            extension.handlers.iter().map(|(name, count)| format!("{name}×{count}")).collect();
        let name = extension.path.rsplit('/').next().unwrap_or_default();
        lines.push(format!("loaded {name} {}", handlers.join(" ")).trim_end().to_owned());
    }
    for tool in &all.tools {
        let spec = &tool.tool.spec;
        lines.push(format!("tool {} {}", spec.name, spec.parameters));
    }
    for command in &all.commands {
        lines.push(format!("command /{} {:?}", command.name, command.description));
    }
    for flag in &all.flags {
        lines.push(format!("flag --{} {:?} {:?}", flag.name, flag.kind, flag.default));
    }
    for provider in &all.providers {
        lines.push(format!("provider {} {}", provider.name, provider.config));
    }
    for error in &report.errors {
        let at = error.at.as_deref().map(|at| format!(" at {at}")).unwrap_or_default();
        lines.push(format!("error {}{at}", error.error));
    }
    lines.join("\n")
}

/// A host that agrees to everything.
#[derive(Default)]
pub struct Fake {
    pub lines: Mutex<Vec<String>>,
    pub root: Mutex<String>,
    /// The user's answers, in order; then dialogs are cancelled.
    pub answers: Mutex<Vec<Value>>,
    pub pages: Mutex<HashMap<String, Vec<String>>>,
    pub extensions: Mutex<Option<Extensions>>,
    pub entries: Mutex<Vec<Value>>,
}

impl Fake {
    pub fn note(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    /// Waits until a line with this text is recorded.
    pub async fn wait_for(&self, words: &str) {
        let begun = std::time::Instant::now();
        while !self.lines.lock().unwrap().iter().any(|line| line.contains(words)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "no line contains {words:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl HostApi for Fake {
    fn query(&self, query: Query) -> Result<Value, String> {
        Ok(match query {
            Query::Cwd => self.root.lock().unwrap().clone().into(),
            Query::IsIdle => true.into(),
            Query::HasPendingMessages => false.into(),
            Query::PendingMessages => json!([]),
            Query::IsProjectTrusted => true.into(),
            Query::ContextUsage => json!({"tokens": 10, "contextWindow": 100, "percent": 10}),
            Query::SystemPrompt => "You are helpful.".into(),
            Query::RenderedPrompt { .. } => "Rendered.".into(),
            Query::SystemPromptOptions => json!({"cwd": "."}),
            Query::Model => json!({"provider": "p", "id": "m", "name": "M"}),
            Query::ScopedModels => json!([]),
            Query::ThinkingLevel => "medium".into(),
            Query::ActiveTools => json!(["read", "bash"]),
            Query::AllTools | Query::BuiltinTools => json!([
                {"name": "read", "label": "read", "description": "Read a file.",
                 "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
                {"name": "bash", "label": "bash", "description": "Run a command.",
                 "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
            ]),
            Query::Commands => json!([]),
            Query::Session(SessionRead::Entry { id }) => json!({"type": "message", "id": id}),
            Query::Session(SessionRead::Entries | SessionRead::Branch { .. }) => {
                self.entries.lock().unwrap().clone().into()
            }
            Query::Session(SessionRead::Id) => "session-1".into(),
            Query::Session(SessionRead::Name) => Value::Null,
            Query::Session(SessionRead::LeafId) => "e1".into(),
            Query::Session(SessionRead::ProjectDir { .. } | SessionRead::AllProjectsDir) => {
                format!("{}/agent/sessions", self.root.lock().unwrap()).into()
            }
            Query::Session(_) => Value::Null,
            Query::Models(ModelRead::All | ModelRead::Available) => {
                json!([{"provider": "p", "id": "m", "name": "M"}])
            }
            Query::Models(ModelRead::Find { provider, id }) if provider == "p" => {
                json!({"provider": provider, "id": id})
            }
            Query::Models(ModelRead::HasAuth { provider }) => (provider == "p").into(),
            Query::Models(_) => Value::Null,
        })
    }

    fn act(&self, action: Action) {
        if let Action::AppendEntry { custom_type, data } = &action {
            let entry = json!({"type": "custom", "customType": custom_type, "data": data});
            self.entries.lock().unwrap().push(entry);
        }
        self.note(format!("act {action:?}"));
    }

    fn request(&self, request: Request) -> BoxFuture<Result<Value, String>> {
        self.note(format!("request {request:?}"));
        let extensions = self.extensions.lock().unwrap().clone();
        Box::pin(async move {
            match request {
                Request::SetModel { .. } => Ok(true.into()),
                Request::NewSession { .. } => {
                    if let Some(extensions) = extensions {
                        extensions.start_over().await;
                    }
                    Ok(json!({"cancelled": false}))
                }
                Request::RunTool { name, .. } => {
                    Ok(json!({"content": [{"type": "text", "text": format!("{name} ran")}]}))
                }
                Request::Compact { .. } => Err("nothing to compact".into()),
                Request::ApiKeyAndHeaders { .. } => Ok(json!({"ok": true, "apiKey": "k"})),
                Request::ApiKey { .. } => Ok("k".into()),
                _ => Ok(json!({"cancelled": false})),
            }
        })
    }

    fn dialog(&self, dialog: Dialog, cancel: CancellationToken) -> BoxFuture<Value> {
        self.note(format!("dialog {}", serde_json::to_string(&dialog).unwrap()));
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { None } else { Some(answers.remove(0)) };
        let confirm = matches!(dialog.kind, DialogKind::Confirm { .. });
        Box::pin(async move {
            match answer {
                Some(Value::String(word)) if word == "(never)" => {
                    cancel.cancelled().await;
                    Value::Null
                }
                Some(answer) => answer,
                None if confirm => false.into(),
                None => Value::Null,
            }
        })
    }

    fn notice(&self, notice: Notice) {
        self.note(format!("notice {}", serde_json::to_string(&notice).unwrap()));
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<Result<HttpResponse, String>> {
        let body = request.body.as_ref().map(|body| String::from_utf8_lossy(body).into_owned());
        self.note(format!(
            "http {} {} {:?} {body:?}",
            request.method, request.url, request.headers
        ));
        let page = self.pages.lock().unwrap().get(&request.url).cloned();
        Box::pin(async move {
            let Some(page) = page else { return Err("connect ECONNREFUSED".into()) };
            let pieces = page.into_iter().map(|piece| Ok(piece.into_bytes()));
            Ok(HttpResponse {
                status: 200,
                status_text: "OK".into(),
                url: request.url,
                headers: vec![("content-type".into(), "text/plain".into())],
                body: stream::iter(pieces).boxed(),
            })
        })
    }

    fn spawn(&self, request: Program, sink: ProgramSink) -> io::Result<Box<dyn Child>> {
        let mut command = Command::new(&request.command);
        command
            .args(&request.args)
            .current_dir(&request.cwd)
            .env_clear()
            .envs(request.env)
            .stdin(if request.stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let inherited = request.inherited;
        if !inherited.is_empty() {
            let keep = move || {
                inherited.iter().try_for_each(|file| {
                    nix::fcntl::fcntl(file, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)
                })?;
                Ok(())
            };
            // SAFETY: one system call a file.
            #[allow(unsafe_code)]
            unsafe {
                std::os::unix::process::CommandExt::pre_exec(&mut command, keep);
            }
        }
        let mut child = command.spawn()?;
        // Closes our copies, so that the end of the child shows.
        drop(command);
        let pid = child.id();
        let stdin = Mutex::new(child.stdin.take());
        let sink = Arc::new(Mutex::new(sink));
        let mut out = child.stdout.take().unwrap();
        let mut err = child.stderr.take().unwrap();
        let tell = sink.clone();
        let errors = std::thread::spawn(move || {
            carry(&mut err, |bytes| (tell.lock().unwrap())(ProgramEvent::Stderr(bytes)));
        });
        std::thread::spawn(move || {
            carry(&mut out, |bytes| (sink.lock().unwrap())(ProgramEvent::Stdout(bytes)));
            errors.join().unwrap();
            let status = child.wait().unwrap();
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            let mut sink = sink.lock().unwrap();
            sink(ProgramEvent::Exit { code: status.code(), signal });
            sink(ProgramEvent::Closed);
        });
        Ok(Box::new(Process { pid, stdin }))
    }

    fn model(&self, request: ModelRequest) -> BoxStream<'static, Value> {
        self.note(format!("model {} {}", request.model["id"], request.context));
        if let Some(count) = request.options["deltas"].as_u64() {
            let delta = || json!({"type": "text_delta", "contentIndex": 0, "delta": "x"});
            let start = json!({"type": "text_start", "contentIndex": 0});
            let deltas = stream::iter((0..count).map(move |_| delta()));
            let done = json!({"type": "done", "reason": "stop", "message": {"role": "assistant",
                "content": [], "stopReason": "stop"}});
            return stream::iter([start]).chain(deltas).chain(stream::iter([done])).boxed();
        }
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "yes"}],
            "stopReason": "stop"});
        stream::iter([
            json!({"type": "start", "partial": {}}),
            json!({"type": "done", "reason": "stop", "message": message}),
        ])
        .boxed()
    }

    fn report(&self, error: ExtensionError) {
        let name = error.extension_path.rsplit('/').next().unwrap_or_default();
        let at = error.at.map(|at| format!(" at {at}")).unwrap_or_default();
        self.note(format!("extension_error {name} {}: {}{at}", error.event, error.error));
    }

    fn log(&self, line: LogLine) {
        self.note(format!("{:?}: {}", line.level, line.text));
    }

    fn settings(&self, _: Vec<SettingsLayer>) -> SettingsRead {
        SettingsRead { layers: Vec::new(), merged: serde_json::Map::new() }
    }

    fn changed(&self) {
        self.note("changed");
    }
}

fn carry(from: &mut impl Read, mut tell: impl FnMut(Vec<u8>)) {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => tell(bytes[..count].to_vec()),
        }
    }
}

struct Process {
    pid: u32,
    stdin: Mutex<Option<std::process::ChildStdin>>,
}

impl Child for Process {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn write(&self, bytes: Vec<u8>, _hold: Box<dyn Send>) {
        if let Some(stdin) = self.stdin.lock().unwrap().as_mut() {
            stdin.write_all(&bytes).ok();
        }
    }

    fn close_stdin(&self) {
        self.stdin.lock().unwrap().take();
    }

    fn kill(&self, signal: i32) {
        // It may have exited.
        let kill = format!("kill -{signal} {} 2>/dev/null", self.pid);
        Command::new("sh").args(["-c", &kill]).status().ok();
    }
}
