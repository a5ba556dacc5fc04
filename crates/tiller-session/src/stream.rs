//! Whole sessions as JSON text, written as they are read: an answer of a hundred megabytes passes
//! through a window, it is never built.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::blobs;
use crate::context;
use crate::entry::ContextEdit;
use crate::error::Error;
use crate::head::Kind;
use crate::log::Reader;
use crate::message_line;
use crate::session::Session;
use crate::tree::Index;

impl Session {
    /// The array of all entries in the order of the file, or of those after `since`
    /// (`get_entries`). Each is the text of its line; a line that is not JSON is left out.
    pub fn write_entries(&self, since: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
        let tree = self.tree();
        match since {
            Some(id) => self.write_list(tree.after(self.find(id)?), out),
            None => self.write_list(tree.all(), out),
        }
    }

    /// The array of the entries from the root to this one, or to the leaf.
    pub fn write_branch(&self, to: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
        let to = match to {
            Some(id) => Some(self.find(id)?),
            None => self.tree().leaf(),
        };
        self.write_list(self.tree().path(to).into_iter(), out)
    }

    /// The array of messages in the context (`get_messages`). A message that stands in the file
    /// is written as it stands there, with fields we do not know, unless xcsh has put its pictures
    /// elsewhere or its role is one that only xcsh's clients know.
    pub fn write_messages(&self, out: &mut dyn Write) -> Result<(), Error> {
        self.write_messages_with(out, |_| None)
    }

    /// The same. `edited` gives another text for a message, or nothing to leave it as it is.
    pub fn write_messages_with(
        &self,
        out: &mut dyn Write,
        edited: impl Fn(&RawValue) -> Option<Box<RawValue>>,
    ) -> Result<(), Error> {
        let tree = self.tree();
        let mut reader = self.log().reader();
        let mut list = List::begin(out);
        for item in context::project(tree, tree.leaf()).items {
            let kind = tree.kind(item.index);
            let edit = item.edit.map(|edit| self.line(edit)).transpose()?;
            let line = reader.text(tree.at(item.index)).map_err(self.read_error())?;
            if kind.is_message()
                && kind != Kind::XcshRole
                && edit.is_none()
                && !blobs::may_be_in(&line)
                && let Ok(message) = message_line::raw_inner(&line)
            {
                match edited(message) {
                    Some(edited) => list.item(&edited),
                    None => list.item(message),
                }
                .map_err(Error::Output)?;
            } else if let Ok(mut message) = self.message(kind, &line) {
                if let Some(content) = edit.and_then(|edit| ContextEdit::replacement(&edit)) {
                    message_line::replace_content(&mut message, content);
                }
                let message = serde_json::value::to_raw_value(&message).map_err(io::Error::from);
                let message = message.map_err(Error::Output)?;
                let edited = edited(&message);
                list.item(edited.as_deref().unwrap_or(&message)).map_err(Error::Output)?;
            }
        }
        list.end().map_err(Error::Output)
    }

    /// The array of roots with everything below them (`get_tree`). A long session is a deep
    /// tree, so this neither recurses nor lets anybody else.
    pub fn write_tree(&self, out: &mut dyn Write) -> Result<(), Error> {
        enum Step {
            Open { index: Index, is_first: bool },
            Close(Index),
        }
        let mut reader = self.log().reader();
        let push_all = |of: Option<Index>, steps: &mut Vec<Step>| -> Result<(), Error> {
            let children = self.readable_children(of)?;
            let opens = children.into_iter().enumerate();
            let opens = opens.map(|(at, index)| Step::Open { index, is_first: at == 0 });
            steps.extend(opens.rev());
            Ok(())
        };
        let mut steps = Vec::new();
        out.write_all(b"[").map_err(Error::Output)?;
        push_all(None, &mut steps)?;
        while let Some(step) = steps.pop() {
            match step {
                Step::Open { index, is_first } => {
                    let entry = self.entry_text(&mut reader, index)?;
                    let comma = if is_first { "" } else { "," };
                    write!(out, "{comma}{{\"entry\":{entry},\"children\":[")
                        .map_err(Error::Output)?;
                    steps.push(Step::Close(index));
                    push_all(Some(index), &mut steps)?;
                }
                Step::Close(index) => {
                    let label = self.label_fields(index)?;
                    write!(out, "]{label}}}").map_err(Error::Output)?;
                }
            }
        }
        out.write_all(b"]").map_err(Error::Output)
    }

    fn write_list(
        &self,
        entries: impl Iterator<Item = Index>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut reader = self.log().reader();
        let mut list = List::begin(out);
        for index in entries.filter(|&index| self.tree().kind(index) != Kind::Damaged) {
            let line = reader.text(self.tree().at(index)).map_err(self.read_error())?;
            if message_line::check_json(&line).is_ok() {
                list.text(&line).map_err(Error::Output)?;
            }
        }
        list.end().map_err(Error::Output)
    }

    /// A damaged line has no text to show, but what hangs below it has.
    fn entry_text<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        index: Index,
    ) -> Result<Cow<'r, str>, Error> {
        let tree = self.tree();
        if tree.kind(index) != Kind::Damaged {
            let line = reader.text(tree.at(index)).map_err(self.read_error())?;
            if message_line::check_json(&line).is_ok() {
                return Ok(line);
            }
        }
        let parent = tree.parent(index).map(|parent| tree.id(parent));
        let stand_in = json!({ "type": "damaged", "id": tree.id(index), "parentId": parent });
        Ok(stand_in.to_string().into())
    }

    /// Siblings stand in the order of their times. That is the order of the file unless two
    /// programs wrote to it, so the times are only read where there are several.
    fn readable_children(&self, of: Option<Index>) -> Result<Vec<Index>, Error> {
        let mut children = self.tree().children(of);
        if children.len() > 1 {
            let mut times = Vec::with_capacity(children.len());
            for &child in &children {
                times.push((message_line::time(&self.line(child)?), child));
            }
            times.sort_by_key(|&(time, _)| time);
            children = times.into_iter().map(|(_, child)| child).collect();
        }
        Ok(children)
    }

    fn label_fields(&self, index: Index) -> Result<String, Error> {
        let Some(label) = self.tree().label(index) else {
            return Ok(String::new());
        };
        let timestamp = message_line::timestamp(&self.line(label.entry)?);
        let (text, timestamp) = (Value::from(label.text.as_str()), Value::from(timestamp));
        Ok(format!(r#","label":{text},"labelTimestamp":{timestamp}"#))
    }
}

/// A JSON array under way.
struct List<'a> {
    out: &'a mut dyn Write,
    lead: &'static str,
}

impl<'a> List<'a> {
    fn begin(out: &'a mut dyn Write) -> List<'a> {
        List { out, lead: "[" }
    }

    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        self.lead()?;
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)
    }

    /// An item that is JSON already.
    fn text(&mut self, json: &str) -> io::Result<()> {
        self.lead()?;
        self.out.write_all(json.as_bytes())
    }

    fn lead(&mut self) -> io::Result<()> {
        self.out.write_all(self.lead.as_bytes())?;
        self.lead = ",";
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(if self.lead == "[" { b"[]" } else { b"]" })
    }
}
