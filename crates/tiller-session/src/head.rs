//! The part of a line that the tree needs, read without parsing the rest.
//!
//! Opening a session reads every line once this way: message texts are skipped, not copied. This is
//! the only place that decides what a line is, for stored files and for lines just written.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::Value;

use crate::json_skip::{Step, Walk};

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"toolCall\""));
static GLUE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"}{\""));

/// What a line is.
#[derive(Debug)]
pub(crate) enum HeadLine<'a> {
    Entry(Head<'a>),
    /// A header that is not the first line.
    Header,
    /// Its end is unreadable, but its place in the tree is known.
    Damaged {
        id: Cow<'a, str>,
        parent: Option<Cow<'a, str>>,
    },
    Malformed(String),
}

/// What the tree stores about an entry.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub kind: Kind,
    pub id: Cow<'a, str>,
    pub parent: Option<Cow<'a, str>>,
    /// The entry it refers to: the first one that a compaction keeps, or the target of an edit or
    /// label.
    pub refers: Option<Cow<'a, str>>,
    /// The label, or the session's name.
    pub text: Option<Cow<'a, str>>,
    /// For an edit: replaces its target rather than hiding it.
    pub replaces: bool,
    /// The number of tool calls in the message.
    pub calls: u64,
    pub spent: Option<UsageTotals>,
}

/// The kind of an entry, as far as the tree and the projection must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Assistant,
    ToolResult,
    BashExecution,
    /// A message with the role `custom`, as in migrated files.
    CustomRole,
    /// A message with a role that only xcsh has, and that is part of the model's context.
    XcshRole,
    /// A message with a role that is never part of the context: `system`, or an unknown one.
    OtherRole,
    ModelChange,
    ThinkingLevelChange,
    Usage,
    Compaction,
    ContextEdit,
    BranchSummary,
    Custom,
    CustomMessage,
    Label,
    SessionInfo,
    TtsrInjection,
    /// An unknown entry type.
    Other,
    /// A line whose end is unreadable; see [`Line::Damaged`].
    Damaged,
}

impl Kind {
    fn read(kind: &[u8], role: &[u8]) -> Kind {
        match kind {
            b"message" => match role {
                b"user" => Kind::User,
                b"assistant" => Kind::Assistant,
                b"toolResult" => Kind::ToolResult,
                b"bashExecution" => Kind::BashExecution,
                b"custom" => Kind::CustomRole,
                b"developer" | b"fileMention" | b"hookMessage" | b"pythonExecution" => {
                    Kind::XcshRole
                }
                _ => Kind::OtherRole,
            },
            b"model_change" => Kind::ModelChange,
            b"thinking_level_change" => Kind::ThinkingLevelChange,
            b"usage" => Kind::Usage,
            b"compaction" => Kind::Compaction,
            b"context_edit" => Kind::ContextEdit,
            b"branch_summary" => Kind::BranchSummary,
            b"custom" => Kind::Custom,
            b"custom_message" => Kind::CustomMessage,
            b"label" => Kind::Label,
            b"session_info" => Kind::SessionInfo,
            b"ttsr_injection" => Kind::TtsrInjection,
            _ => Kind::Other,
        }
    }

    /// A `message` entry, whatever its role.
    pub(crate) fn is_message(self) -> bool {
        matches!(
            self,
            Kind::User
                | Kind::Assistant
                | Kind::ToolResult
                | Kind::BashExecution
                | Kind::CustomRole
                | Kind::XcshRole
                | Kind::OtherRole
        )
    }

    /// Whether its message is part of the context. A compaction is too, but by other rules.
    pub(crate) fn is_in_context(self) -> bool {
        matches!(
            self,
            Kind::User
                | Kind::Assistant
                | Kind::ToolResult
                | Kind::BashExecution
                | Kind::CustomRole
                | Kind::XcshRole
                | Kind::CustomMessage
                | Kind::BranchSummary
        )
    }

    /// Whether the session's file is created when this entry is appended.
    pub(crate) fn begins_file(self) -> bool {
        matches!(self, Kind::User | Kind::Assistant)
    }
}

/// The token and cost figures that are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UsageTotals {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Dollars.
    pub cost: f64,
}

