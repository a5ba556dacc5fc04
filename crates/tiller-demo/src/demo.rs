//! `tiller/demo`: a model with no key and no network.
//!
//! It reads the newest question, calls the available tools and answers from their results,
//! deterministically. A client can be tried with it, and a new user sees all of tiller at work
//! before choosing a real model.
//!
//! `words` splits the question into clauses, `intent` finds the task, `plan` decides on the next
//! call, `answer` and `file` write the text.

mod answer;
mod file;
mod intent;
mod plan;
mod recap;
mod sums;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;
use std::time::Duration;

use tiller_agent::message::{Block, Content, Message, ToolCall, Usage, text_of};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};

use crate::script::{Draft, PlayedAnswer, TextChunk, built_in, play};
use intent::Known;
use plan::{Act, Offer, Outcome};

const HELP: &str = include_str!("demo/help.md");
const STORY: &str = include_str!("demo/story.md");

/// The demo model.
#[derive(Clone, Debug, Default)]
pub struct Demo {
    pace: Duration,
}

impl Demo {
    /// `pace` is the delay before every word; zero means as fast as possible.
    pub fn new(pace: Duration) -> Demo {
        Demo { pace }
    }

    pub fn model() -> Model {
        built_in("demo", "tiller demo")
    }
}

impl Provider for Demo {
    fn stream(&self, request: Request) -> EventStream {
        let pace = self.pace;
        play(async move { answer_to(request, pace) })
    }
}

fn answer_to(request: Request, pace: Duration) -> Result<PlayedAnswer, ProviderError> {
    let mut usage = prompt_usage(&request);
    let window = request.model.context_window;
    if usage.total_tokens > window {
        let message = format!("the prompt has {} tokens, the window {window}", usage.total_tokens);
        return Err(ProviderError::Overflow { message: message.into() });
    }
    let act = act_on(&request);
    let mut draft = Draft::new(TextChunk::Words, pace);
    draft.usage(usage.clone());
    let thought = match &act {
        Act::Call { thought, .. } | Act::Say { thought, .. } => thought,
    };
    if request.thinking != ThinkingLevel::Off {
        let tokens = tokens(thought.len());
        usage.reasoning = Some(tokens);
        usage.output += tokens;
        draft.think(Some(thought.clone()));
    }
    match act {
        Act::Say { text, .. } => {
            usage.output += tokens(text.len());
            draft.say(Some(text));
        }
        Act::Call { calls, .. } => {
            let said = answer::announcement(&calls);
            usage.output += tokens(said.len());
            draft.say(Some(said));
            let mut number = last_call_number(&request);
            for call in calls {
                number += 1;
                let arguments = serde_json::Value::Object(call.arguments).to_string();
                usage.output += tokens(call.tool.len() + arguments.len());
                draft.call(format!("{CALL_PREFIX}{number}"), call.tool, Some(arguments));
            }
        }
    }
    usage.total_tokens += usage.output;
    draft.close_all();
    draft.usage(usage);
    draft.stop(None, None);
    Ok(PlayedAnswer::known(draft.take_steps(), Arc::new(request), Default::default()))
}

fn act_on(request: &Request) -> Act {
    let turn = Turn::read(request);
    if recap::is_wanted(request, &turn.text) {
        let thought = "A summary of what was said so far.".into();
        return Act::Say { thought, text: recap::recap(&turn.text) };
    }
    let known = Known { tools: &request.tools, last_path: turn.last_path };
    let tasks = intent::read(&turn.text, known);
    if tasks.is_empty() {
        let thought = "I do not know what to do with this. I will say what I can do.".into();
        return Act::Say { thought, text: answer::not_understood(&turn.text, turn.images) };
    }
    plan::next_act(&tasks, turn.outcomes, Offer(&request.tools))
}

/// The newest question and what was done about it so far.
struct Turn {
    text: String,
    images: usize,
    outcomes: Vec<Outcome>,
    /// The file that earlier calls were about.
    last_path: Option<String>,
}

impl Turn {
    fn read(request: &Request) -> Turn {
        let messages = &request.messages;
        let asked = asked(messages);
        let (text, images) = asked.map_or_else(Default::default, |at| question(&messages[at]));
        let (before, after) = messages.split_at(asked.map_or(0, |at| at + 1));
        let last_path = before.iter().rev().find_map(|message| {
            let about_file =
                |call: &&ToolCall| ["read", "write", "edit"].contains(&call.name.as_str());
            let call = message.as_assistant()?.tool_calls().filter(about_file).last()?;
            Some(call.arguments.get("path")?.as_str()?.to_owned())
        });
        Turn { text, images, outcomes: outcomes(after), last_path }
    }
}

