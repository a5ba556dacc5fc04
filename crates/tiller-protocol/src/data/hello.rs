//! What `hello` answers: the server's capabilities.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Level, Stream};

/// The data of `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloData<'a> {
    /// The name of the program.
    pub server: Cow<'a, str>,
    pub version: Cow<'a, str>,
    /// The level of this response and of later records.
    pub wire: Level,
    pub stream: Stream,
    /// The names of all commands.
    pub commands: Vec<Cow<'a, str>>,
    /// The names of all events.
    pub events: Vec<Cow<'a, str>>,
    pub limits: LineLimits,
    /// Problems with settings, skills and other files.
    pub diagnostics: Vec<Cow<'a, str>>,
}

/// The limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineLimits {
    /// The longest line that a client may write.
    pub line_bytes: usize,
}
