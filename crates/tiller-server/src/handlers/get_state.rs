//! `get_state`, `get_messages`, `get_last_assistant_text`: the current state.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_agent::message::{AssistantMessage, Message, StopReason, text_of};
use tiller_agent::model::Model;
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::provider::ToolSpec;
use tiller_agent::todo::TodoList;
use tiller_agent::tool::ToolSet;
use tiller_config::models::Models;
use tiller_protocol::{Level, ListRange, Messages, Reply, stored};

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::{Handled, Response};
use crate::state::SessionState;
use crate::{project_state, todos, tools};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateData<'a> {
    model: Option<&'a Model>,
    thinking_level: &'static str,
    is_streaming: bool,
    is_compacting: bool,
    steering_mode: QueueMode,
    follow_up_mode: QueueMode,
    interrupt_mode: InterruptMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_file: Option<&'a Path>,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_name: Option<&'a str>,
    auto_compaction_enabled: bool,
    message_count: usize,
    /// The same number under the names of both levels.
    pending_message_count: usize,
    queued_message_count: usize,
    #[serde(flatten)]
    xcsh: Option<XcshData>,
}

/// Fields of level `xcsh` only.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct XcshData {
    todo_phases: TodoList,
    system_prompt: String,
    dump_tools: DumpTools,
}

/// The tools that the next request offers.
struct DumpTools(Arc<ToolSet>);

impl Serialize for DumpTools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct DumpTool<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        serializer.collect_seq(self.0.iter().map(|tool| {
            let ToolSpec { name, description, parameters } = &tool.spec;
            DumpTool { name, description, parameters }
        }))
    }
}

pub(crate) fn get_state(state: &mut SessionState, level: Level) -> Handled {
    let xcsh = (level == Level::Xcsh).then(|| XcshData {
        todo_phases: todos::todos(state).clone(),
        system_prompt: project_state::system_prompt(state).to_string(),
        dump_tools: DumpTools(tools::offered(state)),
    });
    let waiting = state.queues.in_view();
    // Newer clients read the fields of a model without checking whether there is one.
    let placeholder =
        (level == Level::PiDelta && state.models.current().is_none()).then(Models::unknown);
    data(&StateData {
        model: state.models.current().map(|model| &**model).or(placeholder.as_ref()),
        thinking_level: state.models.level().name(),
        // A prompt with a running `input` hook may become a run at any moment.
        is_streaming: state.is_busy() || state.extensions.has_input_hook(),
        is_compacting: state.work.compactions().is_under_way(),
        steering_mode: state.queues.steering_mode(),
        follow_up_mode: state.queues.follow_up_mode(),
        interrupt_mode: state.queues.interrupt_mode(),
        session_file: state.session.conversation().file(),
        session_id: state.session.conversation().id(),
        session_name: state.session.conversation().name(),
        auto_compaction_enabled: state.work.compactions().settings().enabled,
        message_count: state.session.conversation().message_count(),
        pending_message_count: waiting,
        queued_message_count: waiting,
        xcsh,
    })
}

#[derive(Serialize)]
struct MessagesData<'a> {
    messages: Messages<'a>,
}

/// From memory if the messages are loaded, else straight from the file: a large session is not
/// loaded only to be shown.
pub(crate) fn get_messages(
    state: &SessionState,
    format: WireFormat,
    _range: &ListRange,
) -> Handled {
    let level = format.level;
    if let Some(messages) = state.session.conversation().loaded() {
        return data(&MessagesData { messages: Messages { messages, level } });
    }
    let mut text = br#"{"messages":"#.to_vec();
    let session = state.session.conversation().session();
    let shaped = |message: &RawValue| stored(message, level);
    session.write_messages_with(&mut text, shaped).map_err(|err| err.to_string())?;
    text.push(b'}');
    Ok(Response::Now(Reply::text(text)))
}

#[derive(Serialize)]
struct LastText {
    text: Option<String>,
}

/// Clients of xcsh expect no field when there is no text.
#[derive(Serialize)]
struct XcshLastText {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The newest answer with content; an answer that was aborted before it started does not count.
pub(crate) fn get_last_assistant_text(state: &SessionState, level: Level) -> Handled {
    let began = |message: &&AssistantMessage| {
        !(message.stop_reason == StopReason::Aborted && message.content.is_empty())
    };
    let began = |message: &Message| message.as_assistant().is_some_and(|answer| began(&answer));
    let tail = state.session.conversation().tail(began).map_err(|err| err.to_string())?;
    let last = tail.first().filter(|message| began(message));
    let last = last.and_then(|message| message.as_assistant());
    let text = last.map(|message| text_of(&message.content).trim().to_owned());
    let text = text.filter(|text| !text.is_empty());
    match level {
        Level::Xcsh => data(&XcshLastText { text }),
        Level::Pi | Level::PiDelta => data(&LastText { text }),
    }
}
