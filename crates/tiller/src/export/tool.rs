//! What a tool was asked and what it answered.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use tiller_agent::message::{
    Arguments, BashExecution, Block, ToolCall, ToolResultMessage, text_of,
};

use super::diff;
use super::highlight::Colours;
use super::markdown::block;
use super::text::{counted, escape, one_line, show, visible};

/// A result of up to this many lines stands open.
const OPEN_LINES: usize = 12;
/// What went wrong is worth more room.
const OPEN_FAILED_LINES: usize = 30;
/// A change may be longer: it is what people came for.
const OPEN_DIFF_LINES: usize = 80;

/// The calls that wait for their results: by id, the ending of the file that was read.
pub(super) type Calls = HashMap<String, String>;

/// Draws a call. Returns it in one line.
pub(super) fn call(
    call: &ToolCall,
    calls: &mut Calls,
    colours: &mut Colours,
    out: &mut String,
) -> String {
    let arguments = &call.arguments;
    let path = text(arguments, "path").or_else(|| text(arguments, "file_path"));
    let extension = path.map(extension).unwrap_or_default();
    if call.name == "read" {
        calls.insert(call.id.clone(), extension.to_owned());
    }
    out.push_str("<div class=\"call\"><div class=\"name\"><b>");
    show(&call.name, out);
    out.push_str("</b>");
    let summary = match (call.name.as_str(), path) {
        ("bash", _) if text(arguments, "command").is_some() => {
            let command = text(arguments, "command").unwrap_or_default();
            if let Some(timeout) = arguments.get("timeout").filter(|timeout| timeout.is_number()) {
                aside(&format!("timeout {timeout} s"), out);
            }
            out.push_str("</div>");
            prompt(command, colours, out);
            format!("$ {command}")
        }
        ("read" | "write" | "edit" | "ls", Some(path)) => {
            file(path, out);
            aside(&range(arguments), out);
            out.push_str("</div>");
            if let Some(content) = text(arguments, "content").filter(|_| call.name == "write") {
                let count = content.lines().count();
                fold(count <= OPEN_LINES, &counted(count as u64, "line"), "", out);
                block(extension, &visible(content), colours, out);
                out.push_str("</details>");
            }
            format!("{} {path}", call.name)
        }
        ("grep" | "find", _) if text(arguments, "pattern").is_some() => {
            let pattern = text(arguments, "pattern").unwrap_or_default();
            file(pattern, out);
            aside(&path.map(|path| format!("in {path}")).unwrap_or_default(), out);
            out.push_str("</div>");
            format!("{} {pattern}", call.name)
        }
        _ => {
            out.push_str("</div>");
            let value = Value::Object(arguments.clone());
            if !arguments.is_empty() {
                let json = serde_json::to_string_pretty(&value).unwrap_or_default();
                let count = json.lines().count();
                fold(count <= OPEN_LINES, "Arguments", "", out);
                block("json", &visible(&json), colours, out);
                out.push_str("</details>");
            }
            format!("{} {value}", call.name)
        }
    };
    out.push_str("</div>");
    summary
}

/// Draws a result. `at` is the entry's label and time. Returns it in one line.
pub(super) fn result(
    result: &ToolResultMessage,
    calls: &mut Calls,
    colours: &mut Colours,
    at: &str,
    out: &mut String,
) -> String {
    let extension = calls.remove(&result.tool_call_id).unwrap_or_default();
    let text = text_of(&result.content);
    let diff = result.details.as_ref().and_then(|details| details.get("diff")?.as_str());
    let lines = text.lines().count();
    let (is_open, size, first) = match diff {
        Some(diff) => {
            let (added, removed) = diff::changes(diff);
            let is_open = diff.lines().count() <= OPEN_DIFF_LINES;
            (is_open, format!("+{added} −{removed}"), one_line(&text, 100))
        }
        None if lines == 0 => (true, "no output".to_owned(), String::new()),
        None => {
            let open_lines = if result.is_error { OPEN_FAILED_LINES } else { OPEN_LINES };
            (lines <= open_lines, counted(lines as u64, "line"), one_line(&text, 100))
        }
    };
    out.push_str(if is_open { "<details open><summary><h2>" } else { "<details><summary><h2>" });
    show(&result.tool_name, out);
    out.push_str("</h2>");
    aside(&if result.is_error { format!("failed, {size}") } else { size }, out);
    out.push_str("<span class=\"first\">");
    show(&first, out);
    out.push_str("</span>");
    out.push_str(at);
    out.push_str("</summary>");
    match diff {
        Some(diff) => diff::numbered(diff, out),
        None if text.is_empty() => {}
        None => {
            out.push_str("<pre class=\"out\"><code>");
            colours.code(if result.is_error { "" } else { &extension }, &visible(&text), out);
            out.push_str("</code></pre>");
        }
    }
    for content in &result.content {
        if let Block::Image { data, mime_type } = content {
            image(data, mime_type, out);
        }
    }
    out.push_str("</details>");
    format!("{}: {text}", result.tool_name)
}

/// A command that the client ran itself.
pub(super) fn shell(bash: &BashExecution, colours: &mut Colours, out: &mut String) {
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

/// A picture, if it is one that a browser draws and does nothing else with.
pub(super) fn image(data: &str, mime_type: &str, out: &mut String) {
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

fn file(path: &str, out: &mut String) {
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

/// Which lines of a file were asked for.
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
