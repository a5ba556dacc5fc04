//! Has the model write the summary.
//!
//! Usually that is one request, or two if a turn is cut in the middle. If one request is too large,
//! or fails in a way that a smaller one may not, the conversation is summarised in pieces, each
//! continuing the notes about the previous ones.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::cut::Plan;
use super::files::Files;
use super::summary_text::SummaryText;
use super::{ContextLimits, FileLists, transcript};
use crate::message::{AssistantMessage, Message, StopReason, UnixMs, Usage, text_of};
use crate::message_builder::{MessageBuilder, Step};
use crate::model::{Model, ThinkingLevel};
use crate::provider::{Provider, ProviderError, Request};
use crate::retry::RetryPolicy;
use crate::tokens;

const SYSTEM: &str = include_str!("prompts/system.md");
const SUMMARY: &str = include_str!("prompts/summary.md");
const UPDATE: &str = include_str!("prompts/update.md");
const TURN: &str = include_str!("prompts/turn.md");
const BRANCH: &str = include_str!("prompts/branch.md");

/// Which model writes, and within which limits.
pub struct Summarizer {
    pub provider: Arc<dyn Provider>,
    pub model: Arc<Model>,
    pub thinking: ThinkingLevel,
    pub limits: ContextLimits,
    pub retry: RetryPolicy,
    pub session_id: Arc<str>,
    /// The timestamp of the requests.
    pub now: UnixMs,
    pub cancel: CancellationToken,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// All that the model will see of the removed part.
    pub summary: String,
    pub files: FileLists,
    pub usage: Usage,
}

/// Custom instructions for a branch summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BranchOptions {
    pub instructions: Option<String>,
    /// They replace the built-in instructions instead of following them.
    pub is_all: bool,
}

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq)]
pub enum SummaryError {
    Cancelled,
    /// With a text for the client.
    Failed(String),
}

/// Progress while the summary is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    RetryScheduled { attempt: u32, max_attempts: u32, delay_ms: u64, error: String },
    RetryBegins,
    RetriesOver,
}

/// Receives the progress, in order.
pub trait ProgressListener: Send + Sync {
    fn on_progress(&self, progress: Progress) -> impl Future<Output = ()> + Send;
}

impl Summarizer {
    /// Writes the summary for a plan. `focus` is what the user wants it to concentrate on.
    pub async fn write(
        &self,
        plan: &Plan,
        focus: Option<&str>,
        listener: &impl ProgressListener,
    ) -> Result<Summary, SummaryError> {
        let mut usage = Usage::default();
        let mut notes = PartialSummary { writer: self, listener, usage: &mut usage };
        let earlier = plan.earlier.as_ref();
        let previous = earlier.map(|memory| memory.summary.clone()).filter(|text| !text.is_empty());
        let mut summary = match (plan.history.is_empty(), previous) {
            (true, Some(previous)) => previous,
            (true, None) => "No prior history.".to_owned(),
            (false, previous) => {
                let task = Task { kind: SummaryKind::History, focus, share: (4, 5) };
                notes.take(&plan.history, previous, task).await?
            }
        };
        if !plan.turn_start.is_empty() {
            let task = Task { kind: SummaryKind::Turn, focus: None, share: (1, 2) };
            let turn = notes.take(&plan.turn_start, None, task).await?;
            summary = format!("{summary}\n\n---\n\n**Turn Context (split turn):**\n\n{turn}");
        }
        let mut files = Files::default();
        if let Some(earlier) = earlier {
            files.add_lists(&earlier.files);
        }
        files.add_calls(&plan.history);
        files.add_calls(&plan.turn_start);
        let files = files.lists();
        let request = plan.request.as_deref().map(|words| self.excerpt(words));
        let summary = SummaryText { summary, request, files: files.clone() }.write();
        Ok(Summary { summary, files, usage })
    }

    /// Summarises a branch that is being left.
    pub async fn write_branch(
        &self,
        messages: &[Arc<Message>],
        options: &BranchOptions,
        listener: &impl ProgressListener,
    ) -> Result<Summary, SummaryError> {
        let mut usage = Usage::default();
        let mut notes = PartialSummary { writer: self, listener, usage: &mut usage };
        let (kind, focus) = match (&options.instructions, options.is_all) {
            (Some(instructions), true) => (SummaryKind::Branch(instructions), None),
            (focus, _) => (SummaryKind::Branch(BRANCH), focus.as_deref()),
        };
        let summary = notes.take(messages, None, Task { kind, focus, share: (4, 5) }).await?;
        let mut files = Files::default();
        files.add_calls(messages);
        let files = files.lists();
        let summary = SummaryText { summary, request: None, files: files.clone() }.write();
        Ok(Summary { summary, files, usage })
    }

    /// The request if it is short. If it would fill half of the limit, its beginning and end.
    fn excerpt(&self, words: &str) -> String {
        let most = self.limits.threshold.saturating_sub(self.limits.keep) / 2;
        if tokens::text(words) <= most {
            return words.to_owned();
        }
        // A character is rarely more than one token.
        let side = (most / 2).max(1) as usize;
        let head = words.char_indices().nth(side).map_or(words, |(end, _)| &words[..end]);
        let tail = words.char_indices().rev().nth(side).map_or("", |(start, _)| &words[start..]);
        format!("{head}\n\n[... the middle of this message is left out ...]\n\n{tail}")
    }
}

