//! The current assistant message, kept as JSON text.
//!
//! Clients of the older levels want the whole message with every update. Formatting it each time
//! would cost a message of n updates n² in escaping. So each update is escaped once and appended to
//! the text of its block, and a snapshot is a copy of finished texts.

use tiller_agent::event::Update;
use tiller_agent::message::AssistantMessage;
use tiller_agent::partial_json::PartialJson;

use crate::Level;
use crate::message::{Message, assistant, tool_call, usage, whole};

pub struct Snapshot {
    level: Level,
    /// The message without its content.
    message: AssistantMessage,
    blocks: Vec<GrowingBlock>,
    /// The length of all blocks together. Kept up to date, because a message can have thousands.
    blocks_len: usize,
    /// Everything after the content; rewritten when one of its fields changes.
    tail: Vec<u8>,
    /// The tokens counted so far, for the levels that write only those.
    usage: Vec<u8>,
}

struct GrowingBlock {
    /// The block's JSON up to where it grows.
    text: Vec<u8>,
    /// Arguments that are still being streamed; they stand between `text` and `end`.
    arguments: Option<PartialJson>,
    /// What closes the block.
    end: Vec<u8>,
}

const HEAD: &[u8] = br#"{"role":"assistant","content":["#;

impl Snapshot {
    pub fn new(message: &AssistantMessage, level: Level) -> Snapshot {
        let mut snapshot = Snapshot {
            level,
            message: AssistantMessage { content: Vec::new(), ..message.clone() },
            blocks: Vec::new(),
            blocks_len: 0,
            tail: Vec::new(),
            usage: Vec::new(),
        };
        for block in &message.content {
            snapshot.push(GrowingBlock::closed(whole(block, level)));
        }
        snapshot.rewrite();
        snapshot
    }

    /// The tokens counted so far, as JSON.
    pub fn usage(&self) -> &[u8] {
        &self.usage
    }

    pub fn change_level(&mut self, level: Level) {
        self.level = level;
        self.rewrite();
    }

