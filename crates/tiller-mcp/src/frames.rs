//! A server's stdout, split into messages. Memory is bounded: a longer line is discarded as it
//! comes. A line that is no message is counted and otherwise ignored, because many programs print
//! something before they speak.

use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};

/// The longest message that is read. A longer result cannot be shown to a model either.
pub(crate) const MESSAGE_MAX_BYTES: usize = 16 << 20;
/// How much of the beginning of a line is kept to find out which request it answers.
const HEAD_BYTES: usize = 512;

#[derive(Default)]
pub(crate) struct FrameReader {
    line: Vec<u8>,
    /// Set while the rest of a line that is too long is discarded.
    is_discarding: bool,
}

/// What a line is.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Box<ServerJsonRpcMessage>),
    /// No message, such as a line of a log; its beginning.
    Noise(String),
}

impl FrameReader {
    /// Takes the next bytes and passes on what they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Frame)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if !self.is_discarding {
                if self.line.len() + piece.len() > MESSAGE_MAX_BYTES {
                    self.line.extend_from_slice(&piece[..piece.len().min(HEAD_BYTES)]);
                    each(too_long(&self.line[..self.line.len().min(HEAD_BYTES)]));
                    self.line = Vec::new();
                    self.is_discarding = true;
                } else {
                    self.line.extend_from_slice(piece);
                    if is_end {
                        if let Some(frame) = parse(self.line.trim_ascii()) {
                            each(frame);
                        }
                        self.line.clear();
                        // A long message is rare; the memory for it is not kept.
                        self.line.shrink_to(64 << 10);
                    }
                }
            }
            self.is_discarding &= !is_end;
        }
    }
}

/// A whole message; nothing for a blank line.
pub(crate) fn parse(line: &[u8]) -> Option<Frame> {
    if line.is_empty() {
        return None;
    }
    Some(match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
        Ok(message) => Frame::Message(Box::new(message)),
        // A malformed response must not leave its call waiting.
        Err(err) => match response_id(line) {
            Some(id) if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() => {
                error(id, format!("the server's response is malformed: {err}"))
            }
            _ => Frame::Noise(beginning(line)),
        },
    })
}

/// A failed call in place of a result that is too long, or noise if the line is no result.
pub(crate) fn too_long(head: &[u8]) -> Frame {
    let max = MESSAGE_MAX_BYTES >> 20;
    match response_id(head) {
        Some(id) => error(
            id,
            format!("the result is longer than {max} MiB and was discarded: ask for less at once"),
        ),
        None => Frame::Noise(format!("{} (longer than {max} MiB)", beginning(head))),
    }
}

fn error(id: RequestId, message: String) -> Frame {
    let error = ErrorData::internal_error(message, None);
    Frame::Message(Box::new(ServerJsonRpcMessage::error(error, Some(id))))
}

fn beginning(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
    text.chars().filter(|c| !c.is_control()).collect()
}

/// The `id` in the beginning of a response. Servers write it before the result.
fn response_id(line: &[u8]) -> Option<RequestId> {
    let head = &line[..line.len().min(HEAD_BYTES)];
    let head = String::from_utf8_lossy(head);
    let members = head.trim_start().strip_prefix('{')?;
    // Anything behind the result may be part of it.
    let end = ["\"result\"", "\"error\""].iter().filter_map(|name| members.find(name)).min();
    let before = &members[..end.unwrap_or(members.len())];
    if before.contains("\"method\"") {
        return None;
    }
    let (_, rest) = before.split_once("\"id\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = value.find([',', '}'])?;
    serde_json::from_str(value[..end].trim()).ok()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn print(frame: Frame) -> String {
        match frame {
            Frame::Noise(text) => format!("noise {text}\n"),
            Frame::Message(message) => format!("{}\n", serde_json::to_string(&message).unwrap()),
        }
    }

    fn frames(chunks: &[&[u8]]) -> String {
        let mut reader = FrameReader::default();
        let mut printed = String::new();
        for chunk in chunks {
            reader.push(chunk, |frame| printed += &print(frame));
        }
        printed
    }

    /// Whole, and byte by byte.
    fn check(input: &str, expected: Expect) {
        let whole = frames(&[input.as_bytes()]);
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(frames(&bytes), whole);
        expected.assert_eq(&whole);
    }

    #[test]
    fn lines_are_messages_and_everything_else_is_noise() {
        check(
            "Server is running\n\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n{\"a\":1}\nnull\n\u{1b}[1m{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\nlast",
            expect![[r#"
                noise Server is running
                {"jsonrpc":"2.0","id":1,"result":{}}
                noise {"a":1}
                noise null
                noise [1m{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
            "#]],
        );
    }

    #[test]
    fn response_of_another_form_fails_its_call() {
        check(
            "{\"jsonrpc\":\"1.0\",\"id\":7,\"result\":{}}\n{\"id\":\"x\",\"result\":3}\n",
            expect![[r#"
                {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server's response is malformed: unrecognized JSON-RPC message"}}
                {"jsonrpc":"2.0","id":"x","error":{"code":-32603,"message":"the server's response is malformed: unrecognized JSON-RPC message"}}
            "#]],
        );
    }

    #[test]
    fn result_that_is_too_long_fails_its_call_and_takes_no_memory() {
        let mut reader = FrameReader::default();
        let mut printed = String::new();
        let mut push = |bytes: &[u8]| reader.push(bytes, |frame| printed += &print(frame));
        push(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"");
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            push(&chunk);
        }
        push(b"\"}]}}\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
        assert!(reader.line.capacity() <= 64 << 10);
        expect![[r#"
            {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"the result is longer than 16 MiB and was discarded: ask for less at once"}}
            {"jsonrpc":"2.0","id":4,"result":{}}
        "#]]
        .assert_eq(&printed);
    }

    #[test]
    fn id_is_found_only_in_front_of_the_result() {
        let id = |line: &str| response_id(line.as_bytes()).map(|id| id.to_string());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":12,"result":{"#), Some("12".into()));
        assert_eq!(id(r#"{"id" : "a" ,"result":{"#), Some("a".into()));
        assert_eq!(id(r#"{"result":{"id":12,"#), None);
        assert_eq!(id(r#"{"id":5,"method":"ping"}"#), None);
        assert_eq!(id("plain \"id\":1,"), None);
    }
}
