//! Parses tool arguments while they are streamed.
//!
//! A model streams the JSON of a tool call in pieces. A client may want a snapshot at any time, so
//! this reads the pieces once, keeps a cleaned copy, and can complete it into an object at any
//! point: open strings and brackets are closed, a key without a value or half a number is dropped.
//! Each byte is processed once, however many snapshots are taken.
//!
//! Models also make small mistakes in JSON. Raw control characters inside strings are escaped,
//! invalid escapes become a backslash and a letter, lone surrogates become U+FFFD.

use crate::message::Arguments;

/// Deeper nesting is noise or an attack, and serde_json would refuse it anyway.
const DEPTH_MAX: usize = 120;

#[derive(Clone, Debug, Default)]
pub struct PartialJson {
    /// The text so far, cleaned and without white space between tokens.
    clean: String,
    /// The prefix of `clean` that can be closed by brackets alone.
    safe: usize,
    open: Vec<Bracket>,
    position: Position,
    token: Token,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bracket {
    Object,
    Array,
}

/// What may come next between tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Position {
    /// Nothing read yet: the opening brace.
    #[default]
    Start,
    /// A key, or the closing brace if the object is still empty.
    Key {
        first: bool,
    },
    Colon,
    /// A value, or the closing bracket if the array is still empty.
    Value {
        first: bool,
    },
    CommaOrEnd,
    End,
    /// The text is not JSON; the rest is ignored.
    Broken,
}

/// The token being read.
#[derive(Clone, Debug, Default)]
enum Token {
    #[default]
    None,
    String(StringToken),
    Number(Number, /* end of the longest valid number so far */ usize),
    /// The missing rest of `true`, `false` or `null`.
    Literal(&'static str),
}

#[derive(Clone, Debug, Default)]
struct StringToken {
    is_key: bool,
    escape: Escape,
    /// A high surrogate waiting for its other half.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// `\u` and the digits so far.
    Unicode {
        value: u16,
        digits: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Dot,
    Fraction,
    E,
    ESign,
    Exponent,
}

impl PartialJson {
    pub fn push(&mut self, piece: &str) {
        for c in piece.chars() {
            self.char(c);
        }
    }

    /// The object so far, in two parts: the cleaned text, and what closes it.
    pub fn completed(&self) -> (&str, String) {
        let (end, quote) = self.completed_end();
        if end == 0 {
            return ("", "{}".to_owned());
        }
        let brackets = self.open.iter().rev().map(|bracket| match bracket {
            Bracket::Object => '}',
            Bracket::Array => ']',
        });
        (&self.clean[..end], quote.chars().chain(brackets).collect())
    }

    /// The length of both parts.
    pub fn completed_len(&self) -> usize {
        match self.completed_end() {
            (0, _) => "{}".len(),
            (end, quote) => end + quote.len() + self.open.len(),
        }
    }

    /// The end of the usable text, and what closes an open string.
    fn completed_end(&self) -> (usize, &'static str) {
        match &self.token {
            Token::String(string) if !string.is_key => (self.clean.len(), "\""),
            Token::Number(_, valid_end) => ((*valid_end).max(self.safe), ""),
            _ => (self.safe, ""),
        }
    }

    /// The arguments as far as they can be parsed: always an object.
    pub fn finish(&self) -> Arguments {
        let (read, closing) = self.completed();
        serde_json::from_str(&format!("{read}{closing}")).unwrap_or_default()
    }

    fn char(&mut self, c: char) {
        match std::mem::take(&mut self.token) {
            Token::None => self.between(c),
            Token::String(string) => self.in_string(string, c),
            Token::Number(number, valid_end) => self.in_number(number, valid_end, c),
            Token::Literal(rest) => self.in_literal(rest, c),
        }
    }

    fn between(&mut self, c: char) {
        if c.is_ascii_whitespace() {
            return;
        }
        match (self.position, c) {
            (Position::Start, '{') => self.open(Bracket::Object),
            (Position::Key { .. }, '"') => self.start_string(true),
            (Position::Key { first: true }, '}') => self.close(),
            (Position::Colon, ':') => {
                self.clean.push(':');
                self.position = Position::Value { first: false };
            }
            (Position::Value { first: true }, ']') => self.close(),
            (Position::Value { .. }, _) => self.start_value(c),
            (Position::CommaOrEnd, ',') => {
                self.clean.push(',');
                self.position = match self.open.last() {
                    Some(Bracket::Array) => Position::Value { first: false },
                    _ => Position::Key { first: false },
                };
            }
            (Position::CommaOrEnd, '}') if self.open.last() == Some(&Bracket::Object) => {
                self.close()
            }
            (Position::CommaOrEnd, ']') if self.open.last() == Some(&Bracket::Array) => {
                self.close()
            }
            _ => self.position = Position::Broken,
        }
    }

