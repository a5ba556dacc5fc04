//! The result of a tool that lists things: as much as fits, a note in brackets about what is
//! missing, and the same in the details.

use serde_json::{Map, Value};
use tiller_agent::tool::ToolOutput;
use tiller_agent::truncate::{self, TextLimits, TextSize, size_text};

pub(crate) struct Listing {
    text: String,
    notes: Vec<String>,
    details: Map<String, Value>,
}

impl Listing {
    pub(crate) fn new(text: String) -> Listing {
        Listing { text, notes: Vec::new(), details: Map::new() }
    }

    /// Records that something is missing: `key` for the client, `note` for the model.
    pub(crate) fn note(&mut self, key: &str, value: impl Into<Value>, note: impl Into<String>) {
        self.details.insert(key.to_owned(), value.into());
        self.notes.push(note.into());
    }

    /// Cuts the text at the byte limit; the tool itself limits the number of lines.
    pub(crate) fn cut_to_fit(&mut self) {
        let truncation = truncate::head(&self.text, TextSize::of(&self.text), TextLimits::LIST);
        if truncation.truncated {
            self.text.clone_from(&truncation.content);
            let note = format!("{} limit reached", size_text(truncation.max_bytes));
            self.note("truncation", serde_json::json!(truncation), note);
        }
    }

    pub(crate) fn finish(self) -> ToolOutput {
        if self.notes.is_empty() {
            return ToolOutput::text(self.text);
        }
        ToolOutput::text(format!("{}\n\n[{}]", self.text, self.notes.join(". ")))
            .details(self.details.into())
    }
}
