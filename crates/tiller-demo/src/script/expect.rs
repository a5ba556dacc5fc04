//! Checks a script's expectations about a request.

use tiller_agent::message::{Block, Content, Message, ToolResultMessage, text_of};
use tiller_agent::provider::Request;

/// A parsed `expect user has "…"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expectation {
    pub(crate) line: usize,
    pub(crate) subject: Subject,
    pub(crate) test: Test,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    System,
    /// The newest user message's text.
    User,
    /// The number of its images.
    Images,
    /// The newest answer's text.
    Assistant,
    /// The newest result, or the one of this call.
    ToolResult(Option<String>),
    /// Like `ToolResult`, and the tool must have failed.
    ToolError(Option<String>),
    /// The names of the available tools.
    Tools,
    /// The roles of all messages.
    Roles,
    /// The thinking level.
    Thinking,
}

impl Subject {
    pub(crate) const NAMES: &str =
        "system user images assistant tool-result tool-error tools roles thinking";

    /// `call` is set for the two subjects that can name one.
    pub(crate) fn named(name: &str, call: Option<String>) -> Option<Subject> {
        match (name, call) {
            ("tool-result", call) => Some(Subject::ToolResult(call)),
            ("tool-error", call) => Some(Subject::ToolError(call)),
            (_, Some(_)) => None,
            ("system", None) => Some(Subject::System),
            ("user", None) => Some(Subject::User),
            ("images", None) => Some(Subject::Images),
            ("assistant", None) => Some(Subject::Assistant),
            ("tools", None) => Some(Subject::Tools),
            ("roles", None) => Some(Subject::Roles),
            ("thinking", None) => Some(Subject::Thinking),
            (_, None) => None,
        }
    }

    fn name(&self) -> String {
        let (name, call) = match self {
            Subject::System => ("system", &None),
            Subject::User => ("user", &None),
            Subject::Images => ("images", &None),
            Subject::Assistant => ("assistant", &None),
            Subject::ToolResult(call) => ("tool-result", call),
            Subject::ToolError(call) => ("tool-error", call),
            Subject::Tools => ("tools", &None),
            Subject::Roles => ("roles", &None),
            Subject::Thinking => ("thinking", &None),
        };
        match call {
            Some(call) => format!("{name}[{call}]"),
            None => name.into(),
        }
    }

    /// Lists are compared by whole words, so that `lacks read` does not match `thread`.
    fn is_list(&self) -> bool {
        matches!(self, Subject::Tools | Subject::Roles)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Is(String),
    Has(String),
    Lacks(String),
}

impl Expectation {
    /// The error says what was expected and what was found.
    pub(crate) fn check(&self, request: &Request) -> Result<(), String> {
        let subject = self.subject.name();
        let shown = shown(&self.subject, request);
        let contains = |wanted: &str| match &shown {
            Ok(shown) if self.subject.is_list() => {
                format!(" {shown} ").contains(&format!(" {wanted} "))
            }
            Ok(shown) => shown.contains(wanted),
            Err(_) => false,
        };
        let (met, expected) = match &self.test {
            Test::Is(wanted) => {
                (shown.as_ref().is_ok_and(|shown| shown == wanted), format!("{subject} {wanted:?}"))
            }
            Test::Has(part) => (contains(part), format!("{subject} to have {part:?}")),
            Test::Lacks(part) => (!contains(part), format!("{subject} to lack {part:?}")),
        };
        if met {
            return Ok(());
        }
        let instead = match &shown {
            Ok(shown) => format!("the model was shown {:?}", shorten(shown)),
            Err(why) => why.clone(),
        };
        Err(format!("line {}: expected {expected}, but {instead}", self.line))
    }
}

/// What the request contains for this subject, or why it has nothing.
fn shown(subject: &Subject, request: &Request) -> Result<String, String> {
    let newest = request.messages.iter().rev();
    match subject {
        Subject::System => Ok(request.system.to_string()),
        Subject::User => newest_user(request).map(Content::text),
        Subject::Images => newest_user(request).map(|content| images(content).to_string()),
        Subject::Assistant => newest
            .filter_map(|message| message.as_assistant())
            .next()
            .map(|answer| text_of(&answer.content))
            .ok_or_else(|| "the model has not answered yet".into()),
        Subject::ToolResult(call) => result(request, call).map(|result| text_of(&result.content)),
        Subject::ToolError(call) => {
            let result = result(request, call)?;
            let text = text_of(&result.content);
            if result.is_error {
                Ok(text)
            } else {
                Err(format!("the tool gave {:?}", shorten(&text)))
            }
        }
        Subject::Tools => {
            let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
            Ok(names.join(" "))
        }
        Subject::Roles => {
            let roles: Vec<_> = request.messages.iter().map(|message| role(message)).collect();
            Ok(roles.join(" "))
        }
        Subject::Thinking => Ok(request.thinking.name().into()),
    }
}

fn newest_user(request: &Request) -> Result<&Content, String> {
    let found = request.messages.iter().rev().find_map(|message| match &**message {
        Message::User(user) => Some(&user.content),
        _ => None,
    });
    found.ok_or_else(|| "there is no user message".into())
}

fn images(content: &Content) -> usize {
    match content {
        Content::Text(_) => 0,
        Content::Blocks(blocks) => {
            blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count()
        }
    }
}

fn result<'a>(
    request: &'a Request,
    call: &Option<String>,
) -> Result<&'a ToolResultMessage, String> {
    let mut results = request.messages.iter().rev().filter_map(|message| match &**message {
        Message::ToolResult(result) => Some(result),
        _ => None,
    });
    let found = results.find(|result| call.as_ref().is_none_or(|id| result.tool_call_id == *id));
    found.ok_or_else(|| "there is no such tool result".into())
}

/// The role as on the wire.
fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::ToolResult(_) => "toolResult",
        Message::BashExecution(_) => "bashExecution",
        Message::Custom(_) => "custom",
        Message::BranchSummary(_) => "branchSummary",
        Message::CompactionSummary(_) => "compactionSummary",
    }
}

/// Enough to recognise a text. A system prompt would bury the message.
fn shorten(text: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 300;
    match text.char_indices().nth(SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.into(),
    }
}