    fn start_value(&mut self, c: char) {
        match c {
            '{' => self.open(Bracket::Object),
            '[' => self.open(Bracket::Array),
            '"' => self.start_string(false),
            't' => self.start_literal(c, "rue"),
            'f' => self.start_literal(c, "alse"),
            'n' => self.start_literal(c, "ull"),
            _ => match Number::start(c) {
                Some(number) => {
                    self.clean.push(c);
                    self.token = Token::Number(number, self.valid_end(number, 0));
                }
                None => self.position = Position::Broken,
            },
        }
    }

    fn open(&mut self, bracket: Bracket) {
        if self.open.len() == DEPTH_MAX {
            self.position = Position::Broken;
            return;
        }
        self.clean.push(if bracket == Bracket::Object { '{' } else { '[' });
        self.safe = self.clean.len();
        self.open.push(bracket);
        self.position = match bracket {
            Bracket::Object => Position::Key { first: true },
            Bracket::Array => Position::Value { first: true },
        };
    }

    fn close(&mut self) {
        if let Some(bracket) = self.open.pop() {
            self.clean.push(if bracket == Bracket::Object { '}' } else { ']' });
        }
        self.value_done();
    }

    fn value_done(&mut self) {
        self.safe = self.clean.len();
        self.position = if self.open.is_empty() { Position::End } else { Position::CommaOrEnd };
    }

    fn start_string(&mut self, is_key: bool) {
        self.clean.push('"');
        self.token = Token::String(StringToken { is_key, ..StringToken::default() });
    }

    fn start_literal(&mut self, c: char, rest: &'static str) {
        self.clean.push(c);
        self.token = Token::Literal(rest);
    }

    /// Escapes are added to `clean` completely or not at all, so an open string can be closed
    /// anywhere.
    fn in_string(&mut self, mut string: StringToken, c: char) {
        match (string.escape, c) {
            (Escape::None, '\\') => string.escape = Escape::Backslash,
            (Escape::None, '"') => {
                self.flush_surrogate(&mut string);
                self.clean.push('"');
                if string.is_key {
                    self.position = Position::Colon;
                } else {
                    self.value_done();
                }
                return;
            }
            (Escape::None, _) => {
                self.flush_surrogate(&mut string);
                self.push_char(c);
            }
            (Escape::Backslash, 'u') => string.escape = Escape::Unicode { value: 0, digits: 0 },
            (Escape::Backslash, _) => {
                self.flush_surrogate(&mut string);
                self.push_escape(c);
                string.escape = Escape::None;
            }
            (Escape::Unicode { value, digits }, _) => match c.to_digit(16) {
                Some(digit) if digits == 3 => {
                    string.escape = Escape::None;
                    self.push_unit(&mut string, value << 4 | digit as u16);
                }
                Some(digit) => {
                    let value = value << 4 | digit as u16;
                    string.escape = Escape::Unicode { value, digits: digits + 1 };
                }
                None => {
                    // `\u` without four digits is not an escape: kept as text.
                    self.flush_surrogate(&mut string);
                    string.escape = Escape::None;
                    self.clean.push_str("\\\\u");
                    for shift in (0..digits).rev() {
                        let digit = u32::from(value >> (4 * shift) & 0xf);
                        self.clean.extend(char::from_digit(digit, 16));
                    }
                    return self.in_string(string, c);
                }
            },
        }
        self.token = Token::String(string);
    }

    fn push_char(&mut self, c: char) {
        match c {
            '\n' => self.clean.push_str("\\n"),
            '\r' => self.clean.push_str("\\r"),
            '\t' => self.clean.push_str("\\t"),
            c if (c as u32) < 0x20 => self.clean.push_str(&format!("\\u{:04x}", c as u32)),
            c => self.clean.push(c),
        }
    }

    fn push_escape(&mut self, c: char) {
        if matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') {
            self.clean.push('\\');
            self.clean.push(c);
        } else {
            self.clean.push_str("\\\\");
            self.push_char(c);
        }
    }

    fn push_unit(&mut self, string: &mut StringToken, unit: u16) {
        match (string.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, unit]).next();
                self.clean.push(pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (lone, unit) => {
                if lone.is_some() {
                    self.clean.push(char::REPLACEMENT_CHARACTER);
                }
                match unit {
                    0xd800..=0xdbff => string.high = Some(unit),
                    0xdc00..=0xdfff => self.clean.push(char::REPLACEMENT_CHARACTER),
                    _ => self.clean.push_str(&format!("\\u{unit:04x}")),
                }
            }
        }
    }

