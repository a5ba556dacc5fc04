//! Text: encodings and formats.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::front_matter::Document;
use tiller_agent::message::Message;
use tiller_agent::partial_json::PartialJson;
use tiller_agent::truncate::{self, TextLimits, TextSize, Truncation, size_text};

use super::{OpError, OpInput, OpOutput, OpReply, unknown};

pub(super) fn sync(name: &str, input: OpInput) -> OpReply {
    match name {
        "encode" => Ok(OpOutput::Bytes(input.read::<String>()?.into_bytes())),
        "decode" => decode(input),
        "toBase64" => Ok(OpOutput::Text(STANDARD.encode(input.bytes()))),
        "toBase64Url" => Ok(OpOutput::Text(URL_SAFE_NO_PAD.encode(input.bytes()))),
        "fromBase64" => Ok(OpOutput::Bytes(from_base64(&input.read::<String>()?))),
        "formatSize" => Ok(OpOutput::Text(size_text(input.read::<f64>()? as usize))),
        "frontMatter" => front_matter(&input.read::<String>()?),
        "modelText" => {
            let text = input.read::<Message>()?.model_text();
            Ok(text.map_or(OpOutput::Nothing, OpOutput::Text))
        }
        "partialJson" => {
            let mut json = PartialJson::default();
            json.push(&input.read::<String>()?);
            Ok(OpOutput::json(&json.finish()))
        }
        "toHex" => Ok(OpOutput::Text(hex(&input.bytes()))),
        "truncate" => Ok(OpOutput::json(&input.read::<Truncate>()?.run())),
        _ => Err(unknown(name)),
    }
}

#[derive(Deserialize)]
struct Decode {
    #[serde(default)]
    fatal: bool,
}

fn decode(input: OpInput) -> OpReply {
    let Decode { fatal } = input.read()?;
    match String::from_utf8(input.bytes()) {
        Ok(text) => Ok(OpOutput::Text(text)),
        Err(_) if fatal => {
            let mut failed = OpError::coded(
                "ERR_ENCODING_INVALID_ENCODED_DATA",
                "The encoded data was not valid for encoding utf-8",
            );
            failed.name = Some("TypeError");
            Err(failed)
        }
        Err(err) => Ok(OpOutput::Text(String::from_utf8_lossy(err.as_bytes()).into_owned())),
    }
}

/// A Markdown file split as in pi: without front matter, all of the text is the body.
fn front_matter(text: &str) -> OpReply {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let document = Document::split(&text);
    let fields = match document.value().map_err(OpError::new)? {
        Value::Null => json!({}),
        fields => fields,
    };
    Ok(OpOutput::json(&json!({ "frontmatter": fields, "body": document.body })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Truncate {
    end: TextEnd,
    text: String,
    max_lines: Option<f64>,
    max_bytes: Option<f64>,
}

/// Which end of a text is kept.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TextEnd {
    Head,
    Tail,
}

impl Truncate {
    fn run(&self) -> Truncation {
        let limit = |max: Option<f64>| max.map_or(usize::MAX, |max| max as usize);
        let limits = TextLimits { lines: limit(self.max_lines), bytes: limit(self.max_bytes) };
        let size = TextSize::of(&self.text);
        let truncation = match self.end {
            TextEnd::Head => truncate::head(&self.text, size, limits),
            TextEnd::Tail => truncate::tail(&self.text, size, limits),
        };
        truncation.without_excess_newline()
    }
}

/// Accepts both alphabets and stops at the first invalid character, as node does.
fn from_base64(text: &str) -> Vec<u8> {
    let known = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'-' | b'_');
    let mut symbols: Vec<u8> = text
        .bytes()
        .take_while(|c| *c != b'=')
        .filter(known)
        .map(|c| match c {
            b'-' => b'+',
            b'_' => b'/',
            c => c,
        })
        .collect();
    // A single symbol is less than a byte.
    if symbols.len() % 4 == 1 {
        symbols.pop();
    }
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&base64::alphabet::STANDARD, lenient).decode(symbols).unwrap_or_default()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