/// Which notes to write.
#[derive(Clone, Copy)]
struct Task<'a> {
    kind: SummaryKind<'a>,
    focus: Option<&'a str>,
    /// Their share of the reserve.
    share: (u64, u64),
}

#[derive(Clone, Copy, PartialEq)]
enum SummaryKind<'a> {
    History,
    Turn,
    /// A branch, with instructions.
    Branch(&'a str),
}

impl Task<'_> {
    fn ask(&self, conversation: &str, previous: Option<&str>) -> String {
        let instructions = match (self.kind, previous) {
            (SummaryKind::Turn, _) => TURN,
            (SummaryKind::Branch(instructions), _) => instructions,
            (SummaryKind::History, None) => SUMMARY,
            (SummaryKind::History, Some(_)) => UPDATE,
        };
        let mut text = format!("<conversation>\n{conversation}\n</conversation>\n\n");
        if let Some(previous) = previous {
            text.push_str(&format!("<previous-summary>\n{previous}\n</previous-summary>\n\n"));
        }
        text.push_str(instructions.trim_end());
        if let Some(focus) = self.focus {
            text.push_str(&format!("\n\nAdditional focus: {focus}"));
        }
        text
    }

    fn failed(&self, failure: &AttemptError) -> SummaryError {
        let why = match failure {
            AttemptError::Cancelled => return SummaryError::Cancelled,
            AttemptError::CalledTool => {
                return SummaryError::Failed("Summarization attempted to call a tool".to_owned());
            }
            AttemptError::Provider(error) => &error.with_advice(),
            AttemptError::CutOff => "generation hit the token cap and the summary is incomplete",
            AttemptError::Empty => "the model wrote nothing",
        };
        SummaryError::Failed(match self.kind {
            SummaryKind::History => format!("Summarization failed: {why}"),
            SummaryKind::Turn => format!("Turn prefix summarization failed: {why}"),
            SummaryKind::Branch(_) => format!("Branch summarization failed: {why}"),
        })
    }
}

/// Why one request returned no notes.
enum AttemptError {
    Cancelled,
    Provider(ProviderError),
    CalledTool,
    CutOff,
    Empty,
}

impl AttemptError {
    /// The smallest piece, in tokens, worth another request. None if a smaller request would fail
    /// as well.
    fn min_piece_tokens(&self) -> Option<u64> {
        match self {
            AttemptError::Provider(ProviderError::Overflow { .. }) => Some(0),
            AttemptError::Cancelled => None,
            AttemptError::Provider(ProviderError::Retry { .. } | ProviderError::Auth { .. }) => {
                None
            }
            AttemptError::Provider(ProviderError::Fatal { .. })
            | AttemptError::CalledTool
            | AttemptError::CutOff
            | AttemptError::Empty => Some(PIECE_MIN),
        }
    }
}

/// A conversation shorter than this is not the cause of the failure.
const PIECE_MIN: u64 = 4000;
/// How often pieces are halved before giving up.
const HALVINGS_MAX: u32 = 4;

/// The requests for one compaction.
struct PartialSummary<'a, L> {
    writer: &'a Summarizer,
    listener: &'a L,
    usage: &'a mut Usage,
}

