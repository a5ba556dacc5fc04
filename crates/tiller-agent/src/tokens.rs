//! How much of the model's window a conversation takes.

use std::sync::Arc;

use crate::message::{AssistantMessage, Block, Content, Message};

/// Tokens in the context: what the provider counted last, and an estimate of what came after.
pub fn in_context(messages: &[Arc<Message>]) -> u64 {
    let counted = messages.iter().rposition(|message| is_counted(message));
    let usage = counted
        .and_then(|index| messages[index].as_assistant())
        .map_or(0, |answer| answer.usage.total_tokens);
    let from = counted.map_or(0, |index| index + 1);
    usage + messages[from..].iter().map(|message| estimate(message)).sum::<u64>()
}

/// Whether the provider has counted the context up to and with this message.
pub fn is_counted(message: &Message) -> bool {
    let answer = message.as_assistant().filter(|answer| !answer.failed());
    answer.is_some_and(|answer| answer.usage.total_tokens > 0)
}

/// Roughly how many tokens a message is. It would rather be too high than too low.
pub fn estimate(message: &Message) -> u64 {
    match message {
        Message::User(message) => content(&message.content),
        Message::Custom(message) => content(&message.content),
        Message::ToolResult(message) => blocks(&message.content),
        Message::Assistant(AssistantMessage { content, .. }) => blocks(content),
        Message::BashExecution(bash) => text(&bash.command) + text(&bash.output),
        Message::BranchSummary(branch) => text(&branch.summary),
        Message::CompactionSummary(compaction) => text(&compaction.summary),
    }
}

fn content(content: &Content) -> u64 {
    match content {
        Content::Text(words) => text(words),
        Content::Blocks(list) => blocks(list),
    }
}

fn blocks(list: &[Block]) -> u64 {
    let tokens = list.iter().map(|block| match block {
        Block::Text { text: words, .. } => text(words),
        Block::Thinking { thinking, .. } => text(thinking),
        Block::Image { .. } => IMAGE_TOKENS,
        Block::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            text(&call.name) + text(&arguments)
        }
    });
    tokens.sum()
}

const IMAGE_TOKENS: u64 = 1200;

/// Four ASCII characters make a token; a character of any other script may well be one itself.
fn text(words: &str) -> u64 {
    let ascii = words.bytes().filter(u8::is_ascii).count() as u64;
    let other = words.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(4) + other
}
