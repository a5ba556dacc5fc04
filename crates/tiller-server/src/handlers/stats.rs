//! `get_session_stats`: the usage and cost of the session.

use std::borrow::Cow;

use tiller_protocol::Level;
use tiller_protocol::data::{ContextUsage, StatsData, TokenTotals};

use super::data;
use crate::conversation::Tokens;
use crate::dispatch::Handled;
use crate::state::SessionState;

pub(crate) fn get_session_stats(state: &SessionState, level: Level) -> Handled {
    let conversation = state.session.conversation();
    let window = state.models.context_window();
    let context_usage = if window > 0 {
        let tokens = match conversation.tokens().map_err(|err| err.to_string())? {
            Tokens::Counted(tokens) => Some(tokens),
            Tokens::Estimated(_) if conversation.session().is_compacted() => None,
            Tokens::Estimated(tokens) => Some(tokens),
        };
        let percent = tokens.map(|tokens| tokens as f64 / window as f64 * 100.0);
        Some(ContextUsage { tokens, context_window: window, percent })
    } else {
        None
    };
    let stats = conversation.session().stats();
    let tiller_session::Tokens { input, output, cache_read, cache_write, total } = stats.tokens;
    data(&StatsData {
        session_file: conversation.file().map(Cow::Borrowed),
        session_id: conversation.id().into(),
        user_messages: stats.user_messages,
        assistant_messages: stats.assistant_messages,
        tool_calls: stats.tool_calls,
        tool_results: stats.tool_results,
        total_messages: stats.total_messages,
        tokens: TokenTotals { input, output, cache_read, cache_write, total },
        cost: stats.cost,
        context_usage,
        premium_requests: (level == Level::Xcsh).then_some(0),
    })
}
