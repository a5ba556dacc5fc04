//! Makes provider errors readable.

use serde_json::Value;

/// The message inside an error: `400 {"error":{"message":"prompt is too long"}}` becomes `400
/// prompt is too long`. Anything else stays as it is.
pub(crate) fn readable(error: &str) -> String {
    let Some(begin) = error.find('{') else { return error.to_owned() };
    // A hint may follow the JSON.
    let mut values = serde_json::Deserializer::from_str(&error[begin..]).into_iter::<Value>();
    let Some(Ok(body)) = values.next() else { return error.to_owned() };
    let words = [&body["error"]["message"], &body["message"], &body["error"], &body["detail"]];
    match words.into_iter().find_map(Value::as_str) {
        Some(words) => {
            let rest = &error[begin + values.byte_offset()..];
            format!("{}{words}{rest}", &error[..begin])
        }
        None => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_where_they_have_one() {
        for (error, expected) in [
            (r#"400 {"type":"error","error":{"type":"x","message":"too long"}}"#, "400 too long"),
            (r#"{"error":{"code":400,"message":"no"}} and why"#, "no and why"),
            (r#"404 {"error":"model \"x\" not found"}"#, "404 model \"x\" not found"),
            (r#"500 {"message":"oh"}"#, "500 oh"),
            (r#"400 {"other":1}"#, r#"400 {"other":1}"#),
            ("400 {half", "400 {half"),
            ("Connection error.", "Connection error."),
        ] {
            assert_eq!(readable(error), expected);
        }
    }
}
