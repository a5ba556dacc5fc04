//! Parses one line of a script. The language is described in `docs/script-format.md`.

use std::time::Duration;

use tiller_agent::message::{Arguments, StopReason, Usage};
use tiller_agent::provider::{ProviderError, StreamEvent};

use super::ScriptError;
use super::draft::{Draft, NotOpen};
use super::expect::{Expectation, Subject, Test};
use super::step::{Pieces, Step, TextChunk};
use super::suggest::nearest;

/// Parses line after line. `chunk` and `pace` apply from their line on.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: usize,
    calls: usize,
    draft: Draft,
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    Blank,
    /// A comment, or a setting for the following lines.
    Nothing,
    /// Part of an answer. `more` if the line ends with a continuation mark.
    Steps {
        more: bool,
    },
}

/// Every word that a line can begin with.
pub(super) const STEPS: &str = "say think redacted call delta repeat sign close hold chunk pace wait start \
                     response-id response-model usage stop error cut hang expect";

impl Parser {
    pub(crate) fn read(&mut self, line: &str) -> Result<Line, ScriptError> {
        self.line += 1;
        let line = line.trim();
        if line.is_empty() {
            return Ok(Line::Blank);
        }
        if line.starts_with('#') {
            return Ok(Line::Nothing);
        }
        let (line, more) = match line.strip_suffix('\\') {
            Some(rest) if rest.is_empty() || rest.ends_with(char::is_whitespace) => {
                (rest.trim_end(), true)
            }
            _ => (line, false),
        };
        let said = self.step(line).map_err(|message| ScriptError { line: self.line, message })?;
        Ok(if said { Line::Steps { more } } else { Line::Nothing })
    }

