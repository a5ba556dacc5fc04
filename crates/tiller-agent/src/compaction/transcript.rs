//! A conversation as plain text, for the model that is to summarise it. As text, because a
//! conversation handed over as messages invites a model to go on with it.

use std::sync::Arc;

use crate::message::{AssistantMessage, BashExecution, Block, Content, Message, ToolCall, text_of};

/// How much of a tool's output is shown, in characters: a summary does not need the rest.
const RESULT_MAX: usize = 2000;

/// One piece of text for each thing that was said or done.
pub(super) fn parts(messages: &[Arc<Message>]) -> Vec<String> {
    let mut parts = Vec::new();
    for message in messages {
        match &**message {
            Message::User(user) => said("User", &content(&user.content), &mut parts),
            Message::Custom(custom) => said("User", &content(&custom.content), &mut parts),
            Message::BranchSummary(branch) => said("User", &branch.summary, &mut parts),
            Message::CompactionSummary(earlier) => said("User", &earlier.summary, &mut parts),
            Message::BashExecution(bash) if bash.exclude_from_context => {}
            Message::BashExecution(bash) => said("User", &ran(bash), &mut parts),
            Message::Assistant(answer) => answered(answer, &mut parts),
            Message::ToolResult(result) => {
                said("Tool result", &shortened(&text_of(&result.content)), &mut parts);
            }
        }
    }
    parts
}

fn said(who: &str, text: &str, parts: &mut Vec<String>) {
    if !text.is_empty() {
        parts.push(format!("[{who}]: {text}"));
    }
}

fn answered(answer: &AssistantMessage, parts: &mut Vec<String>) {
    let thoughts = answer.content.iter().filter_map(|block| match block {
        Block::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    said("Assistant thinking", &thoughts.collect::<Vec<_>>().join("\n"), parts);
    said("Assistant", &text_of(&answer.content), parts);
    let calls: Vec<_> = answer.tool_calls().map(called).collect();
    said("Assistant tool calls", &calls.join("; "), parts);
}

fn called(call: &ToolCall) -> String {
    let arguments = call.arguments.iter().map(|(name, value)| format!("{name}={value}"));
    format!("{}({})", call.name, arguments.collect::<Vec<_>>().join(", "))
}

fn ran(bash: &BashExecution) -> String {
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
