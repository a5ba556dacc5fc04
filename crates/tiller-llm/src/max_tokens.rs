//! Limits the length of an answer: by the model's limit, and by what its window has left.
//!
//! Providers refuse a request whose input and `max_tokens` together exceed the window, so near the
//! end of a long conversation less must be requested.

use tiller_agent::message::{AssistantMessage, Message};
use tiller_agent::provider::Request;
use tiller_agent::tokens;

/// The allowed error of the input estimate.
const MARGIN: u64 = 4096;
/// Never request less than this, whatever the estimate says. If it really does not fit, the
/// provider refuses and the conversation is compacted, which is better than an answer of one word.
const FLOOR: u64 = 4096;

pub(crate) fn max_tokens(request: &Request) -> u64 {
    let model = &request.model;
    let left = model.context_window.saturating_sub(input_tokens(request)).saturating_sub(MARGIN);
    model.max_tokens.min(left.max(FLOOR)).max(1)
}

/// The tokens of the last answer as counted by the provider plus an estimate of what came after it;
/// all estimated if there is no valid count.
fn input_tokens(request: &Request) -> u64 {
    let messages = &request.messages;
    let compacted_at = messages.iter().filter_map(|message| match &**message {
        Message::CompactionSummary(summary) => Some(summary.timestamp),
        _ => None,
    });
    let compacted_at = compacted_at.max().unwrap_or(0);
    // A count from before a compaction includes what the compaction removed.
    let is_stale = |answer: &AssistantMessage| answer.timestamp < compacted_at;
    let last_stale =
        messages.iter().rposition(|message| message.as_assistant().is_some_and(is_stale));
    let fresh_from = last_stale.map_or(0, |at| at + 1);
    tokens::counted(messages, fresh_from).unwrap_or_else(|| {
        tokens::estimate_frame(&request.system, &request.tools) + tokens::estimate_all(messages)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiller_agent::message::{Block, CompactionSummary, Usage};

    use super::*;
    use crate::testing::{answer, request, user};

    fn max_tokens_of(messages: Vec<Message>) -> u64 {
        let mut request = request(messages);
        let mut model = (*request.model).clone();
        (model.context_window, model.max_tokens) = (200_000, 64_000);
        request.model = Arc::new(model);
        max_tokens(&request)
    }

    fn answer_of(total_tokens: u64, timestamp: u64) -> Message {
        let mut message = answer(vec![Block::text("so")]);
        let Message::Assistant(assistant) = &mut message else { unreachable!() };
        assistant.usage = Usage { total_tokens, ..Usage::default() };
        assistant.timestamp = timestamp;
        message
    }

    #[test]
    fn max_tokens_shrinks_with_the_remaining_window() {
        assert_eq!(max_tokens_of(vec![user("hi")]), 64_000);
        assert_eq!(max_tokens_of(vec![answer_of(100_000, 1), user("hi")]), 64_000);
        assert_eq!(max_tokens_of(vec![answer_of(150_000, 1), user("hi")]), 45_903);
        assert_eq!(max_tokens_of(vec![answer_of(199_999, 1), user("hi")]), FLOOR);
    }

    #[test]
    fn uncounted_messages_are_estimated() {
        assert_eq!(max_tokens_of(vec![user(&"word ".repeat(130_000))]), 33_401);
        assert_eq!(max_tokens_of(vec![user(&"日本".repeat(60_000))]), 45_901);
    }

    #[test]
    fn count_from_before_a_compaction_is_ignored() {
        let summary = CompactionSummary { summary: "s".into(), tokens_before: 9, timestamp: 5 };
        let summary = Message::CompactionSummary(summary);
        let messages = |answered| vec![summary.clone(), answer_of(190_000, answered), user("hi")];
        assert_eq!(max_tokens_of(messages(4)), 64_000);
        assert_eq!(max_tokens_of(messages(6)), 5_903);
    }
}
