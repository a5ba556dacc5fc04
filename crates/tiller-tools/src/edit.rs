//! `edit`: replaces texts in a file, all or none.

pub(crate) mod diff;
mod matching;

use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};

use crate::edit::diff::Diff;
use crate::edit::matching::lf;
use crate::{atomic_write, blocking, lock, os_error, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Replace texts in a file. Each `oldText` must occur exactly once in the \
        file; all edits are matched against the file as it is before any of them is made, and \
        must not overlap.";
    typed::spec::<EditInput>("edit", description)
});

pub fn tool() -> Tool {
    typed::tool(&SPEC, run)
        .effect(ToolEffect::Edits)
        .snippet("Replace texts in a file that must match exactly")
        .rule("Make several changes to one file with one call of edit and several entries in edits")
        .rule("Keep each oldText as short as it can be while it occurs only once in the file")
        .mend(mend)
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct EditInput {
    /// File to edit, relative to the working directory or absolute
    path: String,
    /// What to replace
    edits: Vec<Replacement>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Replacement {
    /// Text to replace, exactly as it stands in the file, where it must occur only once
    old_text: String,
    /// Text to put in its place
    new_text: String,
}

async fn run(input: EditInput, cx: ToolContext) -> ToolResult {
    let (cwd, name) = (cx.cwd.clone(), input.path.clone());
    let path = blocking::finish(move || path::resolve_existing(&cwd, &name)).await?;
    let locked = lock::lock(path, &cx.cancel).await?;
    // Runs to completion once started, so that a call that reports an abort never changes a file.
    blocking::finish_call(&cx, move || change(&locked.path, &input)).await
}

/// Larger files are refused, to bound memory.
const FILE_MAX_BYTES: u64 = 128 * 1024 * 1024;

fn change(file: &Path, input: &EditInput) -> ToolResult {
    let name = &input.path;
    let Edited { old, new } = edited(file, input)?;
    atomic_write::replace(file, new.as_bytes()).map_err(|err| refused(name, &failed(&err)))?;

    let (old, new) = (lf(without_mark(&old)), lf(without_mark(&new)));
    let diff = Diff::between(&old, &new);
    let text = format!("Successfully replaced {} block(s) in {name}.", input.edits.len());
    Ok(ToolOutput::text(text).details(json!({
        "diff": diff.numbered(),
        "patch": diff.patch(name),
        "firstChangedLine": diff.first_changed_line(),
    })))
}

/// The unified diff of what a call would change in this file; none if it would fail.
pub(crate) fn preview(file: &Path, arguments: &Arguments) -> Option<String> {
    let input = EditInput::deserialize(&Value::Object(arguments.clone())).ok()?;
    let Edited { old, new } = edited(file, &input).ok()?;
    Some(Diff::between(&old, &new).patch(&input.path))
}

/// A file before and after an edit.
struct Edited {
    old: String,
    new: String,
}

fn refused(name: &str, why: &str) -> Failure {
    Failure::new(format!("Could not edit file: {name}. {why}"))
}

fn failed(err: &io::Error) -> String {
    format!("Error code: {}.", os_error::code(err))
}

/// Reads the file and applies the edits to its text.
fn edited(file: &Path, input: &EditInput) -> Result<Edited, Failure> {
    let name = &input.path;
    let refused = |why: &str| refused(name, why);
    let failed = |err: &io::Error| refused(&failed(err));
    let metadata = fs::metadata(file).map_err(|err| failed(&err))?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(refused("It is not a regular file."));
    }
    if metadata.len() > FILE_MAX_BYTES {
        return Err(refused("It is too large; use bash to change it."));
    }
    let bytes = fs::read(file).map_err(|err| failed(&err))?;
    let old = String::from_utf8(bytes)
        .map_err(|_| refused("It is not UTF-8 text; use bash to change it."))?;
    let new = matching::edited(&old, &input.edits, name).map_err(Failure::new)?;
    Ok(Edited { old, new })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Some models write the list as JSON inside a string, a single edit without a list, or the edit's
/// texts beside the path, as an older tool wanted them.
fn mend(arguments: &mut Arguments) {
    if let Some(Value::String(text)) = arguments.get("edits")
        && let Ok(parsed @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text)
    {
        arguments.insert("edits".to_owned(), parsed);
    }
    if let Some(edit @ Value::Object(_)) = arguments.get_mut("edits") {
        *edit = Value::Array(vec![edit.take()]);
    }
    let has_text = |name: &str| arguments.get(name).is_some_and(Value::is_string);
    if has_text("oldText") && has_text("newText") {
        let old = arguments.shift_remove("oldText");
        let new = arguments.shift_remove("newText");
        let edits = arguments.entry("edits").or_insert_with(|| json!([]));
        if let Value::Array(edits) = edits {
            edits.push(json!({ "oldText": old, "newText": new }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;

    use super::*;
    use crate::testing::Scratch;

    fn edit(path: &str, edits: &[(&str, &str)]) -> Value {
        let edits: Vec<Value> =
            edits.iter().map(|(old, new)| json!({ "oldText": old, "newText": new })).collect();
        json!({ "path": path, "edits": edits })
    }

    #[tokio::test]
    async fn results() {
        let scratch = Scratch::new();
        scratch
            .write("a.txt", "alpha\nbeta\ngamma\n")
            .write("latin", b"caf\xe9")
            .write("dir/x", "");
        let calls = [
            edit("a.txt", &[("beta", "BETA")]),
            edit("a.txt", &[("alpha", "ALPHA"), ("gamma", "GAMMA")]),
            edit("a.txt", &[("nowhere", "x")]),
            edit("gone.txt", &[("a", "b")]),
            edit("latin", &[("a", "b")]),
            edit("dir", &[("a", "b")]),
            edit("/dev/zero", &[("a", "b")]),
            edit("a.txt", &[]),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"a.txt","edits":[{"oldText":"beta","newText":"BETA"}]}
            Successfully replaced 1 block(s) in a.txt.
            details {"diff":" 1 alpha\n-2 beta\n+2 BETA\n 3 gamma","patch":"--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n","firstChangedLine":2}
            > {"path":"a.txt","edits":[{"oldText":"alpha","newText":"ALPHA"},{"oldText":"gamma","newText":"GAMMA"}]}
            Successfully replaced 2 block(s) in a.txt.
            details {"diff":"-1 alpha\n+1 ALPHA\n 2 BETA\n-3 gamma\n+3 GAMMA","patch":"--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n-alpha\n+ALPHA\n BETA\n-gamma\n+GAMMA\n","firstChangedLine":1}
            > {"path":"a.txt","edits":[{"oldText":"nowhere","newText":"x"}]}
            error: Could not find the exact text in a.txt. The old text must match exactly including all whitespace and newlines.
            > {"path":"gone.txt","edits":[{"oldText":"a","newText":"b"}]}
            error: Could not edit file: gone.txt. Error code: ENOENT.
            > {"path":"latin","edits":[{"oldText":"a","newText":"b"}]}
            error: Could not edit file: latin. It is not UTF-8 text; use bash to change it.
            > {"path":"dir","edits":[{"oldText":"a","newText":"b"}]}
            error: Could not edit file: dir. Error code: EISDIR.
            > {"path":"/dev/zero","edits":[{"oldText":"a","newText":"b"}]}
            error: Could not edit file: /dev/zero. It is not a regular file.
            > {"path":"a.txt","edits":[]}
            error: Edit tool input is invalid. edits must contain at least one replacement.
        "#]].assert_eq(&report);
        assert_eq!(scratch.read("a.txt"), "ALPHA\nBETA\nGAMMA\n");
    }

    #[tokio::test]
    async fn malformed_edit_arguments_are_repaired() {
        let scratch = Scratch::new();
        scratch.write("a", "one two three four\n");
        let calls = [
            json!({"path": "a", "edits": r#"[{"oldText":"one","newText":"1"}]"#}),
            json!({"path": "a", "edits": r#"{"oldText":"two","newText":"2"}"#}),
            json!({"path": "a", "edits": {"oldText": "three", "newText": "3"}}),
            json!({"path": "a", "oldText": "four", "newText": "4"}),
            json!({"path": "a", "oldText": "1", "newText": "I", "edits": [{"oldText": "2", "newText": "II"}]}),
            json!({"path": "a", "edits": "not json"}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"a","edits":"[{\"oldText\":\"one\",\"newText\":\"1\"}]"}
            Successfully replaced 1 block(s) in a.
            details {"diff":"-1 one two three four\n+1 1 two three four","patch":"--- a\n+++ a\n@@ -1,1 +1,1 @@\n-one two three four\n+1 two three four\n","firstChangedLine":1}
            > {"path":"a","edits":"{\"oldText\":\"two\",\"newText\":\"2\"}"}
            Successfully replaced 1 block(s) in a.
            details {"diff":"-1 1 two three four\n+1 1 2 three four","patch":"--- a\n+++ a\n@@ -1,1 +1,1 @@\n-1 two three four\n+1 2 three four\n","firstChangedLine":1}
            > {"path":"a","edits":{"oldText":"three","newText":"3"}}
            Successfully replaced 1 block(s) in a.
            details {"diff":"-1 1 2 three four\n+1 1 2 3 four","patch":"--- a\n+++ a\n@@ -1,1 +1,1 @@\n-1 2 three four\n+1 2 3 four\n","firstChangedLine":1}
            > {"path":"a","oldText":"four","newText":"4"}
            Successfully replaced 1 block(s) in a.
            details {"diff":"-1 1 2 3 four\n+1 1 2 3 4","patch":"--- a\n+++ a\n@@ -1,1 +1,1 @@\n-1 2 3 four\n+1 2 3 4\n","firstChangedLine":1}
            > {"path":"a","oldText":"1","newText":"I","edits":[{"oldText":"2","newText":"II"}]}
            Successfully replaced 2 block(s) in a.
            details {"diff":"-1 1 2 3 4\n+1 I II 3 4","patch":"--- a\n+++ a\n@@ -1,1 +1,1 @@\n-1 2 3 4\n+I II 3 4\n","firstChangedLine":1}
            > {"path":"a","edits":"not json"}
            error: Invalid arguments: invalid type: string "not json", expected a sequence
        "#]].assert_eq(&report);
        assert_eq!(scratch.read("a"), "I II 3 4\n");
    }

    #[tokio::test]
    async fn links_byte_order_marks_and_permissions_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        scratch.write("real/script", "\u{feff}one\r\ntwo\r\n");
        let file = scratch.path("real/script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        symlink("real/script", scratch.path("link")).unwrap();
        scratch.result(tool(), edit("link", &[("one\ntwo", "1\n2\n3")])).await.unwrap();
        assert_eq!(scratch.read("real/script"), "\u{feff}1\r\n2\r\n3\r\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        assert!(scratch.path("link").is_symlink());
        assert_eq!(fs::read_dir(scratch.path("real")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn edits_of_one_file_are_serialised() {
        let scratch = Scratch::new();
        let words: Vec<String> = (0..40).map(|i| format!("<{i}>")).collect();
        scratch.write("a", words.join("\n"));
        symlink("a", scratch.path("b")).unwrap();
        let calls = words.iter().enumerate().map(|(i, word)| {
            let name = ["a", "b", "./a"][i % 3];
            let arguments = edit(name, &[(word, &format!("[{i}]"))]);
            tokio::spawn(tool().run(arguments.as_object().unwrap().clone(), scratch.context()))
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        assert_eq!(scratch.read("a"), words.join("\n").replace('<', "[").replace('>', "]"));
    }

    #[tokio::test]
    async fn aborted_edit_changes_nothing() {
        let scratch = Scratch::new();
        scratch.write("a", "one");
        let cx = scratch.context();
        cx.cancel.cancel();
        let arguments = edit("a", &[("one", "two")]).as_object().unwrap().clone();
        assert_eq!(tool().run(arguments, cx).await, Err(Failure::aborted()));
        assert_eq!(scratch.read("a"), "one");
    }
}