    /// The number of the last parsed line.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Ends the answer.
    pub(crate) fn finish_answer(&mut self) {
        self.draft.finish();
    }

    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        self.draft.take_steps()
    }

    /// Parses a step or a setting. Returns whether the line belongs to an answer; a setting does
    /// not.
    fn step(&mut self, line: &str) -> Result<bool, String> {
        let (word, rest) = first_word(line);
        let (name, target) = target(word)?;
        if let Some(target) = &target
            && !matches!(name, "delta" | "repeat" | "sign" | "close")
        {
            return Err(format!("{name:?} takes no [{target}]"));
        }
        match name {
            "chunk" => self.draft.chunk = chunk(rest)?,
            "pace" => self.draft.pace = duration(rest)?,
            _ if self.draft.is_over() => {
                return Err(format!(
                    "{name:?} cannot follow: the answer is over; a blank line begins the next"
                ));
            }
            _ => {
                self.answer_step(name, target, rest)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn answer_step(
        &mut self,
        name: &str,
        target: Option<String>,
        rest: &str,
    ) -> Result<(), String> {
        let takes_nothing = matches!(name, "close" | "hold" | "start" | "cut" | "hang");
        if takes_nothing && !rest.is_empty() {
            return Err(format!("{name:?} stands alone, without {rest:?}"));
        }
        let block = target.as_deref().map(block_index).transpose()?;
        let not_open = |NotOpen(block)| match block {
            Some(index) => format!("{name:?}: block {index} is not open"),
            None => format!("{name:?}: no block is open; begin one with say, think or call"),
        };
        let draft = &mut self.draft;
        match name {
            "say" => draft.say(text(rest)?),
            "think" => draft.think(text(rest)?),
            "redacted" => draft.redacted(needed_text(name, rest)?),
            "call" => return self.call(rest),
            "delta" => {
                let pieces = Pieces::text(needed_text(name, rest)?, draft.chunk);
                draft.add(block, pieces).map_err(not_open)?;
            }
            "repeat" => {
                let (times, template) = first_word(rest);
                let times = times
                    .parse()
                    .map_err(|_| format!("repeat wants a count and a text, not {times:?}"))?;
                let pieces = Pieces::repeat(needed_text(name, template)?, times);
                draft.add(block, pieces).map_err(not_open)?;
            }
            "sign" => draft.sign(block, needed_text(name, rest)?).map_err(not_open)?,
            "close" => draft.close(block).map_err(not_open)?,
            "hold" => draft.hold(),
            "wait" => draft.wait(duration(rest)?),
            "start" => draft.event(StreamEvent::Start),
            "response-id" => draft.event(StreamEvent::ResponseId(needed_text(name, rest)?)),
            "response-model" => draft.event(StreamEvent::ResponseModel(needed_text(name, rest)?)),
            "usage" => draft.usage(usage(rest)?),
            "stop" => {
                let (reason, raw) = stop(rest)?;
                draft.stop(reason, raw);
            }
            "error" => draft.fail(error(rest)?),
            "cut" => draft.cut(),
            "hang" => draft.hang(),
            "expect" => draft.expect(expectation(self.line, rest)?),
            _ => return Err(unknown("step", name, STEPS)),
        }
        Ok(())
    }

    /// `NAME [id=ID] [ARGUMENTS]`
    fn call(&mut self, rest: &str) -> Result<(), String> {
        let (name, rest) = first_word(rest);
        if name.is_empty() || name.starts_with('{') {
            return Err("call wants the name of a tool".into());
        }
        self.calls += 1;
        let (id, rest) = match first_word(rest) {
            (word, after) if word.starts_with("id=") => (word["id=".len()..].to_owned(), after),
            _ => (format!("call_{}", self.calls), rest),
        };
        let arguments = if rest.is_empty() {
            None
        } else {
            serde_json::from_str::<Arguments>(rest).map_err(|err| {
                format!(
                    "the arguments of {name} are not a JSON object ({err}); \
                     to send them broken, use delta lines"
                )
            })?;
            Some(rest.to_owned())
        };
        self.draft.call(id, name.into(), arguments);
        Ok(())
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// `delta[0]` is `delta` and `0`.
fn target(word: &str) -> Result<(&str, Option<String>), String> {
    match word.split_once('[') {
        None => Ok((word, None)),
        Some((name, target)) => match target.strip_suffix(']') {
            Some(target) => Ok((name, Some(target.into()))),
            None => Err(format!("{word:?}: the bracket is not closed")),
        },
    }
}

fn block_index(target: &str) -> Result<usize, String> {
    target.parse().map_err(|_| format!("{target:?} is not the number of a block"))
}

/// Plain words to the end of the line, or a JSON string where white space matters.
fn text(rest: &str) -> Result<Option<String>, String> {
    match rest {
        "" => Ok(None),
        _ if rest.starts_with('"') => serde_json::from_str(rest).map(Some).map_err(|err| {
            format!("a text that begins with a quote must be one JSON string ({err})")
        }),
        plain => Ok(Some(plain.into())),
    }
}

fn needed_text(name: &str, rest: &str) -> Result<String, String> {
    text(rest)?.ok_or_else(|| format!("{name:?} wants a text"))
}

fn chunk(rest: &str) -> Result<TextChunk, String> {
    match (rest, rest.parse()) {
        ("off", _) => Ok(TextChunk::Whole),
        ("words", _) => Ok(TextChunk::Words),
        (_, Ok(count)) if count > 0 => Ok(TextChunk::Chars(count)),
        _ => Err(format!("chunk wants a number of characters, words or off, not {rest:?}")),
    }
}

/// `500ms`, `1.5s`, `2m`.
fn duration(rest: &str) -> Result<Duration, String> {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(end);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("a time is written 500ms, 1.5s or 2m, not {rest:?}")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{rest} is too long"))
}

fn usage(rest: &str) -> Result<Usage, String> {
    const KEYS: &str = "input output cache-read cache-write cache-write-1h reasoning total";
    let mut usage = Usage::default();
    let mut total = None;
    for pair in rest.split_whitespace() {
        let (key, count) =
            pair.split_once('=').ok_or_else(|| format!("usage wants key=number, not {pair:?}"))?;
        let count: u64 =
            count.parse().map_err(|_| format!("usage {key}: {count:?} is not a whole number"))?;
        match key {
            "input" => usage.input = count,
            "output" => usage.output = count,
            "cache-read" => usage.cache_read = count,
            "cache-write" => usage.cache_write = count,
            "cache-write-1h" => usage.cache_write_1h = Some(count),
            "reasoning" => usage.reasoning = Some(count),
            "total" => total = Some(count),
            _ => return Err(unknown("usage", key, KEYS)),
        }
    }
    let counted = [usage.input, usage.output, usage.cache_read, usage.cache_write];
    let sum = counted.into_iter().fold(0, u64::saturating_add);
    usage.total_tokens = total.unwrap_or(sum);
    Ok(usage)
}

/// `[REASON] [raw=WORD]`
fn stop(rest: &str) -> Result<(Option<StopReason>, Option<String>), String> {
    let (mut reason, mut raw) = (None, None);
    for word in rest.split_whitespace() {
        match word {
            "stop" => reason = Some(StopReason::Stop),
            "length" => reason = Some(StopReason::Length),
            "tool_use" => reason = Some(StopReason::ToolUse),
            "error" => reason = Some(StopReason::Error),
            _ => match word.strip_prefix("raw=") {
                Some(word) => raw = Some(word.into()),
                None => {
                    return Err(unknown("stop reason", word, "stop length tool_use error"));
                }
            },
        }
    }
    Ok((reason, raw))
}

/// `KIND [after=TIME] [MESSAGE]`
fn error(rest: &str) -> Result<ProviderError, String> {
    let (kind, rest) = first_word(rest);
    let (after, rest) = match first_word(rest) {
        (word, rest) if word.starts_with("after=") => {
            (Some(duration(&word["after=".len()..])?), rest)
        }
        _ => (None, rest),
    };
    if after.is_some() && kind != "retry" {
        return Err(format!("only error retry takes after=, not error {kind}"));
    }
    let message = text(rest)?.unwrap_or_else(|| format!("scripted {kind} error"));
    let message = message.into();
    match kind {
        "retry" => Ok(ProviderError::Retry { message, after }),
        "overflow" => Ok(ProviderError::Overflow { message }),
        "auth" => Ok(ProviderError::Auth { message }),
        "fatal" => Ok(ProviderError::Fatal { message }),
        _ => Err(unknown("error", kind, "retry overflow auth fatal")),
    }
}

/// `SUBJECT [has|lacks] TEXT`
fn expectation(line: usize, rest: &str) -> Result<Expectation, String> {
    let (word, rest) = first_word(rest);
    let (name, call) = target(word)?;
    let takes_call = call.is_some();
    let subject = Subject::named(name, call).ok_or_else(|| {
        if takes_call {
            format!("{word:?}: only tool-result and tool-error can name a call")
        } else {
            unknown("expectation", name, Subject::NAMES)
        }
    })?;
    let wanted = |rest| text(rest).map(Option::unwrap_or_default);
    let test = match first_word(rest) {
        ("has", part) => Test::Has(needed_text("has", part)?),
        ("lacks", part) => Test::Lacks(needed_text("lacks", part)?),
        _ => Test::Is(wanted(rest)?),
    };
    Ok(Expectation { line, subject, test })
}

fn unknown(what: &str, word: &str, known: &str) -> String {
    match nearest(word, known.split(' ')) {
        Some(near) => format!("unknown {what} {word:?}; did you mean {near:?}?"),
        None => format!("unknown {what} {word:?}"),
    }
}
