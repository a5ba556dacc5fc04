//! Records of a session as `session/update`: one record at a time, without I/O.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::MaybeUndefined;
use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, CompactionId,
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Cost, ImageContent, MessageId,
    Notice as ClientNotice, NoticeSeverity, SessionInfoUpdate, SessionUpdate, ToolCall,
    ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    UnstructuredCommandInput, UsageUpdate,
};
use serde_json::Value;
use tiller_agent::message::{BashExecution, Content, CustomMessage};
use tiller_protocol::data::{CommandsData, StatsData};
use tiller_protocol::{
    Arguments, Block, CompactionResult, McpServerSummary, Message, Notice, Record, Step,
    ToolOutput, UiRequest,
};

use crate::initialize::ClientOffer;
use crate::plan::{TODO_TOOL, plan_of};
use crate::tool_calls;
use crate::tool_content::{CallOutput, finished, planned, shown};

/// Turns what happens in a session into updates for the client. It knows the calls that are open and
/// counts messages and compactions, because updates name them.
#[derive(Debug)]
pub(crate) struct Updates {
    cwd: PathBuf,
    offer: ClientOffer,
    messages: u64,
    compactions: u64,
    calls: HashMap<String, OpenCall>,
    /// The calls in the order in which they began.
    call_order: Vec<String>,
    /// Those that run, or wait for an extension that looks at them.
    started: Vec<String>,
    /// The names of MCP servers that do not work, which the client knows.
    failed_servers: Vec<String>,
}

/// A call without a result.
#[derive(Debug)]
struct OpenCall {
    tool: String,
    arguments: Arguments,
}

impl Updates {
    pub(crate) fn new(cwd: &Path, offer: ClientOffer) -> Updates {
        Updates {
            cwd: cwd.to_owned(),
            offer,
            messages: 0,
            compactions: 0,
            calls: HashMap::new(),
            call_order: Vec::new(),
            started: Vec::new(),
            failed_servers: Vec::new(),
        }
    }

