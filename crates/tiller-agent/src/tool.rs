//! Tools. A tool is a value: name, description, schema, function. Built-in, host and extension
//! tools all have this type.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::limits::ProcessLimits;
use crate::message::{Arguments, Block, Usage};
use crate::provider::ToolSpec;
use crate::sandbox::Confinement;

#[derive(Clone)]
pub struct Tool {
    /// Sessions with the same tool share it.
    pub spec: Arc<ToolSpec>,
    /// One line for the system prompt; a tool without one is not mentioned there.
    pub snippet: Option<String>,
    /// Advice for the system prompt that applies while the tool is active.
    pub guidelines: Vec<String>,
    /// Fixes common mistakes of models in the arguments, before they are checked.
    pub repair: Option<fn(&mut Arguments)>,
    /// Like `repair`, but asynchronous: an extension does it.
    prepare: Option<Arc<PrepareArguments>>,
    /// A turn that calls it runs its calls one after another.
    pub sequential: bool,
    /// What its calls can do outside of the session, for approvals.
    pub effect: ToolEffect,
    run: Arc<RunTool>,
}

/// What the calls of a tool can do outside of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolEffect {
    /// They change nothing.
    Reads,
    /// They change the file that `path` names.
    Edits,
    /// They run the shell command `command`.
    RunsCommands,
    /// Only the tool's author knows.
    #[default]
    Other,
}

type PrepareArguments = dyn Fn(Arguments) -> PreparedArguments + Send + Sync;
pub type PreparedArguments = Pin<Box<dyn Future<Output = Result<Arguments, Failure>> + Send>>;
type RunTool = dyn Fn(Arguments, ToolContext) -> ToolFuture + Send + Sync;
pub type ToolFuture = Pin<Box<dyn Future<Output = ToolResult> + Send>>;
pub type ToolResult = Result<ToolOutput, Failure>;

impl Tool {
    /// `run` gets arguments that match the schema.
    pub fn new<F, Fut>(spec: impl Into<Arc<ToolSpec>>, run: F) -> Tool
    where
        F: Fn(Arguments, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult> + Send + 'static,
    {
        let run: Arc<RunTool> = Arc::new(move |arguments, cx| Box::pin(run(arguments, cx)));
        let snippet = None;
        let rules = Vec::new();
        Tool {
            spec: spec.into(),
            snippet,
            guidelines: rules,
            repair: None,
            prepare: None,
            sequential: false,
            effect: ToolEffect::default(),
            run,
        }
    }

    pub fn snippet(mut self, snippet: impl Into<String>) -> Tool {
        self.snippet = Some(snippet.into());
        self
    }

    pub fn rule(mut self, rule: impl Into<String>) -> Tool {
        self.guidelines.push(rule.into());
        self
    }

    pub fn effect(mut self, effect: ToolEffect) -> Tool {
        self.effect = effect;
        self
    }

    pub fn mend(mut self, mend: fn(&mut Arguments)) -> Tool {
        self.repair = Some(mend);
        self
    }

    pub fn prepare<F>(mut self, prepare: F) -> Tool
    where
        F: Fn(Arguments) -> PreparedArguments + Send + Sync + 'static,
    {
        self.prepare = Some(Arc::new(prepare));
        self
    }

    /// The repaired arguments, to be checked.
    pub(crate) async fn prepared(&self, mut arguments: Arguments) -> Result<Arguments, Failure> {
        if let Some(mend) = self.repair {
            mend(&mut arguments);
        }
        match &self.prepare {
            Some(prepare) => prepare(arguments).await,
            None => Ok(arguments),
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn run(&self, arguments: Arguments, cx: ToolContext) -> ToolFuture {
        (self.run)(arguments, cx)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// The result of a tool, or its intermediate output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "an object with `content`")]
pub struct ToolOutput {
    pub content: Vec<Block>,
    /// For the client and the session file; the model never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Tokens spent on model requests by the tool.
    #[serde(skip)]
    pub usage: Option<Box<Usage>>,
    /// End the run without another request, if every result of the turn says so.
    #[serde(skip)]
    pub ends_run: bool,
    /// Further fields of an extension's result. Sent to the client unchanged, and not stored.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Block::text(text)], ..ToolOutput::default() }
    }

    pub fn details(mut self, details: Value) -> ToolOutput {
        self.details = Some(details);
        self
    }
}

/// A failed tool call, with a text that the model can act on.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub message: String,
    /// Shown to the model after the text.
    pub images: Vec<Block>,
    /// Additional details for the client.
    pub details: Option<Value>,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), images: Vec::new(), details: None }
    }

    /// The run was aborted while the tool was running, or before it started.
    pub fn aborted() -> Failure {
        Failure::new("Operation aborted")
    }

    pub fn details(mut self, details: Value) -> Failure {
        self.details = Some(details);
        self
    }
}

/// The context of a call: working directory, cancellation and output.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The call's id, given by the model. Empty if the tool is not called by a model.
    pub call_id: Arc<str>,
    /// Relative paths are resolved against this.
    pub cwd: Arc<PathBuf>,
    /// Fires when the result is no longer needed. A tool that ignores it is abandoned.
    pub cancel: CancellationToken,
    /// Whether the model accepts images.
    pub sees_images: bool,
    /// Environment variables for the processes that a tool starts.
    pub env: Arc<[(String, String)]>,
    /// Limits of these processes.
    pub process_limits: ProcessLimits,
    /// Where the work of the tool runs, if there is a sandbox.
    pub confinement: Option<Arc<dyn Confinement>>,
    pub(crate) progress: watch::Sender<Option<ToolOutput>>,
}

impl ToolContext {
    pub fn new(
        cwd: Arc<PathBuf>,
        cancel: CancellationToken,
        sees_images: bool,
        env: Arc<[(String, String)]>,
    ) -> (ToolContext, watch::Receiver<Option<ToolOutput>>) {
        let (progress, shown) = watch::channel(None);
        let call_id = Arc::from("");
        let cx = ToolContext {
            call_id,
            cwd,
            cancel,
            sees_images,
            env,
            process_limits: ProcessLimits::default(),
            confinement: None,
            progress,
        };
        (cx, shown)
    }

    /// Emits intermediate output. Each call replaces the previous one; a slow reader sees only the
    /// latest, so a tool may call this as often as it likes.
    pub fn show(&self, partial: ToolOutput) {
        self.progress.send_replace(Some(partial));
    }
}

/// The tools of one request, and their specifications in the same order.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    tools: Vec<Tool>,
    /// Made for the first request.
    specs: OnceLock<Arc<[ToolSpec]>>,
}

impl ToolSet {
    pub fn new(tools: Vec<Tool>) -> ToolSet {
        ToolSet { tools, specs: OnceLock::new() }
    }

    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter()
    }

    pub fn specs(&self) -> Arc<[ToolSpec]> {
        let specs = || self.tools.iter().map(|tool| (*tool.spec).clone()).collect();
        self.specs.get_or_init(specs).clone()
    }
}
