//! Compaction: when a conversation outgrows the model's window, its older part is replaced by a
//! summary that the model itself writes; the newest part stays verbatim.
//!
//! [`cut`] decides where, [`transcript`] formats the messages to summarise, [`summary`] has the
//! summary written, and [`summary_text`] is the resulting text: the summary, the current request
//! and the files. Nothing here knows about sessions or clients.

pub mod cut;
mod files;
mod summary_text;
pub mod summary;
mod transcript;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Usage;

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Requested by the client.
    Manual,
    /// The window is nearly full.
    Threshold,
    /// The provider refused a request that was too long.
    Overflow,
}

/// The result of a compaction, as sent to clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compacted {
    pub summary: String,
    /// The first entry that is kept verbatim.
    pub first_kept_entry_id: String,
    pub tokens_before: u64,
    pub estimated_tokens_after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The files involved, or details from an extension that wrote the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The files that the summarised part refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileLists {
    /// Files that were read but not changed.
    pub read_files: Vec<String>,
    pub modified_files: Vec<String>,
}

/// Token limits of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimits {
    /// The conversation is compacted when it exceeds this.
    pub threshold: u64,
    /// About how much of its newest part is kept.
    pub keep: u64,
    /// Reserved for the answer; a summary may take most of it.
    pub reserve: u64,
}

impl ContextLimits {
    /// The limits for a window of this size. The user's settings are reduced for small windows,
    /// where they would otherwise cause a compaction at every turn.
    pub fn new(window: u64, reserve: u64, keep_recent: u64) -> ContextLimits {
        let reserve = reserve.min(window / 2);
        let threshold = window - reserve;
        ContextLimits { threshold, keep: keep_recent.min(threshold / 2), reserve }
    }
}

#[cfg(test)]
mod tests;
