//! Dialogs and notices for the user: those of extensions, and approvals of tool calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::message::Arguments;

/// What an extension shows: the fields of an `extension_ui_request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum UiRequest {
    /// The client answers with `extension_ui_response`.
    Dialog(Dialog),
    /// Gets no answer.
    Notice(Notice),
}

/// A dialog. Serializes as the fields of an `extension_ui_request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dialog {
    #[serde(flatten)]
    pub kind: DialogKind,
    /// Milliseconds until the dialog ends with its default answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// In a `select` about a tool call: what the user is asked to approve.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalRequest>>,
}

/// A tool call that the user is asked to approve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    pub tool_call_id: String,
    pub tool_name: String,
    /// The arguments that the tool will run with.
    pub args: Arguments,
    /// The command of a shell tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What the call would change, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", rename_all = "camelCase")]
pub enum DialogKind {
    Select {
        title: String,
        options: Vec<String>,
    },
    Confirm {
        title: String,
        message: String,
    },
    Input {
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placeholder: Option<String>,
    },
    Editor {
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefill: Option<String>,
    },
}

/// A notice. Serializes as the fields of an `extension_ui_request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    Notify {
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notify_type: Option<String>,
    },
    SetStatus {
        status_key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status_text: Option<String>,
    },
    SetWidget {
        widget_key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        widget_lines: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        widget_placement: Option<String>,
    },
    SetTitle {
        title: String,
    },
    #[serde(rename = "set_editor_text")]
    SetEditorText {
        text: String,
    },
}
