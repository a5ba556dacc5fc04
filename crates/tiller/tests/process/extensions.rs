//! Helpers for extensions in the real program, and its strict mode.

use serde_json::Value;

use crate::client::{Client, Place};

/// A client with one extension of this source.
pub fn with(script: &str, extension: &str) -> Client {
    let place = Place::new().with("notes.md", "hello\n").with("ext.ts", extension);
    place.rpc(script, &["-e", "ext.ts"])
}

pub fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

#[test]
fn strict_mode_exits_if_an_extension_is_missing() {
    let place = Place::new();
    let client = place.rpc("say Fine.\n", &["--strict-extensions", "-e", "gone.ts"]);
    assert_eq!(client.end().1, Some(1));
}
