//! Replaces random ids by names, in order of appearance.

use serde_json::{Map, Value};

pub struct Names {
    known: Vec<(String, String)>,
    sessions: usize,
    entries: usize,
    ui_requests: usize,
}

impl Names {
    pub fn new() -> Names {
        // The first session has a name already.
        Names { known: Vec::new(), sessions: 1, entries: 0, ui_requests: 0 }
    }

    pub fn ui_requests(&self) -> usize {
        self.ui_requests
    }

    /// Finds ids in a record and names the new ones.
    pub fn meet(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    self.meet_field(object, key, value);
                    self.meet(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.meet(item)),
            _ => {}
        }
    }

    pub fn replace_in(&self, text: &str) -> String {
        let replace = |text: String, (id, name): &(String, String)| text.replace(id, name);
        self.known.iter().fold(text.to_owned(), replace)
    }

    /// Replaces names by ids, so that a client can refer to them.
    pub fn replace_names_in(&self, text: &str) -> String {
        // The newest first: `entry-1` is a part of `entry-12`.
        let replace = |text: String, (id, name): &(String, String)| text.replace(name, id);
        self.known.iter().rev().fold(text.to_owned(), replace)
    }

    fn meet_field(&mut self, object: &Map<String, Value>, key: &str, value: &Value) {
        let Some(id) = value.as_str().filter(|id| self.is_new(id)) else { return };
        match key {
            "epoch" => self.known.push((id.to_owned(), "EPOCH".to_owned())),
            "sessionId" => {
                self.sessions += 1;
                self.known.push((id.to_owned(), format!("session-{}", self.sessions)));
            }
            "id" if object.get("type").is_some_and(|kind| kind == "extension_ui_request") => {
                self.ui_requests += 1;
                self.known.push((id.to_owned(), format!("ui-{}", self.ui_requests)));
            }
            "id" if !object.contains_key("parentId") => {}
            // Not an entry: a call of a host tool, and those ids are counters.
            "targetId" if object["type"] == "host_tool_cancel" => {}
            "id" | "parentId" | "targetId" | "entryId" | "leafId" | "firstKeptEntryId" => {
                self.entries += 1;
                self.known.push((id.to_owned(), format!("entry-{}", self.entries)));
            }
            _ => {}
        }
    }

    fn is_new(&self, id: &str) -> bool {
        id != "the-session" && !self.known.iter().any(|(known, _)| known == id)
    }
}
