//! Limits the length of an answer: by the model's limit, and by what its window has left.
//!
//! Providers refuse a request whose input and `max_tokens` together exceed the window, so near the
//! end of a long conversation less must be requested.

use tiller_agent::message::{AssistantMessage, Block, Content, Message};
use tiller_agent::provider::Request;

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
    let counted = messages.iter().enumerate().rev().find_map(|(at, message)| {
        let answer = message.as_assistant()?;
        let total = total(answer);
        // A count from before a compaction includes what the compaction removed.
        let trusted = !answer.failed() && total > 0 && answer.timestamp >= compacted_at;
        trusted.then_some((at + 1, total))
    });
    let (from, counted) = counted.unwrap_or_else(|| {
        let tools = request.tools.iter().map(|tool| {
            guess(&tool.name) + guess(&tool.description) + guess(&tool.parameters.to_string())
        });
        (0, guess(&request.system) + tools.sum::<u64>())
    });
    counted + messages[from..].iter().map(|message| guess_message(message)).sum::<u64>()
}

fn total(answer: &AssistantMessage) -> u64 {
    let usage = &answer.usage;
    usage.total_tokens.max(usage.input + usage.output + usage.cache_read + usage.cache_write)
}

fn guess_message(message: &Message) -> u64 {
    match message {
        Message::User(user) => guess_content(&user.content),
        Message::Custom(custom) => guess_content(&custom.content),
        Message::Assistant(answer) if answer.failed() => 0,
        Message::Assistant(answer) => guess_blocks(&answer.content),
        Message::ToolResult(result) => guess_blocks(&result.content),
        Message::BashExecution(bash) if bash.exclude_from_context => 0,
        Message::BashExecution(bash) => guess(&bash.command) + guess(&bash.output),
        Message::BranchSummary(branch) => guess(&branch.summary),
        Message::CompactionSummary(compaction) => guess(&compaction.summary),
    }
}

fn guess_content(content: &Content) -> u64 {
    match content {
        Content::Text(text) => guess(text),
        Content::Blocks(blocks) => guess_blocks(blocks),
    }
}

fn guess_blocks(blocks: &[Block]) -> u64 {
    let tokens = blocks.iter().map(|block| match block {
        Block::Text { text, .. } => guess(text),
        Block::Thinking { thinking, .. } => guess(thinking),
        Block::Image { .. } => 1600,
        Block::ToolCall(call) => {
            let arguments = call.arguments.iter().map(|(name, value)| {
                guess(name) + value.as_str().map_or_else(|| guess(&value.to_string()), guess)
            });
            guess(&call.name) + arguments.sum::<u64>()
        }
    });
    tokens.sum()
}

/// About four letters of English or code per token, and one token for every character that takes
/// three bytes, so that Chinese, Japanese and Korean are not underestimated.
fn guess(text: &str) -> u64 {
    let (mut narrow, mut middle, mut wide) = (0, 0, 0);
    // Counting lead bytes counts characters without decoding them.
    for &byte in text.as_bytes() {
        match byte {
            0x00..=0x7F => narrow += 1,
            0xC0..=0xDF => middle += 1,
            0xE0..=0xFF => wide += 1,
            _ => (),
        }
    }
    u64::div_ceil(narrow, 4) + u64::div_ceil(middle, 2) + wide
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiller_agent::message::{CompactionSummary, Usage};

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
        assert_eq!(max_tokens_of(vec![user(&"日本".repeat(80_000))]), 35_901);
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
