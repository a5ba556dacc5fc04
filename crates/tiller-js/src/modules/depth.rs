//! Estimates how deeply a source is nested, before the recursive parser sees it.
//!
//! Never underestimates: where a source can be read in two ways, everything after that position is
//! counted and nothing is subtracted. Nesting without brackets counts as well: operators, chains of
//! members and calls, statements without braces. So a long expression counts as a deep one.

use std::path::Path;

mod words;

use words::{Word, word};

/// Deeper than any source that was not written to overflow the parser.
pub(super) const DEPTH_MAX: usize = 2_000;

/// In ambiguous code only one in four possible nesting characters is counted as a level.
const UNCLEAR_PER_LEVEL: usize = 4;

/// Fails if a source is nested too deeply; otherwise returns the depth.
pub(super) fn check(path: &Path, source: &str) -> Result<usize, String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let mut scan = Scan::new(source, ending);
    scan.run();
    if scan.deepest > DEPTH_MAX {
        Err(format!("{}: nested more than {DEPTH_MAX} levels deep", path.display()))
    } else {
        Ok(scan.deepest)
    }
}

/// The token before the current position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing, or an operator or bracket that is followed by an expression.
    Operator,
    /// The end of an expression.
    Value,
    /// A keyword that is followed by an expression.
    Keyword,
    /// A word that is an operator in some places and a name in others.
    Either,
    /// `)` after `if`, `for`, `while` or `with`.
    Header,
    /// `}`.
    Brace,
    /// `++` or `--`, which may belong to the operand before or after it, or `!` in TypeScript.
    Postfix,
    /// `>` in TypeScript.
    Angle,
}

/// An open bracket.
#[derive(Default)]
struct DepthFrame {
    /// Whether it is the parenthesis after `if`, `for`, `while` or `with`.
    is_header: bool,
    /// Whether it is a `${…}` of a template literal.
    is_substitution: bool,
    /// Operators since the last comma; each may be one level.
    operators: usize,
    /// Levels that a comma does not close: statements without braces, `<` of types.
    pending: usize,
}

struct Scan<'s> {
    rest: &'s str,
    is_typescript: bool,
    frames: Vec<DepthFrame>,
    /// Sum of the levels of all frames.
    depth: usize,
    deepest: usize,
    before: Before,
    /// Whether the last word makes the next parenthesis a header.
    awaits_header: bool,
    /// Whether the last token was a dot, so that the next word is a name.
    is_member: bool,
    is_line_start: bool,
    /// Whether the rest of the source can be read in two ways.
    is_unclear: bool,
}

impl<'s> Scan<'s> {
    fn new(source: &'s str, ending: &str) -> Scan<'s> {
        Scan {
            rest: source,
            is_typescript: matches!(ending, "ts" | "tsx" | "mts" | "cts"),
            frames: vec![DepthFrame::default()],
            depth: 0,
            deepest: 0,
            before: Before::Operator,
            awaits_header: false,
            is_member: false,
            is_line_start: true,
            // JSX text may contain any characters.
            is_unclear: matches!(ending, "tsx" | "jsx"),
        }
    }

    fn run(&mut self) {
        if self.rest.starts_with("#!") {
            self.skip_line();
        }
        while let Some(c) = self.rest.chars().next() {
            if self.deepest > DEPTH_MAX {
                return;
            }
            if self.is_unclear {
                let more = self.rest.bytes().filter(|byte| may_nest(*byte)).count();
                self.deepest = self.deepest.max(self.depth + more / UNCLEAR_PER_LEVEL);
                return;
            }
            self.step(c);
        }
    }

    fn step(&mut self, c: char) {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => {
                self.skip(c.len_utf8());
                self.is_line_start = true;
                return;
            }
            c if c.is_whitespace() || c == '\u{feff}' => return self.skip(c.len_utf8()),
            '/' if self.rest.starts_with("//") => return self.skip_line(),
            '/' if self.rest.starts_with("/*") => {
                let end = self.rest[2..].find("*/").map_or(self.rest.len(), |end| end + 4);
                self.is_line_start |=
                    self.rest[..end].contains(['\n', '\r', '\u{2028}', '\u{2029}']);
                return self.skip(end);
            }
            // HTML-like comments, which scripts allow and modules do not.
            '<' if self.rest.starts_with("<!--") => self.is_unclear = true,
            '-' if self.is_line_start && self.rest.starts_with("-->") => self.is_unclear = true,
            '"' | '\'' => self.string(c),
            '`' => {
                self.value_follows();
                self.skip(1);
                self.template();
            }
            '/' => self.slash(),
            '(' | '[' | '{' => self.open(c),
            ')' | ']' | '}' => self.close(c),
            c if is_name(c) => self.name(),
            _ => self.operator(c),
        }
        self.is_line_start = false;
    }

