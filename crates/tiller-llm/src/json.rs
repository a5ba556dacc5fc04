//! Lenient JSON parsing, for what servers really send.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// Parses a value. Half a surrogate pair (`\ud83d` without its partner), which servers send when
/// they cut a text inside an emoji, becomes U+FFFD instead of an error.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|err| match without_lone_surrogates(text) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(err),
    })
}

/// The first item of a list. Servers send their answer as a list of answers, of which only one is
/// requested: there are thousands of these lists, and none needs a vector.
#[derive(Debug)]
pub(crate) struct FirstItem<T>(pub Option<T>);

impl<T> Default for FirstItem<T> {
    fn default() -> FirstItem<T> {
        FirstItem(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FirstItem<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FirstItem<T>, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = FirstItem<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstItem<T>, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstItem(first))
            }
        }
        deserializer.deserialize_seq(Read(PhantomData))
    }
}

/// `None` if there was nothing to replace.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let mut mended = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let (taken, written) = match code_unit(escape) {
            Some(0xD800..=0xDBFF) => match escape.get(6..).and_then(code_unit) {
                Some(0xDC00..=0xDFFF) => (12, &escape[..12]),
                _ => (6, "\\ufffd"),
            },
            Some(0xDC00..=0xDFFF) => (6, "\\ufffd"),
            // The escaped character may be a backslash, so both are skipped together.
            _ => {
                let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
                (end, &escape[..end])
            }
        };
        mended.push_str(written);
        rest = &escape[taken..];
    }
    mended.push_str(rest);
    (mended != text).then_some(mended)
}

/// The code unit in `\uXXXX`, if the text begins with one.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        for (text, read_as) in [
            (r#""plain""#, "plain"),
            (r#""\ud83d\ude00""#, "\u{1F600}"),
            (r#""a\ud83d""#, "a\u{FFFD}"),
            (r#""a\ud83d b\ude00""#, "a\u{FFFD} b\u{FFFD}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}\u{1F600}"),
            (r#""\\ud83d \ude00""#, "\\ud83d \u{FFFD}"),
            (r#""é\ud83dé""#, "é\u{FFFD}é"),
        ] {
            assert_eq!(read::<String>(text).unwrap(), read_as, "{text}");
        }
    }

    #[test]
    fn first_item_of_a_list_is_read() {
        for (text, first) in [("[]", None), ("[1]", Some(1)), ("[1, \"a\", {}]", Some(1))] {
            assert_eq!(read::<FirstItem<u64>>(text).unwrap().0, first, "{text}");
        }
        for text in ["1", "null", "[\"a\"]", "[1"] {
            assert!(read::<FirstItem<u64>>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_json_is_still_an_error() {
        for text in ["", "\"", "\"\\", "\"\\u", "\"\\u12", "\"\\ud83", "\"\\é\"", "{"] {
            assert!(read::<serde_json::Value>(text).is_err(), "{text}");
        }
    }
}
