//! Migrates files of versions 1 and 2 to version 3.
//!
//! Version 1 had no ids: entries followed each other. Version 2 called the role of an extension's
//! message `hookMessage`. Only those fields change; all other fields, and lines that cannot be
//! parsed, are copied unchanged.

use std::collections::HashSet;

use crate::entry::VERSION;
use crate::fields::Fields;
use crate::name;

/// Migrates a whole file in memory: old files are small.
pub(crate) fn to_current(file: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(file);
    let mut lines: Vec<OldLine<'_>> = text.lines().map(OldLine::read).collect();
    let header = lines.iter().find_map(|line| line.fields.as_ref());
    let version = header.and_then(|header| header.number("version")).unwrap_or(1);
    if version < 2 {
        chain(&mut lines);
    }
    if version < 3 {
        lines.iter_mut().filter_map(|line| line.fields.as_mut()).for_each(rename_role);
    }
    if let Some(header) = lines.iter_mut().find_map(|line| line.fields.as_mut()) {
        header.set("version", &VERSION);
    }
    let mut out = Vec::with_capacity(file.len() + lines.len() * 48);
    for line in &lines {
        match &line.fields {
            Some(fields) => out.extend_from_slice(fields.write().as_bytes()),
            None => out.extend_from_slice(line.text.as_bytes()),
        }
        out.push(b'\n');
    }
    out
}

struct OldLine<'a> {
    text: &'a str,
    /// None if the line cannot be parsed.
    fields: Option<Fields<'a>>,
}

impl<'a> OldLine<'a> {
    fn read(text: &'a str) -> OldLine<'a> {
        OldLine { text, fields: Fields::read(text).ok() }
    }
}

/// Version 1 to 2: every entry gets an id, and the previous entry as its parent.
fn chain(lines: &mut [OldLine<'_>]) {
    // A compaction names the first entry it keeps by its number; the header is number 0.
    let mut entries: Vec<&mut Fields<'_>> =
        lines.iter_mut().filter_map(|line| line.fields.as_mut()).collect();
    let mut taken = HashSet::new();
    let mut parent: Option<String> = None;
    let mut ids = Vec::with_capacity(entries.len());
    for (number, fields) in entries.iter_mut().enumerate() {
        if number == 0 {
            ids.push(None);
            continue;
        }
        let id = name::new_entry_id(|id| taken.contains(id));
        taken.insert(id.clone());
        fields.set("id", &id);
        fields.set("parentId", &parent);
        parent = Some(id.clone());
        ids.push(Some(id));
    }
    for fields in entries {
        let kept = fields.number("firstKeptEntryIndex").and_then(|n| usize::try_from(n).ok());
        if let Some(Some(id)) = kept.and_then(|number| ids.get(number)) {
            fields.set("firstKeptEntryId", id);
            fields.remove("firstKeptEntryIndex");
        }
    }
}

/// Version 2 to 3.
fn rename_role(fields: &mut Fields<'_>) {
    let Some(message) = fields.get("message").map(|message| message.get().to_owned()) else {
        return;
    };
    if let Ok(mut message) = Fields::read(&message)
        && message.text("role").as_deref() == Some("hookMessage")
    {
        message.set("role", "custom");
        fields.set("message", &message);
    }
}