    fn string(&mut self, quote: char) {
        self.ends_statement(Word::Name);
        let mut chars = self.rest.char_indices().skip(1);
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                // Line continuation; `\r\n` is one line end.
                '\\' => {
                    let next = chars.next();
                    if next.is_some_and(|(_, c)| c == '\r')
                        && chars.clone().next().is_some_and(|(_, c)| c == '\n')
                    {
                        chars.next();
                    }
                }
                c if c == quote => {
                    end = at + 1;
                    break;
                }
                '\n' | '\r' => {
                    end = at;
                    break;
                }
                _ => (),
            }
        }
        self.skip(end);
        self.before = Before::Value;
        self.is_member = false;
    }

    /// The text of a template literal, up to its end or the next substitution.
    fn template(&mut self) {
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '`' => {
                    self.skip(at + 1);
                    self.before = Before::Value;
                    return;
                }
                '$' if self.rest[at..].starts_with("${") => {
                    self.skip(at + 2);
                    self.push(DepthFrame { is_substitution: true, ..DepthFrame::default() });
                    return;
                }
                _ => (),
            }
        }
        self.skip(self.rest.len());
    }

    /// A division or a regular expression.
    fn slash(&mut self) {
        match self.before {
            // After a line end the statement may be over.
            Before::Value if !self.is_line_start => self.operator('/'),
            Before::Operator | Before::Keyword | Before::Header => {
                let end = regex_end(self.rest).unwrap_or(1);
                self.skip(end);
                self.before = Before::Value;
            }
            Before::Value | Before::Either | Before::Brace | Before::Postfix | Before::Angle => {
                // Assumes a division if both readings give the same depth.
                let body = regex_end(self.rest).map_or("", |end| &self.rest[1..end]);
                if body.contains(['"', '\'', '`', '(', ')', '[', ']', '{', '}', '*', '<', '\\']) {
                    self.is_unclear = true
                } else {
                    self.operator('/')
                }
            }
        }
    }

    fn open(&mut self, c: char) {
        if c != '{' {
            self.value_follows();
        }
        let is_header = c == '(' && self.awaits_header;
        self.skip(1);
        self.push(DepthFrame { is_header, ..DepthFrame::default() });
        self.before = Before::Operator;
    }

    fn close(&mut self, c: char) {
        self.skip(1);
        let frame = if self.frames.len() > 1 { self.frames.pop() } else { None };
        let frame = frame.unwrap_or_default();
        self.depth = self.depth.saturating_sub(1 + frame.operators + frame.pending);
        self.is_member = false;
        self.awaits_header = false;
        if frame.is_substitution && c == '}' {
            return self.template();
        }
        self.before = match c {
            '}' => Before::Brace,
            ')' if frame.is_header => Before::Header,
            _ => Before::Value,
        };
    }

    fn name(&mut self) {
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        let kind = if self.is_member { Word::Name } else { word(text) };
        self.ends_statement(kind);
        self.skip(end);
        self.is_member = false;
        self.awaits_header = kind == Word::Header || (self.awaits_header && text == "await");
        self.before = match kind {
            Word::Name => Before::Value,
            Word::Contextual => Before::Either,
            Word::Operator | Word::Statement | Word::Header | Word::Continues => Before::Keyword,
        };
        match kind {
            Word::Name => (),
            Word::Operator | Word::Contextual => self.add_operator(),
            Word::Statement | Word::Header | Word::Continues => self.add_pending(),
        }
    }

    fn operator(&mut self, c: char) {
        let is_value = matches!(self.before, Before::Value | Before::Brace);
        let before = match c {
            ';' => {
                self.skip(1);
                // `else` continues the statement before it.
                self.end_expression();
                if !self.goes_on() {
                    self.end_statement();
                }
                Before::Operator
            }
            ',' => {
                self.skip(1);
                self.end_expression();
                Before::Operator
            }
            '.' => {
                self.skip(1);
                self.add_operator();
                self.is_member = !self.rest.starts_with("..");
                self.before = Before::Operator;
                return;
            }
            '+' | '-' if self.rest[1..].starts_with(c) => {
                self.skip(2);
                self.add_operator();
                match self.before {
                    // At the beginning of a line it belongs to the operand after it.
                    Before::Value if !self.is_line_start => Before::Value,
                    Before::Value | Before::Brace | Before::Either => Before::Postfix,
                    _ => Before::Operator,
                }
            }
            '=' if self.rest.starts_with("=>") => {
                self.skip(2);
                self.add_operator();
                Before::Operator
            }
            '<' => {
                self.skip(1);
                if self.is_typescript {
                    self.add_pending()
                } else {
                    self.add_operator()
                };
                Before::Operator
            }
            '>' => {
                self.skip(1);
                self.add_operator();
                if self.is_typescript { Before::Angle } else { Before::Operator }
            }
            '!' if self.is_typescript && is_value => {
                self.skip(1);
                self.add_operator();
                Before::Postfix
            }
            c => {
                self.skip(c.len_utf8());
                self.add_operator();
                Before::Operator
            }
        };
        self.is_member = false;
        self.awaits_header = false;
        self.before = before;
    }

    /// Called before a word or a literal. After a line end or a block, that begins a new statement.
    fn ends_statement(&mut self, next: Word) {
        let is_end = match self.before {
            Before::Value | Before::Postfix => self.is_line_start,
            Before::Brace => true,
            _ => false,
        };
        let begins = matches!(next, Word::Name | Word::Statement | Word::Header | Word::Operator);
        if is_end && begins && !self.is_member {
            self.end_expression();
            self.end_statement();
        }
    }

    /// Called before a bracket or a template literal, which continues a value before it.
    fn value_follows(&mut self) {
        if !matches!(self.before, Before::Operator | Before::Keyword) {
            self.add_operator();
        }
    }

    /// Whether the next word continues a statement that seems to be over.
    fn goes_on(&self) -> bool {
        let mut rest = self.rest;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else if let Some(comment) = rest.strip_prefix("//") {
                let end = comment.find(['\n', '\r', '\u{2028}', '\u{2029}']);
                rest = end.map_or("", |end| &comment[end..]);
            } else {
                return ["else", "while"].iter().any(|word| rest.starts_with(word));
            }
        }
    }

    fn push(&mut self, frame: DepthFrame) {
        self.frames.push(frame);
        self.awaits_header = false;
        self.is_member = false;
        self.before = Before::Operator;
        self.add(1);
    }

    fn add_operator(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.operators += 1;
        }
        self.add(1);
    }

    fn add_pending(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pending += 1;
        }
        self.add(1);
    }

    fn add(&mut self, levels: usize) {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
    }

    fn end_expression(&mut self) {
        let ended = self.frames.last_mut().map_or(0, |frame| std::mem::take(&mut frame.operators));
        self.depth = self.depth.saturating_sub(ended);
    }

    fn end_statement(&mut self) {
        let ended = self.frames.last_mut().map_or(0, |frame| std::mem::take(&mut frame.pending));
        self.depth = self.depth.saturating_sub(ended);
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn skip_line(&mut self) {
        let end = self.rest.find(['\n', '\r', '\u{2028}', '\u{2029}']);
        self.skip(end.unwrap_or(self.rest.len()));
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '_' | '$' | '\\' | '#' | '@')
        || (!c.is_ascii() && !c.is_whitespace())
}

/// Characters that may open a level in ambiguous code.
fn may_nest(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric()
        && !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b';' | b',')
        && byte.is_ascii()
}

/// The end of a regular expression that begins at `text`, if it ends on this line.
fn regex_end(text: &str) -> Option<usize> {
    let mut in_class = false;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => return None,
            '\\' => drop(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Some(at + 1),
            _ => (),
        }
    }
    None
}

#[cfg(test)]
mod tests;
