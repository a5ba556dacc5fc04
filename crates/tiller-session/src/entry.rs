//! The lines of a session file in pi's format version 3: a header, then entries.
//!
//! These formats outlive the process; they are documented in `docs/session-format.md`. tiller
//! writes every kind of entry listed here, with fields in pi's order. Lines of other kinds, or with
//! more fields, stay in the file unchanged: reading an entry never changes its line.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiller_agent::message::{Content, CustomMessage, Message, UnixMs, Usage};
use tiller_agent::model::ThinkingLevel;

use crate::time;

/// The format version that tiller writes.
pub const VERSION: u64 = 3;

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Missing in files of version 1.
    #[serde(default = "first_version")]
    pub version: u64,
    pub id: String,
    /// When the session was created.
    #[serde(default)]
    pub timestamp: String,
    #[serde(default)]
    pub cwd: String,
    /// The file this session was forked from. Not checked.
    #[serde(default)]
    pub parent_session: Option<String>,
    /// xcsh stores the session's name here.
    #[serde(default)]
    pub title: Option<String>,
    /// The line the header was read from, including unknown fields.
    #[serde(skip)]
    read_from: Option<String>,
}

impl Header {
    /// Parses a header. None if the line is not one.
    pub fn read(line: &str) -> Option<Header> {
        #[derive(Deserialize)]
        struct Tag {
            #[serde(rename = "type")]
            kind: String,
        }
        let tag: Tag = serde_json::from_str(line).ok()?;
        if tag.kind != "session" {
            return None;
        }
        let read_from = Some(line.to_owned());
        if let Ok(header) = serde_json::from_str(line) {
            return Some(Header { read_from, ..header });
        }
        // Only the id is required: other fields of an unexpected type do not make the file
        // unreadable.
        let fields: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Header {
            version: fields.get("version").and_then(Value::as_u64).unwrap_or(first_version()),
            id: text("id")?,
            timestamp: text("timestamp").unwrap_or_default(),
            cwd: text("cwd").unwrap_or_default(),
            parent_session: text("parentSession"),
            title: text("title"),
            read_from,
        })
    }

    /// A header for a new session.
    pub(crate) fn new(
        id: String,
        timestamp: String,
        cwd: String,
        parent_session: Option<String>,
    ) -> Header {
        let (title, read_from) = (None, None);
        Header { version: VERSION, id, timestamp, cwd, parent_session, title, read_from }
    }

    /// The header as a line, without the line end.
    pub fn line(&self) -> String {
        if let Some(line) = &self.read_from {
            return line.clone();
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a> {
            r#type: &'static str,
            version: u64,
            id: &'a str,
            timestamp: &'a str,
            cwd: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            parent_session: Option<&'a str>,
        }
        let line = Line {
            r#type: "session",
            version: self.version,
            id: &self.id,
            timestamp: &self.timestamp,
            cwd: &self.cwd,
            parent_session: self.parent_session.as_deref(),
        };
        serde_json::to_string(&line).expect("a header is plain data")
    }
}

fn first_version() -> u64 {
    1
}

/// A parsed entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: String,
    pub parent_id: Option<String>,
    pub timestamp: String,
    /// The `type` field.
    pub kind: String,
    /// None if the kind of entry, or the role of its message, is unknown. Such entries are kept,
    /// but only their text is available.
    pub body: Option<Body>,
}

impl Entry {
    /// Parses a line. None if it is not an entry.
    pub fn read(line: &str) -> Option<Entry> {
        let mut entry = Entry::read_place(line)?;
        entry.body = Body::read(&entry.kind, line, &entry.timestamp);
        if let Some(Body::Compaction(compaction)) = &mut entry.body {
            compaction.first_kept_entry_id.take_if(|first_kept| *first_kept == entry.id);
        }
        Some(entry)
    }

    /// Like `read`, without parsing the body.
    pub(crate) fn read_place(line: &str) -> Option<Entry> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tag {
            r#type: String,
            id: String,
            #[serde(default)]
            parent_id: Option<String>,
            #[serde(default)]
            timestamp: String,
        }
        let Tag { r#type: kind, id, parent_id, timestamp } = serde_json::from_str(line).ok()?;
        Some(Entry { id, parent_id, timestamp, kind, body: None })
    }
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A message of the user, the assistant, a tool or the client's own shell.
    Message(Arc<Message>),
    ModelChange {
        provider: String,
        model_id: String,
    },
    ThinkingLevelChange {
        level: ThinkingLevel,
    },
    /// Tokens spent outside the conversation.
    Usage(SideUsage),
    Compaction(Compaction),
    /// Replaces an earlier entry in the model's context; `None` hides it. The entry itself stays.
    ContextEdit {
        target_id: String,
        replacement: Option<Content>,
    },
    BranchSummary(BranchSummary),
    /// Data of an extension, never shown to the model.
    Custom {
        custom_type: String,
        data: Option<Value>,
    },
    /// A message of an extension, shown to the model.
    CustomMessage(CustomMessage),
    /// A label for an entry; `None` removes it.
    Label {
        target_id: String,
        label: Option<String>,
    },
    /// The session's name; an empty one removes it.
    SessionInfo {
        name: String,
    },
    /// The names of stream rules that were injected into the conversation. An entry type of xcsh.
    TtsrInjection {
        rules: Vec<String>,
    },
}

