//! How queued messages reach a run. Clients and settings choose these modes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many messages of a queue are sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueMode {
    All,
    OneAtATime,
}

/// Whether steering waits for the tools of a turn or interrupts them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptMode {
    Immediate,
    Wait,
}
