//! `get_state`, `get_messages`, `get_last_assistant_text`: the current state.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use tiller_agent::message::{AssistantMessage, Message, StopReason, text_of};
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::Tool;
use tiller_config::models::Models;
use tiller_protocol::data::{LastTextData, OfferedTool, StateData};
use tiller_protocol::{ApprovalMode, Level, ListRange, Messages, Reply, stored};
use tiller_session::{Page, PageRange};

use super::{data, page};
use crate::connection::WireFormat;
use crate::dispatch::{Handled, Response};
use crate::state::SessionState;
use crate::{project_state, todos, tools};

pub(crate) fn get_state(state: &mut SessionState, level: Level) -> Handled {
    let is_xcsh = level == Level::Xcsh;
    let todo_phases = is_xcsh.then(|| Cow::Owned(todos::todos(state).clone()));
    let system_prompt = is_xcsh.then(|| project_state::system_prompt(state).to_string().into());
    let tools = is_xcsh.then(|| tools::offered(state));
    let waiting = state.queues.in_view();
    // Newer clients read the fields of a model without checking whether there is one.
    let placeholder =
        (level == Level::PiDelta && state.models.current().is_none()).then(Models::unknown);
    data(&StateData {
        model: state
            .models
            .current()
            .map(|model| &**model)
            .or(placeholder.as_ref())
            .map(Cow::Borrowed),
        thinking_level: state.models.level(),
        // A prompt with a running `input` hook may become a run at any moment.
        is_streaming: state.is_busy() || state.extensions.has_input_hook(),
        is_compacting: state.work.compactions().is_under_way(),
        steering_mode: state.queues.steering_mode(),
        follow_up_mode: state.queues.follow_up_mode(),
        interrupt_mode: state.queues.interrupt_mode(),
        session_file: state.session.conversation().file().map(Cow::Borrowed),
        session_id: state.session.conversation().id().into(),
        session_name: state.session.conversation().name().map(Cow::Borrowed),
        auto_compaction_enabled: state.work.compactions().settings().enabled,
        message_count: state.session.conversation().message_count(),
        pending_message_count: waiting,
        queued_message_count: waiting,
        approvals: Some(state.approvals.mode()).filter(|mode| *mode != ApprovalMode::Off),
        sandbox: state.workspace.sandbox().map(|sandbox| sandbox.summary()),
        todo_phases,
        system_prompt,
        dump_tools: tools.as_deref().map(|tools| tools.iter().map(offered_tool).collect()),
    })
}

fn offered_tool(tool: &Tool) -> OfferedTool<'_> {
    let ToolSpec { name, description, parameters } = &*tool.spec;
    OfferedTool {
        name: name.into(),
        description: description.into(),
        parameters: Cow::Borrowed(parameters),
    }
}

/// From memory if the messages are loaded, else straight from the file: a large session is not
/// loaded only to be shown. Written as [`MessagesData`] is, without a copy of the conversation.
///
/// [`MessagesData`]: tiller_protocol::data::MessagesData
pub(crate) fn get_messages(
    state: &SessionState,
    format: &WireFormat,
    wanted: &ListRange,
) -> Handled {
    let level = format.level;
    let range = page::range(wanted, format);
    let mut text = br#"{"messages":"#.to_vec();
    let written = if let Some(messages) = state.session.conversation().loaded() {
        write_loaded(messages, level, range, &mut text)
    } else {
        let session = state.session.conversation().session();
        let shaped = |message: &RawValue| stored(message, level);
        let written =
            session.write_messages_page(range.unwrap_or(PageRange::ALL), &mut text, shaped);
        written.map_err(|err| err.to_string())?
    };
    if range.is_some() {
        page::write_fields(&written, &mut text);
    }
    text.push(b'}');
    Ok(Response::Now(Reply::text(text)))
}

fn write_loaded(
    messages: &[Arc<Message>],
    level: Level,
    range: Option<PageRange>,
    text: &mut Vec<u8>,
) -> Page {
    let (written, page) = match range {
        None => {
            let all = Page::before(messages.len(), messages.len());
            (serde_json::to_writer(text, &Messages { messages, level }), all)
        }
        Some(range) => {
            let list = messages.iter().map(|message| tiller_protocol::Message::new(message, level));
            let (items, page) = page::items(list, range);
            (serde_json::to_writer(text, &items), page)
        }
    };
    written.expect("our own types serialize to JSON");
    page
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
    // Clients of xcsh expect no field when there is no text.
    let is_absent = text.is_none() && level == Level::Xcsh;
    data(&LastTextData { text: (!is_absent).then_some(text) })
}
