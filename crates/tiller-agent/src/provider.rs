//! The interface to a model: a request, and a stream of small events.
//!
//! A provider translates between its vendor's API and these types. It knows no clients, sessions or
//! tools; it gets messages and streams the answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;

use crate::message::{Arguments, Message, StopReason, Usage};
use crate::model::{Model, ThinkingLevel};

/// Streams answers for one model.
pub trait Provider: Send + Sync {
    /// Starts one answer. Nothing happens until the stream is polled; dropping the stream cancels
    /// the request, which is how an abort reaches the network.
    fn stream(&self, request: Request) -> EventStream;
}

pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ProviderError>> + Send>>;

/// Everything that is sent to a model for one answer.
#[derive(Clone, Debug)]
pub struct Request {
    pub model: Arc<Model>,
    pub system: Arc<str>,
    pub messages: Vec<Arc<Message>>,
    pub tools: Arc<[ToolSpec]>,
    /// The tool that the answer must call, if provider and model support that.
    pub forced_tool: Option<String>,
    pub thinking: ThinkingLevel,
    /// The sampling temperature, if set; some providers refuse it while thinking.
    pub temperature: Option<f64>,
    /// Identifies the conversation to the provider's cache.
    pub session_id: Arc<str>,
}

/// A tool definition as sent to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Events of an answer. `index` is the block's position in the message; a block starts once, in
/// order, and several may be open at the same time.
///
/// There are thousands of deltas in an answer, so large and rare variants are boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The request was accepted and the answer begins. Always first.
    Start,
    ResponseId(String),
    /// The provider uses another model than the requested one.
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
    /// The complete arguments, if they differ from the streamed ones. Sent before the end.
    CallArguments {
        index: usize,
        arguments: Box<Arguments>,
    },
    CallEnd {
        index: usize,
        thought_signature: Option<String>,
    },
    /// The provider's own stop reason, sent before the error that it causes.
    RawStop(String),
    /// All tokens of this answer so far. The agent loop adds the cost.
    Usage(Box<Usage>),
    /// The answer is complete. Always last; a stream that ends without it was cut off.
    Done {
        reason: StopReason,
        raw: Option<String>,
    },
}

/// Why there is no complete answer. The variant decides what the loop does.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderError {
    /// Likely to work later: overload, rate limits, a lost connection.
    Retry { message: ErrorText, after: Option<Duration> },
    /// The conversation no longer fits into the model's window.
    Overflow { message: ErrorText },
    /// The credentials are missing, wrong or exhausted.
    Auth { message: ErrorText },
    /// A retry would fail in the same way.
    Fatal { message: ErrorText },
}

impl ProviderError {
    pub fn retry(message: impl Into<ErrorText>) -> ProviderError {
        ProviderError::Retry { message: message.into(), after: None }
    }

    /// The stream ended without [`StreamEvent::Done`].
    pub fn incomplete() -> ProviderError {
        ProviderError::retry("Stream ended before the answer was complete")
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

    /// The error and the hint in one text.
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

/// The provider's error text, and tiller's hint about what to do.
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
