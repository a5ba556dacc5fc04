//! Splits a message into words, with quotations as one word, and into clauses.
//!
//! "Read `a.txt`, then run \"make test\"" is two clauses. Every word knows its position, so that a
//! text to be written is taken exactly as typed.

/// A word, a quotation, a piece of code or a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Word<'a> {
    /// Lower case, without punctuation: used for matching.
    pub(crate) key: String,
    /// As typed, without quotes and punctuation.
    pub(crate) text: &'a str,
    pub(crate) mark: Mark,
    start: usize,
    end: usize,
    /// The punctuation after it.
    tail: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    Plain,
    Quoted,
    Code,
    Json,
}

/// Words that are ignored.
const NOISE: &str = "the a an me us my your our please just kindly some";

/// Phrases that precede a request.
const OPENINGS: [&str; 12] = [
    "can you",
    "could you",
    "would you",
    "will you",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "i want to",
    "i would like to",
    "i'd like to",
    "go ahead and",
    "try to",
];

/// The same as single words.
const OPENING_WORDS: &str =
    "help let's and then now also so well ok okay hey first next finally afterwards again";

/// Verbs that begin a new clause after "and" or a comma.
const VERBS: &str = "add append calculate call change check compute count create delete describe \
                     display edit execute explain find give grep list look make open print put \
                     read remove rename replace run save search show summarise summarize tell use \
                     view what write";

/// One clause.
#[derive(Debug)]
pub(crate) struct Clause<'a> {
    message: &'a str,
    pub(crate) words: Vec<Word<'a>>,
    end: usize,
}

/// The clauses of a message, each with at least one word.
pub(crate) fn clauses(message: &str) -> Vec<Clause<'_>> {
    let words = words(message);
    let mut clauses = Vec::new();
    let mut current: Vec<Word> = Vec::new();
    // Text after a colon is kept verbatim.
    let mut verbatim = false;
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let next = words.peek();
        let connects = word.mark == Mark::Plain
            && match (word.key.as_str(), next) {
                ("then", _) => true,
                ("and", Some(next)) => next.key == "then" || among(&next.key, VERBS),
                _ => false,
            };
        if connects && !verbatim {
            close(message, &mut current, &mut clauses);
            continue;
        }
        // "In a.txt, replace …" is still one clause.
        let comma_ends = word.tail.contains(',')
            && current.first().is_none_or(|first| first.key != "in")
            && next.is_some_and(|next| among(&next.key, VERBS) || next.key == "then");
        let new_line = next.is_some_and(|next| message[word.end..next.start].contains('\n'));
        verbatim |= word.tail.contains(':') && !current.is_empty();
        let ends = comma_ends || new_line || word.tail.contains(['.', '?', '!', ';']);
        current.push(word);
        if ends && !verbatim {
            close(message, &mut current, &mut clauses);
        }
    }
    close(message, &mut current, &mut clauses);
    clauses
}

fn close<'a>(message: &'a str, words: &mut Vec<Word<'a>>, clauses: &mut Vec<Clause<'a>>) {
    let mut words = std::mem::take(words);
    let Some(end) = words.last().map(|word| word.end - word.tail.len()) else {
        return;
    };
    words.retain(|word| word.mark != Mark::Plain || !among(&word.key, NOISE));
    let mut begin = 0;
    while let Some(length) = opening(&words[begin..]) {
        begin += length;
    }
    words.drain(..begin);
    if !words.is_empty() {
        clauses.push(Clause { message, words, end });
    }
}

/// How many words at the beginning to skip. "help" and "ok" alone are kept.
fn opening(words: &[Word]) -> Option<usize> {
    let matches = |opening: &&&str| {
        let mut words = words.iter();
        opening.split(' ').all(|key| words.next().is_some_and(|word| word.key == key))
    };
    let phrase = OPENINGS.iter().find(matches).map(|opening| opening.split(' ').count());
    let single = words.first().filter(|word| is_key(word, OPENING_WORDS)).map(|_| 1);
    phrase.or(single).filter(|length| *length < words.len())
}

/// Whether a list of words, separated by spaces, contains this one.
pub(crate) fn among(key: &str, list: &str) -> bool {
    list.split(' ').any(|word| word == key)
}

