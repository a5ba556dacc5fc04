//! A line of a session as a row of a database: what can be searched without reading the line.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::head::{Head, HeadLine, Kind};
use crate::list::kind_of;

/// A line, and what a database knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The line without its line end, byte for byte.
    pub line: Cow<'a, str>,
    /// The id of the entry. None: the line is not an entry.
    pub id: Option<String>,
    pub parent: Option<String>,
    /// The `type` of the entry; empty if the line is not an entry.
    pub kind: String,
    /// Whether it counts as a message in lists.
    pub is_message: bool,
    /// The words of a message of the user or the model, or of the session's name.
    pub words: Vec<String>,
    /// The name that this entry gives the session; empty if it removes the name.
    pub name: Option<String>,
    /// The beginning of a user message.
    pub user_text: Option<String>,
}

/// The most characters of a user message that are listed.
pub(crate) const FIRST_MESSAGE_CHARS: usize = 200;
/// The most different words of an entry that can be searched.
const WORDS_MAX: usize = 4096;
/// Longer words are hashes and encoded data.
const WORD_BYTES_MAX: usize = 64;

#[derive(Deserialize)]
struct SearchedLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SearchedMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SearchedContent {
    Text(String),
    Blocks(Vec<SearchedBlock>),
}

/// A block. Those of unknown types may have a `text` of any type.
#[derive(Deserialize)]
struct SearchedBlock {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<Value>,
}

impl SearchedContent {
    fn texts(&self) -> Vec<&str> {
        match self {
            SearchedContent::Text(text) => vec![text],
            SearchedContent::Blocks(blocks) => {
                let texts = blocks.iter().filter(|block| block.kind == "text");
                texts.filter_map(|block| block.text.as_ref()?.as_str()).collect()
            }
        }
    }
}

impl<'a> Row<'a> {
    /// Reads what a database knows of a line. Any line has a row.
    pub fn read(line: impl Into<Cow<'a, str>>) -> Row<'a> {
        let line = line.into();
        let mut row = Row {
            id: None,
            parent: None,
            kind: String::new(),
            is_message: false,
            words: Vec::new(),
            name: None,
            user_text: None,
            line: Cow::Borrowed(""),
        };
        // A list looks at these lines only, so it shows the same whether they are in files or not.
        let listed = kind_of(line.as_bytes());
        row.is_message = listed == Some(b"message");
        let head = HeadLine::read(line.trim_ascii().as_bytes());
        if let HeadLine::Entry(Head { id, parent, .. }) | HeadLine::Damaged { id, parent } = &head {
            row.id = Some(storable(id));
            row.parent = parent.as_deref().map(storable);
        }
        if let HeadLine::Entry(head) = &head
            && head.kind == Kind::SessionInfo
            && listed == Some(b"session_info")
        {
            let name = storable(head.text.as_deref().unwrap_or_default());
            row.words = words(&name);
            row.name = Some(name);
        }
        if row.id.is_some()
            && let Ok(searched) = serde_json::from_str::<SearchedLine<'_>>(&line)
        {
            row.kind = storable(&searched.kind);
            if let Some(message) = searched.message.filter(|_| row.is_message) {
                row.read_message(message);
            }
        }
        row.line = line;
        row
    }

    /// A message whose text cannot be read has no words.
    fn read_message(&mut self, message: &RawValue) {
        let Ok(SearchedMessage { role, content }) = serde_json::from_str(message.get()) else {
            return;
        };
        let is_user = role == "user";
        if !is_user && role != "assistant" {
            return;
        }
        let Ok(content) = serde_json::from_str::<SearchedContent>(content.get()) else { return };
        let texts = content.texts();
        self.words = words(&texts.join("\n"));
        let begin = || texts.concat().chars().take(FIRST_MESSAGE_CHARS).collect::<String>();
        self.user_text = is_user.then(|| storable(&begin()));
    }

    /// The same with a line of its own.
    pub fn into_owned(self) -> Row<'static> {
        Row { line: Cow::Owned(self.line.into_owned()), ..self }
    }
}

/// The text without the one character that databases cannot store.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "")
}

/// The different words of a text, in small letters: sequences of letters and digits.
pub fn words(text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let all = text.split(|c: char| !c.is_alphanumeric());
    for word in all.filter(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX) {
        found.insert(word.to_lowercase());
        if found.len() == WORDS_MAX {
            break;
        }
    }
    found.into_iter().collect()
}

impl Row<'_> {
    /// Whether it has, for each of these words, one that begins with it.
    pub(crate) fn has_words(&self, wanted: &[String]) -> bool {
        let has = |wanted: &String| self.words.iter().any(|word| word.starts_with(wanted));
        wanted.iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_knows_what_lists_and_searches_need() {
        let user = r#"{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":"Fix src/main.rs, please: FIX it\u0000"}}"#;
        let row = Row::read(user);
        assert_eq!(row.line, user);
        assert_eq!((row.id.as_deref(), row.parent), (Some("a1"), None));
        assert_eq!((row.kind.as_str(), row.is_message), ("message", true));
        assert_eq!(row.words, ["fix", "it", "main", "please", "rs", "src"]);
        assert_eq!(row.user_text.as_deref(), Some("Fix src/main.rs, please: FIX it"));

        let answer = r#"{"type":"message","id":"a2","parentId":"a1","message":{"role":"assistant","content":[{"type":"thinking","thinking":"secret"},{"type":"text","text":"Done"},{"type":"toolCall","id":"x","name":"bash","arguments":{"text":7}}]}}"#;
        let row = Row::read(answer);
        assert_eq!(row.words, ["done"]);
        assert_eq!((row.parent.as_deref(), row.user_text), (Some("a1"), None));

        let name = r#"{"type":"session_info","id":"a3","parentId":"a2","name":"Harbour"}"#;
        let row = Row::read(name);
        assert_eq!((row.name.as_deref(), row.is_message), (Some("Harbour"), false));
        assert_eq!(row.words, ["harbour"]);

        for line in ["", "no JSON", r#"{"type":"session","version":3}"#, "[1]"] {
            let row = Row::read(line);
            assert_eq!((row.id, row.kind.as_str(), row.words.len()), (None, "", 0), "{line}");
            assert_eq!(row.line, line);
        }
    }

    #[test]
    fn words_match_from_their_beginning() {
        let text = "The Größe of tiller-session";
        let row = Row { words: words(text), ..Row::read("") };
        for (wanted, expected) in [
            ("größe", true),
            ("GRÖ till", true),
            ("sess tiller", true),
            ("iller", false),
            ("tiller missing", false),
            ("", true),
        ] {
            assert_eq!(row.has_words(&words(wanted)), expected, "{wanted:?}");
        }
    }
}
