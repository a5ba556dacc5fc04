//! What a sidecar and we say to each other: one JSON object a line, in both directions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine_state::Task;
use crate::operations::{OpError, OpInput, OpOutput};

/// What a sidecar says, over the line. It stands still until those of the first kind are answered.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum FromSidecar {
    /// An operation that gives its result at once.
    Sync(SidecarOperation),
    /// One whose result is told later, under the number this gives.
    Start(SidecarOperation),
    /// The id of an extension's own file.
    Entry {
        path: String,
        number: u32,
    },
    /// The id of what a module calls by a name.
    Resolve {
        importer: String,
        name: String,
    },
    /// The path of what a script calls by a name.
    Locate {
        importer: String,
        name: String,
    },
    /// The packages we stand for, each with the id of its module.
    Packages,
    /// The source of a module.
    Load {
        id: String,
    },

    /// An operation nobody waits for any more.
    Cancel {
        id: u64,
    },
    Reply {
        call: u64,
        json: String,
    },
    Fail {
        call: u64,
        message: String,
        #[serde(default)]
        stack: Option<String>,
    },
    Progress {
        call: u64,
        json: String,
    },
    /// An extension failed.
    Report {
        path: String,
        event: String,
        message: String,
        #[serde(default)]
        stack: Option<String>,
    },
    /// Whose work follows.
    As {
        extension: u32,
    },
    /// It has dealt with everything up to this.
    Took {
        turn: u64,
    },
    /// It waits for a child of its own, and is back.
    Pause,
    Resume,
}

#[derive(Debug, Deserialize)]
pub(super) struct SidecarOperation {
    name: String,
    #[serde(default)]
    json: Option<String>,
    /// In base64.
    #[serde(default)]
    bytes: Option<String>,
    /// A call and an extension.
    task: (u64, u32),
}

impl SidecarOperation {
    pub(super) fn task(&self) -> Task {
        Task { call: self.task.0, extension: self.task.1 }
    }

    pub(super) fn into_asked(self) -> (String, OpInput) {
        let bytes = self.bytes.and_then(|bytes| BASE64_STANDARD.decode(bytes).ok());
        (self.name, OpInput { json: self.json.unwrap_or_default(), bytes })
    }
}

/// The first line of all: whether the program can be a sidecar.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Greeting {
    Hello,
    Unfit { why: String },
}

/// What we answer over the line, and what an operation comes to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum SidecarReply {
    Nothing,
    Text(String),
    /// In base64.
    Bytes(String),
    Json(String),
    Module {
        source: String,
        is_script: bool,
    },
    Failed {
        message: String,
        name: Option<&'static str>,
        fields: serde_json::Map<String, Value>,
    },
}

impl From<Result<OpOutput, OpError>> for SidecarReply {
    fn from(result: Result<OpOutput, OpError>) -> SidecarReply {
        match result {
            Ok(given) => given.into(),
            Err(OpError { message, name, fields }) => {
                let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
                SidecarReply::Failed { message, name, fields: fields.collect() }
            }
        }
    }
}

impl From<OpOutput> for SidecarReply {
    fn from(given: OpOutput) -> SidecarReply {
        match given {
            OpOutput::Nothing => SidecarReply::Nothing,
            OpOutput::Text(text) => SidecarReply::Text(text),
            OpOutput::Bytes(bytes) => SidecarReply::Bytes(BASE64_STANDARD.encode(bytes)),
            OpOutput::Json(json) => SidecarReply::Json(json),
        }
    }
}

/// What we tell a sidecar, in an order of its own beside the line.
#[derive(Debug, Serialize)]
pub(super) struct ToSidecar<'t> {
    pub turn: u64,
    /// For whom: a call and an extension.
    pub task: (u64, u32),
    #[serde(flatten)]
    pub word: ToSidecarKind<'t>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum ToSidecarKind<'t> {
    Call {
        id: u64,
        entry: &'t str,
        json: &'t str,
    },
    Emit {
        json: &'t str,
    },
    Abort {
        id: u64,
    },
    RunSignal {
        word: &'t str,
    },
    /// News of an operation.
    Event {
        id: u64,
        given: SidecarReply,
    },
    Done {
        id: u64,
        given: SidecarReply,
    },
    /// Nothing: an answer to this shows that it is alive.
    Nudge,
}
