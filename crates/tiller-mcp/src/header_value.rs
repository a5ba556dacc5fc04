//! Texts in HTTP headers, as the revision of 2026-07-28 has them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The text, in base64 if a header could not carry it as it is.
pub(crate) fn encoded(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_header_cannot_carry_are_encoded() {
        assert_eq!(encoded("get_weather"), "get_weather");
        assert_eq!(encoded("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(encoded(" a"), "=?base64?IGE=?=");
        assert_eq!(encoded("a\nb"), "=?base64?YQpi?=");
    }
}
