//! JSON walked over rather than parsed.
//!
//! Of a line in a large session we want a few fields and the place where it ends. A walk finds
//! them by quotes and brackets alone and jumps over all other strings at the speed of memory. It
//! is a little too lenient: `{"a" 1}` passes. Nothing is lost by that, as a line is read properly
//! before its content is used.

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    On,
    /// What was looked for has been found; the rest is not walked.
    Enough,
}

/// A text and how far we have come in it. A step that cannot be taken is `None`, and then the
/// walk is over.
pub(crate) struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Walk<'a> {
        Walk { text, at: 0 }
    }

    /// What has not been walked yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Whether nothing but blanks is left.
    pub(crate) fn is_done(&self) -> bool {
        self.rest().trim_ascii_start().is_empty()
    }

    /// Through an object. `each` gets the key as it is written and must go over its value.
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

    /// Past a key, to its value.
    pub(crate) fn field(&mut self) -> Option<&'a [u8]> {
        let key = self.raw_string()?;
        self.eat(b':')?;
        Some(key)
    }

    /// Past the key of another field.
    pub(crate) fn next_field(&mut self) -> Option<&'a [u8]> {
        self.eat(b',')?;
        self.field()
    }

    /// Through an array. `each` must go over one item.
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

    /// A string that stands for itself, without escapes.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        let raw = self.raw_string()?;
        if raw.contains(&b'\\') {
            return None;
        }
        str::from_utf8(raw).ok()
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.scalar()?.parse().ok()
    }

    pub(crate) fn number(&mut self) -> Option<f64> {
        // What Rust reads as a number beyond what JSON does begins with a letter.
        self.scalar().filter(|text| !text.starts_with(|c: char| c.is_alphabetic()))?.parse().ok()
    }

    /// Past `null`, if that is what comes.
    pub(crate) fn null(&mut self) -> Option<()> {
        self.blank();
        let rest = self.rest().strip_prefix(b"null")?;
        self.at = self.text.len() - rest.len();
        Some(())
    }

    /// What the next value begins with.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.blank();
        self.text.get(self.at).copied()
    }

    /// Past any value, however deep.
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

    /// A string as it is written, between its quotes.
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

    /// A number or a word.
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

/// Where the next `"` or `\\` is. Keys and most values end within a word or two, before a search
/// made for long texts would have got going.
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
    fn a_walk_ends_where_the_value_ends() {
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
            // Every shorter piece but a shorter number is broken.
            for len in (0..value.trim_end().len()).step_by(value.len() / 50 + 1) {
                let mut walk = Walk::new(&value.as_bytes()[..len]);
                assert!(walk.skip().is_none() || value.starts_with('-'), "{value:.100} {len}");
            }
        }
    }

    #[test]
    fn broken_text_is_no_path() {
        for broken in
            ["", "}", "{]", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{1:2}"#, r#"{"a":"\"#]
        {
            let walked = Walk::new(broken.as_bytes()).object(|walk, _| walk.skip());
            assert!(walked.is_none(), "{broken}");
        }
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(Walk::new(b"18446744073709551615").count(), Some(u64::MAX));
        assert_eq!(Walk::new(b"1.5").count(), None);
        assert_eq!(Walk::new(b"0.00030000000000000003").number(), Some(0.00030000000000000003));
        assert_eq!(Walk::new(b"inf").number(), None);
        assert_eq!(Walk::new(b"null").number(), None);
    }
}