/// Tokens spent outside the conversation, for example to keep a cache warm.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SideUsage {
    pub kind: String,
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    #[serde(default)]
    pub note: Option<String>,
}

/// A summary that replaces everything before `first_kept_entry_id`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    pub summary: String,
    /// `None` if nothing before the compaction is kept; in the file this is the id of the
    /// compaction itself.
    #[serde(default)]
    pub first_kept_entry_id: Option<String>,
    #[serde(default)]
    pub tokens_before: u64,
    #[serde(default)]
    pub details: Option<Value>,
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Created by an extension.
    #[serde(default, alias = "fromExtension")]
    pub from_hook: bool,
}

/// A summary of an abandoned branch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    /// The leaf of that branch, or `root`.
    pub from_id: String,
    pub summary: String,
    #[serde(default)]
    pub details: Option<Value>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(default, alias = "fromExtension")]
    pub from_hook: bool,
}

impl Body {
    pub fn message(message: Message) -> Body {
        Body::Message(Arc::new(message))
    }

    fn read(kind: &str, line: &str, timestamp: &str) -> Option<Body> {
        Some(match kind {
            "message" => {
                #[derive(Deserialize)]
                struct Of {
                    message: Message,
                }
                Body::message(read::<Of>(line)?.message)
            }
            "model_change" => {
                let ModelChange { provider, model_id, .. } = ModelChange::read(line)?;
                Body::ModelChange { provider, model_id }
            }
            "thinking_level_change" => Body::ThinkingLevelChange { level: thinking_level(line)? },
            "usage" => Body::Usage(read(line)?),
            "compaction" => Body::Compaction(read(line)?),
            "context_edit" => {
                let ContextEdit { target_id, replacement } = read(line)?;
                Body::ContextEdit { target_id, replacement: replacement.map(|r| r.content) }
            }
            "branch_summary" => Body::BranchSummary(read(line)?),
            "custom" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Of {
                    custom_type: String,
                    #[serde(default)]
                    data: Option<Value>,
                }
                let Of { custom_type, data } = read(line)?;
                Body::Custom { custom_type, data }
            }
            "custom_message" => Body::CustomMessage(custom_message(line, timestamp)?),
            "label" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Of {
                    target_id: String,
                    #[serde(default)]
                    label: Option<String>,
                }
                let Of { target_id, label } = read(line)?;
                Body::Label { target_id, label: label.filter(|label| !label.is_empty()) }
            }
            "session_info" => {
                #[derive(Deserialize)]
                struct Of {
                    #[serde(default)]
                    name: String,
                }
                Body::SessionInfo { name: read::<Of>(line)?.name }
            }
            "ttsr_injection" => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Of {
                    #[serde(default)]
                    injected_rules: Vec<String>,
                }
                Body::TtsrInjection { rules: read::<Of>(line)?.injected_rules }
            }
            _ => return None,
        })
    }
}

/// Formats a new entry as a line, without its line end. pi puts the id, parent and timestamp before
/// an entry's own fields, except in `custom` and `custom_message`, where they come after.
pub(crate) fn line(body: &Body, id: &str, parent_id: Option<&str>, now: UnixMs) -> String {
    let line = RawEntry { body, id, parent_id, timestamp: time::iso(now) };
    serde_json::to_string(&line).expect("an entry is plain data")
}

struct RawEntry<'a> {
    body: &'a Body,
    id: &'a str,
    parent_id: Option<&'a str>,
    timestamp: String,
}