    /// Applies one update.
    pub fn fold(&mut self, update: &Update) {
        match update {
            Update::TextStart { .. } => {
                self.push(GrowingBlock::open(br#"{"type":"text","text":""#, br#""}"#));
            }
            Update::ThinkingStart { .. } => {
                let text = br#"{"type":"thinking","thinking":""#;
                self.push(GrowingBlock::open(text, br#""}"#));
            }
            Update::CallStart { id, name, .. } => {
                let mut text = br#"{"type":"toolCall","id":"#.to_vec();
                write_json(&mut text, id);
                text.extend_from_slice(br#","name":"#);
                write_json(&mut text, name);
                text.extend_from_slice(br#","arguments":"#);
                let arguments = Some(PartialJson::default());
                self.push(GrowingBlock { text, arguments, end: b"}".to_vec() });
            }
            Update::TextDelta { index, delta } | Update::ThinkingDelta { index, delta } => {
                self.with_block(*index, |block| push_escaped(&mut block.text, delta));
            }
            Update::CallDelta { index, delta } => self.with_block(*index, |block| {
                if let Some(arguments) = &mut block.arguments {
                    arguments.push(delta);
                }
            }),
            Update::TextEnd { index, signature, .. } => self.with_block(*index, |block| {
                block.close_string(&[("textSignature", signature.as_deref())], false);
            }),
            Update::ThinkingEnd { index, signature, redacted, .. } => {
                self.with_block(*index, |block| {
                    block.close_string(&[("thinkingSignature", signature.as_deref())], *redacted);
                });
            }
            Update::CallEnd { index, call } => {
                let text = serde_json::to_vec(&tool_call(call, self.level));
                let text = text.expect("a call can be written");
                self.with_block(*index, |block| *block = GrowingBlock::closed(text));
            }
            Update::Usage(usage) => self.change(|message| message.usage.clone_from(usage)),
            Update::ResponseId(id) => self.change(|message| message.response_id = Some(id.clone())),
            Update::ResponseModel(model) => {
                self.change(|message| message.response_model = Some(model.clone()));
            }
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD);
        for (index, block) in self.blocks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&block.text);
            if let Some(arguments) = &block.arguments {
                let (read, closing) = arguments.completed();
                out.extend_from_slice(read.as_bytes());
                out.extend_from_slice(closing.as_bytes());
            }
            out.extend_from_slice(&block.end);
        }
        out.extend_from_slice(&self.tail);
    }

    /// How many bytes [`write`](Snapshot::write) would append.
    pub fn len(&self) -> usize {
        let commas = self.blocks.len().saturating_sub(1);
        HEAD.len() + self.blocks_len + commas + self.tail.len()
    }

    fn push(&mut self, block: GrowingBlock) {
        self.blocks_len += block.len();
        self.blocks.push(block);
    }

    fn with_block(&mut self, index: usize, change: impl FnOnce(&mut GrowingBlock)) {
        // The loop has checked the order of blocks, so there is one.
        if let Some(block) = self.blocks.get_mut(index) {
            self.blocks_len -= block.len();
            change(block);
            self.blocks_len += block.len();
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut AssistantMessage)) {
        change(&mut self.message);
        self.rewrite();
    }

    fn rewrite(&mut self) {
        self.tail = tail(&self.message, self.level);
        let usage = serde_json::to_vec(&usage(&self.message.usage, self.level));
        self.usage = usage.expect("numbers can be written");
    }
}

impl GrowingBlock {
    fn open(text: &[u8], end: &[u8]) -> GrowingBlock {
        GrowingBlock { text: text.to_vec(), arguments: None, end: end.to_vec() }
    }

    fn closed(text: Vec<u8>) -> GrowingBlock {
        GrowingBlock { text, arguments: None, end: Vec::new() }
    }

    fn len(&self) -> usize {
        let arguments = self.arguments.as_ref().map_or(0, PartialJson::completed_len);
        self.text.len() + arguments + self.end.len()
    }

    fn close_string(&mut self, fields: &[(&str, Option<&str>)], redacted: bool) {
        self.end = b"\"".to_vec();
        for (name, value) in fields {
            if let Some(value) = value {
                self.end.push(b',');
                write_json(&mut self.end, name);
                self.end.push(b':');
                write_json(&mut self.end, value);
            }
        }
        if redacted {
            self.end.extend_from_slice(br#","redacted":true"#);
        }
        self.end.push(b'}');
    }
}

/// The message's JSON after the content.
fn tail(message: &AssistantMessage, level: Level) -> Vec<u8> {
    let whole = serde_json::to_vec(&Message::Assistant(assistant(message, level)));
    whole.expect("a message can be written").split_off(HEAD.len())
}

pub(crate) fn write_json(out: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(out, value).expect("writing to a Vec cannot fail");
}

/// Appends `text` as it stands inside a JSON string.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    write_json(out, text);
    out.pop();
    out.remove(start);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tiller_agent::message::ToolCall;

    use super::*;

    fn empty() -> AssistantMessage {
        AssistantMessage {
            api: "a".into(),
            provider: "p".into(),
            model: "m".into(),
            timestamp: 1,
            ..AssistantMessage::default()
        }
    }

    /// Folds the steps and compares each snapshot's content with what it should be.
    fn check(steps: &[(Update, Value)]) {
        let mut snapshot = Snapshot::new(&empty(), Level::Pi);
        for (update, content) in steps {
            snapshot.fold(update);
            let mut text = Vec::new();
            snapshot.write(&mut text);
            assert_eq!(snapshot.len(), text.len());
            let value: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(&value["content"], content, "after {update:?}");
            assert_eq!(value["stopReason"], "stop");
        }
    }

    #[test]
    fn each_snapshot_is_the_message_after_its_step() {
        let call = ToolCall {
            id: "c".into(),
            name: "ls".into(),
            arguments: json!({"path": "a"}).as_object().unwrap().clone(),
            arguments_error: None,
            thought_signature: None,
        };
        let thought = json!({"type": "thinking", "thinking": "h\"\u{1}", "thinkingSignature": "s"});
        let text = json!({"type": "text", "text": "x\n😀"});
        check(&[
            (Update::ThinkingStart { index: 0 }, json!([{"type": "thinking", "thinking": ""}])),
            (
                Update::ThinkingDelta { index: 0, delta: "h\"\u{1}".into() },
                json!([{"type": "thinking", "thinking": "h\"\u{1}"}]),
            ),
            (
                Update::ThinkingEnd {
                    index: 0,
                    content: "h\"\u{1}".into(),
                    signature: Some("s".into()),
                    redacted: false,
                },
                json!([thought]),
            ),
            (Update::TextStart { index: 1 }, json!([thought, {"type": "text", "text": ""}])),
            (Update::TextDelta { index: 1, delta: "x\n😀".into() }, json!([thought, text])),
            (
                Update::TextEnd { index: 1, content: "x\n😀".into(), signature: None },
                json!([thought, text]),
            ),
            (
                Update::CallStart { index: 2, id: "c".into(), name: "ls".into() },
                json!([thought, text, {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}]),
            ),
            (
                Update::CallDelta { index: 2, delta: "{\"path\": \"a".into() },
                json!([thought, text,
                    {"type": "toolCall", "id": "c", "name": "ls", "arguments": {"path": "a"}}]),
            ),
            (
                Update::CallEnd { index: 2, call: Box::new(call) },
                json!([thought, text,
                    {"type": "toolCall", "id": "c", "name": "ls", "arguments": {"path": "a"}}]),
            ),
        ]);
    }
}
