//! Sessions to export.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tiller_export::{Export, ExportSource};

/// A conversation with every kind of entry.
const SESSION: &str = include_str!("../sample/session.jsonl");

pub struct Page {
    pub path: PathBuf,
    _dir: TempDir,
}

/// The page of the conversation with every kind of entry.
pub fn sample() -> Page {
    page(SESSION)
}

pub fn page(session: &str) -> Page {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("session.jsonl");
    fs::write(&file, session).unwrap();
    let path = dir.path().join("page.html");
    let export = Export {
        source: ExportSource::File(file),
        to: path.clone(),
        secrets: Vec::new(),
        windows: HashMap::from([("openai/gpt-5.5".to_owned(), 8000)]),
        setting: None,
    };
    export.run().unwrap();
    Page { path, _dir: dir }
}

/// A session of these messages in sequence. Their ids are `e1`, `e2` and so on.
pub fn session(messages: impl IntoIterator<Item = Value>) -> String {
    let header = json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-16T01:00:00.000Z",
        "cwd": "/home/ada"});
    let mut text = format!("{header}\n");
    for (at, message) in messages.into_iter().enumerate() {
        let parent = (at > 0).then(|| format!("e{at}"));
        let entry = json!({"type": "message", "id": format!("e{}", at + 1), "parentId": parent,
            "timestamp": "2026-11-16T01:00:00.000Z", "message": message});
        text += &format!("{entry}\n");
    }
    text
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1})
}

pub fn answer(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks, "api": "a", "provider": "p", "model": "m",
        "usage": {"input": 1, "output": 1}, "stopReason": "stop", "timestamp": 1})
}
