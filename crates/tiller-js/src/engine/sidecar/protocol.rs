//! The sidecar protocol: one JSON object per line, in both directions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine_state::Task;
use crate::operations::{OpError, OpInput, OpOutput};

/// Lines from a sidecar. It blocks until those of the first group are answered.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum FromSidecar {
    /// A synchronous operation.
    Sync(SidecarOperation),
    /// An asynchronous operation. The answer is its number; the result follows as a message.
    Start(SidecarOperation),
    /// Asks for the id of an extension's own file.
    Entry {
        path: String,
        number: u32,
    },
    /// Asks for the id of the module that `importer` calls `name`.
    Resolve {
        importer: String,
        name: String,
    },
    /// Asks for the path that a script calls by a name.
    Locate {
        importer: String,
        name: String,
    },
    /// Asks for the packages that tiller replaces, each with the id of its module.
    Packages,
    /// Asks for the source of a module.
    Load {
        id: String,
    },

    /// Cancels an operation.
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
    /// Reports an extension's error.
    Report {
        path: String,
        event: String,
        message: String,
        #[serde(default)]
        stack: Option<String>,
    },
    /// The extension whose code runs next.
    Running {
        extension: u32,
    },
    /// All messages up to this number are finished.
    Handled {
        turn: u64,
    },
    /// The sidecar waits for a synchronous child process, and has resumed.
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

    pub(super) fn into_input(self) -> (String, OpInput) {
        let bytes = self.bytes.and_then(|bytes| BASE64_STANDARD.decode(bytes).ok());
        (self.name, OpInput { json: self.json.unwrap_or_default(), bytes })
    }
}

/// The sidecar's first line: whether the program can be a sidecar.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Greeting {
    Hello,
    Unfit { why: String },
}

/// Answers on the request socket, and results of operations.
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
            Ok(output) => output.into(),
            Err(OpError { message, name, fields }) => {
                let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
                SidecarReply::Failed { message, name, fields: fields.collect() }
            }
        }
    }
}

impl From<OpOutput> for SidecarReply {
    fn from(output: OpOutput) -> SidecarReply {
        match output {
            OpOutput::Nothing => SidecarReply::Nothing,
            OpOutput::Text(text) => SidecarReply::Text(text),
            OpOutput::Bytes(bytes) => SidecarReply::Bytes(BASE64_STANDARD.encode(bytes)),
            OpOutput::Json(json) => SidecarReply::Json(json),
        }
    }
}

/// Messages to a sidecar, over the message socket.
#[derive(Debug, Serialize)]
pub(super) struct ToSidecar<'t> {
    pub turn: u64,
    /// The call and the extension it is for.
    pub task: (u64, u32),
    #[serde(flatten)]
    pub kind: ToSidecarKind<'t>,
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
        signal: &'t str,
    },
    /// An event or the result of an operation.
    Event {
        id: u64,
        output: SidecarReply,
    },
    Done {
        id: u64,
        output: SidecarReply,
    },
    /// Does nothing; the acknowledgement shows that the sidecar responds.
    Ping,
}
