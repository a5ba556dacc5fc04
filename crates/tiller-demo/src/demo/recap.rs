//! Summarises the conversation, for compaction requests.

use tiller_agent::provider::Request;

use super::file::cut;

/// A compaction request has no tools and contains the conversation as text.
pub(crate) fn is_wanted(request: &Request, text: &str) -> bool {
    let handed_over = text.contains("<conversation>") || text.starts_with("# Conversation");
    request.tools.is_empty() && handed_over
}

/// What was asked and done, in the sections of a summary.
pub(crate) fn recap(text: &str) -> String {
    let asked: Vec<&str> = parts(text, "[User]: ");
    let called: Vec<&str> = parts(text, "[Assistant tool calls]: ");
    let mut recap = String::from("## Goal\n");
    list(&mut recap, &asked, 5);
    recap.push_str("\n## Progress\n### Done\n");
    list(&mut recap, &called, 10);
    recap.push_str("\n## Next Steps\n");
    list(&mut recap, asked.last().map_or(&[], std::slice::from_ref), 1);
    if let Some(earlier) = between(text, "<previous-summary>", "</previous-summary>") {
        recap.push_str("\n## Critical Context\n");
        recap.push_str(&cut(earlier.trim(), 4000));
        recap.push('\n');
    }
    recap.trim_end().into()
}

/// The first lines of the parts that begin with `mark`.
fn parts<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).collect()
}

fn list(out: &mut String, items: &[&str], max: usize) {
    if items.is_empty() {
        out.push_str("- (none)\n");
    }
    // The newest items are the most relevant.
    for item in &items[items.len().saturating_sub(max)..] {
        out.push_str(&format!("- {}\n", cut(item, 200)));
    }
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inside, _)| inside)
}