impl<'a> HeadLine<'a> {
    pub(crate) fn read(line: &'a [u8]) -> HeadLine<'a> {
        let mut seen = ScannedFields::default();
        let mut walk = Walk::new(line);
        match walk.object(|walk, key| seen.field(walk, key, line)) {
            Some(Step::On) if walk.is_done() => seen.finish(),
            Some(Step::Enough) if looks_complete(line) => seen.finish(),
            _ => HeadLine::read_leniently(line, seen),
        }
    }

    /// The line is broken, or a field has an unexpected type. Other programs may write such fields,
    /// so the line is read again without expecting types.
    fn read_leniently(line: &'a [u8], seen: ScannedFields<'a>) -> HeadLine<'a> {
        let reason = match serde_json::from_str(&String::from_utf8_lossy(line)) {
            Ok(Value::Object(fields)) => return ScannedFields::from_fields(fields).finish(),
            Ok(_) => "not an object".to_owned(),
            Err(err) => err.to_string(),
        };
        match seen {
            ScannedFields { id: Some(id), parent: Some(parent), .. } => {
                HeadLine::Damaged { id, parent }
            }
            _ => HeadLine::Malformed(reason),
        }
    }
}

/// The fields found so far. They stay valid if the line breaks off.
#[derive(Debug, Default)]
struct ScannedFields<'a> {
    /// The raw text: known words have no escapes.
    kind: Option<Cow<'a, [u8]>>,
    role: Option<Cow<'a, [u8]>>,
    id: Option<Cow<'a, str>>,
    /// The outer `Option`: whether the field was found.
    parent: Option<Option<Cow<'a, str>>>,
    refers: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    replaces: bool,
    calls: u64,
    spent: Option<UsageTotals>,
}

impl<'a> ScannedFields<'a> {
    fn field(&mut self, walk: &mut Walk<'a>, key: &'a [u8], line: &'a [u8]) -> Option<Step> {
        match key {
            b"type" => self.kind = Some(walk.raw_string()?.into()),
            b"id" => self.id = Some(walk.plain_string()?.into()),
            b"parentId" => self.parent = Some(string_or_null(walk)?),
            b"firstKeptEntryId" | b"targetId" => self.refers = string_or_null(walk)?,
            b"label" | b"name" => self.text = string_or_null(walk)?,
            b"replacement" => match walk.null() {
                Some(()) => self.replaces = false,
                None => {
                    walk.skip()?;
                    self.replaces = true;
                }
            },
            b"usage" => self.spent = Some(UsageTotals::walk(walk)?),
            b"message" => return walk.object(|walk, key| self.message_field(walk, key, line)),
            _ => return walk.skip(),
        }
        Some(Step::On)
    }

    fn message_field(
        &mut self,
        walk: &mut Walk<'a>,
        key: &'a [u8],
        line: &'a [u8],
    ) -> Option<Step> {
        // Only answers contain tool calls, and only answers and some results have a cost.
        let is_known = match key {
            b"role" => {
                let role = walk.raw_string()?;
                self.role = Some(role.into());
                match role {
                    b"assistant" => CALL.find(line).is_none() && self.find_usage_ahead(walk),
                    b"toolResult" => USAGE.find(line).is_none(),
                    _ => true,
                }
            }
            b"content" if walk.peek()? == b'[' => {
                self.calls = 0;
                walk.array(|walk| {
                    walk.object(|walk, key| match key {
                        b"type" => {
                            self.calls += u64::from(walk.raw_string()? == b"toolCall");
                            Some(Step::On)
                        }
                        _ => walk.skip(),
                    })
                })?;
                self.role.as_deref() == Some(b"assistant") && self.find_usage_ahead(walk)
            }
            b"usage" => {
                self.spent = Some(UsageTotals::walk(walk)?);
                false
            }
            _ => return walk.skip(),
        };
        // Nothing more is needed once the place in the tree is known, too.
        let place_is_known = self.kind.is_some() && self.id.is_some() && self.parent.is_some();
        Some(if is_known && place_is_known { Step::Enough } else { Step::On })
    }

    /// Finds the usage of an answer without scanning up to it, unless tool arguments, which can
    /// contain anything, lie between. A match counts only if it is followed by the field that
    /// follows it in every program's messages; otherwise the scan reaches the field in the normal
    /// way.
    fn find_usage_ahead(&mut self, walk: &Walk<'a>) -> bool {
        let ahead = USAGE.find(walk.rest()).and_then(|at| {
            let mut walk = Walk::new(&walk.rest()[at..]);
            walk.field()?;
            let spent = UsageTotals::walk(&mut walk)?;
            (walk.next_field()? == b"stopReason").then_some(spent)
        });
        self.spent = ahead.or(self.spent);
        ahead.is_some()
    }

