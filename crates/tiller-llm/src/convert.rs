//! Converts the stored conversation to one that a model accepts, before it is put into a vendor's
//! format.
//!
//! A stored conversation contains failed answers, calls without results, images that the next model
//! cannot see, and thinking of another model. A request must be a conversation that every API
//! accepts: each call followed by its result, each result preceded by its call, nothing empty. All
//! APIs start from here; special rules of one API are in its own file.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::message::{
    Arguments, AssistantMessage, Block, Content, Message, StopReason, ToolCall, ToolResultMessage,
};
use tiller_agent::model::Model;

/// One turn of the conversation. It borrows from the messages: a request of megabytes is not copied
/// before it is serialised.
#[derive(Debug)]
pub(crate) enum ConvertedTurn<'a> {
    User(Vec<UserPart<'a>>),
    Assistant(Vec<AssistantPart<'a>>),
    /// The results of all calls of the previous answer, in the order of the calls.
    Results(Vec<CallResult<'a>>),
}

#[derive(Debug)]
pub(crate) enum UserPart<'a> {
    Text(Cow<'a, str>),
    Image { data: &'a str, mime_type: &'a str },
}

/// Signatures are present only if this model made them.
#[derive(Debug)]
pub(crate) enum AssistantPart<'a> {
    Text {
        text: &'a str,
        signature: Option<&'a str>,
    },
    /// This model's own; another model's thinking has become text.
    Thinking {
        text: &'a str,
        signature: Option<&'a str>,
        redacted: bool,
    },
    Call {
        id: String,
        /// The stored id, if this model created it.
        own_id: Option<&'a str>,
        name: &'a str,
        arguments: &'a Arguments,
        signature: Option<&'a str>,
    },
}

#[derive(Debug)]
pub(crate) struct CallResult<'a> {
    pub id: String,
    pub tool_name: &'a str,
    pub content: Vec<UserPart<'a>>,
    pub is_error: bool,
}

/// The differences between the APIs.
pub(crate) struct ConvertRules {
    /// Images are never sent, by the user's setting.
    pub block_images: bool,
    /// Converts a call's id to one that the API accepts.
    pub clean_id: fn(&str) -> String,
}

pub(crate) fn conversation<'a>(
    messages: &'a [Arc<Message>],
    model: &Model,
    rules: &ConvertRules,
) -> Vec<ConvertedTurn<'a>> {
    let pictures = match (rules.block_images, model.sees_images()) {
        (true, _) => ImagePolicy::Blocked,
        (false, true) => ImagePolicy::Shown,
        (false, false) => ImagePolicy::Unseen,
    };
    let mut ids = CallIds { clean: rules.clean_id, given: HashSet::new(), repeats: HashMap::new() };
    let mut turns = Vec::with_capacity(messages.len());
    let sent: Vec<&Message> = messages.iter().map(|message| &**message).filter(is_sent).collect();

    let mut stretches = sent.as_slice();
    while let Some((first, after)) = stretches.split_first() {
        // An answer and everything up to the next one: the results of its calls are among it.
        let end = after.iter().position(|message| message.as_assistant().is_some());
        let (others, rest) = match first {
            Message::Assistant(_) => after.split_at(end.unwrap_or(after.len())),
            // There are no results before the first answer.
            _ => stretches.split_at(end.map_or(stretches.len(), |end| end + 1)),
        };
        if let Message::Assistant(answer) = first {
            push_answer(&mut turns, answer, others, model, pictures, &mut ids);
        }
        turns.extend(others.iter().filter_map(|message| user_parts(message, pictures)));
        stretches = rest;
    }

    // An empty prompt is still sent: without it the conversation would end with an answer, or be
    // empty, which no API accepts.
    let ends_with_user = sent.last().is_some_and(|message| message.as_assistant().is_none());
    if ends_with_user
        && !matches!(turns.last(), Some(ConvertedTurn::User(_) | ConvertedTurn::Results(_)))
    {
        turns.push(ConvertedTurn::User(vec![UserPart::Text(Cow::Borrowed("(empty message)"))]));
    }
    turns
}

/// Failed answers are left out; their results then belong to no call and are dropped, too. An
/// answer that the user aborted is kept, so that the model knows what it had said so far.
fn is_sent(message: &&Message) -> bool {
    match message {
        Message::Assistant(answer) => answer.stop_reason != StopReason::Error,
        Message::BashExecution(bash) => !bash.exclude_from_context,
        _ => true,
    }
}

/// Adds the answer, then a result for every call: the stored one, or a placeholder. Results without
/// a call are left out.
fn push_answer<'a>(
    turns: &mut Vec<ConvertedTurn<'a>>,
    answer: &'a AssistantMessage,
    others: &[&'a Message],
    model: &Model,
    pictures: ImagePolicy,
    ids: &mut CallIds,
) {
    let same_model =
        answer.provider == model.provider && answer.api == model.api && answer.model == model.id;
    let mut stored: HashMap<&str, VecDeque<&ToolResultMessage>> = HashMap::new();
    for message in others {
        if let Message::ToolResult(result) = message {
            stored.entry(&result.tool_call_id).or_default().push_back(result);
        }
    }
    let mut parts = Vec::with_capacity(answer.content.len());
    let mut results = Vec::new();
    for block in &answer.content {
        match block {
            Block::ToolCall(call) => {
                let id = ids.assign(&call.id);
                let result = stored.get_mut(&*call.id).and_then(VecDeque::pop_front);
                results.push(match result {
                    Some(result) => call_result(id.clone(), result, pictures),
                    None => unanswered(id.clone(), call),
                });
                let signature = call.thought_signature.as_deref().filter(|_| same_model);
                let own_id = same_model.then_some(&*call.id);
                let name = call.name.as_str();
                let arguments = &call.arguments;
                parts.push(AssistantPart::Call { id, own_id, name, arguments, signature });
            }
            // Incomplete thinking has no signature, and without one no API accepts it.
            Block::Thinking { thinking_signature: None, .. }
                if answer.stop_reason == StopReason::Aborted => {}
            block => parts.extend(assistant_part(block, same_model)),
        }
    }
    if !parts.is_empty() {
        turns.push(ConvertedTurn::Assistant(parts));
    }
    if !results.is_empty() {
        turns.push(ConvertedTurn::Results(results));
    }
}

