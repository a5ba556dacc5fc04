//! Forwarding of events to extensions.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tiller_agent::event::{Event, Update};
use tiller_agent::message::Message;
use tiller_js::Extensions;
use tiller_js::event::Event as ExtensionEvent;

use super::SessionState;
use crate::extensions::model_stream;

/// Forwards an event to listeners, without waiting. Costs nothing if there are none.
pub(crate) fn forward_event(state: &mut SessionState, event: &Event) {
    let Some(host) = state.extensions.host().cloned() else { return };
    match event {
        Event::AgentStart => {
            state.extensions.turn.index = 0;
            host.run_began();
        }
        Event::AgentSettled { .. } => host.run_ended(),
        Event::MessageStart { message, .. } => {
            state.extensions.turn.update_forwarding = begins(&host, message)
        }
        Event::MessageUpdate(update) => return forward_update(state, &host, update),
        _ => {}
    }
    let Some(name) = name(event).filter(|name| host.has_listener(name)) else {
        if matches!(event, Event::TurnEnd { .. }) {
            state.extensions.turn.index += 1;
        }
        return;
    };
    let forwarded = match event {
        Event::AgentStart => ExtensionEvent::AgentStart,
        Event::AgentSettled { aborted } => ExtensionEvent::AgentSettled { aborted: *aborted },
        Event::TurnStart => ExtensionEvent::TurnStart {
            turn_index: state.extensions.turn.index,
            timestamp: state.clock.now(),
        },
        Event::MessageStart { message, .. } => {
            ExtensionEvent::MessageStart { message: value(&**message) }
        }
        Event::ToolStart { call } => ExtensionEvent::ToolExecutionStart {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            args: value(&call.arguments),
        },
        Event::ToolUpdate { call, partial } => ExtensionEvent::ToolExecutionUpdate {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            args: value(&call.arguments),
            partial_result: value(partial),
        },
        Event::ToolEnd { call, result, is_error, duration_ms } => {
            ExtensionEvent::ToolExecutionEnd {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                result: value(result),
                is_error: *is_error,
                duration_ms: *duration_ms,
            }
        }
        Event::AgentEnd { messages, .. } => ExtensionEvent::AgentEnd {
            messages: messages.iter().map(|message| value(&**message)).collect(),
        },
        Event::SessionInfoChanged { name } => {
            ExtensionEvent::SessionInfoChanged { name: name.clone() }
        }
        _ => unreachable!("{name} is not sent to extensions"),
    };
    host.emit(&forwarded);
}

/// How far the updates of a message have been forwarded.
#[derive(Default)]
pub(super) enum UpdateForwarding {
    /// No extension listens, or one is too far behind.
    #[default]
    Unseen,
    /// The message as it started.
    Begins(Arc<Message>),
    Seen,
}

fn begins(host: &Extensions, message: &Arc<Message>) -> UpdateForwarding {
    match message.as_assistant() {
        Some(_) if host.has_listener("message_update") => UpdateForwarding::Begins(message.clone()),
        _ => UpdateForwarding::Unseen,
    }
}

/// An extension that starts to listen in the middle of a message gets updates from the next
/// one.
fn forward_update(state: &mut SessionState, host: &Extensions, update: &Update) {
    let begins = match std::mem::take(&mut state.extensions.turn.update_forwarding) {
        UpdateForwarding::Unseen => return,
        UpdateForwarding::Begins(message) => Some(value(&*message)),
        UpdateForwarding::Seen => None,
    };
    let step = model_stream::event_json(update.clone());
    // Updates with a gap would build another message, so the rest of this one is dropped.
    if host.emit(&ExtensionEvent::MessageUpdate { begins, step }) {
        state.extensions.turn.update_forwarding = UpdateForwarding::Seen;
    }
}

/// The name of the event for extensions, if they can listen to it.
fn name(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::AgentStart => "agent_start",
        Event::AgentSettled { .. } => "agent_settled",
        Event::TurnStart => "turn_start",
        Event::MessageStart { .. } => "message_start",
        Event::ToolStart { .. } => "tool_execution_start",
        Event::ToolUpdate { .. } => "tool_execution_update",
        Event::ToolEnd { .. } => "tool_execution_end",
        Event::AgentEnd { .. } => "agent_end",
        Event::SessionInfoChanged { .. } => "session_info_changed",
        _ => return None,
    })
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
