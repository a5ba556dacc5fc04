//! Data that extensions and tools store in a session beside the messages.

use memchr::memmem;
use serde_json::Value;
use tiller_agent::message::Message;

use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::head::Kind;
use crate::message_line;
use crate::session::Session;
use crate::tree::Index;

/// How much of a line is read to find its name, which stands near the beginning.
const PEEK_BYTES: u64 = 1024;

impl Session {
    /// The newest data on the path to the leaf: of a `custom` entry with this type, or the
    /// `details` of a successful result of this tool.
    pub fn newest_data(&self, custom_type: &str, tool: &str) -> Result<Option<Value>, Error> {
        for index in self.tree().ancestors(self.tree().leaf()) {
            let data = match self.tree().kind(index) {
                Kind::Custom if self.may_name(index, "customType", custom_type)? => {
                    match Entry::read(&self.line(index)?).and_then(|entry| entry.body) {
                        Some(Body::Custom { custom_type: found, data }) if found == custom_type => {
                            data
                        }
                        _ => None,
                    }
                }
                Kind::ToolResult if self.may_name(index, "toolName", tool)? => {
                    match message_line::message(Kind::ToolResult, &self.line(index)?) {
                        Ok(Message::ToolResult(result))
                            if result.tool_name == tool && !result.is_error =>
                        {
                            result.details
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            if data.is_some() {
                return Ok(data);
            }
        }
        Ok(None)
    }

    /// Whether the field may have this value. False only if the beginning of the line has the field
    /// with another value.
    fn may_name(&self, index: Index, field: &str, name: &str) -> Result<bool, Error> {
        let at = self.tree().at(index);
        let beginning = at.start..at.end.min(at.start + PEEK_BYTES);
        let mut reader = self.log().reader();
        let beginning = reader.bytes(beginning).map_err(self.read_error())?;
        let has = |word: &str| memmem::find(beginning, format!("\"{word}\"").as_bytes()).is_some();
        Ok(has(name) || !has(field))
    }
}
