//! A tool call as an editor shows it: kind, title and the files that it is about.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use serde_json::Value;
use tiller_protocol::Arguments;

use crate::plan::TODO_TOOL;

/// A title is one line, and not longer than this.
const TITLE_MAX_CHARS: usize = 120;

pub(crate) fn kind(tool: &str) -> ToolKind {
    match tool {
        "read" => ToolKind::Read,
        "edit" | "write" => ToolKind::Edit,
        "ls" | "find" | "grep" => ToolKind::Search,
        "bash" => ToolKind::Execute,
        TODO_TOOL => ToolKind::Think,
        "fetch" | "web_fetch" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

/// What the call does, in a few words. While its arguments are still written, the name of the tool.
pub(crate) fn title(tool: &str, arguments: &Arguments) -> String {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let path = text("path");
    let title = match (tool, path) {
        ("bash", _) => text("command").map(|command| format!("`{}`", one_line(command))),
        ("read", Some(path)) => Some(format!("Read {path}")),
        ("write", Some(path)) => Some(format!("Write {path}")),
        ("edit", Some(path)) => Some(format!("Edit {path}")),
        ("ls", _) => Some(format!("List {}", path.unwrap_or("."))),
        ("find", _) => text("pattern").map(|pattern| format!("Find {pattern}{}", within(path))),
        ("grep", _) => {
            text("pattern").map(|pattern| format!("Search for {pattern:?}{}", within(path)))
        }
        (TODO_TOOL, _) => Some("Update the plan".to_owned()),
        _ => None,
    };
    one_line(&title.unwrap_or_else(|| tool.to_owned()))
}

fn within(path: Option<&str>) -> String {
    path.map(|path| format!(" in {path}")).unwrap_or_default()
}

/// The first line, shortened if it is long.
fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let is_whole = line.len() == text.trim().len() && line.chars().count() <= TITLE_MAX_CHARS;
    if is_whole {
        return line.to_owned();
    }
    let start: String = line.chars().take(TITLE_MAX_CHARS).collect();
    format!("{}…", start.trim_end())
}

/// The file or folder that the call is about.
pub(crate) fn locations(tool: &str, arguments: &Arguments, cwd: &Path) -> Vec<ToolCallLocation> {
    let Some(path) = path(arguments, cwd) else { return Vec::new() };
    let line = match tool {
        "read" => arguments.get("offset").and_then(Value::as_f64).filter(|line| *line >= 1.0),
        _ => None,
    };
    vec![ToolCallLocation::new(path).line(line.map(|line| line as u32))]
}

/// The argument `path` as an absolute path. A path in the home folder is left out, because this crate
/// does not know the home folder.
pub(crate) fn path(arguments: &Arguments, cwd: &Path) -> Option<PathBuf> {
    let path = arguments.get("path").and_then(Value::as_str)?;
    // The tools accept a path as people mention it.
    let path = path.strip_prefix('@').unwrap_or(path);
    if path.is_empty() || path.starts_with('~') {
        return None;
    }
    // `components` takes `.` away.
    Some(cwd.join(path).components().collect())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(tool: &str, arguments: Value, expected: Expect) {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        let place = locations(tool, &arguments, Path::new("/w"));
        let place = place.iter().map(|place| match place.line {
            Some(line) => format!(" at {}:{line}", place.path.display()),
            None => format!(" at {}", place.path.display()),
        });
        let kind = serde_json::to_string(&kind(tool)).unwrap();
        let title = title(tool, &arguments);
        expected.assert_eq(&format!("{kind} {title}{}", place.collect::<String>()));
    }

    #[test]
    fn calls_have_kind_title_and_place() {
        check(
            "read",
            json!({"path": "./a.rs", "offset": 7}),
            expect![[r#""read" Read ./a.rs at /w/a.rs:7"#]],
        );
        check("read", json!({"path": "~/a.rs"}), expect![[r#""read" Read ~/a.rs"#]]);
        check(
            "edit",
            json!({"path": "/x/a.rs", "edits": []}),
            expect![[r#""edit" Edit /x/a.rs at /x/a.rs"#]],
        );
        check("write", json!({"path": "a", "content": ""}), expect![[r#""edit" Write a at /w/a"#]]);
        check("bash", json!({"command": "ls -l\nls"}), expect![[r#""execute" `ls -l…`"#]]);
        check("ls", json!({}), expect![[r#""search" List ."#]]);
        check(
            "find",
            json!({"pattern": "*.rs", "path": "src"}),
            expect![[r#""search" Find *.rs in src at /w/src"#]],
        );
        check(
            "grep",
            json!({"pattern": "fn \"a\""}),
            expect![[r#""search" Search for "fn \"a\"""#]],
        );
        check("todo_write", json!({"ops": []}), expect![[r#""think" Update the plan"#]]);
        check("mcp__web__get", json!({"path": 3}), expect![[r#""other" mcp__web__get"#]]);
        check("bash", json!({}), expect![[r#""execute" bash"#]]);
    }

    #[test]
    fn long_title_is_cut() {
        assert_eq!(one_line(&"é".repeat(200)).chars().count(), TITLE_MAX_CHARS + 1);
        assert_eq!(one_line(" a "), "a");
    }
}
