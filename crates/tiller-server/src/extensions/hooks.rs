//! The hooks of a run: what the model sees, whether a tool runs, and its result. The run itself
//! runs them and waits; the server does not.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiller_agent::driver::{CallDecision, CallOutcome};
use tiller_agent::message::{Arguments, Message, ToolCall, Usage};
use tiller_agent::provider::Request;
use tiller_agent::tool::Failure;
use tiller_js::hook::{Context, ContextWithSystem, Hook, MessageEnd, ToolCall as Call, ToolResult};
use tiller_js::{Extensions, HookRefused};
use tokio_util::sync::CancellationToken;

use crate::extensions::model_request;
use crate::extensions::provider::transcript;

/// Runs `context` on the messages of a request. A result that is no list of messages is ignored.
pub(crate) async fn shown(
    host: &Extensions,
    messages: Vec<Arc<Message>>,
    cancel: &CancellationToken,
) -> Vec<Arc<Message>> {
    let context = Context { messages: messages.iter().map(|message| value(&**message)).collect() };
    let result = ask(host, context, cancel).await;
    let changed = result.ok().and_then(|result| result.messages);
    let changed: Option<Vec<Message>> =
        changed.and_then(|messages| serde_json::from_value(Value::Array(messages)).ok());
    match changed {
        Some(changed) => changed.into_iter().map(Arc::new).collect(),
        None => messages,
    }
}

/// The same with the system prompt and the tools, as a message of role `system`. An extension that
/// removes it gets a request without either.
pub(crate) async fn shown_whole(
    host: &Extensions,
    request: Request,
    cancel: &CancellationToken,
) -> Request {
    let result = ask(host, ContextWithSystem { messages: transcript(&request) }, cancel).await;
    let Some(messages) = result.ok().and_then(|result| result.messages) else { return request };
    model_request::with_messages(request, messages)
}

pub(crate) async fn message_ends(
    host: &Extensions,
    message: Arc<Message>,
    cancel: &CancellationToken,
) -> Arc<Message> {
    let result = ask(host, MessageEnd { message: value(&*message) }, cancel).await;
    let replaced = result.ok().and_then(|result| result.message);
    match replaced.and_then(|replaced| serde_json::from_value(replaced).ok()) {
        Some(replaced) => Arc::new(replaced),
        None => message,
    }
}

/// Fails closed: if the hook cannot run, the call is blocked.
pub(crate) async fn before_call(
    host: &Extensions,
    call: &Arc<ToolCall>,
    arguments: &Arguments,
    cancel: &CancellationToken,
) -> CallDecision {
    let hook = Call {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        input: json!(arguments),
    };
    match ask(host, hook, cancel).await {
        Err(refused) => CallDecision::Block { reason: refused.reason, ends_run: false },
        Ok(verdict) => match (verdict.block, verdict.input) {
            (Some(reason), _) => CallDecision::Block { reason, ends_run: verdict.terminate },
            (None, Some(Value::Object(arguments))) => CallDecision::RunWith(arguments),
            (None, _) => CallDecision::Run,
        },
    }
}

pub(crate) async fn after_call(
    host: &Extensions,
    call: &Arc<ToolCall>,
    arguments: &Arguments,
    mut outcome: CallOutcome,
    cancel: &CancellationToken,
) -> CallOutcome {
    let hook = ToolResult {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        input: json!(arguments),
        content: json!(outcome.output.content),
        details: outcome.output.details.clone(),
        is_error: outcome.is_error,
        usage: outcome.output.usage.as_ref().map(|usage| json!(usage)),
    };
    let Ok(change) = ask(host, hook, cancel).await else { return outcome };
    if let Some(content) = change.content.and_then(|content| serde_json::from_value(content).ok()) {
        outcome.output.content = content;
    }
    if change.details.is_some() {
        outcome.output.details = change.details;
    }
    if let Some(usage) = change.usage {
        outcome.output.usage = Box::<Usage>::deserialize(&usage).ok();
        outcome.output.other.insert("usage".to_owned(), usage);
    }
    outcome.is_error = change.is_error.unwrap_or(outcome.is_error);
    outcome
}

/// How long a handler may go on after its run was aborted.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a hook, and stops waiting soon after an abort: a handler that waits for the user, or for
/// ever, must not keep the run from ending. The hook counts as refused then.
pub(crate) async fn ask<H: Hook>(
    host: &Extensions,
    hook: H,
    cancel: &CancellationToken,
) -> Result<H::Outcome, HookRefused> {
    let overdue = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        answer = host.run_hook_until(hook, Some(cancel.clone())) => answer,
        () = overdue => Err(HookRefused { reason: Failure::aborted().message }),
    }
}

pub(crate) fn value(of: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
