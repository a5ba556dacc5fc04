//! What a client that follows the numbers of records, or limits their length, gets and asks for.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The fields that any record may carry beside its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stamp {
    /// The number of the record: 1 for the first, then one more each time. With `sequence` of
    /// `hello` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Names the process that counts. With `sequence` of `hello` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// The record is shorter than it was, because of `maxFrameBytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// Where the whole record can be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// For `get_record`.
    pub record_id: String,
    /// The length of the whole record.
    pub bytes: usize,
}

/// The data of the response to `get_events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsData<'a> {
    pub epoch: Cow<'a, str>,
    /// The records after `since`, as they were written.
    pub events: Vec<Json<'a>>,
    /// Some of the records after `since` are no longer there, or belong to another epoch.
    pub truncated: bool,
    /// The number of the newest record.
    pub last_seq: u64,
    /// There are more records: ask again with the last `seq` of these.
    pub more: bool,
}

/// The data of the response to `get_record`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordPiece<'a> {
    pub record_id: Cow<'a, str>,
    /// The length of the whole record.
    pub bytes: usize,
    pub offset: usize,
    /// A part of the record's JSON text.
    pub text: Cow<'a, str>,
    /// Where the next part begins; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}
