//! An edit in two lines: how many lines changed, and the first of them.

use serde_json::Value;
use tiller_protocol::ToolOutput;

use super::paint::Tone;

/// The change of an `edit` call, from the `diff` in the details of its result.
pub(super) struct EditSummary<'a> {
    added: Vec<&'a str>,
    removed: Vec<&'a str>,
}

impl<'a> EditSummary<'a> {
    /// Absent if the result has no diff.
    pub(super) fn of(result: &'a ToolOutput) -> Option<EditSummary<'a>> {
        let diff = result.details.as_ref().and_then(|details| details.get("diff"));
        let diff = diff.and_then(Value::as_str)?;
        let lines = |sign: char| diff.lines().filter(|line| line.starts_with(sign)).collect();
        Some(EditSummary { added: lines('+'), removed: lines('-') })
    }

    pub(super) fn counts(&self) -> String {
        format!("+{} -{}", self.added.len(), self.removed.len())
    }

    /// The first removed and the first added line, with their numbers.
    pub(super) fn first_lines(&self) -> Vec<(Tone, &'a str)> {
        let removed = self.removed.first().map(|line| (Tone::Red, *line));
        let added = self.added.first().map(|line| (Tone::Green, *line));
        removed.into_iter().chain(added).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edit_is_two_lines() {
        let diff = " 1 alpha\n-2 beta\n-3 gamma\n+2 BETA\n 4 delta";
        let result = ToolOutput::text("Done").details(json!({"diff": diff}));
        let edit = EditSummary::of(&result).unwrap();
        assert_eq!(edit.counts(), "+1 -2");
        assert_eq!(edit.first_lines(), [(Tone::Red, "-2 beta"), (Tone::Green, "+2 BETA")]);
        assert!(EditSummary::of(&ToolOutput::text("Done")).is_none());
    }
}