    /// The updates for a record. `in_prompt`: the client waits for the end of a prompt.
    pub(crate) fn of(&mut self, record: &Record<'_>, in_prompt: bool) -> Vec<SessionUpdate> {
        match record {
            Record::MessageStart { message, client_message_id } => match message {
                // The client shows what it has sent itself.
                Message::User(user) if client_message_id.is_none() => self.user(&user.content),
                Message::Assistant(_) => {
                    self.begin_message();
                    Vec::new()
                }
                _ => Vec::new(),
            },
            Record::MessageUpdate { assistant_message_event, .. } => {
                self.step(&assistant_message_event.step)
            }
            Record::MessageEnd { message } => match message {
                Message::Custom(custom) => self.custom(custom),
                Message::ToolResult(result) => {
                    let output = CallOutput {
                        content: &result.content,
                        details: result.details.as_deref(),
                        is_error: result.is_error,
                    };
                    self.call_ended(&result.tool_call_id, &output)
                }
                _ => Vec::new(),
            },
            Record::ToolExecutionStart { tool_call_id, tool_name, args } => {
                vec![self.call_started(tool_call_id, tool_name, args)]
            }
            Record::ToolExecutionUpdate { tool_call_id, partial_result: Some(output), .. } => {
                self.call_progress(tool_call_id, output).into_iter().collect()
            }
            Record::ToolExecutionEnd { tool_call_id, result, is_error, .. } => {
                let output = CallOutput {
                    content: &result.content,
                    details: result.details.as_ref(),
                    is_error: *is_error,
                };
                self.call_ended(tool_call_id, &output)
            }
            Record::AgentEnd { .. } => self.fail_open_calls(),
            Record::CompactionStart { .. } => self.compaction_started().into_iter().collect(),
            Record::CompactionEnd { result, aborted, error_message, .. } => {
                let result = result.as_ref().and_then(Option::as_ref);
                let end = self.compaction_ended(result, *aborted, error_message.as_deref());
                end.into_iter().collect()
            }
            Record::SessionInfoChanged { name } => vec![session_info(name.as_deref())],
            Record::AutoRetryStart { attempt, max_attempts, error_message, .. } => {
                let title = format!("The request is sent again ({attempt} of {max_attempts})");
                self.notice(NoticeSeverity::Warning, title, Some(error_message))
            }
            Record::ExtensionError { extension_path, error, .. } => {
                let title = format!("The extension {extension_path} failed");
                self.notice(NoticeSeverity::Error, title, Some(error))
            }
            Record::SessionError { error } => {
                let title = "The session could not be stored".to_owned();
                self.notice(NoticeSeverity::Error, title, Some(error))
            }
            Record::McpServersChange { servers } => self.servers_changed(servers),
            Record::ExtensionUiRequest { request, .. } => match &**request {
                UiRequest::Notice(notice) => self.extension_notice(notice, in_prompt),
                UiRequest::Dialog(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn begin_message(&mut self) {
        self.messages += 1;
    }

    fn step(&mut self, step: &Step<'_>) -> Vec<SessionUpdate> {
        match step {
            Step::TextDelta { delta, .. } => vec![self.agent_text(delta)],
            Step::ThinkingDelta { delta, .. } => vec![self.thought(delta)],
            Step::CallStart { id: Some(id), tool_name: Some(tool), .. } => {
                vec![self.call_begun(id, tool, &Arguments::new())]
            }
            Step::CallEnd { tool_call, .. } => {
                vec![self.call_complete(&tool_call.id, &tool_call.name, &tool_call.arguments)]
            }
            _ => Vec::new(),
        }
    }

    fn chunk(&self, content: impl Into<ContentBlock>) -> ContentChunk {
        ContentChunk::new(content.into()).message_id(MessageId::new(format!("m{}", self.messages)))
    }

    pub(crate) fn agent_text(&self, text: &str) -> SessionUpdate {
        SessionUpdate::AgentMessageChunk(self.chunk(text))
    }

    pub(crate) fn thought(&self, text: &str) -> SessionUpdate {
        SessionUpdate::AgentThoughtChunk(self.chunk(text))
    }

    /// A message of the user that the client does not show yet.
    pub(crate) fn user(&mut self, content: &Content) -> Vec<SessionUpdate> {
        self.begin_message();
        let chunk = |block: ContentBlock| SessionUpdate::UserMessageChunk(self.chunk(block));
        match content {
            Content::Text(text) => vec![chunk(text.as_str().into())],
            Content::Blocks(blocks) => blocks.iter().filter_map(content_block).map(chunk).collect(),
        }
    }

    /// The answer of the model, whole.
    pub(crate) fn answer(&mut self, blocks: &[Block]) -> Vec<SessionUpdate> {
        self.begin_message();
        let mut updates = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text, .. } if !text.is_empty() => updates.push(self.agent_text(text)),
                Block::Thinking { thinking, .. } if !thinking.is_empty() => {
                    updates.push(self.thought(thinking));
                }
                Block::ToolCall(call) => {
                    updates.push(self.call_begun(&call.id, &call.name, &call.arguments));
                }
                _ => {}
            }
        }
        updates
    }

    /// A message of an extension.
    pub(crate) fn custom(&mut self, custom: &CustomMessage) -> Vec<SessionUpdate> {
        let text = custom.content.text();
        if !custom.display || text.is_empty() {
            return Vec::new();
        }
        self.begin_message();
        vec![self.agent_text(&text)]
    }

    /// A command that a client of another kind has run in the session.
    pub(crate) fn bash(&mut self, bash: &BashExecution) -> Vec<SessionUpdate> {
        self.begin_message();
        let id = format!("bash-{}", self.messages);
        let arguments = Arguments::from_iter([("command".to_owned(), bash.command.clone().into())]);
        let call = self.call_begun(&id, "bash", &arguments);
        let content = [Block::text(bash.output.as_str())];
        let is_error = bash.exit_code != Some(0);
        let output = CallOutput { content: &content, details: None, is_error };
        std::iter::once(call).chain(self.call_ended(&id, &output)).collect()
    }

    /// A call begins. Its arguments may still be empty.
    fn call_begun(&mut self, id: &str, tool: &str, arguments: &Arguments) -> SessionUpdate {
        let call = OpenCall { tool: tool.to_owned(), arguments: arguments.clone() };
        self.calls.insert(id.to_owned(), call);
        self.call_order.push(id.to_owned());
        let raw = (!arguments.is_empty()).then(|| Value::Object(arguments.clone()));
        SessionUpdate::ToolCall(
            ToolCall::new(id.to_owned(), tool_calls::title(tool, arguments))
                .name(tool.to_owned())
                .kind(tool_calls::kind(tool))
                .content(planned(tool, arguments, &self.cwd))
                .locations(tool_calls::locations(tool, arguments, &self.cwd))
                .raw_input(raw),
        )
    }

    /// The arguments of a call are complete.
    fn call_complete(&mut self, id: &str, tool: &str, arguments: &Arguments) -> SessionUpdate {
        let Some(call) = self.calls.get_mut(id) else {
            return self.call_begun(id, tool, arguments);
        };
        call.arguments = arguments.clone();
        let fields = self.fields_of(tool, arguments);
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))
    }

    fn fields_of(&self, tool: &str, arguments: &Arguments) -> ToolCallUpdateFields {
        let content = planned(tool, arguments, &self.cwd);
        let locations = tool_calls::locations(tool, arguments, &self.cwd);
        ToolCallUpdateFields::new()
            .title(tool_calls::title(tool, arguments))
            .content((!content.is_empty()).then_some(content))
            .locations((!locations.is_empty()).then_some(locations))
            .raw_input(Value::Object(arguments.clone()))
    }

    fn call_started(&mut self, id: &str, tool: &str, arguments: &Arguments) -> SessionUpdate {
        let status = ToolCallStatus::InProgress;
        self.started.push(id.to_owned());
        match self.calls.get_mut(id) {
            None => match self.call_begun(id, tool, arguments) {
                SessionUpdate::ToolCall(call) => SessionUpdate::ToolCall(call.status(status)),
                other => other,
            },
            Some(call) if call.arguments == *arguments => {
                let fields = ToolCallUpdateFields::new().status(status);
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))
            }
            // An extension has changed them.
            Some(call) => {
                call.arguments = arguments.clone();
                let fields = self.fields_of(tool, arguments).status(status);
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))
            }
        }
    }

    fn call_progress(&self, id: &str, output: &ToolOutput) -> Option<SessionUpdate> {
        let call = self.calls.get(id)?;
        let content = shown(&call.tool, &output.content);
        if content.is_empty() {
            return None;
        }
        let fields = ToolCallUpdateFields::new().content(content);
        Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)))
    }

    /// A call has its result. Nothing follows for a call that has one already.
    pub(crate) fn call_ended(&mut self, id: &str, output: &CallOutput<'_>) -> Vec<SessionUpdate> {
        let Some(call) = self.calls.remove(id) else { return Vec::new() };
        self.call_order.retain(|other| other != id);
        self.started.retain(|other| other != id);
        let content = finished(&call.tool, &call.arguments, output, &self.cwd);
        let line = output.first_changed_line();
        let place = line.and_then(|_| tool_calls::path(&call.arguments, &self.cwd));
        let place = place.map(|path| vec![ToolCallLocation::new(path).line(line)]);
        let status =
            if output.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let fields = ToolCallUpdateFields::new()
            // A question about the call may have shown another title.
            .title(tool_calls::title(&call.tool, &call.arguments))
            .status(status)
            .content((!content.is_empty()).then_some(content))
            .locations(place)
            .raw_output(output.raw());
        let update = SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields));
        let plan = output.details.filter(|_| call.tool == TODO_TOOL && !output.is_error);
        std::iter::once(update).chain(plan.and_then(plan_of)).collect()
    }

    /// Calls of an answer that was cut off never ran.
    pub(crate) fn fail_open_calls(&mut self) -> Vec<SessionUpdate> {
        self.calls.clear();
        self.started.clear();
        let failed = |id: String| {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
        };
        std::mem::take(&mut self.call_order).into_iter().map(failed).collect()
    }

    /// The call that has started last and has no result. Extensions look at one call after the other,
    /// so a dialog that names no call is about this one.
    pub(crate) fn open_call(&self) -> Option<&str> {
        self.started.last().map(String::as_str)
    }

    fn compaction_started(&mut self) -> Option<SessionUpdate> {
        self.compactions += 1;
        self.compaction(CompactionStatus::InProgress)
    }

    fn compaction_ended(
        &self,
        result: Option<&CompactionResult<'_>>,
        aborted: bool,
        error: Option<&str>,
    ) -> Option<SessionUpdate> {
        let status = match (result, aborted) {
            (Some(_), _) => CompactionStatus::Completed,
            (None, true) => CompactionStatus::Cancelled,
            (None, false) => CompactionStatus::Failed,
        };
        let Some(SessionUpdate::CompactionUpdate(mut update)) = self.compaction(status) else {
            return None;
        };
        if let Some(result) = result {
            update.summary = MaybeUndefined::Value(vec![result.summary.as_ref().into()]);
        } else if let Some(error) = error {
            update.error = MaybeUndefined::Value(error.to_owned());
        }
        Some(SessionUpdate::CompactionUpdate(update))
    }

    /// A compaction that is stored.
    pub(crate) fn stored_compaction(&mut self, summary: &str) -> Option<SessionUpdate> {
        self.compactions += 1;
        let update = self.compaction(CompactionStatus::Completed)?;
        let SessionUpdate::CompactionUpdate(mut update) = update else { return None };
        update.summary = MaybeUndefined::Value(vec![summary.into()]);
        Some(SessionUpdate::CompactionUpdate(update))
    }

    fn compaction(&self, status: CompactionStatus) -> Option<SessionUpdate> {
        let id = CompactionId::new(format!("compaction-{}", self.compactions));
        let update = CompactionUpdate::new(id, status);
        self.offer.compactions.then_some(SessionUpdate::CompactionUpdate(update))
    }

    /// The failure of an MCP server is shown once, and again after it has worked.
    fn servers_changed(&mut self, servers: &[McpServerSummary]) -> Vec<SessionUpdate> {
        let failed: Vec<&McpServerSummary> =
            servers.iter().filter(|server| server.error.is_some()).collect();
        let is_known = |server: &&&McpServerSummary| self.failed_servers.contains(&server.name);
        let news = failed.iter().filter(|server| !is_known(server));
        let notices = news.flat_map(|server| {
            let title = format!("The MCP server {} does not work", server.name);
            self.notice(NoticeSeverity::Warning, title, server.error.as_deref())
        });
        let notices = notices.collect();
        self.failed_servers = failed.into_iter().map(|server| server.name.clone()).collect();
        notices
    }

    /// A notice, for a client that shows notices.
    fn notice(
        &self,
        severity: NoticeSeverity,
        title: String,
        description: Option<&str>,
    ) -> Vec<SessionUpdate> {
        if !self.offer.notices || title.is_empty() {
            return Vec::new();
        }
        let notice = ClientNotice::new(severity, title).description(description.map(str::to_owned));
        vec![SessionUpdate::Notice(notice)]
    }

    /// What an extension shows. A client without notices gets it as a message, if it waits for the
    /// end of a prompt: the notice may be all that a command says.
    fn extension_notice(&mut self, notice: &Notice, in_prompt: bool) -> Vec<SessionUpdate> {
        let Notice::Notify { message, notify_type } = notice else { return Vec::new() };
        if self.offer.notices {
            let severity = match notify_type.as_deref() {
                Some("error") => NoticeSeverity::Error,
                Some("warning") => NoticeSeverity::Warning,
                _ => NoticeSeverity::Info,
            };
            return self.notice(severity, message.clone(), None);
        }
        if !in_prompt || message.is_empty() {
            return Vec::new();
        }
        self.begin_message();
        vec![self.agent_text(message)]
    }
}