impl<L: ProgressListener> PartialSummary<'_, L> {
    /// Writes notes about these messages, continuing `previous`.
    async fn take(
        &mut self,
        messages: &[Arc<Message>],
        previous: Option<String>,
        task: Task<'_>,
    ) -> Result<String, SummaryError> {
        let parts = transcript::parts(messages);
        let size: u64 = parts.iter().map(|part| tokens::text(part)).sum();
        let room = self.room(previous.as_deref(), task);
        if size <= room {
            match self.ask(&parts.join("\n\n"), previous.as_deref(), task).await {
                Ok(notes) => return Ok(notes),
                Err(failure) => match failure.min_piece_tokens() {
                    Some(least) if size >= least && size > 1 => {}
                    _ => return Err(task.failed(&failure)),
                },
            }
        }
        self.take_in_pieces(&parts, previous, task, room.min(size / 2).max(1)).await
    }

    async fn take_in_pieces(
        &mut self,
        parts: &[String],
        mut notes: Option<String>,
        task: Task<'_>,
        mut piece_max: u64,
    ) -> Result<String, SummaryError> {
        let mut rest = pieces(parts, piece_max);
        let mut halvings = 0;
        while let Some(piece) = rest.pop_front() {
            match self.ask(&piece, notes.as_deref(), task).await {
                Ok(text) => notes = Some(text),
                Err(AttemptError::Provider(ProviderError::Overflow { .. }))
                    if halvings < HALVINGS_MAX =>
                {
                    halvings += 1;
                    piece_max = (piece_max / 2).max(1);
                    rest.push_front(piece);
                    rest = pieces(rest.make_contiguous(), piece_max);
                }
                Err(failure) => return Err(task.failed(&failure)),
            }
        }
        Ok(notes.unwrap_or_default())
    }

    /// How many tokens of conversation fit into one request.
    fn room(&self, previous: Option<&str>, task: Task<'_>) -> u64 {
        let frame = tokens::text(&task.ask("", previous)) + tokens::text(SYSTEM);
        let window = self.writer.model.context_window;
        window.saturating_sub(frame).saturating_sub(self.max_tokens(task)).max(1)
    }

    fn max_tokens(&self, task: Task<'_>) -> u64 {
        let (share, of) = task.share;
        (self.writer.limits.reserve * share / of).clamp(1, self.writer.model.max_tokens.max(1))
    }

    /// Sends one request, with retries where they may help.
    async fn ask(
        &mut self,
        conversation: &str,
        previous: Option<&str>,
        task: Task<'_>,
    ) -> Result<String, AttemptError> {
        let request = self.request(task.ask(conversation, previous), self.max_tokens(task));
        let mut attempt = 0;
        let result = loop {
            let error = match self.answer(request.clone()).await {
                Err(AttemptError::Provider(error)) => error,
                done => break done,
            };
            let policy = self.writer.retry;
            if !policy.allows(&error, attempt) {
                break Err(AttemptError::Provider(error));
            }
            attempt += 1;
            let delay = policy.delay(attempt, &error);
            let scheduled = Progress::RetryScheduled {
                attempt,
                max_attempts: policy.max_retries,
                delay_ms: delay.as_millis() as u64,
                error: error.to_string(),
            };
            self.listener.on_progress(scheduled).await;
            tokio::select! {
                () = self.writer.cancel.cancelled() => break Err(AttemptError::Cancelled),
                () = tokio::time::sleep(delay) => {}
            }
            self.listener.on_progress(Progress::RetryBegins).await;
        };
        if attempt > 0 {
            self.listener.on_progress(Progress::RetriesOver).await;
        }
        let answer = result?;
        useful(&answer)
    }

    fn request(&self, text: String, max_tokens: u64) -> Request {
        let writer = self.writer;
        // The length of the summary is limited by the reserve, not by the model.
        let model = Arc::new(Model { max_tokens, ..(*writer.model).clone() });
        Request {
            model,
            system: SYSTEM.trim_end().into(),
            messages: vec![Arc::new(Message::user(text, Vec::new(), writer.now))],
            tools: Arc::new([]),
            forced_tool: None,
            thinking: writer.thinking,
            temperature: None,
            session_id: writer.session_id.clone(),
        }
    }

    async fn answer(&mut self, request: Request) -> Result<AssistantMessage, AttemptError> {
        let writer = self.writer;
        let mut assembly = MessageBuilder::new(request.model.clone(), writer.now);
        let mut stream = writer.provider.stream(request);
        let result = loop {
            let next = tokio::select! {
                biased;
                () = writer.cancel.cancelled() => break Err(AttemptError::Cancelled),
                next = stream.next() => next,
            };
            let cut = || ProviderError::retry("Stream ended before the answer was complete");
            match next.ok_or_else(cut).flatten().and_then(|event| assembly.push(event)) {
                Ok(Step::Complete) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(AttemptError::Provider(error)),
            }
        };
        let answer = assembly.complete();
        // Failed requests cost tokens, too.
        self.usage.add(&answer.usage);
        result.map(|()| answer)
    }
}

fn useful(answer: &AssistantMessage) -> Result<String, AttemptError> {
    if answer.tool_calls().next().is_some() {
        return Err(AttemptError::CalledTool);
    }
    if answer.stop_reason == StopReason::Length {
        return Err(AttemptError::CutOff);
    }
    let text = text_of(&answer.content).trim().to_owned();
    if text.is_empty() {
        return Err(AttemptError::Empty);
    }
    Ok(text)
}

/// Combines the parts into pieces of at most this many tokens. A part that is too long is split.
fn pieces(parts: &[String], most: u64) -> VecDeque<String> {
    let mut pieces = VecDeque::new();
    let mut piece = String::new();
    let mut size = 0;
    for part in parts {
        for chunk in chunks(part, most) {
            let tokens = tokens::text(chunk);
            if size + tokens > most && !piece.is_empty() {
                pieces.push_back(std::mem::take(&mut piece));
                size = 0;
            }
            if !piece.is_empty() {
                piece.push_str("\n\n");
            }
            piece.push_str(chunk);
            size += tokens;
        }
    }
    if !piece.is_empty() {
        pieces.push_back(piece);
    }
    pieces
}

/// Splits a text into equal chunks of about this many tokens.
fn chunks(part: &str, most: u64) -> impl Iterator<Item = &str> {
    let count = tokens::text(part).div_ceil(most.max(1)).max(1) as usize;
    let step = if count == 1 { usize::MAX } else { part.chars().count().div_ceil(count) };
    let mut rest = part;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(step).map_or(rest.len(), |(end, _)| end);
        let (chunk, more) = rest.split_at(end);
        rest = more;
        Some(chunk)
    })
}
