//! Translates JavaScript regular expressions without flags to Rust's syntax.
//!
//! Most of the syntax is the same; this handles the differences. `\d`, `\w` and `\b` are ASCII
//! only, `.` excludes four kinds of line ends, single brackets are literals, any other character
//! may be escaped, and a class has no operators. Where JavaScript without its `u` flag reads an
//! escape as plain letters (`\p{L}`, `\u{1F600}`), which is never intended, the escape is used.

use std::collections::HashMap;
use std::fmt::Write;

/// A translated expression.
#[derive(Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) regex: String,
    /// For an expression with look-around or back-references: the same without them. It matches
    /// every text that the expression matches, and others.
    pub(super) loose: Option<String>,
}

pub(super) fn translate(source: &str) -> Result<Pattern, String> {
    let groups = Groups::find(source);
    let looks_around = groups.look_around;
    let mut reader = Reader {
        rest: source.chars().collect(),
        at: 0,
        groups,
        out: String::new(),
        loose: String::new(),
        hidden: 0,
    };
    reader.read()?;
    Ok(Pattern { regex: reader.out, loose: looks_around.then_some(reader.loose) })
}

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = "\\t\\n\\x0B\\x0C\\r\\x20\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\
     \\x{205F}\\x{3000}\\x{FEFF}";
const NOT_LINE_END: &str = "[^\\n\\r\\x{2028}\\x{2029}]";
const ANYTHING: &str = "[\\x{0}-\\x{10FFFF}]";
const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";
/// Word boundaries for an engine that has look-around but no ASCII mode.
const BOUNDARY: &str = "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))";
const NO_BOUNDARY: &str = "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))";

/// What must be known before the first character is translated.
#[derive(Default)]
struct Groups {
    count: u32,
    names: HashMap<String, u32>,
    look_around: bool,
}

impl Groups {
    fn find(source: &str) -> Groups {
        let mut groups = Groups::default();
        let mut digits = Vec::new();
        let mut in_class = false;
        let mut rest = source.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => match rest.next() {
                    Some(digit @ '1'..='9') if !in_class => {
                        let more = rest.as_str().chars().take_while(char::is_ascii_digit);
                        digits.push(std::iter::once(digit).chain(more).collect::<String>());
                    }
                    Some('k') if !in_class => groups.look_around |= rest.as_str().starts_with('<'),
                    _ => {}
                },
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class => groups.open(rest.as_str()),
                _ => {}
            }
        }
        groups.look_around |= digits.iter().any(|digits| groups.refers(digits));
        groups
    }

    fn open(&mut self, rest: &str) {
        let Some(rest) = rest.strip_prefix('?') else {
            self.count += 1;
            return;
        };
        if ["=", "!", "<=", "<!"].iter().any(|mark| rest.starts_with(mark)) {
            self.look_around = true;
        } else if let Some((name, _)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        {
            self.count += 1;
            self.names.insert(name.to_owned(), self.count);
        }
    }

    /// Whether these digits after a backslash refer to a group. Otherwise they are a character.
    fn refers(&self, digits: &str) -> bool {
        digits.parse().is_ok_and(|number: u32| number <= self.count)
    }
}

struct Reader {
    rest: Vec<char>,
    at: usize,
    groups: Groups,
    out: String,
    /// The same without look-around, and how many look-around groups are open.
    loose: String,
    hidden: usize,
}

/// An open group.
#[derive(Clone, Copy)]
struct OpenGroup {
    /// Whether the dot matches line ends.
    dot_all: bool,
    looks_around: bool,
}

/// One item of a class.
enum Item {
    Char(char),
    /// Text for a Rust class.
    Set(String),
}

