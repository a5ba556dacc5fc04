//! Fields that several commands share or that need care, and how fields are parsed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tiller_agent::message::Block;

use crate::request::{Refusal, plain};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// May be empty only if there are images.
    pub message: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub images: Vec<Image>,
    #[serde(
        rename = "streamingBehavior",
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    pub when_busy: WhenBusy,
    /// The client's own name for the message, at most 256 bytes. It comes back in `queue_update`,
    /// `message_start` and `prompt_result`.
    #[serde(rename = "clientMessageId", skip_serializing_if = "is_default")]
    pub client_message_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextAndImages {
    /// May be empty only if there are images.
    pub message: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub images: Vec<Image>,
    /// The client's own name for the message, at most 256 bytes. It comes back in `queue_update`,
    /// `message_start` and `prompt_result`.
    #[serde(rename = "clientMessageId", skip_serializing_if = "is_default")]
    pub client_message_id: Option<String>,
}

impl From<&str> for Prompt {
    fn from(message: &str) -> Prompt {
        Prompt::from(message.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(message: String) -> Prompt {
        Prompt { message, ..Prompt::default() }
    }
}

impl From<&str> for TextAndImages {
    fn from(message: &str) -> TextAndImages {
        TextAndImages::from(message.to_owned())
    }
}

impl From<String> for TextAndImages {
    fn from(message: String) -> TextAndImages {
        TextAndImages { message, ..TextAndImages::default() }
    }
}

/// Which stored sessions are listed. All conditions that are given apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessions {
    /// The sessions of this working directory; by default the current one.
    #[serde(skip_serializing_if = "is_default")]
    pub cwd: Option<PathBuf>,
    /// The sessions of all working directories.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub limit: Option<usize>,
    /// The `next` of an earlier response.
    #[serde(skip_serializing_if = "is_default")]
    pub before: Option<String>,
    /// Only sessions whose name contains this text. Upper and lower case are the same.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// Only sessions that have all of these words, or words that begin with them, in one message of
    /// the user or the model or in the name. Upper and lower case are the same.
    #[serde(skip_serializing_if = "is_default")]
    pub search: Option<String>,
    /// Only sessions that were modified at this time or later, in milliseconds since 1970.
    #[serde(skip_serializing_if = "is_default")]
    pub modified_since: Option<u64>,
    /// Only sessions that were modified before this time, in milliseconds since 1970.
    #[serde(skip_serializing_if = "is_default")]
    pub modified_until: Option<u64>,
}

/// An image sent with a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an image")]
pub struct Image {
    #[serde(rename = "type")]
    kind: ImageKind,
    /// Base64.
    pub data: String,
    /// Such as `image/png`.
    pub mime_type: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum ImageKind {
    Image,
}

impl Image {
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Image {
        Image { kind: ImageKind::Image, data: data.into(), mime_type: mime_type.into() }
    }

    /// The content blocks of a message with these images.
    pub fn blocks(images: Vec<Image>) -> Vec<Block> {
        let block = |Image { data, mime_type, .. }| Block::Image { data, mime_type };
        images.into_iter().map(block).collect()
    }
}

/// What happens to a prompt while another one is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhenBusy {
    /// It is refused.
    #[default]
    #[serde(skip)]
    Refuse,
    /// It is queued as by `steer`.
    Steer,
    /// It is queued as by `follow_up`.
    FollowUp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "UiFields", into = "UiFields")]
pub struct ExtensionUiResponse {
    /// The `id` of the `extension_ui_request`.
    pub id: String,
    pub answer: UiAnswer,
}

/// The client's answer to a dialog of an extension.
#[derive(Clone, Debug, PartialEq)]
pub enum UiAnswer {
    /// To `select`, `input` and `editor`.
    Value(String),
    /// To a `select` about a tool call, with a text for the model.
    Reasoned { value: String, reason: String },
    /// To `confirm`.
    Confirmed(bool),
    /// The user closed the dialog.
    Cancelled,
}

/// The answer on the wire. Other fields, and values of another type, are ignored.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
struct UiFields {
    #[serde(default)]
    id: String,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "is_default")]
    value: Option<String>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "is_default")]
    confirmed: Option<bool>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "is_default")]
    cancelled: Option<bool>,
    /// Why an approval is denied, for the model.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "is_default")]
    reason: Option<String>,
}

impl From<UiFields> for ExtensionUiResponse {
    fn from(UiFields { id, value, confirmed, reason, .. }: UiFields) -> ExtensionUiResponse {
        let answer = match (value, reason, confirmed) {
            (Some(value), Some(reason), _) => UiAnswer::Reasoned { value, reason },
            (Some(value), None, _) => UiAnswer::Value(value),
            (None, _, Some(confirmed)) => UiAnswer::Confirmed(confirmed),
            (None, _, None) => UiAnswer::Cancelled,
        };
        ExtensionUiResponse { id, answer }
    }
}

impl From<ExtensionUiResponse> for UiFields {
    fn from(ExtensionUiResponse { id, answer }: ExtensionUiResponse) -> UiFields {
        let fields = UiFields { id, ..UiFields::default() };
        match answer {
            UiAnswer::Value(value) => UiFields { value: Some(value), ..fields },
            UiAnswer::Reasoned { value, reason } => {
                UiFields { value: Some(value), reason: Some(reason), ..fields }
            }
            UiAnswer::Confirmed(yes) => UiFields { confirmed: Some(yes), ..fields },
            UiAnswer::Cancelled => UiFields { cancelled: Some(true), ..fields },
        }
    }
}

/// For a field that may be `null`.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// For a field that is left out if it says nothing.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn lenient<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

/// Parses the fields of the command with this name.
pub(crate) fn body<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Refusal> {
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
                    Refusal::invalid(name, format!("field `{}`: {why}", located.path()))
                }
                _ => Refusal::invalid(name, plain(&err)),
            }
        })
}

/// There must be text or images, and the images must be acceptable to providers.
pub(crate) fn check_message(name: &str, message: &str, images: &[Image]) -> Result<(), Refusal> {
    if message.trim().is_empty() && images.is_empty() {
        return Err(Refusal::invalid(name, "field `message`: expected some text, or images"));
    }
    for (index, image) in images.iter().enumerate() {
        check_image(name, &format!("images[{index}]"), &image.data, &image.mime_type)?;
    }
    Ok(())
}

/// The longest `clientMessageId` in bytes.
const MESSAGE_ID_MAX_BYTES: usize = 256;

pub(crate) fn check_message_id(name: &str, id: Option<&str>) -> Result<(), Refusal> {
    match id.map(str::len) {
        None | Some(1..=MESSAGE_ID_MAX_BYTES) => Ok(()),
        Some(_) => Err(Refusal::invalid(
            name,
            format!("field `clientMessageId`: expected 1 to {MESSAGE_ID_MAX_BYTES} bytes"),
        )),
    }
}

pub(crate) fn check_image(
    name: &str,
    field: &str,
    data: &str,
    mime_type: &str,
) -> Result<(), Refusal> {
    let why = if !mime_type.starts_with("image/") {
        "mimeType`: expected an image type, such as image/png"
    } else if !is_base64(data) {
        "data`: expected base64"
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(name, format!("field `{field}.{why}")))
}

fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    !body.is_empty()
        && data.len() - body.len() <= 2
        && data.len().is_multiple_of(4)
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}
