//! The conversation in the API's words.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::provider::Request;

use super::CacheMark;
use crate::access::Access;
use crate::convert::{self, CallResult, Part, Rules, Said, Spoken};
use crate::openai_completions::native::THOUGHT_FIELDS;
use crate::openai_completions::server::{Ids, Server};

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Turn<'a> {
    System {
        content: Text<'a>,
    },
    Developer {
        content: Text<'a>,
    },
    User {
        content: Vec<Item<'a>>,
    },
    Assistant(Answer<'a>),
    Tool {
        content: Text<'a>,
        tool_call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
    },
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Answer<'a> {
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
    tool_calls: Vec<Call<'a>>,
}

/// A string, unless there is a mark to carry.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Text<'a> {
    Plain(Cow<'a, str>),
    Marked([Item<'a>; 1]),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
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
struct Call<'a> {
    id: String,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: String,
}

pub(super) fn of<'a>(request: &'a Request, access: &Access, server: &Server) -> Vec<Turn<'a>> {
    let model = &*request.model;
    let rules = Rules { block_images: access.block_images, clean_id };
    let mut turns = Turns { server, reasoning: model.reasoning, all: Vec::new() };
    if !request.system.trim().is_empty() {
        let content = Text::Plain((&*request.system).into());
        turns.all.push(if model.reasoning && server.developer_role {
            Turn::Developer { content }
        } else {
            Turn::System { content }
        });
    }
    for said in convert::conversation(&request.messages, model, &rules) {
        match said {
            Said::User(parts) => turns.user(parts.into_iter().map(Item::part).collect()),
            Said::Assistant(spoken) => turns.assistant(spoken),
            Said::Results(results) => turns.results(results),
        }
    }
    turns.all
}

/// Marks the beginning that never changes and the end of what was said.
pub(super) fn mark(turns: &mut [Turn<'_>], mark: CacheMark) {
    if let Some(Turn::System { content } | Turn::Developer { content }) = turns.first_mut() {
        content.mark(mark);
    }
    // Not every server behind the server takes a mark in a result.
    for turn in turns.iter_mut().rev() {
        match turn {
            Turn::User { content } => {
                let last_text = content.iter_mut().rev().find_map(|item| match item {
                    Item::Text { cache_control, .. } => Some(cache_control),
                    Item::ImageUrl { .. } => None,
                });
                if let Some(cache_control) = last_text {
                    *cache_control = Some(mark);
                    return;
                }
            }
            Turn::Assistant(Answer { content: Some(content), .. }) => return content.mark(mark),
            Turn::Assistant(_) | Turn::Tool { .. } => (),
            Turn::System { .. } | Turn::Developer { .. } => return,
        }
    }
}

/// The Responses API puts a second id behind the first. Otherwise a server's own ids are kept:
/// some models expect to find them as they made them.
fn clean_id(id: &str) -> String {
    const MAX_CHARS: usize = 64;
    match id.split('|').next() {
        None | Some("") => "call".to_owned(),
        Some(id) => id.chars().take(MAX_CHARS).collect(),
    }
}

/// The same id always becomes the same, so that calls and results still meet.
fn fitting_id(id: String, ids: Ids) -> String {
    const SHORT: usize = 40;
    match ids {
        Ids::Nine if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => id,
        Ids::Nine => nine(&id),
        Ids::Short if id.chars().count() > SHORT => {
            let stem: String = id.chars().take(SHORT - 10).collect();
            format!("{stem}_{}", nine(&id))
        }
        Ids::Any | Ids::Short => id,
    }
}

/// Nine letters and digits that stand for the text: its FNV-1a hash in base 62.
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
    all: Vec<Turn<'a>>,
}

