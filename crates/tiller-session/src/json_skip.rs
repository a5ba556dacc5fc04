//! Scans JSON without parsing it.
//!
//! For a line of a large session only a few fields and the end of the line are needed. The scan
//! finds them by quotes and brackets alone and skips all other strings at memory speed. It is
//! slightly too lenient: `{"a" 1}` passes. That is harmless, since a line is parsed properly before
//! its content is used.

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    On,
    /// The value was found; the rest is not scanned.
    Enough,
}

/// A text and the position in it. A method that finds something unexpected returns `None`, and then
/// the scan is over.
pub(crate) struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Walk<'a> {
        Walk { text, at: 0 }
    }

    /// The text that has not been scanned yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Whether only whitespace is left.
    pub(crate) fn is_done(&self) -> bool {
        self.rest().trim_ascii_start().is_empty()
    }

    /// Scans an object. `each` gets the raw key and must scan its value.
    pub(crate) fn object(
        &mut self,
        mut each: impl FnMut(&mut Walk<'a>, &'a [u8]) -> Option<Step>,
    ) -> Option<Step> {
        self.eat(b'{')?;
        if self.eat(b'}').is_some() {
            return Some(Step::On);
        }
        loop {
            let key = self.field()?;
            if each(self, key)? == Step::Enough {
                return Some(Step::Enough);
            }
            if self.eat(b',').is_none() {
                self.eat(b'}')?;
                return Some(Step::On);
            }
        }
    }

    /// Scans a key up to its value.
    pub(crate) fn field(&mut self) -> Option<&'a [u8]> {
        let key = self.raw_string()?;
        self.eat(b':')?;
        Some(key)
    }

    /// Scans the comma and key of another field.
    pub(crate) fn next_field(&mut self) -> Option<&'a [u8]> {
        self.eat(b',')?;
        self.field()
    }

    /// Scans an array. `each` must scan one item.
    pub(crate) fn array(
        &mut self,
        mut each: impl FnMut(&mut Walk<'a>) -> Option<Step>,
    ) -> Option<Step> {
        self.eat(b'[')?;
        if self.eat(b']').is_some() {
            return Some(Step::On);
        }
        loop {
            if each(self)? == Step::Enough {
                return Some(Step::Enough);
            }
            if self.eat(b',').is_none() {
                self.eat(b']')?;
                return Some(Step::On);
            }
        }
    }

    /// A string without escapes.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        let raw = self.raw_string()?;
        if raw.contains(&b'\\') {
            return None;
        }
        str::from_utf8(raw).ok()
    }

    /// A non-negative integer.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.scalar()?.parse().ok()
    }

    pub(crate) fn number(&mut self) -> Option<f64> {
        // Rust also parses `inf` and `nan`, which JSON does not have.
        self.scalar().filter(|text| !text.starts_with(|c: char| c.is_alphabetic()))?.parse().ok()
    }

    /// Scans `null` if it is next.
    pub(crate) fn null(&mut self) -> Option<()> {
        self.blank();
        let rest = self.rest().strip_prefix(b"null")?;
        self.at = self.text.len() - rest.len();
        Some(())
    }

    /// The first byte of the next value.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.blank();
        self.text.get(self.at).copied()
    }

    /// Skips any value, however deeply nested.
    pub(crate) fn skip(&mut self) -> Option<Step> {
        let mut depth = 0u32;
        loop {
            match self.peek()? {
                b'"' => {
                    self.raw_string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => {
                    self.scalar()?;
                }
            }
            if depth == 0 {
                return Some(Step::On);
            }
        }
    }

    #[inline]
    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// The raw text of a string, between its quotes.
    pub(crate) fn raw_string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            let found = self.at + quote_or_escape(self.text.get(self.at..)?)?;
            if self.text[found] == b'"' {
                self.at = found + 1;
                return Some(&self.text[start..found]);
            }
            self.at = found + 2;
        }
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<&'a str> {
        self.blank();
        let rest = self.rest();
        let ends = |byte: &u8| matches!(byte, b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']');
        let len = rest.iter().take_while(|byte| !ends(byte) && !byte.is_ascii_whitespace()).count();
        if len == 0 {
            return None;
        }
        self.at += len;
        str::from_utf8(&rest[..len]).ok()
    }
}

/// The offset of the next `"` or `\\`. Keys and most values end within a word or two, before a
/// search made for long texts would pay off.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const ESCAPES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    // Sets the high bit of the first byte that is zero, and of no byte before it.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while at < 16
        && let Some(Ok(word)) = text.get(at..at + 8).map(<[u8; 8]>::try_from)
    {
        let word = u64::from_le_bytes(word);
        let found = zero(word ^ QUOTES) | zero(word ^ ESCAPES);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &text[at..]).map(|found| at + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_ends_at_the_end_of_the_value() {
        let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
        let values = [
            r#"{"a":1,"b":[true,{"c":"}\"]"}],"d":null}"#,
            r#" { "a" : "\\" , "b" : [ ] } "#,
            r#""\\\"""#,
            "-1.5e3",
            deep.as_str(),
        ];
        for value in values {
            let mut walk = Walk::new(value.as_bytes());
            assert!(walk.skip().is_some() && walk.is_done(), "{value:.100}");
            // Every prefix is broken, except that of a number.
            for len in (0..value.trim_end().len()).step_by(value.len() / 50 + 1) {
                let mut walk = Walk::new(&value.as_bytes()[..len]);
                assert!(walk.skip().is_none() || value.starts_with('-'), "{value:.100} {len}");
            }
        }
    }

    #[test]
    fn broken_json_is_not_skipped() {
        for broken in
            ["", "}", "{]", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{1:2}"#, r#"{"a":"\"#]
        {
            let walked = Walk::new(broken.as_bytes()).object(|walk, _| walk.skip());
            assert!(walked.is_none(), "{broken}");
        }
    }

    #[test]
    fn counts_accept_only_non_negative_integers() {
        assert_eq!(Walk::new(b"18446744073709551615").count(), Some(u64::MAX));
        assert_eq!(Walk::new(b"1.5").count(), None);
        assert_eq!(Walk::new(b"0.00030000000000000003").number(), Some(0.00030000000000000003));
        assert_eq!(Walk::new(b"inf").number(), None);
        assert_eq!(Walk::new(b"null").number(), None);
    }
}
