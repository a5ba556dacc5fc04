//! An answer being written: its blocks, which of them are open, and how it ends.
//!
//! It enforces the rules of a provider's stream, so that neither a script nor the demo can break
//! them by accident: blocks are numbered in order, start once and end once.

use std::mem;
use std::time::Duration;

use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, StreamEvent};

use super::expect::Expectation;
use super::step::{BlockKind, Pieces, Step, TextChunk};

#[derive(Debug, Default)]
pub(crate) struct Draft {
    blocks: Vec<DraftBlock>,
    /// A new block leaves the previous ones open.
    hold: bool,
    over: bool,
    steps: Vec<Step>,
    pub(crate) chunk: TextChunk,
    pub(crate) pace: Duration,
}

#[derive(Debug)]
struct DraftBlock {
    kind: BlockKind,
    open: bool,
    signature: Option<String>,
    redacted: bool,
}

impl Draft {
    /// Texts are split into deltas by `chunk`; each is delayed by `pace`.
    pub(crate) fn new(chunk: TextChunk, pace: Duration) -> Draft {
        Draft { chunk, pace, ..Draft::default() }
    }

    pub(crate) fn say(&mut self, text: Option<String>) {
        self.open(BlockKind::Text, false, |index| StreamEvent::TextStart { index });
        self.spell(text);
    }

    pub(crate) fn think(&mut self, text: Option<String>) {
        self.open(BlockKind::Thinking, false, |index| StreamEvent::ThinkingStart { index });
        self.spell(text);
    }

    /// Thinking of which the provider sends only the signature.
    pub(crate) fn redacted(&mut self, signature: String) {
        let index =
            self.open(BlockKind::Thinking, true, |index| StreamEvent::ThinkingStart { index });
        self.blocks[index].signature = Some(signature);
    }

    pub(crate) fn call(&mut self, id: String, name: String, arguments: Option<String>) {
        self.open(BlockKind::Call, false, |index| StreamEvent::CallStart { index, id, name });
        self.spell(arguments);
    }

    /// Adds to a block: the newest if none is named, or a new text block if none is open.
    pub(crate) fn add(&mut self, block: Option<usize>, pieces: Pieces) -> Result<(), NotOpen> {
        let index = match block {
            None if !self.blocks.iter().any(|block| block.open) => {
                self.open(BlockKind::Text, false, |index| StreamEvent::TextStart { index })
            }
            _ => self.open_block(block)?,
        };
        self.push_pieces(index, pieces);
        Ok(())
    }

    /// The block's signature is sent when it ends.
    pub(crate) fn sign(&mut self, block: Option<usize>, signature: String) -> Result<(), NotOpen> {
        let index = self.open_block(block)?;
        self.blocks[index].signature = Some(signature);
        Ok(())
    }

    pub(crate) fn close(&mut self, block: Option<usize>) -> Result<(), NotOpen> {
        let index = self.open_block(block)?;
        self.close_block(index);
        Ok(())
    }

    pub(crate) fn hold(&mut self) {
        self.hold = true;
    }

    pub(crate) fn event(&mut self, event: StreamEvent) {
        self.steps.push(Step::Event(event));
    }

    pub(crate) fn usage(&mut self, usage: Usage) {
        self.event(StreamEvent::Usage(Box::new(usage)));
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.steps.push(Step::Wait(time));
    }

    pub(crate) fn expect(&mut self, expectation: Expectation) {
        self.steps.push(Step::Expect(expectation));
    }

    pub(crate) fn fail(&mut self, error: ProviderError) {
        self.steps.push(Step::Fail(error));
        self.over = true;
    }

    pub(crate) fn hang(&mut self) {
        self.steps.push(Step::Hang);
        self.over = true;
    }

    /// The connection is lost: blocks stay open and there is no `Done`.
    pub(crate) fn cut(&mut self) {
        self.over = true;
    }

    pub(crate) fn close_all(&mut self) {
        for index in 0..self.blocks.len() {
            if self.blocks[index].open {
                self.close_block(index);
            }
        }
    }

    /// Without a reason: `tool_use` if there are calls, else `stop`.
    pub(crate) fn stop(&mut self, reason: Option<StopReason>, raw: Option<String>) {
        self.close_all();
        let calls = self.blocks.iter().any(|block| block.kind == BlockKind::Call);
        let natural = if calls { StopReason::ToolUse } else { StopReason::Stop };
        self.event(StreamEvent::Done { reason: reason.unwrap_or(natural), raw });
        self.over = true;
    }

    /// Whether the answer has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the answer if it has not ended, and begins the next.
    pub(crate) fn finish(&mut self) {
        if !self.over {
            self.stop(None, None);
        }
        *self = Draft { steps: mem::take(&mut self.steps), ..Draft::new(self.chunk, self.pace) };
    }

    /// Takes the steps written since the last call.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        mem::take(&mut self.steps)
    }

    fn open(
        &mut self,
        kind: BlockKind,
        redacted: bool,
        start: impl FnOnce(usize) -> StreamEvent,
    ) -> usize {
        if !self.hold {
            // Only the newest can be open.
            if let Some(newest) = self.blocks.len().checked_sub(1)
                && self.blocks[newest].open
            {
                self.close_block(newest);
            }
        }
        let index = self.blocks.len();
        self.blocks.push(DraftBlock { kind, open: true, signature: None, redacted });
        self.event(start(index));
        index
    }

    fn spell(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.push_pieces(self.blocks.len() - 1, Pieces::text(text, self.chunk));
        }
    }

    fn push_pieces(&mut self, index: usize, pieces: Pieces) {
        let kind = self.blocks[index].kind;
        self.steps.push(Step::Deltas { index, kind, pieces, pace: self.pace });
    }

    fn open_block(&self, block: Option<usize>) -> Result<usize, NotOpen> {
        let newest = self.blocks.iter().rposition(|block| block.open);
        match block {
            None => newest.ok_or(NotOpen(None)),
            Some(index) if self.blocks.get(index).is_some_and(|block| block.open) => Ok(index),
            Some(index) => Err(NotOpen(Some(index))),
        }
    }

    fn close_block(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        block.open = false;
        let signature = block.signature.take();
        let event = match block.kind {
            BlockKind::Text => StreamEvent::TextEnd { index, signature },
            BlockKind::Thinking => {
                StreamEvent::ThinkingEnd { index, signature, redacted: block.redacted }
            }
            BlockKind::Call => StreamEvent::CallEnd { index, thought_signature: signature },
        };
        self.event(event);
    }
}

/// The block does not exist or has already ended.
#[derive(Debug, PartialEq)]
pub(crate) struct NotOpen(pub(crate) Option<usize>);
