//! Decides which messages are summarised and which are kept.

use std::sync::Arc;

use super::summary_text::SummaryText;
use crate::message::{Content, Message, text_of};
use crate::tokens;

/// What happens to each part of a conversation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The text of an earlier compaction.
    pub(super) earlier: Option<SummaryText>,
    /// Whole turns that are summarised.
    pub history: Vec<Arc<Message>>,
    /// The beginning of a turn whose end is kept.
    pub turn_start: Vec<Arc<Message>>,
    /// The text of the newest user message, if it is not kept.
    pub(super) request: Option<String>,
    /// Messages from this index on are kept.
    pub first_kept: usize,
}

impl Plan {
    /// The summary of an earlier compaction.
    pub fn earlier_summary(&self) -> Option<&str> {
        self.earlier.as_ref().map(|memory| memory.summary.as_str())
    }
}

/// Finds the cut that keeps about `keep` tokens. None if there is nothing to summarise.
pub fn plan(messages: &[Arc<Message>], keep: u64) -> Option<Plan> {
    let (earlier, start) = match messages.first().map(|message| &**message) {
        Some(Message::CompactionSummary(summary)) => (Some(SummaryText::read(&summary.summary)), 1),
        _ => (None, 0),
    };
    let cut = cut_index(messages, start, keep)?;
    // A turn that began before the cut and ends after it is summarised separately from the turns
    // before it.
    let is_inside = messages[cut].as_assistant().is_some();
    let turn = (start..cut).rev().find(|&at| begins_turn(&messages[at]));
    let turn = turn.filter(|_| is_inside).unwrap_or(cut);
    let newest = messages.iter().rposition(|message| matches!(**message, Message::User(_)));
    let request = match newest {
        Some(at) if at < cut => words(&messages[at]),
        Some(_) => None,
        None => earlier.as_ref().and_then(|memory| memory.request.clone()),
    };
    Some(Plan {
        earlier,
        history: messages[start..turn].to_vec(),
        turn_start: messages[turn..cut].to_vec(),
        request,
        first_kept: cut,
    })
}

/// The first possible cut at or after the point where the newest messages have `keep` tokens; if
/// there is none, the last one before it.
fn cut_index(messages: &[Arc<Message>], start: usize, keep: u64) -> Option<usize> {
    let mut tokens = 0;
    let full = (start..messages.len()).rev().find(|&at| {
        tokens += tokens::estimate(&messages[at]);
        tokens >= keep
    })?;
    let after = (full..messages.len()).find(|&at| can_begin(&messages[at]));
    let cut = after.or_else(|| (start..full).rev().find(|&at| can_begin(&messages[at])))?;
    (cut > start).then_some(cut)
}

/// A tool result cannot come first: it needs its call.
fn can_begin(message: &Message) -> bool {
    !matches!(message, Message::ToolResult(_) | Message::CompactionSummary(_))
}

fn begins_turn(message: &Message) -> bool {
    matches!(message, Message::User(_) | Message::Custom(_))
}

fn words(message: &Message) -> Option<String> {
    let Message::User(user) = message else { return None };
    let text = match &user.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => text_of(blocks),
    };
    (!text.is_empty()).then_some(text)
}
