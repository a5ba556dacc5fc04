//! Queued messages on the wire: how a client names, reads, changes and removes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::{Image, check_message, is_default, or_default};
use crate::request::Refusal;

/// A message in one of the two queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMessage {
    /// tiller's name for the message, unique in the process.
    pub queue_id: String,
    pub queue: QueueName,
    pub text: String,
    /// The number of images.
    pub images: usize,
    /// As in the command that queued it; absent if it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// A run has taken the message and is about to send it. It can no longer be changed.
    pub is_being_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueueName {
    Steering,
    FollowUp,
}

/// The data of the response to `get_queue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueData {
    /// Steering messages first, each queue in its order.
    pub messages: Vec<QueuedMessage>,
}

/// The data of the responses to `update_queued` and `remove_queued`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedMessageData {
    /// The message as it is now, or as it was when it was removed.
    pub message: QueuedMessage,
}

/// Names one queued message, by one of the two ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [{ "required": ["queueId"] }, { "required": ["clientMessageId"] }]))]
pub struct QueuedTarget {
    #[serde(skip_serializing_if = "is_default")]
    pub queue_id: Option<String>,
    /// If several queued messages have it, the first one is meant.
    #[serde(skip_serializing_if = "is_default")]
    pub client_message_id: Option<String>,
}

/// A queued message and what replaces its text and its images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateQueued {
    #[serde(flatten)]
    pub target: QueuedTarget,
    /// May be empty only if there are images.
    pub message: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub images: Vec<Image>,
}

impl QueuedTarget {
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        match (&self.queue_id, &self.client_message_id) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err(Refusal::invalid(
                command,
                "expected either field `queueId` or field `clientMessageId`",
            )),
        }
    }

    /// The id, for an error text.
    pub fn id(&self) -> &str {
        self.queue_id.as_deref().or(self.client_message_id.as_deref()).unwrap_or_default()
    }
}

impl UpdateQueued {
    pub(crate) fn check(&self, command: &str) -> Result<(), Refusal> {
        self.target.check(command)?;
        check_message(command, &self.message, &self.images)
    }
}
