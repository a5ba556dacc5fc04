//! The fields of commands and how they are parsed.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tiller_agent::message::Block;
use tiller_agent::model::ThinkingLevel;

use crate::command::WhenBusy;
use crate::request::{Refusal, plain};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) images: Option<Vec<ImageContent>>,
    #[serde(default)]
    pub(crate) streaming_behavior: Option<WhenBusy>,
}

#[derive(Deserialize)]
pub(crate) struct TextAndImages {
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) images: Option<Vec<ImageContent>>,
}

#[derive(Deserialize)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Deserialize)]
pub(crate) struct ModeField<T> {
    pub(crate) mode: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetModel {
    pub(crate) provider: String,
    pub(crate) model_id: String,
}

#[derive(Deserialize)]
pub(crate) struct SetThinkingLevel {
    pub(crate) level: ThinkingLevel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportHtml {
    #[serde(default)]
    pub(crate) output_path: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bash {
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) exclude_from_context: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compact {
    #[serde(default)]
    pub(crate) custom_instructions: Option<String>,
}

/// Other fields, and values of another type, are ignored.
#[derive(Deserialize)]
pub(crate) struct UiResponse {
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) value: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) confirmed: Option<bool>,
}

fn lenient<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

#[derive(Deserialize)]
pub(crate) struct Enabled {
    pub(crate) enabled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SwitchSession {
    pub(crate) session_path: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryId {
    pub(crate) entry_id: String,
}

#[derive(Deserialize)]
pub(crate) struct Since {
    #[serde(default)]
    pub(crate) since: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetLabel {
    pub(crate) entry_id: String,
    #[serde(default)]
    pub(crate) label: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSession {
    #[serde(default)]
    pub(crate) parent_session: Option<String>,
}

/// An image sent with a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an image")]
pub(crate) struct ImageContent {
    #[serde(rename = "type")]
    _kind: ImageKind,
    data: String,
    mime_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ImageKind {
    Image,
}

pub(crate) fn body<T: DeserializeOwned>(kind: &str, text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text)
        .or_else(|err| {
            // Through a value, because there the last of repeated keys counts.
            let lenient = serde_json::from_str::<Value>(text).and_then(T::deserialize);
            lenient.map_err(|_| err)
        })
        .map_err(|err| {
            // Only on an error is the field determined.
            let mut json = serde_json::Deserializer::from_str(text);
            match serde_path_to_error::deserialize::<_, T>(&mut json) {
                Err(located) if located.path().iter().next().is_some() => {
                    // The line is JSON, so this can only be an unknown name of an enum.
                    let why = plain(located.inner()).replace("expected value", "expected a string");
                    Refusal::invalid(kind, format!("field `{}`: {why}", located.path()))
                }
                _ => Refusal::invalid(kind, plain(&err)),
            }
        })
}

/// Text and images must be there and must be valid.
pub(crate) fn text_and_images(
    kind: &str,
    message: String,
    images: Option<Vec<ImageContent>>,
) -> Result<(String, Vec<Block>), Refusal> {
    let images = images.unwrap_or_default();
    if message.trim().is_empty() && images.is_empty() {
        return Err(Refusal::invalid(kind, "field `message`: expected some text, or images"));
    }
    let mut blocks = Vec::with_capacity(images.len());
    for (index, ImageContent { data, mime_type, .. }) in images.into_iter().enumerate() {
        if !mime_type.starts_with("image/") {
            let why = format!(
                "field `images[{index}].mimeType`: expected an image type, such as image/png"
            );
            return Err(Refusal::invalid(kind, why));
        }
        if !is_base64(&data) {
            let why = format!("field `images[{index}].data`: expected base64");
            return Err(Refusal::invalid(kind, why));
        }
        blocks.push(Block::Image { data, mime_type });
    }
    Ok((message, blocks))
}

pub(crate) fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    !body.is_empty()
        && data.len() - body.len() <= 2
        && data.len().is_multiple_of(4)
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}
