//! A line that the server wrote, and what the checks read from it.

use serde_json::Value;

/// One JSON object from the server's stdout.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerLine(Value);

impl ServerLine {
    /// Parses a line. Fails if it is not a JSON object with a `type`.
    pub(super) fn read(line: &[u8]) -> Result<ServerLine, String> {
        let value: Value =
            serde_json::from_slice(line).map_err(|err| format!("is not JSON ({err})"))?;
        if value["type"].is_string() { Ok(ServerLine(value)) } else { Err("has no type".into()) }
    }

    pub(super) fn kind(&self) -> &str {
        self.0["type"].as_str().unwrap_or_default()
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind() == kind
    }

    /// The whole record.
    pub(super) fn value(&self) -> &Value {
        &self.0
    }

    /// A field; `null` if it is absent.
    pub(super) fn field(&self, name: &str) -> &Value {
        &self.0[name]
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    pub(super) fn text_field(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub(super) fn is_response(&self) -> bool {
        self.is("response")
    }

    /// The response to the request with this id.
    pub(super) fn answers(&self, id: &Value) -> bool {
        self.is_response() && self.0.get("id") == Some(id)
    }

    pub(super) fn succeeded(&self) -> bool {
        self.0["success"] == true
    }

    /// A refusal by a server that does not have the command.
    pub(super) fn lacks_command(&self) -> bool {
        let error = self.text_field("error");
        self.is_response()
            && !self.succeeded()
            && (error.starts_with("Unknown command") || error.starts_with("Not supported"))
    }

    pub(super) fn data(&self) -> &Value {
        &self.0["data"]
    }

    pub(super) fn message(&self) -> &Value {
        &self.0["message"]
    }

    /// The complete message, if the line is a `message_end` of this role.
    pub(super) fn ended(&self, role: &str) -> Option<&Value> {
        (self.is("message_end") && self.message()["role"] == role).then(|| self.message())
    }

    /// The step of a `message_update`.
    pub(super) fn step(&self) -> &Value {
        &self.0["assistantMessageEvent"]
    }

    pub(super) fn is_step(&self, kind: &str) -> bool {
        self.is("message_update") && self.step()["type"] == kind
    }

    /// In a sentence: the type, and what tells it from others of its type.
    pub(super) fn summary(&self) -> String {
        match self.kind() {
            "response" if self.succeeded() => format!("response {}", self.text_field("command")),
            "response" => format!(
                "response {} refused ({})",
                self.text_field("command"),
                cut(self.text_field("error"), 100)
            ),
            "message_update" => {
                format!("message_update {}", self.step()["type"].as_str().unwrap_or("?"))
            }
            "message_start" | "message_end" => {
                let role = self.message()["role"].as_str().unwrap_or("?");
                format!("{} {role}", self.kind())
            }
            kind => kind.to_owned(),
        }
    }
}

/// The text of a message: its text blocks, joined.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect()
        }
        _ => String::new(),
    }
}

/// The tool calls of a message: its blocks of type `toolCall`.
pub(super) fn calls_of(message: &Value) -> Vec<&Value> {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter(|block| block["type"] == "toolCall").collect()
}

/// The beginning of a text, for a sentence.
pub(super) fn cut(text: &str, max_chars: usize) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(max_chars).collect();
    if chars.next().is_some() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_an_object_with_a_type() {
        for (line, expected) in [
            (r#"{"type":"agent_start"}"#, true),
            (r#"{"kind":"agent_start"}"#, false),
            ("[1]", false),
            ("Welcome!", false),
            ("", false),
        ] {
            assert_eq!(ServerLine::read(line.as_bytes()).is_ok(), expected, "{line}");
        }
    }

    #[test]
    fn an_absent_id_does_not_answer_null() {
        let line = |text: &str| ServerLine::read(text.as_bytes()).unwrap();
        assert!(line(r#"{"type":"response","id":null}"#).answers(&Value::Null));
        assert!(!line(r#"{"type":"response"}"#).answers(&Value::Null));
        assert!(line(r#"{"type":"response","id":1}"#).answers(&json!(1)));
    }

    #[test]
    fn texts_are_joined_and_strings_are_texts() {
        let blocks = json!({"content": [{"type": "text", "text": "a"},
            {"type": "thinking", "thinking": "x"}, {"type": "text", "text": "b"}]});
        assert_eq!(text_of(&blocks), "ab");
        assert_eq!(text_of(&json!({"content": "plain"})), "plain");
        assert_eq!(text_of(&Value::Null), "");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!((cut("größer", 4), cut("größe", 5)), ("größ…".into(), "größe".into()));
    }
}
