//! Session entries that an extension has read itself.

use serde::{Deserialize, Serialize};
use tiller_agent::projection::{self, EntryEffect};

use super::{OpInput, OpOutput, OpReply, unknown};

/// An entry without its content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryHead {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    /// The first entry that a compaction keeps, or the target of an edit.
    refers_to: Option<String>,
}

#[derive(Serialize)]
struct ContextEntry<'e> {
    id: &'e str,
    /// The entry that edits it.
    edit: Option<&'e str>,
}

pub(super) fn sync(name: &str, input: &OpInput) -> OpReply {
    match name {
        "project" => {
            let branch: Vec<EntryHead> = input.read()?;
            let branch: Vec<_> = branch.iter().map(|head| (&*head.id, effect(head))).collect();
            let entries = projection::project(&branch).into_iter();
            let entries = entries.map(|entry| ContextEntry { id: entry.id, edit: entry.edit });
            Ok(OpOutput::json(&entries.collect::<Vec<_>>()))
        }
        _ => Err(unknown(name)),
    }
}

fn effect(head: &EntryHead) -> EntryEffect<&str> {
    let refers_to = head.refers_to.as_deref();
    match head.kind.as_str() {
        "compaction" => EntryEffect::Compaction { first_kept: refers_to },
        "context_edit" => EntryEffect::Edit { target: refers_to },
        _ => EntryEffect::Other,
    }
}
