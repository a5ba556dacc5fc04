//! The system prompt: what the model is told before anybody says anything.

use std::fmt::Write;
use std::path::Path;

use tiller_agent::tool::Tool;

const PREAMBLE: &str = include_str!("../prompts/preamble.md");
const MANNERS: &str = include_str!("../prompts/manners.md");

/// Put together from its parts, the same for the same tools and folder, so that providers can
/// keep it in their caches.
pub(crate) fn system(tools: &[Tool], cwd: &Path) -> String {
    let mut text = PREAMBLE.trim_end().to_owned();
    let mut section = |name: &str, body: &str| {
        let body = body.trim_end();
        // Writing to a string cannot fail.
        write!(text, "\n\n<{name}>\n{body}\n</{name}>").expect("a string takes every text");
    };
    section("tools", &tool_lines(tools));
    section("rules", &rules(tools));
    section("cwd", &cwd.display().to_string());
    text
}

fn tool_lines(tools: &[Tool]) -> String {
    let lines: Vec<String> = tools
        .iter()
        .filter_map(|tool| Some(format!("- {}: {}", tool.name(), tool.snippet.as_ref()?)))
        .collect();
    if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
}

/// Each rule once, in the order of the tools; how to speak comes last.
fn rules(tools: &[Tool]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for rule in tools.iter().flat_map(|tool| &tool.rules) {
        let line = format!("- {rule}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.push(MANNERS.trim_end().to_owned());
    lines.join("\n")
}
