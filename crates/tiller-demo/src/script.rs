//! `tiller/script`: a model that plays a conversation file.
//!
//! Clients are built and tested against it with no account and no network, and tiller's own
//! transcripts use it line by line. The language is described in `docs/script-format.md`.
//!
//! A line becomes steps (`parse`), a draft keeps the steps of an answer in order, and the player
//! turns them into the events of a provider.

mod draft;
mod expect;
mod parse;
mod player;
mod provider;
mod step;
mod suggest;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use tiller_agent::model::{Modality, Model, Price};

pub(crate) use draft::Draft;
pub(crate) use player::{PlayedAnswer, play};
pub use provider::{ScriptFeeder, ScriptProvider};
pub(crate) use step::TextChunk;
pub(crate) use suggest::nearest;

use parse::{Line, Parser};
use step::Step;

/// A conversation file: the model's answers, in order.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    answers: Vec<ScriptedAnswer>,
}

#[derive(Clone, Debug)]
struct ScriptedAnswer {
    /// The line where it begins.
    line: usize,
    steps: Vec<Step>,
}

impl Script {
    /// Parses a whole file. A blank line ends an answer.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut parser = Parser::default();
        let mut answers = Vec::new();
        let mut first_line = 0;
        for line in text.lines() {
            match parser.read(line)? {
                Line::Steps { .. } if first_line == 0 => first_line = parser.line(),
                Line::Steps { .. } | Line::Nothing => (),
                Line::Blank => finish(&mut parser, &mut first_line, &mut answers),
            }
        }
        finish(&mut parser, &mut first_line, &mut answers);
        Ok(Script { name: "script".into(), answers })
    }

    /// The script's name in error messages, usually its file name.
    pub fn named(mut self, name: impl Into<String>) -> Script {
        self.name = name.into();
        self
    }

    /// The number of answers.
    pub fn answers(&self) -> usize {
        self.answers.len()
    }

    /// The model that a script plays.
    pub fn model() -> Model {
        built_in("script", "tiller script")
    }
}

fn finish(parser: &mut Parser, first_line: &mut usize, answers: &mut Vec<ScriptedAnswer>) {
    if *first_line > 0 {
        parser.finish_answer();
        answers.push(ScriptedAnswer { line: *first_line, steps: parser.take_steps() });
        *first_line = 0;
    }
}

/// A built-in model: it costs nothing and has the limits of a large one.
pub(crate) fn built_in(id: &str, name: &str) -> Model {
    Model {
        id: id.into(),
        name: name.into(),
        api: format!("tiller-{id}"),
        provider: "tiller".into(),
        base_url: String::new(),
        reasoning: true,
        thinking_level_map: None,
        input: vec![Modality::Text, Modality::Image],
        cost: Price::default(),
        context_window: 200_000,
        max_tokens: 16_384,
        headers: BTreeMap::new(),
        compat: None,
    }
}

/// A syntax error in a line.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptError {
    pub line: usize,
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}