impl<'a> Turns<'a, '_> {
    fn user(&mut self, content: Vec<Item<'a>>) {
        if self.server.answer_after_results && matches!(self.all.last(), Some(Turn::Tool { .. })) {
            let content = Some(Text::Plain("I have the results.".into()));
            self.all.push(Turn::Assistant(Answer { content, ..Answer::default() }));
        }
        self.all.push(Turn::User { content });
    }

    fn assistant(&mut self, spoken: Vec<Spoken<'a>>) {
        let mut answer = Answer::default();
        let mut texts: Vec<&str> = Vec::new();
        for spoken in spoken {
            match spoken {
                Spoken::Text { text, .. } => texts.push(text),
                Spoken::Thinking { redacted: true, .. } => (),
                Spoken::Thinking { text, .. } if self.server.thinking_as_text => texts.push(text),
                // Without the name of its field there is no place for it.
                Spoken::Thinking { text, signature, .. } => answer.think(signature, text),
                Spoken::Call { id, name, arguments, signature, .. } => {
                    answer.reasoning_details.extend(signature.and_then(hidden_thought));
                    let id = fitting_id(id, self.server.ids);
                    answer.tool_calls.push(Call::new(id, name, arguments));
                }
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        answer.content = match *texts.as_slice() {
            [] => None,
            [text] => Some(Text::Plain(text.into())),
            _ => Some(Text::Plain(texts.join("\n\n").into())),
        };
        // They do not take thoughts that led to nothing.
        if answer.content.is_none() && answer.tool_calls.is_empty() {
            return;
        }
        if self.server.empty_thoughts && self.reasoning {
            answer.reasoning_content.get_or_insert_default();
        }
        self.all.push(Turn::Assistant(answer));
    }

    /// Results are text. Pictures follow all of them, as if the user had shown them.
    fn results(&mut self, results: Vec<CallResult<'a>>) {
        let mut pictures = Vec::new();
        for result in results {
            let mut texts: Vec<Cow<'a, str>> = Vec::new();
            let mut shown = false;
            for part in result.content {
                match Item::part(part) {
                    Item::Text { text, .. } => texts.push(text),
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
            self.all.push(Turn::Tool {
                content: Text::Plain(text),
                tool_call_id: fitting_id(result.id, self.server.ids),
                name: self.server.result_names.then_some(result.tool_name),
            });
        }
        if !pictures.is_empty() {
            pictures.insert(0, Item::text("Images from the tool results above:"));
            self.user(pictures);
        }
    }
}

impl Turn<'_> {
    pub(super) fn is_system(&self) -> bool {
        matches!(self, Turn::System { .. } | Turn::Developer { .. })
    }
}

impl Answer<'_> {
    /// Back into the field it came from.
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

/// A call's signature is the thought as it came.
fn hidden_thought(signature: &str) -> Option<Value> {
    let detail: Value = serde_json::from_str(signature).ok()?;
    detail["type"].as_str()?.starts_with("reasoning.").then_some(detail)
}

impl<'a> Call<'a> {
    fn new(id: String, name: &'a str, arguments: &Arguments) -> Call<'a> {
        // A map of JSON values can always be written.
        let arguments = serde_json::to_string(arguments).unwrap_or_else(|_| "{}".to_owned());
        Call { id, r#type: "function", function: Function { name, arguments } }
    }
}

impl<'a> Item<'a> {
    fn part(part: Part<'a>) -> Item<'a> {
        match part {
            Part::Text(text) => Item::text(text),
            Part::Image {
                data,
                mime_type: mime_type @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp"),
            } => {
                let url = format!("data:{mime_type};base64,{data}");
                Item::ImageUrl { image_url: ImageUrl { url } }
            }
            // One picture of another kind would have every later request refused.
            Part::Image { mime_type, .. } => {
                Item::text(format!("(image omitted: {mime_type} is not supported)"))
            }
        }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> Item<'a> {
        Item::Text { text: text.into(), cache_control: None }
    }
}

impl Text<'_> {
    fn mark(&mut self, mark: CacheMark) {
        if let Text::Plain(text) = self {
            let text = std::mem::take(text);
            *self = Text::Marked([Item::Text { text, cache_control: Some(mark) }]);
        }
    }
}
