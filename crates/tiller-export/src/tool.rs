//! Renders a tool call and its result as one card.

use std::path::Path;

use serde_json::Value;
use tiller_agent::message::{
    Arguments, BashExecution, Block, ToolCall, ToolResultMessage, text_of,
};

use crate::diff;
use crate::highlight::Colours;
use crate::markdown::block;
use crate::text::{counted, escape, one_line, show, visible};

/// A result of up to this many lines is unfolded.
const OPEN_LINES: usize = 12;
/// Errors may be longer.
const OPEN_FAILED_LINES: usize = 30;
/// Diffs may be longer too, since readers look for them.
const OPEN_DIFF_LINES: usize = 80;

/// Renders a call without a result, inside its answer.
pub(crate) fn unanswered(call: &ToolCall, colours: &mut Colours, out: &mut String) {
    out.push_str("<div class=\"call\"><header><b>");
    show(&call.name, out);
    out.push_str("</b>");
    subject(call, out);
    aside("no result", out);
    out.push_str("</header>");
    show_arguments(call, colours, out);
    edits(call, out);
    out.push_str("</div>");
}

/// Renders a result together with its call. `at` is the entry's label and time.
pub(crate) fn card(
    call: Option<&ToolCall>,
    result: &ToolResultMessage,
    colours: &mut Colours,
    at: &str,
    out: &mut String,
) {
    let diff = result.details.as_ref().and_then(|details| details.get("diff")?.as_str());
    out.push_str("<header><h2>");
    show(call.map_or(&result.tool_name, |call| &call.name), out);
    out.push_str("</h2>");
    if let Some(call) = call {
        subject(call, out);
    }
    if result.is_error {
        out.push_str("<span class=\"failed\">failed</span>");
    }
    out.push_str(at);
    out.push_str("</header>");
    if let Some(call) = call {
        show_arguments(call, colours, out);
    }
    let is_edit_shown = match (diff, call) {
        (Some(diff), _) => {
            let (added, removed) = diff::changes(diff);
            let is_open = diff.lines().count() <= OPEN_DIFF_LINES;
            fold(is_open, &format!("+{added} −{removed}"), "", out);
            diff::numbered(diff, out);
            out.push_str("</details>");
            true
        }
        (None, Some(call)) => edits(call, out),
        (None, None) => false,
    };
    let is_write_shown =
        call.is_some_and(|call| call.name == "write" && text(&call.arguments, "content").is_some());
    let text = text_of(&result.content);
    let is_shown = !result.is_error && (is_edit_shown || is_write_shown) && is_receipt(&text);
    if !is_shown {
        let extension = call.filter(|call| call.name == "read").and_then(path).map(extension);
        output(&text, result, extension.unwrap_or_default(), colours, out);
    }
    for content in &result.content {
        if let Block::Image { data, mime_type } = content {
            image(data, mime_type, out);
        }
    }
}

/// A call in one line, for the tree: `edit src/parse.py`.
pub(crate) fn summary(call: &ToolCall) -> String {
    let arguments = &call.arguments;
    let command = text(arguments, "command").filter(|_| call.name == "bash");
    let pattern = text(arguments, "pattern").filter(|_| is_search(call));
    let subject = command.or(pattern).or(path(call)).map(str::to_owned);
    let subject = subject.unwrap_or_else(|| {
        let words = arguments.values().filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        words.collect::<Vec<String>>().join(" ")
    });
    format!("{} {subject}", call.name)
}

/// The subject of a call, in the first line of its card: the file of a diff, for example.
fn subject(call: &ToolCall, out: &mut String) {
    let arguments = &call.arguments;
    match (call.name.as_str(), path(call)) {
        ("bash", _) => {
            if let Some(timeout) = arguments.get("timeout").filter(|timeout| timeout.is_number()) {
                aside(&format!("timeout {timeout} s"), out);
            }
        }
        ("read" | "write" | "edit" | "ls", Some(path)) => {
            code(path, out);
            aside(&range(arguments), out);
        }
        (_, path) if is_search(call) => {
            code(text(arguments, "pattern").unwrap_or_default(), out);
            aside(&path.map(|path| format!("in {path}")).unwrap_or_default(), out);
        }
        _ => {}
    }
}

/// The arguments that the first line of the card does not show.
fn show_arguments(call: &ToolCall, colours: &mut Colours, out: &mut String) {
    let arguments = &call.arguments;
    match (call.name.as_str(), path(call)) {
        ("bash", _) if text(arguments, "command").is_some() => {
            prompt(text(arguments, "command").unwrap_or_default(), colours, out);
        }
        ("write", Some(path)) => {
            if let Some(content) = text(arguments, "content") {
                let count = content.lines().count();
                fold(count <= OPEN_LINES, &counted(count as u64, "line"), "", out);
                block(extension(path), &visible(content), colours, out);
                out.push_str("</details>");
            }
        }
        ("read" | "edit" | "ls", Some(_)) => {}
        _ if is_search(call) || arguments.is_empty() => {}
        _ => {
            let value = Value::Object(arguments.clone());
            let json = serde_json::to_string_pretty(&value).unwrap_or_default();
            fold(json.lines().count() <= OPEN_LINES, "Arguments", "", out);
            block("json", &visible(&json), colours, out);
            out.push_str("</details>");
        }
    }
}

