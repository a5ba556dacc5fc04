//! Estimates how many tokens a conversation takes.
//!
//! The provider's count is exact but does not include anything after its last answer, which is
//! estimated. Too low an estimate leads to a refused request, too high a one only to an early
//! compaction, so it errs on the high side. `tests/tokens.rs` measures by how much.

use std::sync::Arc;

use crate::message::{AssistantMessage, Block, Content, Message};
use crate::provider::ToolSpec;

/// The tokens of the context as counted by the provider, plus an estimate of what came after. None
/// if there is no valid count: counts of messages before `fresh_from` are of another context, which
/// has been compacted since.
pub fn counted(messages: &[Arc<Message>], fresh_from: usize) -> Option<u64> {
    let fresh = messages.get(fresh_from..)?;
    let at = fresh.iter().rposition(|message| is_counted(message))?;
    let total = fresh[at].as_assistant()?.usage.total_tokens;
    Some(total + estimate_all(&fresh[at + 1..]))
}

/// Whether the provider has counted the context up to and including this message.
pub fn is_counted(message: &Message) -> bool {
    let answer = message.as_assistant().filter(|answer| !answer.failed());
    answer.is_some_and(|answer| answer.usage.total_tokens > 0)
}

pub fn estimate_all(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| estimate(message)).sum()
}

/// The tokens of the system prompt and the tool definitions.
pub fn estimate_frame(system: &str, tools: &[ToolSpec]) -> u64 {
    let tools = tools.iter().map(|tool| {
        text(&tool.name) + text(&tool.description) + text(&tool.parameters.to_string())
    });
    text(system) + tools.sum::<u64>()
}

/// An estimate of a message's tokens.
pub fn estimate(message: &Message) -> u64 {
    match message {
        Message::User(message) => content(&message.content),
        Message::Custom(message) => content(&message.content),
        Message::ToolResult(message) => blocks(&message.content),
        Message::Assistant(AssistantMessage { content, .. }) => blocks(content),
        Message::BashExecution(bash) if bash.exclude_from_context => 0,
        Message::BashExecution(bash) => text(&bash.command) + text(&bash.output),
        Message::BranchSummary(branch) => text(&branch.summary),
        Message::CompactionSummary(compaction) => text(&compaction.summary),
    }
}

fn content(content: &Content) -> u64 {
    match content {
        Content::Text(words) => text(words),
        Content::Blocks(list) => blocks(list),
    }
}

fn blocks(list: &[Block]) -> u64 {
    let tokens = list.iter().map(|block| match block {
        Block::Text { text: words, .. } => text(words),
        Block::Thinking { thinking, .. } => text(thinking),
        Block::Image { .. } => IMAGE_TOKENS,
        Block::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            text(&call.name) + text(&arguments)
        }
    });
    tokens.sum()
}

const IMAGE_TOKENS: u64 = 1600;

/// An estimate of a text's tokens: at least one per four characters, and more for text that does
/// not consist of words. Tokenizers know words; everything else takes more tokens.
pub fn text(words: &str) -> u64 {
    let mut quarters = 0;
    let mut run = CharRun { kind: CharClass::Blank, len: 0, is_inner: false };
    let mut chars = 0;
    for c in words.chars() {
        chars += 1;
        let kind = CharClass::of(c);
        if kind == run.kind {
            run.len += 1;
        } else if run.kind == CharClass::Upper && run.len == 1 && kind == CharClass::Lower {
            // A capital letter belongs to the word after it.
            run = CharRun { kind, len: 2, ..run };
        } else {
            quarters += run.quarters();
            run = CharRun { kind, len: 1, is_inner: run.kind.is_plain() && kind.is_plain() };
        }
    }
    (quarters + run.quarters()).max(chars).div_ceil(4)
}

/// A run of characters of one class.
struct CharRun {
    kind: CharClass,
    len: u64,
    /// It directly follows another run, as in `fooBar2` or throughout encoded data.
    is_inner: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum CharClass {
    Blank,
    Lower,
    Upper,
    Digit,
    Sign,
    /// Latin letters with accents, Greek, Cyrillic and their neighbours.
    Alphabet,
    /// Arabic, Hebrew, the scripts of India and South-East Asia.
    Abugida,
    /// Kana and Hangul.
    Syllable,
    Ideograph,
    /// Everything else, mostly emoji.
    Symbol,
}

impl CharClass {
    fn of(c: char) -> CharClass {
        match c {
            'a'..='z' => CharClass::Lower,
            'A'..='Z' => CharClass::Upper,
            '0'..='9' => CharClass::Digit,
            '\0'..=' ' => CharClass::Blank,
            '!'..='\x7f' => CharClass::Sign,
            '\u{80}'..='\u{58f}' => CharClass::Alphabet,
            '\u{590}'..='\u{10ff}' => CharClass::Abugida,
            '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{ac00}'..='\u{d7af}' => {
                CharClass::Syllable
            }
            '\u{2e80}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}' => CharClass::Ideograph,
            _ => CharClass::Symbol,
        }
    }

    fn is_plain(self) -> bool {
        matches!(self, CharClass::Lower | CharClass::Upper | CharClass::Digit)
    }
}

impl CharRun {
    /// The cost in quarters of a token.
    fn quarters(&self) -> u64 {
        let len = self.len;
        let inner = u64::from(self.is_inner);
        inner
            + match self.kind {
                // One space belongs to the word after it; indentation is a token of its own.
                CharClass::Blank => {
                    if len > 1 {
                        4 + len / 8
                    } else {
                        0
                    }
                }
                // Short words are one token.
                CharClass::Lower => 4 * len.div_ceil(7),
                CharClass::Upper => 4 * len.div_ceil(2),
                CharClass::Digit => 4 * len.div_ceil(3),
                CharClass::Sign => 4 * len.div_ceil(2),
                CharClass::Alphabet => 2 * len + 3,
                CharClass::Abugida => 4 * len,
                CharClass::Syllable => 5 * len,
                CharClass::Ideograph => 5 * len,
                CharClass::Symbol => 10 * len,
            }
    }
}
