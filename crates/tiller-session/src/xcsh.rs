//! Converts messages in roles that only xcsh has: the model sees what xcsh's model saw. In the file
//! they stay unchanged.

use std::fmt::Write;

use serde::Deserialize;
use tiller_agent::message::{BashExecution, Block, Content, CustomMessage, Message, UnixMs};

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub(crate) enum FromXcsh {
    /// An instruction that the user did not type.
    Developer(Developer),
    /// Files that a prompt named with `@`.
    FileMention(FileMention),
    /// The old name of a custom message.
    HookMessage(CustomMessage),
    /// Python code that the user ran.
    PythonExecution(PythonExecution),
}

#[derive(Deserialize)]
pub(crate) struct Developer {
    content: Content,
    #[serde(default)]
    timestamp: UnixMs,
}

#[derive(Deserialize)]
pub(crate) struct FileMention {
    files: Vec<MentionedFile>,
    #[serde(default)]
    timestamp: UnixMs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MentionedFile {
    path: String,
    #[serde(default)]
    content: String,
    /// Why the content is missing.
    #[serde(default)]
    skipped_reason: Option<String>,
    #[serde(default)]
    image: Option<Picture>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Picture {
    data: String,
    mime_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PythonExecution {
    code: String,
    #[serde(default)]
    output: String,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    timestamp: UnixMs,
    #[serde(default)]
    exclude_from_context: bool,
}

impl FromXcsh {
    pub(crate) fn into_message(self) -> Message {
        match self {
            FromXcsh::Developer(message) => custom("developer", message.content, message.timestamp),
            FromXcsh::FileMention(mention) => {
                let content = Content::Blocks(blocks(mention.files));
                custom("fileMention", content, mention.timestamp)
            }
            FromXcsh::HookMessage(message) => Message::Custom(message),
            // Shown like a shell command, in another language.
            FromXcsh::PythonExecution(python) => Message::BashExecution(BashExecution {
                command: python.code,
                output: python.output,
                exit_code: python.exit_code,
                cancelled: python.cancelled,
                truncated: python.truncated,
                full_output_path: None,
                timestamp: python.timestamp,
                exclude_from_context: python.exclude_from_context,
            }),
        }
    }
}

fn custom(custom_type: &str, content: Content, timestamp: UnixMs) -> Message {
    let custom_type = custom_type.to_owned();
    Message::Custom(CustomMessage {
        custom_type,
        content,
        display: false,
        details: None,
        timestamp,
    })
}

/// One text block with all files, followed by their images.
fn blocks(files: Vec<MentionedFile>) -> Vec<Block> {
    let mut text = String::new();
    let mut pictures = Vec::new();
    for MentionedFile { path, content, skipped_reason, image } in files {
        let content = match skipped_reason {
            Some(reason) => format!("(not shown: {reason})"),
            None => content,
        };
        let line_end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        // Writing to a string cannot fail.
        write!(text, "<file path=\"{path}\">\n{content}{line_end}</file>\n").ok();
        pictures.extend(image.map(|image| Block::image(image.data, image.mime_type)));
    }
    let text = Block::text(text.trim_end());
    [text].into_iter().chain(pictures).collect()
}
