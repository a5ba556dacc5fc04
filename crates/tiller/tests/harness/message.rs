//! The model's message as a client assembles it from deltas, checked against snapshots.

use serde_json::{Value, json};

use super::wording::plain;

/// What an update carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stream {
    Snapshots,
    Deltas,
}

pub struct Growing {
    blocks: Vec<Value>,
}

impl Growing {
    pub fn new(message: &Value) -> Growing {
        Growing { blocks: message["content"].as_array().cloned().unwrap_or_default() }
    }

    /// Applies one delta. With snapshots, the snapshot must equal the message after it; without,
    /// there must be none.
    pub fn step(&mut self, record: &Value, stream: Stream) -> Result<(), String> {
        let event = &record["assistantMessageEvent"];
        fold(&mut self.blocks, event)?;
        let keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        if stream == Stream::Deltas {
            return match (keys.as_slice(), event.get("partial")) {
                (["type", "usage", "assistantMessageEvent"], None) => Ok(()),
                _ => Err(format!("an update with other fields than a delta has: {record}")),
            };
        }
        if keys != ["type", "assistantMessageEvent", "message"] {
            return Err(format!("an update with other fields than a snapshot has: {record}"));
        }
        if event.get("partial") != Some(&record["message"]) {
            return Err(format!("partial and message differ: {record}"));
        }
        let shown = record["message"]["content"].as_array().cloned().unwrap_or_default();
        shown.iter().try_for_each(block_is_clean)?;
        if !agree(&shown, &self.blocks) {
            return Err(format!("the snapshot is not the message after its step: {record}"));
        }
        Ok(())
    }

    /// The final message must equal the sum of the deltas.
    pub fn end(self, message: &Value) -> Result<(), String> {
        let whole = message["content"].as_array().cloned().unwrap_or_default();
        whole.iter().try_for_each(block_is_clean)?;
        if !agree(&whole, &self.blocks) {
            return Err(format!("message_end is not what the steps add up to: {message}"));
        }
        Ok(())
    }
}

fn fold(blocks: &mut Vec<Value>, event: &Value) -> Result<(), String> {
    let index = event["contentIndex"].as_u64().ok_or("a step without contentIndex")? as usize;
    let kind = plain(&event["type"]);
    let new = match kind.as_str() {
        "text_start" => Some(json!({"type": "text", "text": ""})),
        "thinking_start" => Some(json!({"type": "thinking", "thinking": ""})),
        "toolcall_start" => Some(json!({"type": "toolCall"})),
        _ => None,
    };
    if let Some(new) = new {
        if index != blocks.len() {
            return Err(format!("block {index} starts out of order"));
        }
        blocks.push(new);
        return Ok(());
    }
    let block = blocks.get_mut(index).ok_or_else(|| format!("a step in no block: {event}"))?;
    match kind.as_str() {
        "text_delta" | "thinking_delta" => {
            let (field, delta) = (kind.trim_end_matches("_delta"), plain(&event["delta"]));
            match &mut block[field] {
                Value::String(text) => text.push_str(&delta),
                _ => return Err(format!("a delta in a block of another kind: {event}")),
            }
        }
        "text_end" | "thinking_end" => {
            let field = kind.trim_end_matches("_end");
            if block[field] != event["content"] {
                let (sum, content) = (&block[field], &event["content"]);
                return Err(format!("the deltas add up to {sum}, not to {content}"));
            }
        }
        "toolcall_delta" if event["delta"].is_string() => {}
        "toolcall_end" => *block = event["toolCall"].clone(),
        _ => return Err(format!("an unknown step: {event}")),
    }
    Ok(())
}

/// Whether the texts agree. Arguments are compared once they are complete; signatures arrive with
/// the end of a block and are only shown.
fn agree(shown: &[Value], ours: &[Value]) -> bool {
    let same = |shown: &Value, ours: &Value| {
        let words = ["type", "text", "thinking"].iter().all(|field| shown[*field] == ours[*field]);
        let is_whole = ours.get("arguments").is_some();
        words && (!is_whole || shown["arguments"] == ours["arguments"])
    };
    shown.len() == ours.len() && shown.iter().zip(ours).all(|(shown, ours)| same(shown, ours))
}

/// A block must not contain fields of its assembly.
fn block_is_clean(block: &Value) -> Result<(), String> {
    let fields: &[&str] = match plain(&block["type"]).as_str() {
        "text" => &["type", "text", "textSignature"],
        "thinking" => &["type", "thinking", "thinkingSignature", "redacted"],
        "toolCall" => &["type", "id", "name", "arguments", "argumentsError", "thoughtSignature"],
        "image" => &["type", "data", "mimeType"],
        _ => return Err(format!("a block of no kind: {block}")),
    };
    let strange = block.as_object().unwrap().keys().find(|key| !fields.contains(&key.as_str()));
    match strange {
        Some(field) => Err(format!("the field {field} has no place in {block}")),
        None => Ok(()),
    }
}
