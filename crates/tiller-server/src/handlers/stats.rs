//! `get_session_stats`: the usage and cost of the session.

use std::path::Path;

use serde::Serialize;
use tiller_protocol::Level;
use tiller_session::Stats;

use super::data;
use crate::conversation::Tokens;
use crate::dispatch::Handled;
use crate::state::SessionState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatsData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_file: Option<&'a Path>,
    session_id: &'a str,
    /// Over the whole session, so that the figures never shrink.
    #[serde(flatten)]
    stats: &'a Stats,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_usage: Option<ContextUsage>,
    /// Requests that a subscription would count. We have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    premium_requests: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextUsage {
    /// Unknown right after a compaction, until an answer has reported it.
    tokens: Option<u64>,
    context_window: u64,
    percent: Option<Percent>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Percent {
    #[serde(serialize_with = "tiller_agent::message::plain_number")]
    value: f64,
}

pub(crate) fn get_session_stats(state: &SessionState, level: Level) -> Handled {
    let conversation = state.session.conversation();
    let window = state.models.context_window();
    let context_usage = if window > 0 {
        let tokens = match conversation.tokens().map_err(|err| err.to_string())? {
            Tokens::Counted(tokens) => Some(tokens),
            Tokens::Estimated(_) if conversation.session().is_compacted() => None,
            Tokens::Estimated(tokens) => Some(tokens),
        };
        let percent = tokens.map(|tokens| Percent { value: tokens as f64 / window as f64 * 100.0 });
        Some(ContextUsage { tokens, context_window: window, percent })
    } else {
        None
    };
    data(&StatsData {
        session_file: conversation.file(),
        session_id: conversation.id(),
        stats: conversation.session().stats(),
        context_usage,
        premium_requests: (level == Level::Xcsh).then_some(0),
    })
}