    fn from_fields(mut fields: serde_json::Map<String, Value>) -> ScannedFields<'a> {
        let mut text = |key: &str| -> Option<Cow<'a, str>> {
            match fields.get_mut(key).map(Value::take) {
                Some(Value::String(text)) => Some(Cow::Owned(text)),
                _ => None,
            }
        };
        let kind = text("type").map(|kind| Cow::Owned(kind.into_owned().into_bytes()));
        let (id, parent) = (text("id"), text("parentId"));
        let refers = text("targetId").or_else(|| text("firstKeptEntryId"));
        let label = text("label").or_else(|| text("name"));
        let message = fields.get("message");
        let of_message = |key: &str| message.and_then(|message| message.get(key));
        let role = of_message("role").and_then(Value::as_str);
        let blocks = of_message("content").and_then(Value::as_array);
        let is_call = |block: &&Value| block.get("type").is_some_and(|kind| kind == "toolCall");
        let usage = of_message("usage").or_else(|| fields.get("usage"));
        ScannedFields {
            kind,
            id,
            parent: Some(parent),
            refers,
            text: label,
            replaces: fields.get("replacement").is_some_and(|value| !value.is_null()),
            role: role.map(|role| Cow::Owned(role.as_bytes().to_owned())),
            calls: blocks.map_or(0, |blocks| blocks.iter().filter(is_call).count() as u64),
            spent: usage.and_then(UsageTotals::from_value),
        }
    }

    fn finish(self) -> HeadLine<'a> {
        let Some(kind) = self.kind else {
            return HeadLine::Malformed("missing field `type`".to_owned());
        };
        if *kind == *b"session" {
            return HeadLine::Header;
        }
        let Some(id) = self.id else {
            return HeadLine::Malformed("missing field `id`".to_owned());
        };
        HeadLine::Entry(Head {
            kind: Kind::read(&kind, self.role.as_deref().unwrap_or_default()),
            id,
            parent: self.parent.flatten(),
            refers: self.refers,
            text: self.text,
            replaces: self.replaces,
            calls: self.calls,
            spent: self.spent,
        })
    }
}

impl UsageTotals {
    fn walk(walk: &mut Walk<'_>) -> Option<UsageTotals> {
        let mut spent = UsageTotals::default();
        walk.object(|walk, key| {
            match key {
                b"input" => spent.input = walk.count()?,
                b"output" => spent.output = walk.count()?,
                b"cacheRead" => spent.cache_read = walk.count()?,
                b"cacheWrite" => spent.cache_write = walk.count()?,
                b"cost" => {
                    walk.object(|walk, key| match key {
                        b"total" => {
                            spent.cost = walk.number()?;
                            Some(Step::On)
                        }
                        _ => walk.skip(),
                    })?;
                }
                _ => {
                    walk.skip()?;
                }
            }
            Some(Step::On)
        })?;
        Some(spent)
    }

    fn from_value(usage: &Value) -> Option<UsageTotals> {
        let usage = usage.as_object()?;
        let tokens = |key: &str| {
            // A cast from a float saturates; anything but a number counts as 0.
            usage.get(key).and_then(Value::as_f64).map_or(0, |tokens| tokens as u64)
        };
        let total = usage.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
        Some(UsageTotals {
            input: tokens("input"),
            output: tokens("output"),
            cache_read: tokens("cacheRead"),
            cache_write: tokens("cacheWrite"),
            cost: total.unwrap_or(0.0),
        })
    }
}

/// A quick check of a `message` entry that was not scanned to its end: it must end like one, and
/// not contain two. Quotes inside strings are escaped, so a whole line cannot contain this text.
fn looks_complete(line: &[u8]) -> bool {
    line.ends_with(b"}}") && GLUE.find(line).is_none()
}