    fn flush_surrogate(&mut self, string: &mut StringToken) {
        if string.high.take().is_some() {
            self.clean.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn in_number(&mut self, number: Number, valid_end: usize, c: char) {
        if let Some(next) = number.next(c) {
            self.clean.push(c);
            self.token = Token::Number(next, self.valid_end(next, valid_end));
        } else if number.is_whole() {
            self.value_done();
            self.between(c);
        } else {
            self.position = Position::Broken;
        }
    }

    fn valid_end(&self, number: Number, before: usize) -> usize {
        if number.is_whole() { self.clean.len() } else { before }
    }

    fn in_literal(&mut self, rest: &'static str, c: char) {
        match rest.strip_prefix(c) {
            Some("") => {
                self.clean.push(c);
                self.value_done();
            }
            Some(rest) => {
                self.clean.push(c);
                self.token = Token::Literal(rest);
            }
            None => self.position = Position::Broken,
        }
    }
}

impl Number {
    fn start(c: char) -> Option<Number> {
        match c {
            '-' => Some(Number::Minus),
            '0' => Some(Number::Zero),
            '1'..='9' => Some(Number::Integer),
            _ => None,
        }
    }

    fn next(self, c: char) -> Option<Number> {
        use Number::*;
        match (self, c) {
            (Minus, '0') => Some(Zero),
            (Minus, '1'..='9') | (Integer, '0'..='9') => Some(Integer),
            (Zero | Integer, '.') => Some(Dot),
            (Dot | Fraction, '0'..='9') => Some(Fraction),
            (Zero | Integer | Fraction, 'e' | 'E') => Some(E),
            (E, '+' | '-') => Some(ESign),
            (E | ESign | Exponent, '0'..='9') => Some(Exponent),
            _ => None,
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Number::Zero | Number::Integer | Number::Fraction | Number::Exponent)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::Value;

    use super::*;

    /// Prints the completed object after each character, without repeats.
    fn check(text: &str, expect: Expect) {
        let mut json = PartialJson::default();
        let mut seen = vec![String::new()];
        for c in text.chars() {
            json.push(c.encode_utf8(&mut [0; 4]));
            let (read, closing) = json.completed();
            let now = format!("{read}{closing}");
            assert_eq!(json.completed_len(), now.len());
            serde_json::from_str::<Value>(&now).unwrap_or_else(|err| panic!("{now}: {err}"));
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        let mut whole = PartialJson::default();
        whole.push(text);
        assert_eq!(whole.finish(), json.finish(), "pieces and whole agree");
        expect.assert_eq(&seen[1..].join("\n"));
    }

    #[test]
    fn strings_grow_and_keys_appear_with_their_value() {
        check(
            r#"{"path": "a.t", "n": -12.5e3, "ok":true}"#,
            expect![[r#"
                {}
                {"path":""}
                {"path":"a"}
                {"path":"a."}
                {"path":"a.t"}
                {"path":"a.t","n":-1}
                {"path":"a.t","n":-12}
                {"path":"a.t","n":-12.5}
                {"path":"a.t","n":-12.5e3}
                {"path":"a.t","n":-12.5e3,"ok":true}"#]],
        );
    }

    #[test]
    fn nested_values_are_closed_in_order() {
        check(
            r#"{"edits":[{"a":"x"},{"a":"#,
            expect![[r#"
                {}
                {"edits":[]}
                {"edits":[{}]}
                {"edits":[{"a":""}]}
                {"edits":[{"a":"x"}]}
                {"edits":[{"a":"x"},{}]}"#]],
        );
    }

    #[test]
    fn incomplete_escape_is_not_shown() {
        check(
            r#"{"a":"x\n\u00e9\ud83d\ude00"}"#,
            expect![[r#"
                {}
                {"a":""}
                {"a":"x"}
                {"a":"x\n"}
                {"a":"x\n\u00e9"}
                {"a":"x\n\u00e9😀"}"#]],
        );
    }

    #[test]
    fn invalid_json_of_models_is_repaired() {
        let finish = |text: &str| {
            let mut json = PartialJson::default();
            json.push(text);
            Value::Object(json.finish()).to_string()
        };
        assert_eq!(finish("{\"a\":\"line\nnext\ttab\u{1}\"}"), r#"{"a":"line\nnext\ttab\u0001"}"#);
        assert_eq!(finish(r#"{"re":"\d+\w"}"#), r#"{"re":"\\d+\\w"}"#);
        assert_eq!(finish(r#"{"a":"\ud800x\udc00\u12"}"#), r#"{"a":"�x�\\u12"}"#);
        assert_eq!(finish(r#"{"a":1} trailing"#), r#"{"a":1}"#);
        assert_eq!(finish(r#"{"a":1,"b":nope,"c":2}"#), r#"{"a":1}"#);
        assert_eq!(finish("[1,2]"), "{}");
        assert_eq!(finish("not json"), "{}");
        assert_eq!(finish(""), "{}");
        assert_eq!(finish(&"[".repeat(100_000)), "{}");
        assert_eq!(finish(&format!("{{\"a\":{}", "[".repeat(100_000))).len(), 244);
    }

    #[test]
    fn valid_json_equals_serde_json() {
        for text in [
            r#"{}"#,
            r#" { "a" : [ ] , "b" : { } , "c" : [ 0 , -0.5E-2 , null , false ] } "#,
            r#"{"\u0041\"\\\/":"\b\f\r\t","":[[["x"],{"y":1e9}]]}"#,
        ] {
            let mut json = PartialJson::default();
            json.push(text);
            let strict: Arguments = serde_json::from_str(text).unwrap();
            assert_eq!(json.finish(), strict, "{text}");
        }
    }
}