/// Lists of words are separated by spaces, phrases by slashes.
impl<'a> Clause<'a> {
    pub(crate) fn first(&self) -> &str {
        self.words.first().map_or("", |word| &word.key)
    }

    pub(crate) fn begins(&self, verbs: &str) -> bool {
        among(self.first(), verbs)
    }

    pub(crate) fn has(&self, keys: &str) -> bool {
        self.position(keys).is_some()
    }

    pub(crate) fn position(&self, keys: &str) -> Option<usize> {
        self.words.iter().position(|word| is_key(word, keys))
    }

    pub(crate) fn last_position(&self, keys: &str) -> Option<usize> {
        self.words.iter().rposition(|word| is_key(word, keys))
    }

    /// The first of `keys` at or after the word `from`.
    pub(crate) fn position_from(&self, from: usize, keys: &str) -> Option<usize> {
        let rest = self.words.get(from..)?;
        rest.iter().position(|word| is_key(word, keys)).map(|at| from + at)
    }

    /// The first word from `from` on that is not one of `keys`; the last before `to` is never
    /// skipped.
    pub(crate) fn skip(&self, from: usize, to: usize, keys: &str) -> usize {
        let mut at = from;
        while at + 1 < to && self.words.get(at).is_some_and(|word| is_key(word, keys)) {
            at += 1;
        }
        at
    }

    /// The index after one of these phrases.
    pub(crate) fn phrase(&self, phrases: &str) -> Option<usize> {
        phrases.split('/').find_map(|phrase| {
            let length = phrase.split(' ').count();
            let found = self.words.windows(length).position(|words| {
                words.iter().zip(phrase.split(' ')).all(|(word, key)| is_key(word, key))
            });
            found.map(|at| at + length)
        })
    }

    /// The text after the word before `from`, up to the word `to`: exactly as typed, or the inside
    /// of a quotation if it is the only word.
    pub(crate) fn between(&self, from: usize, to: usize) -> &'a str {
        if let Some([word]) = self.words.get(from..to)
            && word.mark != Mark::Plain
        {
            return word.text;
        }
        let start = match from.checked_sub(1) {
            None => self.words[0].start,
            Some(before) => self.words.get(before).map_or(self.end, |word| word.end),
        };
        let end = self.words.get(to).map_or(self.end, |word| word.start);
        self.message.get(start..end).unwrap_or("").trim()
    }

    /// Like `between`, but empty if there are only ignored words.
    pub(crate) fn span(&self, from: usize, to: usize) -> &'a str {
        if from < to { self.between(from, to) } else { "" }
    }

    /// The whole clause, with its punctuation.
    pub(crate) fn whole(&self) -> &'a str {
        let last = &self.words[self.words.len() - 1];
        &self.message[self.words[0].start..self.end.max(last.end)]
    }

    /// The text from the word `from` on.
    pub(crate) fn rest(&self, from: usize) -> &'a str {
        self.span(from, self.words.len())
    }
}

pub(crate) fn is_key(word: &Word, keys: &str) -> bool {
    word.mark == Mark::Plain && among(&word.key, keys)
}

fn words(message: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    // Marks without a closing one, so that each is searched only once.
    let mut unclosed = Vec::new();
    let mut at = 0;
    while let Some(gap) = message[at..].find(|c: char| !c.is_whitespace()) {
        at += gap;
        let end = match marked(message, at, &mut unclosed) {
            Some((mark, text, closed)) => {
                let end = closed + length_to_space(&message[closed..]);
                let tail = &message[closed..end];
                words.push(Word { key: text.to_lowercase(), text, mark, start: at, end, tail });
                end
            }
            None => {
                let end = at + length_to_space(&message[at..]);
                plain(message, at, end, &mut words);
                end
            }
        };
        at = end;
    }
    words
}

fn length_to_space(text: &str) -> usize {
    text.find(char::is_whitespace).unwrap_or(text.len())
}

