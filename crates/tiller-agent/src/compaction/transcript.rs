//! Formats a conversation as plain text for the summary request. As text, because a model that gets
//! messages tends to continue the conversation.

use std::sync::Arc;

use crate::message::{AssistantMessage, BashExecution, Block, Content, Message, ToolCall, text_of};

/// How much of a tool's output is included, in characters: a summary does not need the rest.
const RESULT_MAX: usize = 2000;

/// One text per message or call.
pub(super) fn parts(messages: &[Arc<Message>]) -> Vec<String> {
    let mut parts = Vec::new();
    for message in messages {
        match &**message {
            Message::User(user) => push_part("User", &content(&user.content), &mut parts),
            Message::Custom(custom) => push_part("User", &content(&custom.content), &mut parts),
            Message::BranchSummary(branch) => push_part("User", &branch.summary, &mut parts),
            Message::CompactionSummary(earlier) => push_part("User", &earlier.summary, &mut parts),
            Message::BashExecution(bash) if bash.exclude_from_context => {}
            Message::BashExecution(bash) => push_part("User", &format_command(bash), &mut parts),
            Message::Assistant(answer) => push_answer(answer, &mut parts),
            Message::ToolResult(result) => {
                push_part("Tool result", &shortened(&text_of(&result.content)), &mut parts);
            }
        }
    }
    parts
}

fn push_part(role: &str, text: &str, parts: &mut Vec<String>) {
    if !text.is_empty() {
        parts.push(format!("[{role}]: {text}"));
    }
}

fn push_answer(answer: &AssistantMessage, parts: &mut Vec<String>) {
    let thoughts = answer.content.iter().filter_map(|block| match block {
        Block::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    push_part("Assistant thinking", &thoughts.collect::<Vec<_>>().join("\n"), parts);
    push_part("Assistant", &text_of(&answer.content), parts);
    let calls: Vec<_> = answer.tool_calls().map(format_call).collect();
    push_part("Assistant tool calls", &calls.join("; "), parts);
}

fn format_call(call: &ToolCall) -> String {
    let arguments = call.arguments.iter().map(|(name, value)| format!("{name}={value}"));
    format!("{}({})", call.name, arguments.collect::<Vec<_>>().join(", "))
}

fn format_command(bash: &BashExecution) -> String {
    let output = shortened(&bash.output);
    match bash.exit_code {
        _ if bash.cancelled => format!("Ran `{}` (cancelled)\n{output}", bash.command),
        Some(code) if code != 0 => format!("Ran `{}` (exit code {code})\n{output}", bash.command),
        _ => format!("Ran `{}`\n{output}", bash.command),
    }
}

fn content(content: &Content) -> String {
    let images = match content {
        Content::Text(_) => 0,
        Content::Blocks(blocks) => {
            blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count()
        }
    };
    let text = content.text();
    match images {
        0 => text,
        1 => format!("{text}\n[1 image]"),
        _ => format!("{text}\n[{images} images]"),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(RESULT_MAX) {
        None => text.to_owned(),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}\n\n[... {more} more characters truncated]", &text[..end])
        }
    }
}
