//! Shortens a record that is longer than the client can take. It keeps its type and its fields;
//! long texts and lists lose their ends, and a marker says so.

use serde_json::{Map, Value};
use tiller_protocol::Cut;

/// What stands for the rest of a text.
const ELLIPSIS: &str = "…";
/// Fields that stay as they are, so that the record can be attributed.
const WHOLE: [&str; 3] = ["type", "id", "command"];

/// The record with at most `max` bytes, with the marker as its field `cut`. Nothing if it cannot be
/// made that short, because the client's own `id` is too long.
pub(super) fn shorten(record: &str, max: usize, marker: &Cut) -> Option<String> {
    let record: Map<String, Value> = serde_json::from_str(record).ok()?;
    let marker = serde_json::to_value(marker).ok()?;
    let mut budget = max / 2;
    loop {
        let mut short: Map<String, Value> = record
            .iter()
            .map(|(name, value)| {
                let is_whole = WHOLE.contains(&&**name);
                (name.clone(), if is_whole { value.clone() } else { fit(value, budget) })
            })
            .collect();
        short.insert("cut".to_owned(), marker.clone());
        let text = serde_json::to_string(&short).ok()?;
        if text.len() <= max {
            return Some(text);
        }
        if budget == 0 {
            return None;
        }
        budget /= 2;
    }
}

/// The value with texts, lists and objects of about this many bytes at most.
fn fit(value: &Value, budget: usize) -> Value {
    match value {
        Value::String(text) if text.len() > budget => {
            let end = text.floor_char_boundary(budget);
            Value::String(format!("{}{ELLIPSIS}", &text[..end]))
        }
        Value::Array(items) => {
            let mut left = budget;
            let fitting = items.iter().map_while(|item| afford(fit(item, budget), &mut left));
            Value::Array(fitting.collect())
        }
        Value::Object(fields) => {
            let mut left = budget;
            let fitting = fields.iter().map_while(|(name, value)| {
                let value = afford(fit(value, budget), &mut left)?;
                Some((name.clone(), value))
            });
            Value::Object(fitting.collect())
        }
        other => other.clone(),
    }
}

/// The value, if its JSON text has no more bytes than are left.
fn afford(value: Value, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(value.to_string().len())?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(record: &str, max: usize, expect: Expect) {
        let marker = Cut { record_id: "r1".to_owned(), bytes: record.len() };
        let short = shorten(record, max, &marker);
        assert!(short.as_ref().is_none_or(|short| short.len() <= max));
        expect.assert_eq(&short.unwrap_or_else(|| "too long".to_owned()));
    }

    #[test]
    fn long_texts_and_lists_lose_their_ends() {
        check(
            r#"{"type":"session_error","error":"äääääääääääääääääääääääääääääääääääääääääääääää"}"#,
            100,
            expect![[
                r#"{"type":"session_error","error":"ääääääääääää…","cut":{"recordId":"r1","bytes":129}}"#
            ]],
        );
        check(
            r#"{"type":"queue_update","steering":["one","two","three","four","five","six"],"followUp":[]}"#,
            104,
            expect![[
                r#"{"type":"queue_update","steering":["one","two"],"followUp":[],"cut":{"recordId":"r1","bytes":90}}"#
            ]],
        );
    }

    #[test]
    fn type_id_and_command_stay_whole() {
        check(
            r#"{"id":"0123456789012345678901234567890123456789","type":"response","command":"get_last_assistant_text","success":true,"data":{"text":"a text"}}"#,
            170,
            expect![[
                r#"{"id":"0123456789012345678901234567890123456789","type":"response","command":"get_last_assistant_text","success":true,"data":{},"cut":{"recordId":"r1","bytes":143}}"#
            ]],
        );
        check(
            r#"{"id":"0123456789012345678901234567890123456789","type":"response","command":"abort","success":true}"#,
            80,
            expect!["too long"],
        );
    }
}
