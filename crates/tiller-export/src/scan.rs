//! First pass over the session: the kind of each entry, the models, and the cost. Only a few fields
//! of each line are parsed.

use std::borrow::Cow;

use serde::Deserialize;
use tiller_agent::message::{Message, UnixMs, Usage};
use tiller_session::{Body, Entry, Error, Outline, time};

use crate::calls::Calls;
use crate::mask::Mask;
use crate::text::{one_line, unmarked};

/// The kind of an entry, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    User,
    Answer,
    Result,
    Bash,
    Summary,
    Custom,
    Model,
    /// Bookkeeping: labels, names, levels, data of extensions, and unknown entries.
    Note,
}

impl EntryKind {
    /// The CSS class, whose first letter is the mark in the tree.
    pub(crate) fn class(self) -> &'static str {
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
pub(crate) struct Scan {
    /// By index in the file.
    pub kinds: Vec<EntryKind>,
    /// `provider/model`, in the order of their first answers.
    pub models: Vec<String>,
    pub started: Option<UnixMs>,
    pub ended: Option<UnixMs>,
    pub answers: Vec<Answer>,
    /// Their indexes in the file.
    pub compactions: Vec<usize>,
    /// The first user message.
    pub opening: Option<String>,
    /// Which results belong to which calls.
    pub calls: Calls,
}

/// Tokens and cost of one answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    pub index: usize,
    /// The index in [`Scan::models`].
    pub model: usize,
    /// Input tokens, without cached ones.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub cost: f64,
}

impl Answer {
    /// Tokens in the context window after this answer.
    pub(crate) fn context(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.output)
    }
}

pub(crate) fn scan(outline: &mut Outline<'_>, mask: &Mask) -> Result<Scan, Error> {
    let mut scan = Scan::default();
    scan.kinds.reserve(outline.len());
    for index in 0..outline.len() {
        let parent = outline.parent(index);
        let parent = parent.and_then(|parent| Some((parent, *scan.kinds.get(parent)?)));
        if outline.is_damaged(index) {
            scan.kinds.push(EntryKind::Note);
            scan.calls.note(parent, None);
            continue;
        }
        let line = outline.line(index)?;
        let peek = serde_json::from_str::<Peek>(&line).unwrap_or_default();
        if let Some(at) = time::read_iso(&peek.timestamp) {
            scan.started = Some(scan.started.map_or(at, |started| started.min(at)));
            scan.ended = Some(scan.ended.map_or(at, |ended| ended.max(at)));
        }
        let kind = peek.kind();
        let result_of = peek.message.as_ref().filter(|_| kind == EntryKind::Result);
        scan.calls.note(parent, result_of.map(|message| &*message.tool_call_id));
        match kind {
            EntryKind::User if scan.opening.is_none() => {
                scan.opening = opening(&mask.line(&line));
            }
            EntryKind::Answer => scan.count(index, peek.message.unwrap_or_default(), mask),
            EntryKind::Summary if peek.r#type == "compaction" => scan.compactions.push(index),
            _ => {}
        }
        scan.kinds.push(kind);
    }
    Ok(scan)
}

impl Scan {
    fn count(&mut self, index: usize, message: PeekMessage<'_>, mask: &Mask) {
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
        self.answers.push(Answer { index, model, input, cached, output, cost: cost.total });
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

/// The fields that are needed here.
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
