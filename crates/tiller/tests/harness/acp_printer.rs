//! Prints the lines of the Agent Client Protocol, one message per line.

use std::path::Path;

use serde_json::Value;

pub struct AcpPrinter {
    folder: String,
    shows_all: bool,
    printed: String,
    /// A message that is still growing: everything before its text, and its text.
    chunk: Option<(String, String)>,
    /// Random ids, each with a name.
    names: Vec<(String, String)>,
}

impl AcpPrinter {
    pub fn new(folder: &Path, shows_all: bool) -> AcpPrinter {
        let folder = folder.to_string_lossy().into_owned();
        AcpPrinter { folder, shows_all, printed: String::new(), chunk: None, names: Vec::new() }
    }

    /// The text with ids in place of names.
    pub fn with_ids(&self, text: &str) -> String {
        let replace = |text: String, (id, name): &(String, String)| text.replace(name, id);
        self.names.iter().rev().fold(text.to_owned(), replace)
    }

    /// What was printed since the last call.
    pub fn take(&mut self) -> String {
        self.end_chunk();
        std::mem::take(&mut self.printed)
    }

    pub fn print(&mut self, message: &Value) {
        let params = &message["params"];
        if message["method"] == "session/update" {
            return self.update(&params["sessionId"], &params["update"]);
        }
        let line = match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => format!("request {id} {method} {params}"),
            (Some(method), None) => format!("notification {method} {params}"),
            (None, id) => {
                let id = id.unwrap_or(&Value::Null);
                match message.get("error") {
                    Some(error) => {
                        let text = error["message"].as_str().unwrap_or_default();
                        format!("error {id} {} {text}", error["code"])
                    }
                    None => format!("answer {id} {}", self.shortened(&message["result"])),
                }
            }
        };
        self.line(&line);
    }

    /// The result without what most transcripts are not about.
    fn shortened(&self, result: &Value) -> String {
        let mut result = result.clone();
        if let Some(fields) = result.as_object_mut().filter(|_| !self.shows_all) {
            for name in ["agentCapabilities", "authMethods", "agentInfo", "configOptions"] {
                if let Some(field) = fields.get_mut(name) {
                    *field = "…".into();
                }
            }
            for session in
                fields.get_mut("sessions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                session["updatedAt"] = "…".into();
            }
        }
        result.to_string()
    }

    fn update(&mut self, session: &Value, update: &Value) {
        let session = session.as_str().unwrap_or_default();
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let head = format!("{session} {kind} {}", update["messageId"].as_str().unwrap_or_default());
        if let Some(text) = update["content"]["text"].as_str().filter(|_| kind.ends_with("_chunk"))
        {
            match &mut self.chunk {
                Some((before, grown)) if *before == head => grown.push_str(text),
                _ => {
                    self.end_chunk();
                    self.chunk = Some((head, text.to_owned()));
                }
            }
            return;
        }
        let mut rest = update.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.shift_remove("sessionUpdate");
        }
        self.line(&format!("{session} {kind} {rest}"));
    }

    fn end_chunk(&mut self) {
        if let Some((head, text)) = self.chunk.take() {
            self.line(&format!("{head} {}", Value::from(text)));
        }
    }

    fn line(&mut self, line: &str) {
        self.end_chunk();
        for id in uuids(line) {
            if !self.names.iter().any(|(known, _)| *known == id) {
                let name = format!("ID-{}", self.names.len() + 1);
                self.names.push((id, name));
            }
        }
        let replace = |text: String, (id, name): &(String, String)| text.replace(id, name);
        let line = self.names.iter().fold(line.replace(&self.folder, "FOLDER"), replace);
        let line = line.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        self.printed.push_str(&format!("tiller> {line}\n"));
    }
}

/// The UUIDs in a text.
fn uuids(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split(|c: char| !is_part(c));
    let is_uuid = |word: &&str| {
        let at_end = word.len().checked_sub(36).map(|from| &word[from..]);
        at_end.is_some_and(|id| id.split('-').map(str::len).eq([8, 4, 4, 4, 12]))
    };
    words.filter(is_uuid).map(|word| word[word.len() - 36..].to_owned()).collect()
}
