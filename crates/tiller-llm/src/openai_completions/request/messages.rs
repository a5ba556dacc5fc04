//! The conversation in the API's format.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::provider::Request;

use super::CacheMark;
use crate::convert::{self, AssistantPart, CallResult, ConvertRules, ConvertedTurn, UserPart};
use crate::openai_completions::native::THOUGHT_FIELDS;
use crate::openai_completions::server::{CompletionsIds, Server};
use crate::request_options::RequestOptions;

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum CompletionsTurn<'a> {
    System {
        content: Text<'a>,
    },
    Developer {
        content: Text<'a>,
    },
    User {
        content: Vec<CompletionsItem<'a>>,
    },
    Assistant(CompletionsAnswer<'a>),
    Tool {
        content: Text<'a>,
        tool_call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
    },
}

#[derive(Debug, Default, Serialize)]
pub(super) struct CompletionsAnswer<'a> {
    /// `null` if the model only called tools.
    content: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CompletionsMessageCall<'a>>,
}

/// A string, unless it carries a cache mark.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Text<'a> {
    Plain(Cow<'a, str>),
    Marked([CompletionsItem<'a>; 1]),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum CompletionsItem<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheMark>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize)]
struct CompletionsMessageCall<'a> {
    id: String,
    r#type: &'static str,
    function: CompletionsMessageFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CompletionsMessageFunction<'a> {
    name: &'a str,
    arguments: String,
}

pub(super) fn of<'a>(
    request: &'a Request,
    access: &RequestOptions,
    server: &Server,
) -> Vec<CompletionsTurn<'a>> {
    let model = &*request.model;
    let rules = ConvertRules { block_images: access.block_images, clean_id };
    let mut turns = Turns { server, reasoning: model.reasoning, all: Vec::new() };
    if !request.system.trim().is_empty() {
        let content = Text::Plain((&*request.system).into());
        turns.all.push(if model.reasoning && server.developer_role {
            CompletionsTurn::Developer { content }
        } else {
            CompletionsTurn::System { content }
        });
    }
    for turn in convert::conversation(&request.messages, model, &rules) {
        match turn {
            ConvertedTurn::User(parts) => {
                turns.user(parts.into_iter().map(CompletionsItem::part).collect())
            }
            ConvertedTurn::Assistant(parts) => turns.assistant(parts),
            ConvertedTurn::Results(results) => turns.results(results),
        }
    }
    turns.all
}

/// Marks the constant prefix and the end of the conversation.
pub(super) fn mark(turns: &mut [CompletionsTurn<'_>], mark: CacheMark) {
    if let Some(CompletionsTurn::System { content } | CompletionsTurn::Developer { content }) =
        turns.first_mut()
    {
        content.mark(mark);
    }
    // Not every backend accepts a mark in a result.
    for turn in turns.iter_mut().rev() {
        match turn {
            CompletionsTurn::User { content } => {
                let last_text = content.iter_mut().rev().find_map(|item| match item {
                    CompletionsItem::Text { cache_control, .. } => Some(cache_control),
                    CompletionsItem::ImageUrl { .. } => None,
                });
                if let Some(cache_control) = last_text {
                    *cache_control = Some(mark);
                    return;
                }
            }
            CompletionsTurn::Assistant(CompletionsAnswer { content: Some(content), .. }) => {
                return content.mark(mark);
            }
            CompletionsTurn::Assistant(_) | CompletionsTurn::Tool { .. } => (),
            CompletionsTurn::System { .. } | CompletionsTurn::Developer { .. } => return,
        }
    }
}

/// The Responses API appends a second id to the first. Otherwise a server's own ids are kept: some
/// models expect them unchanged.
fn clean_id(id: &str) -> String {
    const MAX_CHARS: usize = 64;
    match id.split('|').next() {
        None | Some("") => "call".to_owned(),
        Some(id) => id.chars().take(MAX_CHARS).collect(),
    }
}

/// Deterministic, so that calls and results still match.
fn fitting_id(id: String, ids: CompletionsIds) -> String {
    const SHORT: usize = 40;
    match ids {
        CompletionsIds::Nine if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            id
        }
        CompletionsIds::Nine => nine(&id),
        CompletionsIds::Short if id.chars().count() > SHORT => {
            let stem: String = id.chars().take(SHORT - 10).collect();
            format!("{stem}_{}", nine(&id))
        }
        CompletionsIds::Any | CompletionsIds::Short => id,
    }
}

/// Nine letters and digits derived from the text: its FNV-1a hash in base 62.
fn nine(text: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let digits = (0..9).map(|_| {
        let digit = DIGITS[(hash % 62) as usize];
        hash /= 62;
        char::from(digit)
    });
    digits.collect()
}

struct Turns<'a, 's> {
    server: &'s Server,
    reasoning: bool,
    all: Vec<CompletionsTurn<'a>>,
}