fn content_block(block: &Block) -> Option<ContentBlock> {
    match block {
        Block::Text { text, .. } if !text.is_empty() => Some(text.as_str().into()),
        Block::Image { data, mime_type } => {
            Some(ContentBlock::Image(ImageContent::new(data.clone(), mime_type.clone())))
        }
        _ => None,
    }
}

/// The longest title of a session.
const TITLE_MAX_CHARS: usize = 120;

/// The title of a session without a name: how its first message begins.
pub(crate) fn title_of(message: &str) -> Option<String> {
    let line = message.trim().lines().next()?;
    Some(line.trim_end().chars().take(TITLE_MAX_CHARS).collect())
}

pub(crate) fn session_info(name: Option<&str>) -> SessionUpdate {
    let title = name.map_or(MaybeUndefined::Null, |name| MaybeUndefined::Value(name.to_owned()));
    let mut info = SessionInfoUpdate::new();
    info.title = title;
    SessionUpdate::SessionInfoUpdate(info)
}

/// How full the model's window is, and what the session has cost.
pub(crate) fn usage(stats: &StatsData<'_>) -> Option<SessionUpdate> {
    let context = stats.context_usage?;
    let cost = Cost::new(stats.cost, "USD");
    Some(SessionUpdate::UsageUpdate(
        UsageUpdate::new(context.tokens?, context.context_window).cost(cost),
    ))
}

/// What a prompt can begin with.
pub(crate) fn commands(data: &CommandsData) -> SessionUpdate {
    let command = |info: &tiller_protocol::data::CommandInfo| {
        let description = info.description.clone().unwrap_or_else(|| info.name.clone());
        let input = UnstructuredCommandInput::new("arguments");
        AvailableCommand::new(info.name.clone(), description)
            .input(AvailableCommandInput::Unstructured(input))
    };
    let commands = data.commands.iter().map(command).collect();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

#[cfg(test)]
mod tests;
