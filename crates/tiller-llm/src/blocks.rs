//! The blocks of an answer while it streams. An API numbers its blocks in its own way and may have
//! more of them, of kinds that are not emitted; here each API number has the index that we emit.

use tiller_agent::provider::StreamEvent;

/// The blocks that have started and not ended; rarely more than one.
#[derive(Debug, Default)]
pub(crate) struct BlockMap {
    open: Vec<OpenBlock>,
    /// How many blocks were emitted.
    started: usize,
}

#[derive(Debug)]
pub(crate) struct OpenBlock {
    wire_index: usize,
    pub(crate) index: usize,
    pub(crate) kind: BlockKind,
    /// Whether any of it was streamed.
    pub(crate) streamed: bool,
    /// The content, emitted at the end if none of it was streamed.
    pub(crate) full_text: String,
    /// The part of the block that the last delta belonged to, where the API has parts.
    pub(crate) part: usize,
    /// Empty if there is none.
    pub(crate) signature: String,
    pub(crate) redacted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
    Call,
}

impl BlockMap {
    pub(crate) fn start_text(
        &mut self,
        wire_index: usize,
        out: &mut Vec<StreamEvent>,
    ) -> &mut OpenBlock {
        out.push(StreamEvent::TextStart { index: self.started });
        self.open(wire_index, BlockKind::Text)
    }

    pub(crate) fn start_thinking(
        &mut self,
        wire_index: usize,
        out: &mut Vec<StreamEvent>,
    ) -> &mut OpenBlock {
        out.push(StreamEvent::ThinkingStart { index: self.started });
        self.open(wire_index, BlockKind::Thinking)
    }

    pub(crate) fn start_call(
        &mut self,
        wire_index: usize,
        id: String,
        name: String,
        out: &mut Vec<StreamEvent>,
    ) -> &mut OpenBlock {
        out.push(StreamEvent::CallStart { index: self.started, id, name });
        self.open(wire_index, BlockKind::Call)
    }

    fn open(&mut self, wire_index: usize, kind: BlockKind) -> &mut OpenBlock {
        let block = OpenBlock {
            wire_index,
            index: self.started,
            kind,
            streamed: false,
            full_text: String::new(),
            part: 0,
            signature: String::new(),
            redacted: false,
        };
        self.started += 1;
        self.open.push_mut(block)
    }

    /// The open block with this number of the API's.
    pub(crate) fn get(&mut self, wire_index: usize) -> Option<&mut OpenBlock> {
        self.open.iter_mut().find(|block| block.wire_index == wire_index)
    }

    /// The same if it is of this kind.
    pub(crate) fn get_kind(
        &mut self,
        wire_index: usize,
        kind: BlockKind,
    ) -> Option<&mut OpenBlock> {
        self.get(wire_index).filter(|block| block.kind == kind)
    }

    /// Closes a block without emitting its end.
    pub(crate) fn take(&mut self, wire_index: usize) -> Option<OpenBlock> {
        let at = self.open.iter().position(|block| block.wire_index == wire_index)?;
        Some(self.open.remove(at))
    }

    pub(crate) fn end(&mut self, wire_index: usize, out: &mut Vec<StreamEvent>) {
        if let Some(block) = self.take(wire_index) {
            block.end(out);
        }
    }

    pub(crate) fn end_all(&mut self, out: &mut Vec<StreamEvent>) {
        self.open.drain(..).for_each(|block| block.end(out));
    }
}

impl OpenBlock {
    /// Emits a delta unless it is empty.
    pub(crate) fn grow(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        if delta.is_empty() {
            return;
        }
        let index = self.index;
        self.streamed = true;
        out.push(match self.kind {
            BlockKind::Text => StreamEvent::TextDelta { index, delta },
            BlockKind::Thinking => StreamEvent::ThinkingDelta { index, delta },
            BlockKind::Call => StreamEvent::CallDelta { index, delta },
        });
    }

    pub(crate) fn end(mut self, out: &mut Vec<StreamEvent>) {
        if !self.streamed {
            let full_text = std::mem::take(&mut self.full_text);
            self.grow(full_text, out);
        }
        let OpenBlock { index, redacted, .. } = self;
        let signature = (!self.signature.is_empty()).then_some(self.signature);
        out.push(match self.kind {
            BlockKind::Text => StreamEvent::TextEnd { index, signature },
            BlockKind::Thinking => StreamEvent::ThinkingEnd { index, signature, redacted },
            BlockKind::Call => StreamEvent::CallEnd { index, thought_signature: signature },
        });
    }
}