/// The replacements of an `edit` without a diff. Returns whether there are any.
fn edits(call: &ToolCall, out: &mut String) -> bool {
    if call.name != "edit" {
        return false;
    }
    let listed = call.arguments.get("edits").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(Value::as_object);
    let pairs: Vec<(&str, &str)> = listed
        .chain([&call.arguments])
        .filter_map(|edit| Some((text(edit, "oldText")?, text(edit, "newText")?)))
        .collect();
    if pairs.is_empty() {
        return false;
    }
    let lines: usize =
        pairs.iter().map(|(old, new)| old.lines().count() + new.lines().count()).sum();
    let count = format!("{} to replace", counted(pairs.len() as u64, "text"));
    fold(lines <= OPEN_DIFF_LINES, &count, "", out);
    diff::replaced(&pairs, out);
    out.push_str("</details>");
    true
}

/// Whether a text only confirms success.
fn is_receipt(text: &str) -> bool {
    text.starts_with("Successfully ") && text.trim_end().lines().count() == 1
}

/// The output of the tool.
fn output(
    text: &str,
    result: &ToolResultMessage,
    extension: &str,
    colours: &mut Colours,
    out: &mut String,
) {
    let lines = text.lines().count();
    if lines == 0 {
        if !result.content.iter().any(|block| matches!(block, Block::Image { .. })) {
            out.push_str("<p class=\"hint\">No output</p>");
        }
        return;
    }
    let open_lines = if result.is_error { OPEN_FAILED_LINES } else { OPEN_LINES };
    fold(lines <= open_lines, &counted(lines as u64, "line"), &one_line(text, 100), out);
    out.push_str("<pre class=\"out\"><code>");
    colours.code(if result.is_error { "" } else { extension }, &visible(text), out);
    out.push_str("</code></pre></details>");
}

/// A command that the client ran itself.
pub(crate) fn shell(bash: &BashExecution, colours: &mut Colours, out: &mut String) {
    prompt(&bash.command, colours, out);
    let lines = bash.output.lines().count();
    let ending = match bash.exit_code {
        _ if bash.cancelled => ", cancelled".to_owned(),
        Some(0) | None => String::new(),
        Some(code) => format!(", exit code {code}"),
    };
    if bash.output.is_empty() {
        return out.push_str(&format!("<p class=\"hint\">No output{ending}</p>"));
    }
    fold(lines <= OPEN_LINES, &format!("{}{ending}", counted(lines as u64, "line")), "", out);
    out.push_str("<pre class=\"out\"><code>");
    show(&bash.output, out);
    out.push_str("</code></pre></details>");
}

/// An image, if its type is safe for a browser to show.
pub(crate) fn image(data: &str, mime_type: &str, out: &mut String) {
    let is_known = matches!(mime_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let is_base64 =
        data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    if is_known && is_base64 {
        out.push_str(
            "<img class=\"zoom\" loading=\"lazy\" decoding=\"async\" alt=\"Picture\" src=\"data:",
        );
        out.push_str(mime_type);
        out.push_str(";base64,");
        out.push_str(data);
        out.push_str("\">");
    } else {
        out.push_str("<p class=\"hint\">Picture of type ");
        show(mime_type, out);
        out.push_str("</p>");
    }
}

fn prompt(command: &str, colours: &mut Colours, out: &mut String) {
    out.push_str("<pre class=\"code cmd\"><code>");
    colours.code("sh", &visible(command), out);
    out.push_str("</code></pre>");
}

fn code(path: &str, out: &mut String) {
    out.push_str("<code>");
    show(path, out);
    out.push_str("</code>");
}

fn aside(text: &str, out: &mut String) {
    if !text.is_empty() {
        out.push_str("<span class=\"aside\">");
        show(text, out);
        out.push_str("</span>");
    }
}

fn fold(is_open: bool, title: &str, first: &str, out: &mut String) {
    out.push_str("<details class=\"fold\"");
    out.push_str(if is_open { " open><summary>" } else { "><summary>" });
    escape(title, out);
    if !first.is_empty() {
        out.push_str("<span class=\"first\">");
        show(first, out);
        out.push_str("</span>");
    }
    out.push_str("</summary>");
}

/// Which lines of a file were requested.
fn range(arguments: &Arguments) -> String {
    let number = |key: &str| arguments.get(key).and_then(Value::as_u64);
    match (number("offset"), number("limit")) {
        (Some(from), Some(count)) => {
            format!("lines {from}–{}", from.saturating_add(count).saturating_sub(1))
        }
        (Some(from), None) => format!("from line {from}"),
        (None, Some(count)) => format!("the first {}", counted(count, "line")),
        (None, None) => String::new(),
    }
}

fn text<'a>(arguments: &'a Arguments, key: &str) -> Option<&'a str> {
    arguments.get(key)?.as_str()
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn path(call: &ToolCall) -> Option<&str> {
    text(&call.arguments, "path").or_else(|| text(&call.arguments, "file_path"))
}

fn is_search(call: &ToolCall) -> bool {
    matches!(call.name.as_str(), "grep" | "find") && text(&call.arguments, "pattern").is_some()
}
