//! Writes whole sessions as JSON while reading them: a response of a hundred megabytes passes
//! through a buffer and is never in memory as a whole.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::blobs;
use crate::context;
use crate::entry::ContextEdit;
use crate::error::Error;
use crate::head::Kind;
use crate::log::Reader;
use crate::message_line;
use crate::page::{Page, PageRange, PageSpace};
use crate::session::Session;
use crate::tree::Index;

impl Session {
    /// Writes the array of all entries in file order, or of those after `since` (`get_entries`).
    /// Each is its raw line; lines that are not JSON are left out.
    pub fn write_entries(&self, since: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
        self.write_entries_page(since, PageRange::ALL, out).map(|_| ())
    }

    /// Writes a part of that array.
    pub fn write_entries_page(
        &self,
        since: Option<&str>,
        range: PageRange,
        out: &mut dyn Write,
    ) -> Result<Page, Error> {
        let tree = self.tree();
        match since {
            Some(id) => self.write_list(tree.after(self.find(id)?), range, out),
            None => self.write_list(tree.all(), range, out),
        }
    }

    /// Writes the array of entries from the root to this one, or to the leaf.
    pub fn write_branch(&self, to: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
        let to = match to {
            Some(id) => Some(self.find(id)?),
            None => self.tree().leaf(),
        };
        self.write_list(self.tree().path(to).into_iter(), PageRange::ALL, out).map(|_| ())
    }

    /// Writes the array of messages in the context (`get_messages`). A stored message is written as
    /// it is in the file, with unknown fields, unless it contains xcsh's image addresses or has a
    /// role that only xcsh's clients know.
    pub fn write_messages(&self, out: &mut dyn Write) -> Result<(), Error> {
        self.write_messages_page(PageRange::ALL, out, |_| None).map(|_| ())
    }

    /// Writes a part of that array. `edited` returns another text for a message, or None to leave
    /// it unchanged. A message that cannot be read is counted and left out.
    pub fn write_messages_page(
        &self,
        range: PageRange,
        out: &mut dyn Write,
        edited: impl Fn(&RawValue) -> Option<Box<RawValue>>,
    ) -> Result<Page, Error> {
        let tree = self.tree();
        let mut reader = self.log().reader();
        let items = context::project(tree, tree.leaf()).items;
        let mut list = List::begin(range, out);
        let mut end = range.offset;
        for item in items.iter().skip(range.offset).take(range.limit) {
            let kind = tree.kind(item.index);
            let edit = item.edit.map(|edit| self.line(edit)).transpose()?;
            let line = reader.text(tree.at(item.index)).map_err(self.read_error())?;
            if kind.is_message()
                && kind != Kind::XcshRole
                && edit.is_none()
                && !blobs::may_be_in(&line)
                && let Ok(message) = message_line::raw_inner(&line)
            {
                let edited = edited(message);
                let message = edited.as_deref().unwrap_or(message);
                if !list.item(message.get()).map_err(Error::Output)? {
                    break;
                }
            } else if let Ok(mut message) = self.message(kind, &line) {
                if let Some(content) = edit.and_then(|edit| ContextEdit::replacement(&edit)) {
                    message_line::replace_content(&mut message, content);
                }
                let message = serde_json::value::to_raw_value(&message).map_err(io::Error::from);
                let message = message.map_err(Error::Output)?;
                let edited = edited(&message);
                let message = edited.as_deref().unwrap_or(&message);
                if !list.item(message.get()).map_err(Error::Output)? {
                    break;
                }
            }
            end += 1;
        }
        list.end().map_err(Error::Output)?;
        Ok(Page::before(end, items.len()))
    }

    /// Writes the array of roots with all descendants (`get_tree`). A long session is a deep tree,
    /// so this does not recurse, nor does it use a serializer that would.
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
        entries: impl Iterator<Item = Index> + Clone,
        range: PageRange,
        out: &mut dyn Write,
    ) -> Result<Page, Error> {
        let mut reader = self.log().reader();
        let entries = entries.filter(|&index| self.tree().kind(index) != Kind::Damaged);
        let mut list = List::begin(range, out);
        let mut end = range.offset;
        for index in entries.clone().skip(range.offset).take(range.limit) {
            let line = reader.text(self.tree().at(index)).map_err(self.read_error())?;
            let is_readable = message_line::check_json(&line).is_ok();
            if is_readable && !list.item(&line).map_err(Error::Output)? {
                break;
            }
            end += 1;
        }
        list.end().map_err(Error::Output)?;
        Ok(Page::before(end, entries.count()))
    }

    /// The text of an entry. None for a damaged line, whose children are still written.
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

    /// The children with readable lines, ordered by time. That is file order unless two programs
    /// wrote to the file, so times are only read if there are several children.
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
        let text = Value::from(label.text.as_str());
        let timestamp = Value::from(timestamp);
        Ok(format!(r#","label":{text},"labelTimestamp":{timestamp}"#))
    }
}

/// A JSON array being written, or a page of it.
struct List<'a> {
    out: &'a mut dyn Write,
    lead: &'static str,
    space: PageSpace,
}

impl<'a> List<'a> {
    fn begin(range: PageRange, out: &'a mut dyn Write) -> List<'a> {
        List { out, lead: "[", space: PageSpace::new(range) }
    }

    /// Writes an item, which is JSON text, if it is still on the page. Returns whether it is.
    fn item(&mut self, json: &str) -> io::Result<bool> {
        if !self.space.take(json.len()) {
            return Ok(false);
        }
        self.out.write_all(self.lead.as_bytes())?;
        self.lead = ",";
        self.out.write_all(json.as_bytes())?;
        Ok(true)
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(if self.lead == "[" { b"[]" } else { b"]" })
    }
}