/// The index of the question: the user's messages since the last complete answer, else an
/// extension's message, else the user's last message.
fn asked(messages: &[Arc<Message>]) -> Option<usize> {
    let finished = |message: &Message| {
        message.as_assistant().is_some_and(|answer| answer.tool_calls().next().is_none())
    };
    let new = messages.iter().rposition(|message| finished(message)).map_or(0, |at| at + 1);
    let user = messages.iter().rposition(|message| matches!(**message, Message::User(_)));
    let custom = messages.iter().rposition(|message| matches!(**message, Message::Custom(_)));
    user.filter(|at| *at >= new).or(custom.filter(|at| *at >= new)).or(user)
}

fn question(message: &Message) -> (String, usize) {
    let content = match message {
        Message::User(user) => &user.content,
        Message::Custom(custom) => &custom.content,
        _ => return Default::default(),
    };
    match content {
        Content::Text(text) => (text.clone(), 0),
        Content::Blocks(blocks) => (text_of(blocks), images(blocks)),
    }
}

fn images(blocks: &[Block]) -> usize {
    blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count()
}

/// The results of the demo's own calls, in order. Another model's results are ignored.
fn outcomes(messages: &[Arc<Message>]) -> Vec<Outcome> {
    let mut outcomes: Vec<(u64, Outcome)> = messages
        .iter()
        .filter_map(|message| match &**message {
            Message::ToolResult(result) => {
                let outcome = Outcome {
                    tool: result.tool_name.clone(),
                    text: text_of(&result.content),
                    images: images(&result.content),
                    is_error: result.is_error,
                };
                Some((call_number(&result.tool_call_id)?, outcome))
            }
            _ => None,
        })
        .collect();
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

const CALL_PREFIX: &str = "demo_";

fn call_number(id: &str) -> Option<u64> {
    id.strip_prefix(CALL_PREFIX)?.parse().ok()
}

/// Calls are numbered through the conversation, so that their ids are unique.
fn last_call_number(request: &Request) -> u64 {
    let calls = request.messages.iter().filter_map(|message| message.as_assistant());
    let numbers =
        calls.flat_map(|answer| answer.tool_calls()).filter_map(|call| call_number(&call.id));
    numbers.max().unwrap_or(0)
}

/// A plausible usage: four bytes per token, with everything up to the last answer cached.
fn prompt_usage(request: &Request) -> Usage {
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len())
        .sum();
    let fixed = tokens(request.system.len()) + tokens(tools);
    let seen = request.messages.iter().rposition(|message| message.as_assistant().is_some());
    let (old, new) = request.messages.split_at(seen.map_or(0, |at| at + 1));
    let count =
        |messages: &[Arc<Message>]| messages.iter().map(|it| message_tokens(it)).sum::<u64>();
    let (cache_read, input) = match seen {
        Some(_) => (fixed + count(old), count(new)),
        None => (0, fixed + count(new)),
    };
    Usage { input, cache_read, total_tokens: input + cache_read, ..Usage::default() }
}

fn message_tokens(message: &Message) -> u64 {
    match message {
        Message::User(user) => content_tokens(&user.content),
        Message::Custom(custom) => content_tokens(&custom.content),
        Message::Assistant(answer) => blocks_tokens(&answer.content),
        Message::ToolResult(result) => blocks_tokens(&result.content),
        Message::BashExecution(bash) => tokens(bash.command.len() + bash.output.len()),
        Message::BranchSummary(branch) => tokens(branch.summary.len()),
        Message::CompactionSummary(compaction) => tokens(compaction.summary.len()),
    }
}

fn content_tokens(content: &Content) -> u64 {
    match content {
        Content::Text(text) => tokens(text.len()),
        Content::Blocks(blocks) => blocks_tokens(blocks),
    }
}

fn blocks_tokens(blocks: &[Block]) -> u64 {
    const IMAGE_TOKENS: u64 = 1200;
    let block = |block: &Block| match block {
        Block::Text { text, .. } => tokens(text.len()),
        Block::Thinking { thinking, .. } => tokens(thinking.len()),
        Block::Image { .. } => IMAGE_TOKENS,
        Block::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            tokens(call.name.len() + arguments.len())
        }
    };
    blocks.iter().map(block).sum()
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}
