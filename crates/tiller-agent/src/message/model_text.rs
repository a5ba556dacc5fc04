//! The texts that a model receives for messages that no API knows: it gets them as the user's.

use super::{BashExecution, BranchSummary, CompactionSummary, Message};

const COMPACTED: &str =
    "To save room, the conversation up to here was replaced with this summary of it:";
const BRANCHED: &str =
    "Before this point the conversation took another path and came back. What happened there:";

impl Message {
    /// The text for a command or a summary; `None` for messages with content of their own.
    pub fn model_text(&self) -> Option<String> {
        match self {
            Message::BashExecution(bash) => Some(bash.model_text()),
            Message::CompactionSummary(compaction) => Some(compaction.model_text()),
            Message::BranchSummary(branch) => Some(branch.model_text()),
            Message::User(_)
            | Message::Assistant(_)
            | Message::ToolResult(_)
            | Message::Custom(_) => None,
        }
    }
}

impl CompactionSummary {
    fn model_text(&self) -> String {
        format!("{COMPACTED}\n\n<summary>\n{}\n</summary>", self.summary)
    }
}

impl BranchSummary {
    fn model_text(&self) -> String {
        format!("{BRANCHED}\n\n<summary>\n{}</summary>", self.summary)
    }
}

impl BashExecution {
    fn model_text(&self) -> String {
        let mut text = format!("Ran `{}`\n", self.command);
        if self.output.is_empty() {
            text += "(no output)";
        } else {
            text += &format!("```\n{}\n```", self.output);
        }
        match self.exit_code {
            _ if self.cancelled => text += "\n\n(command cancelled)",
            Some(code) if code != 0 => text += &format!("\n\nCommand exited with code {code}"),
            _ => (),
        }
        if let (true, Some(path)) = (self.truncated, &self.full_output_path) {
            text += &format!("\n\n[Output truncated. Full output: {path}]");
        }
        text
    }
}
