//! A first look over the whole session: what kind of entry each one is, who answered, and what
//! it cost. Lines are read for a few fields only, one at a time.

use std::borrow::Cow;

use serde::Deserialize;
use tiller_agent::message::{Message, UnixMs, Usage};
use tiller_session::{Body, Entry, Error, Outline, time};

use super::calls::Calls;
use super::mask::Mask;
use super::text::{one_line, unmarked};

/// What an entry is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    User,
    Answer,
    Result,
    Bash,
    Summary,
    Custom,
    Model,
    /// Bookkeeping: labels, names, levels, data of extensions, and what we do not know.
    Note,
}

impl EntryKind {
    /// The class in the page, whose first letter is the mark in the tree.
    pub(super) fn class(self) -> &'static str {
        match self {
            EntryKind::User => "user",
            EntryKind::Answer => "answer",
            EntryKind::Result => "tool",
            EntryKind::Bash => "bash",
            EntryKind::Summary => "summary",
            EntryKind::Custom => "custom",
            EntryKind::Model => "model",
            EntryKind::Note => "note",
        }
    }
}

#[derive(Default)]
pub(super) struct Scan {
    /// By place in the file.
    pub kinds: Vec<EntryKind>,
    /// `provider/model`, in the order they first answered.
    pub models: Vec<String>,
    pub begun: Option<UnixMs>,
    pub ended: Option<UnixMs>,
    pub answers: Vec<Answer>,
    /// Their places in the file.
    pub compactions: Vec<usize>,
    /// What the user said first.
    pub opening: Option<String>,
    /// Which results belong to which calls.
    pub calls: Calls,
}

/// What one answer took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub place: usize,
    /// Which of [`Scan::models`].
    pub model: usize,
    /// Tokens read anew, cached ones not among them.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub cost: f64,
}

impl Answer {
    /// What stood in the model's window when it had answered.
    pub(super) fn context(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.output)
    }
}

pub(super) fn survey(outline: &mut Outline<'_>, mask: &Mask) -> Result<Scan, Error> {
    let mut survey = Scan::default();
    survey.kinds.reserve(outline.len());
    for place in 0..outline.len() {
        let parent = outline.parent(place);
        let parent = parent.and_then(|parent| Some((parent, *survey.kinds.get(parent)?)));
        if outline.is_damaged(place) {
            survey.kinds.push(EntryKind::Note);
            survey.calls.note(parent, None);
            continue;
        }
        let line = outline.line(place)?;
        let peek = serde_json::from_str::<Peek>(&line).unwrap_or_default();
        if let Some(at) = time::read_iso(&peek.timestamp) {
            survey.begun = Some(survey.begun.map_or(at, |begun| begun.min(at)));
            survey.ended = Some(survey.ended.map_or(at, |ended| ended.max(at)));
        }
        let kind = peek.kind();
        let result_of = peek.message.as_ref().filter(|_| kind == EntryKind::Result);
        survey.calls.note(parent, result_of.map(|message| &*message.tool_call_id));
        match kind {
            EntryKind::User if survey.opening.is_none() => {
                survey.opening = opening(&mask.line(&line));
            }
            EntryKind::Answer => survey.count(place, peek.message.unwrap_or_default(), mask),
            EntryKind::Summary if peek.r#type == "compaction" => survey.compactions.push(place),
            _ => {}
        }
        survey.kinds.push(kind);
    }
    Ok(survey)
}

impl Scan {
    fn count(&mut self, place: usize, message: PeekMessage<'_>, mask: &Mask) {
        let name = match (&*message.provider, &*message.model) {
            ("", "") => return,
            ("", model) => model.to_owned(),
            (provider, model) => format!("{provider}/{model}"),
        };
        let name = mask.text(&name).into_owned();
        let model = match self.models.iter().position(|known| *known == name) {
            Some(model) => model,
            None => {
                self.models.push(name);
                self.models.len() - 1
            }
        };
        let Usage { input, output, cache_read, cache_write, cost, .. } =
            message.usage.unwrap_or_default();
        let cached = cache_read.saturating_add(cache_write);
        self.answers.push(Answer { place, model, input, cached, output, cost: cost.total });
    }
}

fn opening(line: &str) -> Option<String> {
    match Entry::read(line)?.body? {
        Body::Message(message) => match &*message {
            Message::User(user) => {
                Some(one_line(&unmarked(&user.content.text()), 100)).filter(|text| !text.is_empty())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The few fields that count.
#[derive(Default, Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Option<PeekMessage<'a>>,
    #[serde(default)]
    display: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PeekMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    provider: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow, rename = "toolCallId")]
    tool_call_id: Cow<'a, str>,
    display: Option<bool>,
    usage: Option<Usage>,
}

impl Peek<'_> {
    fn kind(&self) -> EntryKind {
        match &*self.r#type {
            "message" => match self.message.as_ref() {
                Some(message) => match &*message.role {
                    "user" => EntryKind::User,
                    "assistant" => EntryKind::Answer,
                    "toolResult" => EntryKind::Result,
                    "bashExecution" | "pythonExecution" => EntryKind::Bash,
                    "fileMention" => EntryKind::Custom,
                    "custom" | "hookMessage" if message.display == Some(true) => EntryKind::Custom,
                    "compactionSummary" | "branchSummary" => EntryKind::Summary,
                    _ => EntryKind::Note,
                },
                None => EntryKind::Note,
            },
            "custom_message" if self.display == Some(true) => EntryKind::Custom,
            "compaction" | "branch_summary" => EntryKind::Summary,
            "model_change" => EntryKind::Model,
            _ => EntryKind::Note,
        }
    }
}
