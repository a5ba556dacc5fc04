//! The conversation: its messages, and the entries of its session.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::{Json, present};
use crate::message::Message;

/// The data of `get_messages`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagesData<'a> {
    /// The conversation as the model sees it.
    pub messages: Vec<Message<'a>>,
    /// How many there are in all. Only in a response with pages: if `offset` or `limit` was given,
    /// or after `maxFrameBytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The `offset` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The data of `get_messages_page`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagesPageData<'a> {
    #[schemars(with = "Vec<Message<'a>>")]
    pub messages: Vec<Json<'a>>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    pub total_messages: usize,
}

/// The data of `get_last_assistant_text`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastTextData {
    /// The text of the newest answer. If there is none it is `null`, and absent at level `xcsh`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-required" = ["pi", "pi-delta"], "x-nullable" = ["pi", "pi-delta"]))]
    pub text: Option<Option<String>>,
}

/// The data of `get_fork_messages` and `get_branch_messages`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkMessagesData {
    pub messages: Vec<ForkMessage>,
}

/// A user message that can be forked from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkMessage {
    pub entry_id: String,
    pub text: String,
}

/// The data of `get_entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntriesData<'a> {
    /// As in the session's file, in the order they were written.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub entries: Vec<Json<'a>>,
    /// The current entry; `null` in an empty session.
    pub leaf_id: Option<Cow<'a, str>>,
    /// How many there are in all. Only in a response with pages: if `offset` or `limit` was given,
    /// or after `maxFrameBytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The `offset` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The data of `get_tree`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeData<'a> {
    /// The entries without a parent.
    pub tree: Vec<TreeNode<'a>>,
    /// The current entry; `null` in an empty session.
    pub leaf_id: Option<Cow<'a, str>>,
}

/// An entry and those that follow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode<'a> {
    /// As in the session's file.
    #[schemars(with = "Map<String, Value>")]
    pub entry: Json<'a>,
    pub children: Vec<TreeNode<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Cow<'a, str>>,
    /// When the label was set, as ISO time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_timestamp: Option<Cow<'a, str>>,
}
