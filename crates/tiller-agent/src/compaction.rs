//! Forgetting well. A conversation that outgrows the model's window is shortened: its older part
//! gives way to a summary that the model itself writes, and the newest part stays as it was said.
//!
//! [`cut`] decides where, [`transcript`] shows the model what it is to summarise, [`summary`] has
//! it written, and [`memory`] is the text that stays: the summary and what must not be lost with
//! it. Nothing here knows of sessions or clients.

pub mod cut;
mod files;
mod summary_text;
pub mod summary;
mod transcript;

use serde::Serialize;
use serde_json::Value;

use crate::message::Usage;

/// Why a conversation is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Somebody asked for it.
    Manual,
    /// The window is nearly full.
    Threshold,
    /// The provider refused a request that was too long.
    Overflow,
}

/// What a compaction came to, as clients are told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    pub summary: String,
    /// The first entry that is kept as it was.
    pub first_kept_entry_id: String,
    pub tokens_before: u64,
    pub estimated_tokens_after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The files that were involved, or what an extension has to add to a summary of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The files that the part which was summarised had to do with.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileLists {
    /// Read and not changed.
    pub read_files: Vec<String>,
    pub modified_files: Vec<String>,
}

/// How much room a conversation has, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// More than this and the conversation is shortened.
    pub threshold: u64,
    /// About how much of its newest part is kept.
    pub keep: u64,
    /// What is left free for the answer; a summary may be most of it.
    pub reserve: u64,
}

impl Limits {
    /// The limits for a window of this size. The user's wishes are kept where they can be: in a
    /// window that is smaller than they thought of, a conversation would otherwise be shortened
    /// at every turn.
    pub fn new(window: u64, reserve: u64, keep_recent: u64) -> Limits {
        let reserve = reserve.min(window / 2);
        let threshold = window - reserve;
        Limits { threshold, keep: keep_recent.min(threshold / 2), reserve }
    }
}

#[cfg(test)]
mod tests;
