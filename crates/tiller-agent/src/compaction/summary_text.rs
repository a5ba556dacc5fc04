//! The text that replaces the summarised part: the summary, the current request verbatim, and the
//! files. The model sees all of it; the next compaction parses it, so that request and files are
//! carried over without the model's help.

use super::FileLists;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SummaryText {
    pub(super) summary: String,
    /// The newest user message, verbatim: the model is working on it, so a summary of it would not
    /// be enough.
    pub(super) request: Option<String>,
    pub(super) files: FileLists,
}

const REQUEST: TaggedBlock = TaggedBlock("last-user-message");
const READ: TaggedBlock = TaggedBlock("read-files");
const MODIFIED: TaggedBlock = TaggedBlock("modified-files");

impl SummaryText {
    pub(super) fn read(text: &str) -> SummaryText {
        let (text, modified) = MODIFIED.take_from(text);
        let (text, read) = READ.take_from(text);
        let (text, request) = REQUEST.take_from(text);
        let list = |block: Option<&str>| {
            let lines = block.unwrap_or_default().lines();
            lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
        };
        SummaryText {
            summary: text.to_owned(),
            request: request.map(str::to_owned),
            files: FileLists { read_files: list(read), modified_files: list(modified) },
        }
    }

    pub(super) fn write(&self) -> String {
        let mut text = self.summary.clone();
        if let Some(request) = &self.request {
            REQUEST.add_to(&mut text, request);
        }
        for (block, files) in
            [(READ, &self.files.read_files), (MODIFIED, &self.files.modified_files)]
        {
            if !files.is_empty() {
                block.add_to(&mut text, &files.join("\n"));
            }
        }
        text
    }
}

/// A named block at the end of the text.
struct TaggedBlock(&'static str);

impl TaggedBlock {
    fn add_to(&self, text: &mut String, content: &str) {
        let TaggedBlock(name) = self;
        text.push_str(&format!("\n\n<{name}>\n{content}\n</{name}>"));
    }

    /// The text without this block, and the block's content.
    fn take_from<'a>(&self, text: &'a str) -> (&'a str, Option<&'a str>) {
        let TaggedBlock(name) = self;
        let inner = text
            .strip_suffix(&format!("\n</{name}>"))
            .and_then(|text| text.split_once(&format!("\n\n<{name}>\n")));
        match inner {
            Some((before, content)) => (before, Some(content)),
            None => (text, None),
        }
    }
}
