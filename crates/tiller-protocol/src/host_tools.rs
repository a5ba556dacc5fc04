//! Host tools on the wire: registration, calls and results.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tiller_agent::arguments::check_schema;
use tiller_agent::message::Block;
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, ToolOutput, ToolResult};

use crate::fields::{check_image, is_default, or_default};
use crate::request::{Refusal, RefusalKind};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetHostTools {
    pub tools: Vec<HostTool>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "a host tool")]
pub struct HostTool {
    #[serde(default, deserialize_with = "trimmed")]
    pub name: String,
    #[serde(default, deserialize_with = "trimmed")]
    pub description: String,
    /// A JSON Schema of the arguments. Calls that do not match it are not sent to the client.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Value,
    /// The name is reserved, but the tool is not offered to the model.
    #[serde(
        rename = "hidden",
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    pub is_hidden: bool,
    /// The client's time limit in milliseconds; by default there is none.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout_ms: Option<NonZeroU64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostToolUpdate {
    /// The `id` of the `host_tool_call`.
    pub id: String,
    pub partial_result: ToolOutput,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostToolResult {
    /// The `id` of the `host_tool_call`.
    pub id: String,
    /// Blocks of text and images.
    pub result: ToolOutput,
    /// The call failed; the texts of the result say why.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub is_error: bool,
}

/// The text without white space around it. Another value counts as no text.
fn trimmed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_str().unwrap_or_default().trim().to_owned())
}

impl SetHostTools {
    /// If one tool is invalid, none is registered.
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        let refused = |error| {
            let command = command.to_owned();
            Refusal { command, kind: RefusalKind::Refused, error, code: None }
        };
        for (index, tool) in self.tools.iter().enumerate() {
            tool.check(index).map_err(refused)?;
        }
        let mut names = HashSet::new();
        if !self.tools.iter().all(|tool| names.insert(tool.name.as_str())) {
            return Err(refused("RPC host tool names must be unique".to_owned()));
        }
        Ok(())
    }
}

impl HostTool {
    fn check(&self, index: usize) -> Result<(), String> {
        let name = &self.name;
        if name.is_empty() {
            return Err(format!("Host tool at index {index} must provide a non-empty name"));
        }
        if self.description.is_empty() {
            return Err(format!("Host tool \"{name}\" must provide a non-empty description"));
        }
        if !self.parameters.is_object() {
            return Err(format!("Host tool \"{name}\" must provide a JSON Schema object"));
        }
        // Hosts forward schemas of other programs.
        check_schema(&self.parameters)
            .map_err(|reason| format!("Host tool \"{name}\" cannot be used: {reason}"))
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(|ms| Duration::from_millis(ms.get()))
    }

    /// What the model sees of the tool.
    pub fn into_spec(self) -> ToolSpec {
        let HostTool { name, description, parameters, .. } = self;
        ToolSpec { name, description, parameters }
    }
}

impl HostToolUpdate {
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        check_output(command, "partialResult", &self.partial_result)
    }
}

impl HostToolResult {
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        check_output(command, "result", &self.result)
    }

    pub fn into_result(self) -> ToolResult {
        if self.is_error { Err(failure(self.result)) } else { Ok(self.result) }
    }
}

/// The content must be acceptable to providers: it stays in the conversation.
fn check_output(command: &str, field: &str, output: &ToolOutput) -> Result<(), Refusal> {
    for (index, block) in output.content.iter().enumerate() {
        let field = format!("{field}.content[{index}]");
        match block {
            Block::Text { .. } => {}
            Block::Image { data, mime_type } => check_image(command, &field, data, mime_type)?,
            Block::Thinking { .. } | Block::ToolCall(_) => {
                let why = format!("field `{field}.type`: expected `text` or `image`");
                return Err(Refusal::invalid(command, why));
            }
        }
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
