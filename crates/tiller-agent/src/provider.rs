//! The seam to a model: one request out, a stream of small events back.
//!
//! A provider speaks its vendor's language on the far side and ours on this one. It never sees a
//! client, a session or a tool; it gets messages and says what the model does with them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;

use crate::message::{Arguments, Message, StopReason, Usage};
use crate::model::{Model, ThinkingLevel};

/// Answers requests for one model.
pub trait Provider: Send + Sync {
    /// Starts one answer. Nothing happens until the stream is polled, and dropping it ends the
    /// request: that is how an abort reaches the network.
    fn stream(&self, request: Request) -> EventStream;
}

pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// Everything a model is given for one answer.
#[derive(Clone, Debug)]
pub struct Request {
    pub model: Arc<Model>,
    pub system: Arc<str>,
    pub messages: Vec<Arc<Message>>,
    pub tools: Arc<[ToolSpec]>,
    /// The tool that the answer has to call, as far as provider and model can be told so.
    pub forced_tool: Option<String>,
    pub thinking: ThinkingLevel,
    /// How freely the model chooses its words, if somebody said so; a model that thinks may not
    /// be told.
    pub temperature: Option<f64>,
    /// Names the conversation to the provider's cache.
    pub session_id: Arc<str>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// What a provider says while it answers. `index` is the block's place in the message; a block
/// starts once, in order, and several may be open together.
///
/// There are thousands of deltas in an answer, so what is large and rare is boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The request was taken and the answer begins. Always first.
    Start,
    ResponseId(String),
    /// The provider answers with another model than the one asked for.
    ResponseModel(String),
    TextStart {
        index: usize,
    },
    TextDelta {
        index: usize,
        delta: String,
    },
    TextEnd {
        index: usize,
        signature: Option<String>,
    },
    ThinkingStart {
        index: usize,
    },
    ThinkingDelta {
        index: usize,
        delta: String,
    },
    ThinkingEnd {
        index: usize,
        signature: Option<String>,
        redacted: bool,
    },
    CallStart {
        index: usize,
        id: String,
        name: String,
    },
    /// A piece of the arguments' JSON text.
    CallDelta {
        index: usize,
        delta: String,
    },
    /// The arguments as a whole, where they are others than those spelled out. Ahead of the end.
    CallArguments {
        index: usize,
        arguments: Box<Arguments>,
    },
    CallEnd {
        index: usize,
        thought_signature: Option<String>,
    },
    /// The provider's own word for why it stopped, ahead of an error that it is the reason for.
    RawStop(String),
    /// All tokens of this answer so far. The cost is filled in by the loop.
    Usage(Box<Usage>),
    /// The answer is complete. Always last; a stream that ends without it was cut off.
    Done {
        reason: StopReason,
        raw: Option<String>,
    },
}

/// Why there is no (whole) answer. The variant says what can be done about it.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderError {
    /// Likely to work later: overload, rate limits, a lost connection.
    Retry { message: ErrorText, after: Option<Duration> },
    /// The conversation no longer fits into the model's window.
    Overflow { message: ErrorText },
    /// The credentials are missing, wrong or exhausted.
    Auth { message: ErrorText },
    /// Asking again would give the same answer.
    Fatal { message: ErrorText },
}

impl ProviderError {
    pub fn retry(message: impl Into<ErrorText>) -> ProviderError {
        ProviderError::Retry { message: message.into(), after: None }
    }

    pub fn fatal(message: impl Into<ErrorText>) -> ProviderError {
        ProviderError::Fatal { message: message.into() }
    }

    pub fn message(&self) -> &str {
        &self.text().words
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.text().hint.as_deref()
    }

    #[must_use]
    pub fn with_hint(mut self, hint: String) -> ProviderError {
        self.text_mut().hint = Some(hint);
        self
    }

    #[must_use]
    pub fn reworded(mut self, reword: impl FnOnce(String) -> String) -> ProviderError {
        let text = self.text_mut();
        text.words = reword(std::mem::take(&mut text.words));
        self
    }

    /// The error and the hint, for places that have one text for both.
    pub fn with_advice(&self) -> String {
        let hint = self.hint().map(|hint| format!("\n\n{hint}")).unwrap_or_default();
        format!("{self}{hint}")
    }

    fn text_mut(&mut self) -> &mut ErrorText {
        match self {
            ProviderError::Retry { message, .. }
            | ProviderError::Overflow { message }
            | ProviderError::Auth { message }
            | ProviderError::Fatal { message } => message,
        }
    }

    fn text(&self) -> &ErrorText {
        match self {
            ProviderError::Retry { message, .. }
            | ProviderError::Overflow { message }
            | ProviderError::Auth { message }
            | ProviderError::Fatal { message } => message,
        }
    }
}

/// The words of an error, as the provider wrote them, and ours about what to do.
#[derive(Clone, PartialEq)]
pub struct ErrorText {
    words: String,
    hint: Option<String>,
}

impl<T: Into<String>> From<T> for ErrorText {
    fn from(words: T) -> ErrorText {
        ErrorText { words: words.into(), hint: None }
    }
}

impl fmt::Debug for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            None => write!(f, "{:?}", self.words),
            Some(hint) => write!(f, "{:?} (hint {hint:?})", self.words),
        }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ProviderError {}