fn string_or_null<'a>(walk: &mut Walk<'a>) -> Option<Option<Cow<'a, str>>> {
    match walk.null() {
        Some(()) => Some(None),
        None => Some(Some(walk.plain_string()?.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(line: &[u8], expected: Expect) {
        let shown = match HeadLine::read(line) {
            HeadLine::Entry(head) => {
                let mut shown = format!("{:?} {}", head.kind, head.id);
                for (word, value) in
                    [("under", head.parent), ("about", head.refers), ("says", head.text)]
                {
                    shown += &value.map(|value| format!(" {word} {value}")).unwrap_or_default();
                }
                shown += if head.replaces { " replaces" } else { "" };
                if head.calls > 0 {
                    shown += &format!(" calls {}", head.calls);
                }
                if let Some(spent) = head.spent {
                    shown += &format!(" in {} ${}", spent.input, spent.cost);
                }
                shown
            }
            other => format!("{other:?}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn heads_of_all_kinds_of_entries() {
        check(
            br#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"assistant","content":[{"type":"text","text":"\"toolCall\""},{"type":"toolCall","id":"1","name":"ls","arguments":{"type":"toolCall"}}],"usage":{"input":7,"cost":{"total":0.5}}}}"#,
            expect!["Assistant b under a calls 1 in 7 $0.5"],
        );
        check(
            br#"{"type":"context_edit","id":"c","parentId":"b","targetId":"b","replacement":null}"#,
            expect!["ContextEdit c under b about b"],
        );
        check(
            br#"{"type":"context_edit","id":"c","parentId":"b","targetId":"b","replacement":{"content":""}}"#,
            expect!["ContextEdit c under b about b replaces"],
        );
        check(
            br#"{"type":"custom","customType":"x","data":{"id":"no"},"id":"yes","parentId":null}"#,
            expect!["Custom yes"],
        );
        check(
            br#"{"type":"ttsr_injection","id":"d","parentId":"c"}"#,
            expect!["TtsrInjection d under c"],
        );
        check(br#" {"type":"session","id":"s"} "#, expect!["Header"]);
    }

    /// Tool arguments and results cannot mislead the shortcuts.
    #[test]
    fn usage_is_not_taken_from_arguments_or_results() {
        check(
            br#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","content":[{"type":"toolCall","arguments":{"usage":{"input":1},"stopReason":"no"}}],"usage":{"input":7},"stopReason":"stop"}}"#,
            expect!["Assistant b under a calls 1 in 7 $0"],
        );
        check(
            br#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","content":[{"type":"text","text":"\"usage\""}],"model":"usage","usage":{"input":7},"timestamp":1}}"#,
            expect!["Assistant b under a in 7 $0"],
        );
        check(
            br#"{"type":"message","id":"b","parentId":"a","message":{"role":"toolResult","details":{"usage":{"input":1}},"isError":false}}"#,
            expect!["ToolResult b under a"],
        );
        check(
            br#"{"message":{"usage":{"input":7},"stopReason":"stop","role":"assistant","content":[{"arguments":{},"type":"toolCall"}]},"parentId":"a","id":"b","type":"message"}"#,
            expect!["Assistant b under a calls 1 in 7 $0"],
        );
    }

    #[test]
    fn fields_of_unexpected_types_are_ignored() {
        check(
            br#"{"type":"message","id":"b","parentId":5,"message":{"role":"assistant","content":[7,{"type":"toolCall"}],"usage":{"input":7.5}}}"#,
            expect!["Assistant b calls 1 in 7 $0"],
        );
        check(br#"{"type":"label","id":"l","label":4,"usage":"u"}"#, expect!["Label l"]);
        check(
            b"{\"type\":\"message\",\"id\":\"\xff\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"\xff\"}}",
            expect!["User \u{fffd}"],
        );
    }

    #[test]
    fn truncated_line_keeps_its_place_in_the_tree() {
        check(
            br#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"us"#,
            expect![[r#"Damaged { id: "b", parent: Some("a") }"#]],
        );
        check(
            b"{\"type\":\"message\",\"id\":\"b\",\"par\0\0\0\0\0\0",
            expect![[
                r#"Malformed("control character (\\u0000-\\u001F) found while parsing a string at line 1 column 32")"#
            ]],
        );
        check(b"[1]", expect![[r#"Malformed("not an object")"#]]);
        check(br#"{"id":"x"}"#, expect![[r#"Malformed("missing field `type`")"#]]);
        check(br#"{"type":"x"}"#, expect![[r#"Malformed("missing field `id`")"#]]);
    }
}