fn assistant_part(block: &Block, same_model: bool) -> Option<AssistantPart<'_>> {
    match block {
        Block::Text { text, text_signature } => {
            let signature = text_signature.as_deref().filter(|_| same_model);
            (!blank(text) || signature.is_some()).then_some(AssistantPart::Text { text, signature })
        }
        Block::Thinking { thinking, thinking_signature, redacted } if same_model => {
            let signature = thinking_signature.as_deref();
            let empty = blank(thinking) && signature.is_none();
            let redacted = *redacted;
            (!empty).then_some(AssistantPart::Thinking { text: thinking, signature, redacted })
        }
        // Only the model that redacted these can read them.
        Block::Thinking { redacted: true, .. } => None,
        Block::Thinking { thinking, .. } => {
            (!blank(thinking)).then_some(AssistantPart::Text { text: thinking, signature: None })
        }
        // Models send no images, and calls were handled before.
        Block::Image { .. } | Block::ToolCall(_) => None,
    }
}

fn call_result(id: String, result: &ToolResultMessage, pictures: ImagePolicy) -> CallResult<'_> {
    CallResult {
        id,
        tool_name: &result.tool_name,
        content: parts(
            &result.content,
            pictures,
            "(tool image omitted: model does not support images)",
        ),
        is_error: result.is_error,
    }
}

fn unanswered(id: String, call: &ToolCall) -> CallResult<'_> {
    let excuse = UserPart::Text(Cow::Borrowed("No result provided"));
    CallResult { id, tool_name: &call.name, content: vec![excuse], is_error: true }
}

/// Everything else between answers is sent as user content. `None` if it is empty.
fn user_parts<'a>(message: &'a Message, pictures: ImagePolicy) -> Option<ConvertedTurn<'a>> {
    let parts = match message {
        Message::User(user) => content_parts(&user.content, pictures),
        Message::Custom(custom) => content_parts(&custom.content, pictures),
        Message::Assistant(_) | Message::ToolResult(_) => Vec::new(),
        Message::BashExecution(_) | Message::CompactionSummary(_) | Message::BranchSummary(_) => {
            message.model_text().map(|text| UserPart::Text(text.into())).into_iter().collect()
        }
    };
    (!parts.is_empty()).then_some(ConvertedTurn::User(parts))
}

fn content_parts(content: &Content, pictures: ImagePolicy) -> Vec<UserPart<'_>> {
    match content {
        Content::Text(text) if blank(text) => Vec::new(),
        Content::Text(text) => vec![UserPart::Text(Cow::Borrowed(text))],
        Content::Blocks(blocks) => {
            parts(blocks, pictures, "(image omitted: model does not support images)")
        }
    }
}

#[derive(Clone, Copy)]
enum ImagePolicy {
    Shown,
    /// The model does not accept images.
    Unseen,
    Blocked,
}

/// `unseen` replaces images; consecutive images get one such note.
fn parts<'a>(
    blocks: &'a [Block],
    pictures: ImagePolicy,
    unseen: &'static str,
) -> Vec<UserPart<'a>> {
    let mut parts: Vec<UserPart<'a>> = Vec::with_capacity(blocks.len());
    for block in blocks {
        match block {
            Block::Text { text, .. } if !blank(text) => parts.push(UserPart::Text(text.into())),
            Block::Image { data, mime_type } => {
                let note = match pictures {
                    ImagePolicy::Shown => {
                        parts.push(UserPart::Image { data, mime_type });
                        continue;
                    }
                    ImagePolicy::Unseen => unseen,
                    ImagePolicy::Blocked => "Image reading is disabled.",
                };
                if !matches!(parts.last(), Some(UserPart::Text(last)) if last == note) {
                    parts.push(UserPart::Text(Cow::Borrowed(note)));
                }
            }
            _ => (),
        }
    }
    parts
}

/// Vendors refuse texts of only white space.
fn blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// All APIs require that every schema has the type `object`.
pub(crate) fn object_schema(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(fields) if fields.contains_key("type") => Cow::Borrowed(schema),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert("type".into(), "object".into());
            Cow::Owned(Value::Object(fields))
        }
        _ => Cow::Owned(json!({"type": "object", "properties": {}})),
    }
}

/// Assigns ids to calls. APIs want them unique in the whole conversation, but some servers count
/// from zero in every answer, and cleaning can make two ids equal.
struct CallIds {
    clean: fn(&str) -> String,
    given: HashSet<String>,
    /// How often each cleaned id occurred, so that the next free number is found at once.
    repeats: HashMap<String, usize>,
}

impl CallIds {
    fn assign(&mut self, id: &str) -> String {
        let clean = (self.clean)(id);
        if self.given.insert(clean.clone()) {
            return clean;
        }
        let stem: String = clean.chars().take(52).collect();
        let repeats = self.repeats.entry(clean).or_insert(1);
        loop {
            *repeats += 1;
            let numbered = format!("{stem}_{repeats}");
            if self.given.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests;
