//! The model's context: the path from the root to the leaf, shortened by the last compaction, with
//! later edits applied.
//!
//! The projection is computed from the tree alone, without reading a line. Lines are read only when
//! messages are requested, and only for messages in the context.

use std::collections::HashSet;
use std::sync::Arc;

use tiller_agent::message::{Message, ToolCall};
use tiller_agent::model::{ModelName, ThinkingLevel};
use tiller_agent::projection::{self, EntryEffect, ProjectedEntry};

use crate::blobs::{self, Blobs};
use crate::entry::{self, ContextEdit, ModelChange};
use crate::error::Error;
use crate::head::Kind;
use crate::message_line;
use crate::session::Session;
use crate::tree::{Index, Tree};

/// The conversation so far, as the next request needs it.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub messages: Vec<ContextMessage>,
    /// Token counts that providers reported for messages before this index are stale: the context
    /// has been shortened or edited since.
    pub fresh_from: usize,
    /// Entries of the context whose message could not be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct ContextMessage {
    /// The entry that holds the message.
    pub entry_id: String,
    pub message: Arc<Message>,
}

/// One entry of the context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub index: Index,
    /// The `context_edit` entry that hides or replaces its content.
    pub edit: Option<Index>,
}

impl Session {
    /// Reads the messages of the context. Takes time proportional to the context's length.
    pub fn context(&self) -> Result<Context, Error> {
        let mut context = Context::default();
        let mut reader = self.log().reader();
        let Projection { items, fresh_from } = project(self.tree(), self.tree().leaf());
        for (at, item) in items.into_iter().enumerate() {
            let entry_id = self.tree().id(item.index).to_owned();
            let kind = self.tree().kind(item.index);
            let line = reader.text(self.tree().at(item.index)).map_err(self.read_error())?;
            let read = self.message(kind, &line);
            let edit = item.edit.map(|edit| self.line(edit)).transpose()?;
            match read {
                Ok(mut message) => {
                    if let Some(content) = edit.and_then(|edit| ContextEdit::replacement(&edit)) {
                        message_line::replace_content(&mut message, content);
                    }
                    let message = Arc::new(message);
                    context.messages.push(ContextMessage { entry_id, message });
                }
                Err(reason) => context.unreadable.push((entry_id, reason)),
            }
            if at + 1 == fresh_from {
                context.fresh_from = context.messages.len();
            }
        }
        Ok(context)
    }

    /// Reads the newest messages of the context, from the end back to the first one for which
    /// `enough` returns true. `enough` also receives whether the message's token count is fresh:
    /// see [`Context::fresh_from`].
    pub fn context_tail(
        &self,
        mut enough: impl FnMut(&Message, bool) -> bool,
    ) -> Result<Vec<Arc<Message>>, Error> {
        let mut tail = Vec::new();
        let Projection { items, fresh_from } = project(self.tree(), self.tree().leaf());
        for (at, item) in items.into_iter().enumerate().rev() {
            let line = self.line(item.index)?;
            let Ok(mut message) = self.message(self.tree().kind(item.index), &line) else {
                continue;
            };
            let edit = item.edit.map(|edit| self.line(edit)).transpose()?;
            if let Some(content) = edit.and_then(|edit| ContextEdit::replacement(&edit)) {
                message_line::replace_content(&mut message, content);
            }
            let is_enough = enough(&message, at >= fresh_from);
            tail.push(Arc::new(message));
            if is_enough {
                break;
            }
        }
        tail.reverse();
        Ok(tail)
    }

    /// The message that an entry of this kind holds, with images from beside the file.
    pub(crate) fn message(&self, kind: Kind, line: &str) -> Result<Message, String> {
        let mut message = message_line::message(kind, line)?;
        if blobs::may_be_in(line) {
            Blobs::next_to(self.path()).restore(&mut message);
        }
        Ok(message)
    }

