//! Collects the files that a conversation refers to.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::FileLists;
use crate::message::Message;

#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    read: BTreeSet<String>,
    modified: BTreeSet<String>,
}

impl Files {
    pub(super) fn add_lists(&mut self, lists: &FileLists) {
        self.read.extend(lists.read_files.iter().cloned());
        self.modified.extend(lists.modified_files.iter().cloned());
    }

    /// Adds the paths that the built-in tools were called with.
    pub(super) fn add_calls(&mut self, messages: &[Arc<Message>]) {
        let answers = messages.iter().filter_map(|message| message.as_assistant());
        for call in answers.flat_map(|answer| answer.tool_calls()) {
            let Some(path) = call.arguments.get("path").and_then(Value::as_str) else { continue };
            match call.name.as_str() {
                "read" => self.read.insert(path.to_owned()),
                "write" | "edit" => self.modified.insert(path.to_owned()),
                _ => continue,
            };
        }
    }

    /// Sorted; a changed file is not listed as read.
    pub(super) fn lists(&self) -> FileLists {
        FileLists {
            read_files: self.read.difference(&self.modified).cloned().collect(),
            modified_files: self.modified.iter().cloned().collect(),
        }
    }
}