impl<'a> Turns<'a, '_> {
    fn user(&mut self, content: Vec<CompletionsItem<'a>>) {
        if self.server.answer_after_results
            && matches!(self.all.last(), Some(CompletionsTurn::Tool { .. }))
        {
            let content = Some(Text::Plain("I have the results.".into()));
            self.all.push(CompletionsTurn::Assistant(CompletionsAnswer {
                content,
                ..CompletionsAnswer::default()
            }));
        }
        self.all.push(CompletionsTurn::User { content });
    }

    fn assistant(&mut self, parts: Vec<AssistantPart<'a>>) {
        let mut answer = CompletionsAnswer::default();
        let mut texts: Vec<&str> = Vec::new();
        for part in parts {
            match part {
                AssistantPart::Text { text, .. } => texts.push(text),
                AssistantPart::Thinking { redacted: true, .. } => (),
                AssistantPart::Thinking { text, .. } if self.server.thinking_as_text => {
                    texts.push(text)
                }
                // Without the name of its field it cannot be sent back.
                AssistantPart::Thinking { text, signature, .. } => answer.think(signature, text),
                AssistantPart::Call { id, name, arguments, signature, .. } => {
                    answer.reasoning_details.extend(signature.and_then(hidden_thought));
                    let id = fitting_id(id, self.server.ids);
                    answer.tool_calls.push(CompletionsMessageCall::new(id, name, arguments));
                }
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        answer.content = match *texts.as_slice() {
            [] => None,
            [text] => Some(Text::Plain(text.into())),
            _ => Some(Text::Plain(texts.join("\n\n").into())),
        };
        // The API refuses an answer with nothing but thinking.
        if answer.content.is_none() && answer.tool_calls.is_empty() {
            return;
        }
        if self.server.empty_thoughts && self.reasoning {
            answer.reasoning_content.get_or_insert_default();
        }
        self.all.push(CompletionsTurn::Assistant(answer));
    }

    /// Results are text. Images follow all of them, as user content.
    fn results(&mut self, results: Vec<CallResult<'a>>) {
        let mut pictures = Vec::new();
        for result in results {
            let mut texts: Vec<Cow<'a, str>> = Vec::new();
            let mut shown = false;
            for part in result.content {
                match CompletionsItem::part(part) {
                    CompletionsItem::Text { text, .. } => texts.push(text),
                    picture => {
                        shown = true;
                        pictures.push(picture);
                    }
                }
            }
            let text = match (texts.len(), shown) {
                (0, true) => "(see the attached image)".into(),
                (0, false) => "(no output)".into(),
                (1, _) => texts.swap_remove(0),
                _ => texts.join("\n").into(),
            };
            self.all.push(CompletionsTurn::Tool {
                content: Text::Plain(text),
                tool_call_id: fitting_id(result.id, self.server.ids),
                name: self.server.result_names.then_some(result.tool_name),
            });
        }
        if !pictures.is_empty() {
            pictures.insert(0, CompletionsItem::text("Images from the tool results above:"));
            self.user(pictures);
        }
    }
}

impl CompletionsTurn<'_> {
    pub(super) fn is_system(&self) -> bool {
        matches!(self, CompletionsTurn::System { .. } | CompletionsTurn::Developer { .. })
    }
}

impl CompletionsAnswer<'_> {
    /// Sent back in the field it came from.
    fn think(&mut self, field: Option<&str>, thought: &str) {
        let slots = [&mut self.reasoning_content, &mut self.reasoning, &mut self.reasoning_text];
        let slot = THOUGHT_FIELDS.into_iter().zip(slots).find(|(name, _)| field == Some(*name));
        if let Some((_, slot)) = slot {
            let thoughts = slot.get_or_insert_default();
            if !thoughts.is_empty() {
                thoughts.push('\n');
            }
            thoughts.push_str(thought);
        }
    }
}

/// A call's signature is the raw reasoning detail.
fn hidden_thought(signature: &str) -> Option<Value> {
    let detail: Value = serde_json::from_str(signature).ok()?;
    detail["type"].as_str()?.starts_with("reasoning.").then_some(detail)
}

impl<'a> CompletionsMessageCall<'a> {
    fn new(id: String, name: &'a str, arguments: &Arguments) -> CompletionsMessageCall<'a> {
        // A map of JSON values can always be serialised.
        let arguments = serde_json::to_string(arguments).unwrap_or_else(|_| "{}".to_owned());
        CompletionsMessageCall {
            id,
            r#type: "function",
            function: CompletionsMessageFunction { name, arguments },
        }
    }
}

impl<'a> CompletionsItem<'a> {
    fn part(part: UserPart<'a>) -> CompletionsItem<'a> {
        match part {
            UserPart::Text(text) => CompletionsItem::text(text),
            UserPart::Image {
                data,
                mime_type: mime_type @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp"),
            } => {
                let url = format!("data:{mime_type};base64,{data}");
                CompletionsItem::ImageUrl { image_url: ImageUrl { url } }
            }
            // An image of an unsupported type would make every later request fail.
            UserPart::Image { mime_type, .. } => {
                CompletionsItem::text(format!("(image omitted: {mime_type} is not supported)"))
            }
        }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> CompletionsItem<'a> {
        CompletionsItem::Text { text: text.into(), cache_control: None }
    }
}

impl Text<'_> {
    fn mark(&mut self, mark: CacheMark) {
        if let Text::Plain(text) = self {
            let text = std::mem::take(text);
            *self = Text::Marked([CompletionsItem::Text { text, cache_control: Some(mark) }]);
        }
    }
}