impl Reader {
    fn read(&mut self) -> Result<(), String> {
        let mut open = vec![OpenGroup { dot_all: false, looks_around: false }];
        while let Some(c) = self.next() {
            let around = open.last().copied().ok_or("unmatched `)`")?;
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '.' if around.dot_all => self.write(ANYTHING),
                '.' => self.write(NOT_LINE_END),
                '(' => self.group(&mut open)?,
                ')' if around.looks_around => {
                    open.pop();
                    self.out.push(')');
                    self.hidden -= 1;
                }
                ')' => {
                    open.pop();
                    self.write(")");
                }
                '{' => self.brace(),
                '^' | '$' | '|' | '*' | '+' | '?' => self.write(c.encode_utf8(&mut [0; 4])),
                c => self.literal(c),
            }
        }
        match open.len() {
            0 => Err("unmatched `)`".to_owned()),
            1 => Ok(()),
            _ => Err("a group is never closed".to_owned()),
        }
    }

    fn write(&mut self, text: &str) {
        self.write_both(text, text);
    }

    fn write_both(&mut self, exact: &str, loose: &str) {
        self.out.push_str(exact);
        if self.hidden == 0 {
            self.loose.push_str(loose);
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_next = text.chars().enumerate().all(|(i, c)| self.rest.get(self.at + i) == Some(&c));
        self.at += if is_next { text.chars().count() } else { 0 };
        is_next
    }

    /// Everything up to this character, which is consumed too.
    fn until(&mut self, end: char) -> Option<String> {
        let length = self.rest[self.at..].iter().position(|&c| c == end)?;
        let text = self.rest[self.at..self.at + length].iter().collect();
        self.at += length + 1;
        Some(text)
    }

    fn literal(&mut self, c: char) {
        let mut text = String::new();
        literal(&mut text, c);
        self.write(&text);
    }

    fn group(&mut self, open: &mut Vec<OpenGroup>) -> Result<(), String> {
        let dot_all = open.last().is_some_and(|open| open.dot_all);
        let plain = OpenGroup { dot_all, looks_around: false };
        if !self.takes("?") {
            self.write("(");
            open.push(plain);
            return Ok(());
        }
        for mark in ["=", "!", "<=", "<!"] {
            if self.takes(mark) {
                // Something has to be here: a quantifier may follow.
                self.write_both(&format!("(?{mark}"), "(?:)");
                self.hidden += 1;
                open.push(OpenGroup { dot_all, looks_around: true });
                return Ok(());
            }
        }
        if self.takes("<") {
            // Names are only needed for references, which are made by number.
            self.until('>').ok_or("the name of a group never ends")?;
            self.write("(");
            open.push(plain);
            return Ok(());
        }
        let start = self.at;
        while self.peek().is_some_and(|c| matches!(c, 'i' | 'm' | 's' | '-')) {
            self.at += 1;
        }
        let flags: String = self.rest[start..self.at].iter().collect();
        let (on, off) = flags.split_once('-').unwrap_or((&flags, ""));
        let dot_all = (dot_all || on.contains('s')) && !off.contains('s');
        match self.next() {
            Some(':') => {
                self.write(&format!("(?{flags}:"));
                open.push(OpenGroup { dot_all, looks_around: false });
            }
            // Flags at the beginning, as in other languages; JavaScript does not have them.
            Some(')') if !flags.is_empty() && start == 2 => {
                self.write(&format!("(?{flags})"));
                *open = vec![OpenGroup { dot_all, looks_around: false }];
            }
            _ => return Err("a group that JavaScript does not know".to_owned()),
        }
        Ok(())
    }

    /// A quantifier, or else a literal brace.
    fn brace(&mut self) {
        let inside: String = self.rest[self.at..].iter().take_while(|&&c| c != '}').collect();
        let is_closed = self.rest.len() > self.at + inside.chars().count();
        let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if is_closed && !least.is_empty() && is_number(least) && is_number(most) {
            self.at += inside.len() + 1;
            self.write(&format!("{{{inside}}}"));
        } else {
            self.literal('{');
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let c = self.next().ok_or("a backslash at the end")?;
        let around = self.groups.look_around;
        match c {
            'b' => self.write_both(if around { BOUNDARY } else { "(?-u:\\b)" }, "(?-u:\\b)"),
            'B' => self.write_both(if around { NO_BOUNDARY } else { "(?-u:\\B)" }, "(?-u:\\B)"),
            'k' if self.takes("<") => {
                let name = self.until('>').unwrap_or_default();
                let number = self.groups.names.get(&name);
                let number = number.ok_or_else(|| format!("no group is named {name:?}"))?;
                self.refer(&number.to_string());
            }
            '1'..='9' => {
                let start = self.at - 1;
                while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1;
                }
                let digits: String = self.rest[start..self.at].iter().collect();
                if self.groups.refers(&digits) {
                    self.refer(&digits);
                } else {
                    self.at = start;
                    let octal = self.octal();
                    self.literal(octal);
                }
            }
            c => match self.item(c)? {
                Item::Char(c) => self.literal(c),
                Item::Set(set) => self.write(&format!("[{set}]")),
            },
        }
        Ok(())
    }

    /// In the loose version, a back-reference matches anything.
    fn refer(&mut self, group: &str) {
        self.write_both(&format!("(?:\\{group})"), &format!("(?:{ANYTHING}*)"));
    }

    /// Up to three octal digits, as in very old scripts; or the digit itself.
    fn octal(&mut self) -> char {
        let mut value = 0;
        let start = self.at;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(8))
            && self.at < start + 3
            && value * 8 + digit < 256
        {
            value = value * 8 + digit;
            self.at += 1;
        }
        if self.at == start {
            self.next().unwrap_or('\\')
        } else {
            char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    }

    /// The meaning of an escape, inside a class or outside.
    fn item(&mut self, c: char) -> Result<Item, String> {
        Ok(match c {
            'd' => Item::Set(DIGIT.to_owned()),
            'w' => Item::Set(WORD.to_owned()),
            's' => Item::Set(SPACE.to_owned()),
            'D' => Item::Set(format!("[^{DIGIT}]")),
            'W' => Item::Set(format!("[^{WORD}]")),
            'S' => Item::Set(format!("[^{SPACE}]")),
            'p' | 'P' if self.takes("{") => {
                let name = self.until('}').ok_or("the name of a property never ends")?;
                Item::Set(format!("\\{c}{{{name}}}"))
            }
            'n' => Item::Char('\n'),
            'r' => Item::Char('\r'),
            't' => Item::Char('\t'),
            'v' => Item::Char('\u{b}'),
            'f' => Item::Char('\u{c}'),
            '0' => {
                self.at -= 1;
                Item::Char(self.octal())
            }
            'c' => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    Item::Char(char::from(letter as u8 % 32))
                }
                None => Item::Char('c'),
            },
            'x' => Item::Char(self.hex(2).and_then(char::from_u32).unwrap_or('x')),
            'u' => Item::Char(self.code_point().unwrap_or('u')),
            c => Item::Char(c),
        })
    }

    fn hex(&mut self, length: usize) -> Option<u32> {
        let digits: String = self.rest.get(self.at..self.at + length)?.iter().collect();
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        let value = u32::from_str_radix(&digits, 16).ok().filter(|_| is_hex)?;
        self.at += length;
        Some(value)
    }

    fn code_point(&mut self) -> Option<char> {
        let start = self.at;
        if self.takes("{") {
            let digits = self.until('}').unwrap_or_default();
            let found = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
            self.at = if found.is_some() { self.at } else { start };
            return found;
        }
        let first = self.hex(4)?;
        let after_first = self.at;
        if (0xD800..0xDC00).contains(&first) {
            let second = self.takes("\\u").then(|| self.hex(4)).flatten();
            if let Some(second) = second.filter(|second| (0xDC00..0xE000).contains(second)) {
                return char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
            }
            self.at = after_first;
        }
        // A lone surrogate cannot occur in UTF-8 text.
        Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn class(&mut self) -> Result<(), String> {
        let is_negated = self.takes("^");
        let mut inside = String::new();
        while let Some(first) = self.class_item()? {
            // A hyphen between two characters makes a range; any other is a literal.
            let begins_range =
                self.peek() == Some('-') && self.rest.get(self.at + 1).is_some_and(|&c| c != ']');
            match first {
                Item::Char(from) if begins_range => {
                    self.at += 1;
                    match self.class_item()? {
                        Some(Item::Char(to)) if from <= to => {
                            literal(&mut inside, from);
                            inside.push('-');
                            literal(&mut inside, to);
                        }
                        Some(Item::Char(to)) => {
                            return Err(format!("the range {from}-{to} is out of order"));
                        }
                        Some(Item::Set(set)) => {
                            literal(&mut inside, from);
                            literal(&mut inside, '-');
                            inside.push_str(&set);
                        }
                        None => return Err(NEVER_CLOSED.to_owned()),
                    }
                }
                Item::Char(c) => literal(&mut inside, c),
                Item::Set(set) => inside.push_str(&set),
            }
        }
        match (inside.is_empty(), is_negated) {
            (true, true) => self.write(ANYTHING),
            (true, false) => self.write(NOTHING),
            (false, true) => self.write(&format!("[^{inside}]")),
            (false, false) => self.write(&format!("[{inside}]")),
        }
        Ok(())
    }

    /// The next item of a class; None at its end.
    fn class_item(&mut self) -> Result<Option<Item>, String> {
        match self.next().ok_or(NEVER_CLOSED)? {
            ']' => Ok(None),
            '\\' => match self.next().ok_or(NEVER_CLOSED)? {
                'b' => Ok(Some(Item::Char('\u{8}'))),
                '1'..='7' => {
                    self.at -= 1;
                    Ok(Some(Item::Char(self.octal())))
                }
                c => self.item(c).map(Some),
            },
            c => Ok(Some(Item::Char(c))),
        }
    }
}