    /// The model in use at the leaf: the last one that was selected or that sent an answer.
    pub fn model(&self) -> Result<Option<ModelName>, Error> {
        for index in self.tree().ancestors(self.tree().leaf()) {
            let found = match self.tree().kind(index) {
                Kind::ModelChange => chosen_model(&self.line(index)?),
                Kind::Assistant => answering_model(&self.line(index)?),
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The thinking level at the leaf, if one was set.
    pub fn thinking_level(&self) -> Result<Option<ThinkingLevel>, Error> {
        let mut ancestors = self.tree().ancestors(self.tree().leaf());
        match ancestors.find(|&index| self.tree().kind(index) == Kind::ThinkingLevelChange) {
            Some(index) => Ok(entry::thinking_level(&self.line(index)?)),
            None => Ok(None),
        }
    }

    /// The tool calls of the last answer that have no result, as after a crash in the middle of a
    /// turn. Each needs a result before the next request.
    pub fn unanswered_calls(&self) -> Result<Vec<ToolCall>, Error> {
        let mut answered = HashSet::new();
        for index in self.tree().ancestors(self.tree().leaf()) {
            match self.tree().kind(index) {
                Kind::ToolResult => {
                    if let Ok(Message::ToolResult(result)) =
                        message_line::message(Kind::ToolResult, &self.line(index)?)
                    {
                        answered.insert(result.tool_call_id);
                    }
                }
                Kind::Assistant => {
                    let message = message_line::message(Kind::Assistant, &self.line(index)?).ok();
                    let Some(Message::Assistant(message)) = message else {
                        return Ok(Vec::new());
                    };
                    let calls = message.tool_calls().filter(|call| !answered.contains(&call.id));
                    return Ok(calls.cloned().collect());
                }
                kind if kind.is_in_context() || kind == Kind::Compaction => break,
                _ => (),
            }
        }
        Ok(Vec::new())
    }

    /// The newest answer and the results of its tool calls, unless a user message follows: the
    /// entries to hide before a retry.
    pub fn last_answer(&self) -> Result<Vec<String>, Error> {
        let mut entries = Vec::new();
        for index in self.tree().ancestors(self.tree().leaf()) {
            match self.tree().kind(index) {
                Kind::ToolResult => entries.push(self.tree().id(index).to_owned()),
                Kind::Assistant => {
                    entries.push(self.tree().id(index).to_owned());
                    entries.reverse();
                    return Ok(entries);
                }
                kind if kind.is_in_context() => break,
                _ => (),
            }
        }
        Ok(Vec::new())
    }

    /// Whether the newest entry of the context is the compaction.
    pub fn ends_with_compaction(&self) -> bool {
        self.tree().leaf().is_some_and(|leaf| self.tree().kind(leaf) == Kind::Compaction)
    }

    /// Whether a summary replaces an earlier part of the conversation.
    pub fn is_compacted(&self) -> bool {
        let mut ancestors = self.tree().ancestors(self.tree().leaf());
        ancestors.any(|index| self.tree().kind(index) == Kind::Compaction)
    }

    /// The first entry to keep if this message is the first to be kept: entries directly before it
    /// that are not messages, such as a model change, are kept with it.
    pub fn kept_from(&self, entry_id: &str) -> Result<String, Error> {
        let mut first = self.find(entry_id)?;
        while let Some(parent) = self.tree().parent(first) {
            let kind = self.tree().kind(parent);
            if kind.is_in_context() || kind == Kind::Compaction {
                break;
            }
            first = parent;
        }
        Ok(self.tree().id(first).to_owned())
    }

    /// The text of the user message with this id, if there is one.
    pub fn user_text(&self, entry_id: &str) -> Option<String> {
        let index = self.find(entry_id).ok()?;
        message_line::user_text(&self.line(index).ok()?)
    }

    /// The user messages of all branches that can be forked from, in file order. Messages without
    /// text are left out.
    pub fn fork_messages(&self) -> Result<Vec<ForkMessage>, Error> {
        let mut reader = self.log().reader();
        let mut messages = Vec::new();
        for index in self.tree().all().filter(|&index| self.tree().kind(index) == Kind::User) {
            let line = reader.text(self.tree().at(index)).map_err(self.read_error())?;
            let text = message_line::user_text(&line).unwrap_or_default();
            if !text.is_empty() {
                messages.push(ForkMessage { entry_id: self.tree().id(index).to_owned(), text });
            }
        }
        Ok(messages)
    }
}

/// An item of `get_fork_messages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkMessage {
    pub entry_id: String,
    pub text: String,
}

/// The context at a leaf.
pub(crate) struct Projection {
    /// First to last.
    pub items: Vec<Item>,
    /// See [`Context::fresh_from`].
    pub fresh_from: usize,
}

pub(crate) fn project(tree: &Tree, leaf: Option<Index>) -> Projection {
    let path = tree.path(leaf);
    let effect = |index| match tree.kind(index) {
        Kind::Compaction => EntryEffect::Compaction { first_kept: tree.refers(index) },
        Kind::ContextEdit => EntryEffect::Edit { target: tree.refers(index) },
        _ => EntryEffect::Other,
    };
    let branch: Vec<_> = path.iter().map(|&index| (index, effect(index))).collect();
    let projected = projection::project(&branch).into_iter().enumerate();
    let items = projected.filter_map(|(at, ProjectedEntry { id: index, edit })| {
        let kind = tree.kind(index);
        // Of several compactions, only the last one's summary counts; it comes first.
        let is_summary = at == 0 && kind == Kind::Compaction;
        let is_hidden = edit.is_some_and(|edit| !tree.replaces(edit));
        ((is_summary || kind.is_in_context()) && !is_hidden).then_some(Item { index, edit })
    });
    let items: Vec<Item> = items.collect();
    let changed = path.iter().enumerate().rev().find(|&(at, &index)| match tree.kind(index) {
        Kind::Compaction => true,
        Kind::ContextEdit => is_counted_before(tree, &path[..at], tree.refers(index)),
        _ => false,
    });
    let fresh_from = changed.map_or(0, |(at, _)| {
        let fresh: HashSet<Index> = path[at + 1..].iter().copied().collect();
        items.iter().take_while(|item| !fresh.contains(&item.index)).count()
    });
    Projection { items, fresh_from }
}

/// Whether an answer came between an entry and its edit, so that its token count includes the
/// unedited entry. Hiding a failed answer, the most common edit, changes no count.
fn is_counted_before(tree: &Tree, path: &[Index], target: Option<Index>) -> bool {
    let since = path.iter().rev().take_while(|&&index| Some(index) != target);
    since.into_iter().any(|&index| tree.kind(index) == Kind::Assistant)
}

fn chosen_model(line: &str) -> Option<ModelName> {
    let ModelChange { provider, model_id, role } = ModelChange::read(line)?;
    // xcsh also records models that are used temporarily.
    let is_own = role.is_none_or(|role| role == "default");
    is_own.then_some(ModelName { provider, id: model_id })
}

fn answering_model(line: &str) -> Option<ModelName> {
    match message_line::message(Kind::Assistant, line).ok()? {
        Message::Assistant(message) => {
            Some(ModelName { provider: message.provider, id: message.model })
        }
        _ => None,
    }
}
