//! What a tool call shows: its output, and the changes that it makes to a file.

use std::path::Path;

use agent_client_protocol_schema::v1::{ContentBlock, Diff, ImageContent, ToolCallContent};
use serde_json::{Map, Value, json};
use tiller_protocol::{Arguments, Block};

use crate::tool_calls;

/// Tools whose output is plain text, in which an editor should find no Markdown.
const PLAIN: [&str; 5] = ["bash", "read", "ls", "find", "grep"];

/// The changes that a call would make, before it has a result.
pub(crate) fn planned(tool: &str, arguments: &Arguments, cwd: &Path) -> Vec<ToolCallContent> {
    let Some(path) = tool_calls::path(arguments, cwd) else { return Vec::new() };
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    match tool {
        "write" => {
            let content = arguments.get("content").and_then(Value::as_str);
            content.map(|content| Diff::new(path, content).into()).into_iter().collect()
        }
        "edit" => {
            let edits = arguments.get("edits").and_then(Value::as_array).into_iter().flatten();
            let diff = |edit: &Value| {
                let new = text(edit, "newText")?;
                Some(Diff::new(path.clone(), new).old_text(text(edit, "oldText")?).into())
            };
            edits.filter_map(diff).collect()
        }
        _ => Vec::new(),
    }
}

/// The result of a call: the changes that it has made, else its output.
pub(crate) fn finished(
    tool: &str,
    arguments: &Arguments,
    output: &CallOutput<'_>,
    cwd: &Path,
) -> Vec<ToolCallContent> {
    if output.is_error {
        // Why a call failed is a sentence, except for the output of a command.
        return shown(if tool == "bash" { tool } else { "" }, output.content);
    }
    let changes = match (tool, tool_calls::path(arguments, cwd)) {
        ("edit", Some(path)) => {
            let patch = output.details.and_then(|details| details.get("patch"));
            patch.and_then(Value::as_str).map(|patch| hunks(patch, &path)).unwrap_or_default()
        }
        ("write", Some(_)) => planned(tool, arguments, cwd),
        _ => Vec::new(),
    };
    if changes.is_empty() { shown(tool, output.content) } else { changes }
}

/// The result of a call, or its output so far.
pub(crate) struct CallOutput<'a> {
    pub(crate) content: &'a [Block],
    pub(crate) details: Option<&'a Value>,
    pub(crate) is_error: bool,
}

impl CallOutput<'_> {
    /// For programs: the text, and the details as the tool gives them.
    pub(crate) fn raw(&self) -> Value {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let mut raw = Map::new();
        raw.insert("output".to_owned(), json!(texts.collect::<String>()));
        if let Some(details) = self.details {
            raw.insert("details".to_owned(), details.clone());
        }
        raw.into()
    }

    /// The first line that an edit has changed.
    pub(crate) fn first_changed_line(&self) -> Option<u32> {
        let line = self.details?.get("firstChangedLine")?.as_u64()?;
        u32::try_from(line).ok()
    }
}

/// The blocks of a tool's output.
pub(crate) fn shown(tool: &str, blocks: &[Block]) -> Vec<ToolCallContent> {
    let content = |block: &Block| {
        Some(match block {
            Block::Text { text, .. } if text.is_empty() => return None,
            Block::Text { text, .. } if PLAIN.contains(&tool) => fenced(text).into(),
            Block::Text { text, .. } => text.clone().into(),
            Block::Image { data, mime_type } => {
                let image = ImageContent::new(data.clone(), mime_type.clone());
                ContentBlock::Image(image).into()
            }
            _ => return None,
        })
    };
    blocks.iter().filter_map(content).collect()
}

/// A code block with a fence that does not occur in the text.
fn fenced(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

/// The hunks of a patch, each as its text before and after.
fn hunks(patch: &str, path: &Path) -> Vec<ToolCallContent> {
    let mut hunks = Vec::new();
    let mut hunk: Option<(String, String)> = None;
    for line in patch.split_inclusive('\n') {
        if line.starts_with("@@") {
            hunks.extend(hunk.replace(Default::default()));
            continue;
        }
        let Some((old, new)) = &mut hunk else { continue };
        match line.split_at_checked(1) {
            Some((" ", text)) => {
                old.push_str(text);
                new.push_str(text);
            }
            Some(("-", text)) => old.push_str(text),
            Some(("+", text)) => new.push_str(text),
            // "\ No newline at end of file".
            _ => {}
        }
    }
    hunks.extend(hunk);
    let diff = |(old, new): (String, String)| Diff::new(path, new).old_text(old).into();
    hunks.into_iter().map(diff).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn arguments(value: Value) -> Arguments {
        value.as_object().unwrap().clone()
    }

    fn print(content: &[ToolCallContent]) -> String {
        let lines = content.iter().map(|one| serde_json::to_string(one).unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn planned_changes_are_diffs() {
        let check = |tool: &str, args: Value, expected: Expect| {
            expected.assert_eq(&print(&planned(tool, &arguments(args), Path::new("/w"))));
        };
        check(
            "write",
            json!({"path": "a", "content": "new\n"}),
            expect![[r#"{"type":"diff","path":"/w/a","newText":"new\n"}"#]],
        );
        check(
            "edit",
            json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"}, {"oldText": 1}]}),
            expect![[r#"{"type":"diff","path":"/w/a","oldText":"x","newText":"y"}"#]],
        );
        check("edit", json!({"edits": []}), expect![""]);
        check("bash", json!({"command": "ls", "path": "a"}), expect![""]);
    }

    #[test]
    fn finished_calls_show_changes_or_output() {
        let check = |tool: &str, is_error, text: &str, details: Option<Value>, expected: Expect| {
            let content = [Block::text(text)];
            let output = CallOutput { content: &content, details: details.as_ref(), is_error };
            let args = arguments(json!({"path": "a", "content": "c"}));
            let shown = print(&finished(tool, &args, &output, Path::new("/w")));
            expected.assert_eq(&format!("{shown}\n{}", output.raw()));
        };
        let patch = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n@@ -9,1 +9,0 @@\n-gone\n";
        check(
            "edit",
            false,
            "Successfully replaced",
            Some(json!({"patch": patch})),
            expect![[r#"
                {"type":"diff","path":"/w/a","oldText":"same\nold\n","newText":"same\nnew\n"}
                {"type":"diff","path":"/w/a","oldText":"gone\n","newText":""}
                {"output":"Successfully replaced","details":{"patch":"--- a\n+++ a\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n@@ -9,1 +9,0 @@\n-gone\n"}}"#]],
        );
        check(
            "edit",
            true,
            "Could not edit",
            None,
            expect![[r#"
            {"type":"content","content":{"type":"text","text":"Could not edit"}}
            {"output":"Could not edit"}"#]],
        );
        check(
            "write",
            false,
            "Successfully wrote",
            None,
            expect![[r#"
            {"type":"diff","path":"/w/a","newText":"c"}
            {"output":"Successfully wrote"}"#]],
        );
        check(
            "bash",
            false,
            "a ``` b",
            None,
            expect![[r#"
            {"type":"content","content":{"type":"text","text":"````\na ``` b\n````"}}
            {"output":"a ``` b"}"#]],
        );
        check(
            "other",
            false,
            "*a*",
            None,
            expect![[r#"
            {"type":"content","content":{"type":"text","text":"*a*"}}
            {"output":"*a*"}"#]],
        );
    }
}
