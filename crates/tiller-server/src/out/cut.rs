//! Shortens a record that is longer than the client can take. It keeps its type and its fields;
//! long texts and lists lose their ends, and a marker says so.

use serde_json::{Map, Value};
use tiller_protocol::Cut;

/// What stands for the rest of a text.
const ELLIPSIS: &str = "…";
/// Fields that stay as they are, so that the record can be attributed.
const WHOLE: [&str; 4] = ["type", "id", "command", "cut"];

/// Fields up to this part of an object's bytes stay as they are.
const SMALL_PART: usize = 16;

/// The record with at most `max` bytes, with the marker as its field `cut`. Nothing if it cannot be
/// made that short, because the client's own `id` is too long.
pub(super) fn shorten(record: &str, max: usize, marker: &Cut) -> Option<String> {
    let mut record: Map<String, Value> = serde_json::from_str(record).ok()?;
    record.insert("cut".to_owned(), serde_json::to_value(marker).ok()?);
    let mut budget = max;
    loop {
        let mut short = fit_object(&record, budget);
        for name in WHOLE {
            if let Some(value) = record.get(name) {
                short.insert(name.to_owned(), value.clone());
            }
        }
        let text = serde_json::to_string(&short).ok()?;
        if text.len() <= max {
            return Some(text);
        }
        if budget == 0 {
            return None;
        }
        budget = budget * 7 / 8;
    }
}

/// The value with about this many bytes of JSON text at most.
fn fit(value: &Value, budget: usize) -> Value {
    match value {
        Value::String(text) => Value::String(fit_text(text, budget)),
        Value::Array(items) => {
            let mut left = budget;
            let fitting = items.iter().map_while(|item| {
                let item = fit(item, left);
                left = left.checked_sub(json_bytes(&item) + 1)?;
                Some(item)
            });
            Value::Array(fitting.collect())
        }
        Value::Object(fields) => Value::Object(fit_object(fields, budget)),
        other => other.clone(),
    }
}

/// Keeps small fields whole and divides the rest among the large ones.
fn fit_object(fields: &Map<String, Value>, budget: usize) -> Map<String, Value> {
    let bytes = |name: &str, value: &Value| name.len() + json_bytes(value) + 4;
    let is_small = |size: usize| size <= budget / SMALL_PART;
    let sizes = fields.iter().map(|(name, value)| bytes(name, value));
    let (small, large): (Vec<usize>, Vec<usize>) = sizes.partition(|size| is_small(*size));
    let left = budget.saturating_sub(small.iter().sum());
    let share = left.checked_div(large.len()).unwrap_or(0);
    let fitting = fields.iter().map(|(name, value)| {
        let is_whole = left > 0 && is_small(bytes(name, value));
        (name.clone(), if is_whole { value.clone() } else { fit(value, share) })
    });
    fitting.collect()
}

/// The beginning of a text that has at most this many bytes of JSON text.
fn fit_text(text: &str, budget: usize) -> String {
    let mut left = budget;
    for (position, char) in text.char_indices() {
        let bytes = match char {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            char if char.is_ascii_control() => 6,
            char => char.len_utf8(),
        };
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return format!("{}{ELLIPSIS}", &text[..position]),
        }
    }
    text.to_owned()
}

fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
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
            190,
            expect![[
                r#"{"id":"0123456789012345678901234567890123456789","type":"response","command":"get_last_assistant_text","success":true,"data":{"text":"a text"},"cut":{"recordId":"r1","bytes":143}}"#
            ]],
        );
        check(
            r#"{"id":"0123456789012345678901234567890123456789","type":"response","command":"abort","success":true}"#,
            80,
            expect!["too long"],
        );
    }
}