impl Serialize for RawEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.body {
            Body::Message(message) => {
                self.head("message", &mut map)?;
                map.serialize_entry("message", message.as_ref())?;
            }
            Body::ModelChange { provider, model_id } => {
                self.head("model_change", &mut map)?;
                map.serialize_entry("provider", provider)?;
                map.serialize_entry("modelId", model_id)?;
            }
            Body::ThinkingLevelChange { level } => {
                self.head("thinking_level_change", &mut map)?;
                map.serialize_entry("thinkingLevel", level)?;
            }
            Body::Usage(usage) => {
                self.head("usage", &mut map)?;
                map.serialize_entry("kind", &usage.kind)?;
                map.serialize_entry("provider", &usage.provider)?;
                map.serialize_entry("model", &usage.model)?;
                map.serialize_entry("usage", &usage.usage)?;
                if_some(&mut map, "note", &usage.note)?;
            }
            Body::Compaction(compaction) => {
                self.head("compaction", &mut map)?;
                let first_kept = compaction.first_kept_entry_id.as_deref().unwrap_or(self.id);
                map.serialize_entry("summary", &compaction.summary)?;
                map.serialize_entry("firstKeptEntryId", first_kept)?;
                map.serialize_entry("tokensBefore", &compaction.tokens_before)?;
                if_some(&mut map, "details", &compaction.details)?;
                if_some(&mut map, "usage", &compaction.usage)?;
                map.serialize_entry("fromHook", &compaction.from_hook)?;
            }
            Body::ContextEdit { target_id, replacement } => {
                self.head("context_edit", &mut map)?;
                let replacement = replacement.as_ref().map(|content| Replacement { content });
                map.serialize_entry("targetId", target_id)?;
                map.serialize_entry("replacement", &replacement)?;
            }
            Body::BranchSummary(branch) => {
                self.head("branch_summary", &mut map)?;
                map.serialize_entry("fromId", &branch.from_id)?;
                map.serialize_entry("summary", &branch.summary)?;
                if_some(&mut map, "details", &branch.details)?;
                if_some(&mut map, "usage", &branch.usage)?;
                map.serialize_entry("fromHook", &branch.from_hook)?;
            }
            Body::Custom { custom_type, data } => {
                map.serialize_entry("type", "custom")?;
                map.serialize_entry("customType", custom_type)?;
                if_some(&mut map, "data", data)?;
                self.serialize_position(&mut map)?;
            }
            Body::CustomMessage(message) => {
                map.serialize_entry("type", "custom_message")?;
                map.serialize_entry("customType", &message.custom_type)?;
                map.serialize_entry("content", &message.content)?;
                map.serialize_entry("display", &message.display)?;
                if_some(&mut map, "details", &message.details)?;
                self.serialize_position(&mut map)?;
            }
            Body::Label { target_id, label } => {
                self.head("label", &mut map)?;
                map.serialize_entry("targetId", target_id)?;
                if_some(&mut map, "label", label)?;
            }
            Body::SessionInfo { name } => {
                self.head("session_info", &mut map)?;
                map.serialize_entry("name", name)?;
            }
            Body::TtsrInjection { rules } => {
                self.head("ttsr_injection", &mut map)?;
                map.serialize_entry("injectedRules", rules)?;
            }
        }
        map.end()
    }
}

impl RawEntry<'_> {
    fn head<M: SerializeMap>(&self, kind: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("type", kind)?;
        self.serialize_position(map)
    }

    fn serialize_position<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("parentId", &self.parent_id)?;
        map.serialize_entry("timestamp", &self.timestamp)
    }
}

fn if_some<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: &Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.as_ref().map_or(Ok(()), |value| map.serialize_entry(key, value))
}

#[derive(Serialize, Deserialize)]
struct Replacement<C> {
    content: C,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContextEdit {
    target_id: String,
    #[serde(default)]
    replacement: Option<Replacement<Content>>,
}

impl ContextEdit {
    pub(crate) fn replacement(line: &str) -> Option<Content> {
        read::<ContextEdit>(line)?.replacement.map(|replacement| replacement.content)
    }
}

/// pi writes `provider` and `modelId`; xcsh writes `model` as `provider/id`, and a `role` if the
/// model is used only temporarily or for a side task.
pub(crate) struct ModelChange {
    pub provider: String,
    pub model_id: String,
    pub role: Option<String>,
}

impl ModelChange {
    pub(crate) fn read(line: &str) -> Option<ModelChange> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Of {
            provider: Option<String>,
            model_id: Option<String>,
            model: Option<String>,
            role: Option<String>,
        }
        let Of { provider, model_id, model, role } = read(line)?;
        let (provider, model_id) = match (provider, model_id, model) {
            (Some(provider), Some(model_id), _) => (provider, model_id),
            // Some model ids contain slashes.
            (_, _, Some(model)) => {
                let (provider, model_id) = model.split_once('/')?;
                (provider.to_owned(), model_id.to_owned())
            }
            _ => return None,
        };
        Some(ModelChange { provider, model_id, role })
    }
}

pub(crate) fn thinking_level(line: &str) -> Option<ThinkingLevel> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Of {
        thinking_level: String,
    }
    ThinkingLevel::read(&read::<Of>(line)?.thinking_level)
}

pub(crate) fn custom_message(line: &str, timestamp: &str) -> Option<CustomMessage> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Of {
        custom_type: String,
        content: Content,
        #[serde(default)]
        display: bool,
        #[serde(default)]
        details: Option<Value>,
    }
    let Of { custom_type, content, display, details } = read(line)?;
    let timestamp = time::read_iso(timestamp).unwrap_or(0);
    Some(CustomMessage { custom_type, content, display, details, timestamp })
}

fn read<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}