const CANNOT_FAIL: &str = "writing to a String cannot fail";
const NEVER_CLOSED: &str = "a class is never closed";

/// Writes a character as a literal.
fn literal(out: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        write!(out, "\\x{{{:X}}}", u32::from(c)).expect(CANNOT_FAIL);
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(source: &str, expected: Expect) {
        let shown = match translate(source) {
            Ok(Pattern { regex, loose: None }) => regex,
            Ok(Pattern { regex, loose: Some(loose) }) => format!("{regex}\nloosely: {loose}"),
            Err(why) => format!("error: {why}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn common_syntax_is_unchanged() {
        check("FOOBAR[0-9]+", expect!["FOOBAR[0-9]+"]);
        check("^a|b$", expect!["^a|b$"]);
        check("(?:a){2,3}?b{4}c{5,}", expect!["(?:a){2,3}?b{4}c{5,}"]);
        check("(?<year>x)(y)", expect!["(x)(y)"]);
        check("(?i)todo", expect!["(?i)todo"]);
        check("(?s:.).", expect![[r#"(?s:[\x{0}-\x{10FFFF}])[^\n\r\x{2028}\x{2029}]"#]]);
    }

    #[test]
    fn differing_syntax_is_translated() {
        check(
            r"\d\w\s",
            expect![[
                r#"[0-9][0-9A-Za-z_][\t\n\x0B\x0C\r\x20\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}]"#
            ]],
        );
        check(r"\D\W", expect!["[[^0-9]][[^0-9A-Za-z_]]"]);
        check(r"\bTODO\B", expect![[r#"(?-u:\b)TODO(?-u:\B)"#]]);
        check(".", expect![[r#"[^\n\r\x{2028}\x{2029}]"#]]);
        check(r"https?:\/\/", expect![[r#"https?\x{3A}\x{2F}\x{2F}"#]]);
        check(r"console\.log\(", expect![[r#"console\x{2E}log\x{28}"#]]);
        check(
            "a{,5} {x} }]",
            expect![[r#"a\x{7B}\x{2C}5\x{7D}\x{20}\x{7B}x\x{7D}\x{20}\x{7D}\x{5D}"#]],
        );
        check(r"\x41\u0042\u{1F600}\uD83D\uDE00\cA\0\v", expect![[r#"AB😀😀\x{1}\x{0}\x{B}"#]]);
        check(r"\p{Lu}", expect![[r#"[\p{Lu}]"#]]);
        check(r"\_\-\z", expect![[r#"\x{5F}\x{2D}z"#]]);
        check(r"\8\101", expect!["8A"]);
    }

    #[test]
    fn classes() {
        check("[a&&b~~d[e]", expect![[r#"[a\x{26}\x{26}b\x{7E}\x{7E}d\x{5B}e]"#]]);
        check(r"[\w.-]", expect![[r#"[0-9A-Za-z_\x{2E}\x{2D}]"#]]);
        check(r"[\d-x]", expect![[r#"[0-9\x{2D}x]"#]]);
        check(
            r"[^\S\n]",
            expect![[
                r#"[^[^\t\n\x0B\x0C\r\x20\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}]\x{A}]"#
            ]],
        );
        check("[]", expect![[r#"[^\x{0}-\x{10FFFF}]"#]]);
        check("[^]", expect![[r#"[\x{0}-\x{10FFFF}]"#]]);
        check(r"[\b\]]", expect![[r#"[\x{8}\x{5D}]"#]]);
        check("[z-a]", expect!["error: the range z-a is out of order"]);
        check("[a", expect!["error: a class is never closed"]);
    }

    #[test]
    fn look_around_has_a_loose_version() {
        check(
            r"a(?=(b|\)c).)*d(?<!e)+",
            expect![[r#"
            a(?=(b|\x{29}c)[^\n\r\x{2028}\x{2029}])*d(?<!e)+
            loosely: a(?:)*d(?:)+"#]],
        );
        check(
            "foo(?!bar)",
            expect![[r#"
            foo(?!bar)
            loosely: foo(?:)"#]],
        );
        check(
            r"(?<!\w)any",
            expect![[r#"
            (?<![0-9A-Za-z_])any
            loosely: (?:)any"#]],
        );
        check(
            r"(a)\1",
            expect![[r#"
            (a)(?:\1)
            loosely: (a)(?:[\x{0}-\x{10FFFF}]*)"#]],
        );
        check(
            r"(?<q>['x])\k<q>",
            expect![[r#"
            ([\x{27}x])(?:\1)
            loosely: ([\x{27}x])(?:[\x{0}-\x{10FFFF}]*)"#]],
        );
        check(
            r"\bfoo(?=\()",
            expect![[r#"
                (?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))foo(?=\x{28})
                loosely: (?-u:\b)foo(?:)"#]],
        );
    }

    #[test]
    fn syntax_errors_are_reported() {
        check("(", expect!["error: a group is never closed"]);
        check("a)", expect!["error: unmatched `)`"]);
        check("a\\", expect!["error: a backslash at the end"]);
        check("(?P<x>a)", expect!["error: a group that JavaScript does not know"]);
        check(r"\k<x>", expect![[r#"error: no group is named "x""#]]);
    }
}