/// A quotation, code or JSON that begins here: its kind, its inside, and its end.
fn marked<'a>(
    message: &'a str,
    at: usize,
    unclosed: &mut Vec<char>,
) -> Option<(Mark, &'a str, usize)> {
    let rest = &message[at..];
    if let Some(fenced) = rest.strip_prefix("```") {
        let length = fenced.find("```")?;
        let inside = &fenced[..length];
        // The first line names the language.
        let text = inside.split_once('\n').map_or(inside, |(_, text)| text);
        return Some((Mark::Code, text, at + 3 + length + 3));
    }
    let (mark, open, close) = match rest.chars().next()? {
        '`' => (Mark::Code, 1, '`'),
        '"' => (Mark::Quoted, 1, '"'),
        '“' => (Mark::Quoted, '“'.len_utf8(), '”'),
        '\'' => (Mark::Quoted, 1, '\''),
        '{' => return json_length(rest).map(|length| (Mark::Json, &rest[..length], at + length)),
        _ => return None,
    };
    if unclosed.contains(&close) {
        return None;
    }
    let inside = &rest[open..];
    let length = inside.match_indices(close).map(|(length, _)| length).find(|length| {
        // An apostrophe inside a word does not close a quotation.
        let after = inside[length + close.len_utf8()..].chars().next();
        close != '\'' || !after.is_some_and(char::is_alphanumeric)
    });
    let Some(length) = length else {
        unclosed.push(close);
        return None;
    };
    Some((mark, &inside[..length], at + open + length + close.len_utf8()))
}

/// The length of the object that begins here, if it is closed.
fn json_length(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

fn plain<'a>(message: &'a str, start: usize, end: usize, words: &mut Vec<Word<'a>>) {
    let raw = &message[start..end];
    let head = raw.trim_start_matches(['(', '[', '"', '\'']);
    let text = head.trim_end_matches(['.', ',', '!', '?', ';', ':', ')', ']', '"', '\'']);
    // "." and ".." are folders, "..." is punctuation.
    let (text, tail) = match text {
        "" => (raw, ""),
        _ => (text, &head[text.len()..]),
    };
    let key = text.to_lowercase().replace('’', "'");
    let word = |key: &str| Word { key: key.into(), text, mark: Mark::Plain, start, end, tail };
    let contracted = key.strip_suffix("'s").unwrap_or_default();
    match (contracted, key.as_str()) {
        ("what" | "where" | "who" | "it" | "that", _) => {
            words.push(Word { tail: "", end: start, ..word(contracted) });
            words.push(word("is"));
        }
        (_, "whats") => {
            words.push(Word { tail: "", end: start, ..word("what") });
            words.push(word("is"));
        }
        _ => words.push(word(&key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &[&str]) {
        let found: Vec<String> = clauses(message)
            .iter()
            .map(|clause| {
                let keys: Vec<_> = clause.words.iter().map(|word| word.key.as_str()).collect();
                keys.join("|")
            })
            .collect();
        assert_eq!(found, expected, "{message}");
    }

    #[test]
    fn messages_are_split_into_clauses() {
        check("What's in this folder?", &["what|is|in|this|folder"]);
        check(
            "Could you please read README.md and summarise it?",
            &["read|readme.md", "summarise|it"],
        );
        check("Read a.txt, b.txt and c.txt.", &["read|a.txt|b.txt|and|c.txt"]);
        check(
            "Hi! List the files, then run `make test; echo \"a b\"`.",
            &["hi", "list|files", "run|make test; echo \"a b\""],
        );
        check("call echo {\"a\": \"b. c\"} now", &["call|echo|{\"a\": \"b. c\"}|now"]);
        check("write 'it is. so' to don't.txt", &["write|it is. so|to|don't.txt"]);
        check("create x with the text:\none. two\n\nthree", &["create|x|with|text|one|two|three"]);
        check("ls ..", &["ls|.."]);
        check("{ not json", &["{|not|json"]);
        check("", &[]);
        check("please", &[]);
        check("help", &["help"]);
    }

    #[test]
    fn spans_are_verbatim() {
        let clauses = clauses("write The  \"big\" end to `a b.txt`!");
        let clause = &clauses[0];
        assert_eq!(clause.span(1, 3), "The  \"big\" end");
        assert_eq!(clause.rest(4), "a b.txt");
        assert_eq!(clause.span(3, 3), "");
        assert_eq!(clause.span(9, 12), "");
    }
}
