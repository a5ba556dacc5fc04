//! Host tools on the wire: registration, calls and results.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiller_agent::arguments::check_schema;
use tiller_agent::message::{Arguments, Block};
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, ToolOutput, ToolResult};

use crate::fields::{body, is_base64};
use crate::request::{Refusal, RefusalKind};

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTool {
    pub spec: ToolSpec,
    /// Registered, but not offered to the model.
    pub is_hidden: bool,
    /// The client's time limit.
    pub timeout: Option<Duration>,
}

/// The fields are checked one by one, because each has its own error text. The `label` is for
/// screens and is ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a host tool")]
struct Definition {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    description: Value,
    #[serde(default)]
    parameters: Value,
    #[serde(default)]
    hidden: Option<bool>,
    #[serde(default)]
    timeout_ms: Option<NonZeroU64>,
}

#[derive(Deserialize)]
struct SetHostTools {
    tools: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostToolUpdate {
    id: String,
    partial_result: ToolOutput,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostToolResult {
    id: String,
    result: ToolOutput,
    #[serde(default)]
    is_error: Option<bool>,
}

/// Parses `set_host_tools`. If one tool is invalid, none is registered.
pub(crate) fn tools(kind: &str, text: &str) -> Result<Vec<HostTool>, Refusal> {
    let SetHostTools { tools } = body(kind, text)?;
    let refused = |error| Refusal { command: kind.into(), kind: RefusalKind::Refused, error };
    let tools = tools.into_iter().enumerate().map(|(index, tool)| tool.check(index));
    let tools: Vec<HostTool> = tools.collect::<Result<_, _>>().map_err(refused)?;
    let mut names = HashSet::new();
    if !tools.iter().all(|tool| names.insert(tool.spec.name.as_str())) {
        return Err(refused("RPC host tool names must be unique".to_owned()));
    }
    Ok(tools)
}

impl Definition {
    fn check(self, index: usize) -> Result<HostTool, String> {
        let Some(name) = words(&self.name) else {
            return Err(format!("Host tool at index {index} must provide a non-empty name"));
        };
        let Some(description) = words(&self.description) else {
            return Err(format!("Host tool \"{name}\" must provide a non-empty description"));
        };
        if !self.parameters.is_object() {
            return Err(format!("Host tool \"{name}\" must provide a JSON Schema object"));
        }
        // Hosts forward schemas of other programs.
        if let Err(reason) = check_schema(&self.parameters) {
            return Err(format!("Host tool \"{name}\" cannot be used: {reason}"));
        }
        Ok(HostTool {
            spec: ToolSpec { name, description, parameters: self.parameters },
            is_hidden: self.hidden.unwrap_or(false),
            timeout: self.timeout_ms.map(|ms| Duration::from_millis(ms.get())),
        })
    }
}

fn words(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Parses `host_tool_update`: the call and its partial result.
pub(crate) fn update(kind: &str, text: &str) -> Result<(String, ToolOutput), Refusal> {
    let HostToolUpdate { id, partial_result } = body(kind, text)?;
    check(kind, "partialResult", &partial_result)?;
    Ok((id, partial_result))
}

/// Parses `host_tool_result`: the call and its result.
pub(crate) fn result(kind: &str, text: &str) -> Result<(String, ToolResult), Refusal> {
    let HostToolResult { id, result, is_error } = body(kind, text)?;
    check(kind, "result", &result)?;
    let result = match is_error {
        Some(true) => Err(failure(result)),
        _ => Ok(result),
    };
    Ok((id, result))
}

/// The content must be acceptable to providers: it stays in the conversation.
fn check(kind: &str, field: &str, output: &ToolOutput) -> Result<(), Refusal> {
    for (index, block) in output.content.iter().enumerate() {
        let why = match block {
            Block::Text { .. } => continue,
            Block::Image { mime_type, .. } if !mime_type.starts_with("image/") => {
                ".mimeType`: expected an image type, such as image/png"
            }
            Block::Image { data, .. } if !is_base64(data) => ".data`: expected base64",
            Block::Image { .. } => continue,
            Block::Thinking { .. } | Block::ToolCall(_) => ".type`: expected `text` or `image`",
        };
        return Err(Refusal::invalid(kind, format!("field `{field}.content[{index}]{why}")));
    }
    Ok(())
}

fn failure(output: ToolOutput) -> Failure {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for block in output.content {
        match block {
            Block::Text { text, .. } => texts.push(text),
            other => images.push(other),
        }
    }
    let text = texts.join("\n");
    let message = match text.trim() {
        "" => "Host tool execution failed",
        text => text,
    };
    Failure { message: message.to_owned(), images, details: output.details }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) id: &'a str,
    pub(crate) tool_call_id: &'a str,
    pub(crate) tool_name: &'a str,
    pub(crate) arguments: &'a Arguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cancel<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) id: &'a str,
    pub(crate) target_id: &'a str,
}
