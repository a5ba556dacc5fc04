//! `get_session_stats`: what the session has cost so far.

use serde::Serialize;
use tiller_agent::message::{Message, UsageCost};
use tiller_agent::tokens;

use super::data;
use crate::rpc::dispatch::Handled;
use crate::rpc::state::State;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats<'a> {
    session_id: &'a str,
    user_messages: usize,
    assistant_messages: usize,
    tool_calls: usize,
    tool_results: usize,
    total_messages: usize,
    tokens: Tokens,
    cost: Dollars,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_usage: Option<ContextUsage>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total: u64,
}

/// Money, written as a plain number.
#[derive(Default, Serialize)]
#[serde(transparent)]
struct Dollars(#[serde(serialize_with = "tiller_agent::message::plain_number")] f64);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextUsage {
    tokens: u64,
    context_window: u64,
    #[serde(serialize_with = "tiller_agent::message::plain_number")]
    percent: f64,
}

pub(crate) fn get_session_stats(state: &State) -> Handled {
    let messages = state.conversation.messages();
    let mut stats = Stats {
        session_id: state.conversation.id(),
        total_messages: messages.len(),
        ..Stats::default()
    };
    for message in messages {
        match &**message {
            Message::User(_) => stats.user_messages += 1,
            Message::ToolResult(_) => stats.tool_results += 1,
            Message::Assistant(message) => {
                let usage = &message.usage;
                stats.assistant_messages += 1;
                stats.tool_calls += message.tool_calls().count();
                stats.tokens.input += usage.input;
                stats.tokens.output += usage.output;
                stats.tokens.cache_read += usage.cache_read;
                stats.tokens.cache_write += usage.cache_write;
                let UsageCost { total, .. } = usage.cost;
                stats.cost.0 += total;
            }
            _ => {}
        }
    }
    let Tokens { input, output, cache_read, cache_write, .. } = stats.tokens;
    stats.tokens.total = input + output + cache_read + cache_write;
    let window = state.model.as_ref().map_or(0, |model| model.context_window);
    if window > 0 {
        let tokens = tokens::in_context(messages);
        let percent = tokens as f64 / window as f64 * 100.0;
        stats.context_usage = Some(ContextUsage { tokens, context_window: window, percent });
    }
    data(&stats)
}
