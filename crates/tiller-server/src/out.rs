//! Writes records. They go into a batch, and batches to a writer that may be slow; the server never
//! waits for it.
//!
//! Two things are bounded here. For a client that reads slowly, adjacent updates of one block are
//! merged, so that the backlog is the messages themselves and not their updates. And where an
//! update carries the whole message, long messages are written in larger updates, because otherwise
//! n bytes of answer would become n² bytes of output. The start and the end of a block cannot be
//! merged; where a message has so many of them that they would cost too much, they are written
//! without the message.

mod cut;
mod frames;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tiller_agent::event::{Event, Update};
use tiller_agent::message::ToolCall;
use tiller_agent::tool::ToolOutput;
use tiller_protocol::{
    Detail, GetEvents, GetRecord, Label, Level, RecordWriter, Refusal, Reply, ServerRecord,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::connection::WireFormat;
use crate::outbox::Outgoing;
use frames::{Frames, Keep};

pub use queue::{Chunk, OutputQueue};

/// With more than this unread, updates are merged.
const CONGESTED_BYTES: usize = 8 << 20;
/// With more than this unread, no line is read and no turn is started.
const FLOODED_BYTES: usize = 16 << 20;
/// A batch of this size is sent even though more is coming: larger ones cost the kernel fresh pages
/// each time.
const BATCH_BYTES: usize = 64 << 10;
/// Records up to this length are written for each update.
const SHORT_RECORD_BYTES: usize = 16 << 10;
/// A longer record needs new text: this many bytes of output for one byte of text.
const OUTPUT_PER_TEXT_BYTE: usize = 64;
/// Updates that start or end a block, and text that has to be written before them, carry the
/// message until these records exceed what [`OUTPUT_PER_TEXT_BYTE`] allows for the whole message by
/// so many bytes. So a message of up to 10 blocks always has them, and one of 20 KB with 100
/// blocks, too.
const BLOCK_STEPS_BYTES: usize = 16 << 20;
/// But text never waits longer than this for more.
const HOLD: Duration = Duration::from_millis(50);

pub(crate) struct Out {
    writer: RecordWriter,
    frames: Frames,
    /// Whether lines need more than the writer does: a number, a session or a limit.
    finishes_lines: bool,
    /// Whether `prompt_result` is written.
    prompt_results: bool,
    batch: Vec<u8>,
    pipe: Pipe,
    /// Updates that are not written yet and may still grow.
    held: Vec<Held>,
    due: Option<Instant>,
    /// What the block updates of the current message have cost so far.
    block_steps_bytes: usize,
}

enum Held {
    Step { update: Update, since: Instant },
    Tool { call: Arc<ToolCall>, partial: Box<ToolOutput> },
}

impl Out {
    pub(crate) fn new(level: Level, pipe: Pipe) -> Out {
        Out {
            writer: RecordWriter::new(level),
            frames: Frames::default(),
            finishes_lines: false,
            prompt_results: false,
            batch: Vec::new(),
            pipe,
            held: Vec::new(),
            due: None,
            block_steps_bytes: 0,
        }
    }

    /// Changes the format of later records. Held records are written in the format they had.
    fn change_format(&mut self, format: WireFormat) {
        self.write_held();
        self.writer.change(format.level, format.stream, format.tool_updates);
        self.frames.change(format.epoch, format.max_frame_bytes);
        self.finishes_lines = self.frames.is_active();
        self.prompt_results = format.prompt_results;
    }

    pub(crate) fn ready(&mut self, version: &str) {
        self.line(|writer, batch| writer.ready(version, batch));
    }

    /// Names the session in every later record.
    pub(crate) fn name_session(&mut self, handle: &str) {
        self.frames.name_session(handle);
        self.finishes_lines = true;
    }

    /// Writes a line that is not a record of the session: without its name and without a number.
    pub(crate) fn plain_line(&mut self, line: &str) {
        self.write_held();
        self.batch.extend_from_slice(line.as_bytes());
        self.batch.push(b'\n');
    }

    /// Writes kept records once more, as they were.
    pub(crate) fn repeat(&mut self, lines: &[Box<str>]) {
        for line in lines {
            self.plain_line(line);
            if self.batch.len() > BATCH_BYTES {
                self.send();
            }
        }
    }

    /// The records after this number, if all of them are kept.
    pub(crate) fn kept_since(&mut self, since: u64) -> Option<Vec<Box<str>>> {
        self.write_held();
        self.frames.kept_since(since)
    }

    /// The pipe, for another stream.
    pub(crate) fn into_pipe(self) -> Pipe {
        self.pipe
    }

    /// Writes to another pipe from now on.
    pub(crate) fn reconnect(&mut self, pipe: Pipe) {
        self.write_held();
        self.batch.clear();
        self.pipe = pipe;
    }

    /// Writes what is waiting, and nothing to the client afterwards; records are still kept.
    pub(crate) fn disconnect(&mut self) {
        self.write_held();
        self.flush();
        self.pipe = Pipe::closed();
    }

    pub(crate) fn write(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Event(event) => self.event(event),
            Outgoing::Response(label, result) => self.respond(&label, result),
            Outgoing::Refusal(id, refusal) => self.refuse(id.as_deref(), &refusal),
            Outgoing::Format(format) => self.change_format(format),
            Outgoing::Events(label, request) => self.respond_with_events(&label, &request),
            Outgoing::RecordPiece(label, request) => self.respond_with_piece(&label, &request),
            Outgoing::DialogClosed(id) => self.dialog_closed(&id),
        }
    }

    /// A client that has the session for itself knows by its own answer.
    fn dialog_closed(&mut self, id: &str) {
        if self.frames.names_session() {
            self.write_held();
            let record = ServerRecord::ExtensionUiClosed { id: id.into() };
            self.line(|writer, batch| writer.server_record(&record, batch));
        }
    }

    /// The one response to a command.
    fn respond(&mut self, label: &Label, result: Result<Reply, String>) {
        match result {
            Ok(reply) => self.reply(label, reply),
            Err(error) => self.refuse(label.id.as_deref(), &Refusal::of(label, error)),
        }
    }

    /// Responds with records that were written before.
    fn respond_with_events(&mut self, label: &Label, request: &GetEvents) {
        self.write_held();
        let result = self.frames.events(request).map(|events| Reply::data(&events));
        self.respond_unkept(label, result);
    }

    /// Responds with a part of a record that was cut.
    fn respond_with_piece(&mut self, label: &Label, request: &GetRecord) {
        let result = self.frames.piece(request).map(|piece| Reply::data(&piece));
        self.respond_unkept(label, result);
    }

    /// A response that repeats what is kept is not kept itself.
    fn respond_unkept(&mut self, label: &Label, result: Result<Reply, String>) {
        self.write_held();
        let start = self.batch.len();
        match result {
            Ok(reply) => self.writer.reply(label, reply, &mut self.batch),
            Err(error) => {
                let refusal = Refusal::of(label, error);
                self.writer.refuse(label.id.as_deref(), &refusal, &mut self.batch);
            }
        }
        self.frames.finish(&mut self.batch, start, Keep::No);
    }

    /// Writes one record, if `write` does.
    fn line(&mut self, write: impl FnOnce(&mut RecordWriter, &mut Vec<u8>)) {
        let start = self.batch.len();
        write(&mut self.writer, &mut self.batch);
        if self.finishes_lines {
            self.frames.finish(&mut self.batch, start, Keep::Yes);
        }
    }

    fn reply(&mut self, label: &Label, reply: Reply) {
        self.write_held();
        self.line(|writer, batch| writer.reply(label, reply, batch));
        if self.batch.len() > BATCH_BYTES {
            self.send();
        }
    }

    fn refuse(&mut self, id: Option<&RawValue>, refusal: &Refusal) {
        self.write_held();
        self.line(|writer, batch| writer.refuse(id, refusal, batch));
    }

    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::MessageUpdate(update) if is_delta(&update) => self.hold_delta(update),
            // Only later snapshots show it, so nothing needs to be written before it.
            Event::MessageUpdate(
                Update::Usage(_) | Update::ResponseId(_) | Update::ResponseModel(_),
            ) => self.record(&event),
            Event::MessageUpdate(update) => self.block_step(&update),
            Event::MessageStart { .. } => {
                self.write_held();
                self.block_steps_bytes = 0;
                self.record(&event);
            }
            Event::ToolUpdate { call, partial } if self.is_congested() => {
                self.hold_tool_update(call, partial);
            }
            // Some clients take the last line of a read for the end of the run, so nothing may
            // follow `agent_end` in the same write.
            Event::AgentEnd { .. } => {
                self.write_held();
                self.record(&event);
                self.send();
            }
            Event::PromptResult(_) if !self.prompt_results => {}
            _ => {
                self.write_held();
                self.record(&event);
            }
        }
    }

    fn record(&mut self, event: &Event) {
        self.line(|writer, batch| writer.event(event, batch));
    }

    fn update(&mut self, update: &Update, detail: Detail) {
        self.line(|writer, batch| writer.update(update, detail, batch));
    }

    /// Hands the batch to the writer.
    pub(crate) fn flush(&mut self) {
        if !self.held.is_empty() && self.may_write() {
            self.write_held();
        }
        if !self.batch.is_empty() {
            self.send();
        }
    }

    /// The next batch is likely to be as long as this one, so its capacity is reserved at once.
    fn send(&mut self) {
        let next = Vec::with_capacity(self.batch.len().min(BATCH_BYTES));
        self.pipe.send(std::mem::replace(&mut self.batch, next));
    }

    /// Writes everything, because the process is about to end.
    pub(crate) fn close(mut self) {
        self.write_held();
        self.flush();
    }

    /// When held text must be written at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The client is far behind; more output would only fill memory.
    pub(crate) fn is_flooded(&self) -> bool {
        self.waiting_bytes() > FLOODED_BYTES
    }

    fn is_congested(&self) -> bool {
        self.waiting_bytes() > CONGESTED_BYTES
    }

    fn waiting_bytes(&self) -> usize {
        self.pipe.waiting_bytes() + self.batch.len()
    }

    fn hold_delta(&mut self, update: Update) {
        if let Some(Held::Step { update: held, .. }) = self.held.last_mut()
            && same_block(held, &update)
        {
            append(held, update);
        } else {
            self.release_before_step();
            self.held.push(Held::Step { update, since: Instant::now() });
        }
        if self.may_write() {
            self.write_held();
        }
    }

    /// The start or the end of a block.
    fn block_step(&mut self, update: &Update) {
        self.release_before_step();
        let detail = self.afford(0);
        self.update(update, detail);
        if self.batch.len() > BATCH_BYTES {
            self.send();
        }
    }

    /// Writes text that would have waited for more if its block had gone on.
    fn release_before_step(&mut self) {
        let is_step = |held: &mut Held| matches!(held, Held::Step { .. });
        if self.held.len() == 1
            && let Some(Held::Step { update, .. }) = self.held.pop_if(is_step)
        {
            let detail = self.afford(delta(&update).map_or(0, str::len));
            self.update(&update, detail);
        }
        self.write_held();
    }

    /// Whether an update with this much text can carry the message. An update without enough text
    /// counts against the budget of the whole message, and is refused while the reader is behind.
    fn afford(&mut self, text_bytes: usize) -> Detail {
        let record_bytes = self.writer.update_len() + 2 * text_bytes;
        if self.frames.is_too_long(record_bytes) {
            return Detail::Step;
        }
        if is_paid(record_bytes, text_bytes) {
            return Detail::Snapshot;
        }
        // A record has the message twice.
        let of_message = self.writer.update_len() / 2 * OUTPUT_PER_TEXT_BYTE;
        let of_message = if self.is_congested() { 0 } else { of_message };
        let cost = self.block_steps_bytes + record_bytes;
        if cost > BLOCK_STEPS_BYTES + of_message {
            return Detail::Step;
        }
        self.block_steps_bytes = cost;
        Detail::Snapshot
    }

    /// Whether held updates should be written now. Sets the time when they must be.
    fn may_write(&mut self) -> bool {
        if self.is_congested() {
            self.due = None;
            return false;
        }
        let Some(Held::Step { update, since }) = self.held.last() else { return true };
        let text_bytes = delta(update).map_or(0, str::len);
        let record_bytes = self.writer.update_len() + 2 * text_bytes;
        if is_paid(record_bytes, text_bytes) {
            return true;
        }
        let due = *since + HOLD;
        self.due = Some(due);
        Instant::now() >= due
    }

    fn hold_tool_update(&mut self, call: Arc<ToolCall>, partial: Box<ToolOutput>) {
        let same = self.held.iter_mut().find_map(|held| match held {
            Held::Tool { call: other, partial } if other.id == call.id => Some(partial),
            _ => None,
        });
        match same {
            Some(earlier) => *earlier = partial,
            None => self.held.push(Held::Tool { call, partial }),
        }
    }

    fn write_held(&mut self) {
        self.due = None;
        if self.held.is_empty() {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        for held in held.drain(..) {
            match held {
                Held::Step { update, .. } => {
                    let detail = if self.finishes_lines {
                        let text_bytes = delta(&update).map_or(0, str::len);
                        self.detail(self.writer.update_len() + 2 * text_bytes)
                    } else {
                        Detail::Snapshot
                    };
                    self.update(&update, detail);
                }
                Held::Tool { call, partial } => self.record(&Event::ToolUpdate { call, partial }),
            }
        }
        // Its capacity is used again.
        self.held = held;
    }

    /// An update that would be cut is written without the message instead.
    fn detail(&self, record_bytes: usize) -> Detail {
        if self.frames.is_too_long(record_bytes) { Detail::Step } else { Detail::Snapshot }
    }
}

/// Short records are always allowed; longer ones need enough text.
fn is_paid(record_bytes: usize, text_bytes: usize) -> bool {
    record_bytes <= SHORT_RECORD_BYTES || text_bytes * OUTPUT_PER_TEXT_BYTE >= record_bytes
}

// Called for each delta, and from two files: without the hint they are no longer inlined.
#[inline]
pub(crate) fn is_delta(update: &Update) -> bool {
    delta(update).is_some()
}

fn delta(update: &Update) -> Option<&str> {
    match update {
        Update::TextDelta { delta, .. }
        | Update::ThinkingDelta { delta, .. }
        | Update::CallDelta { delta, .. } => Some(delta),
        _ => None,
    }
}

#[inline]
pub(crate) fn same_block(a: &Update, b: &Update) -> bool {
    match (a, b) {
        (Update::TextDelta { index: a, .. }, Update::TextDelta { index: b, .. })
        | (Update::ThinkingDelta { index: a, .. }, Update::ThinkingDelta { index: b, .. })
        | (Update::CallDelta { index: a, .. }, Update::CallDelta { index: b, .. }) => a == b,
        _ => false,
    }
}

#[inline]
pub(crate) fn append(held: &mut Update, more: Update) {
    if let (
        Update::TextDelta { delta, .. }
        | Update::ThinkingDelta { delta, .. }
        | Update::CallDelta { delta, .. },
        Update::TextDelta { delta: more, .. }
        | Update::ThinkingDelta { delta: more, .. }
        | Update::CallDelta { delta: more, .. },
    ) = (held, more)
    {
        delta.push_str(&more);
    }
}

/// The server's end of the pipe to the writer. Clones are the same pipe.
#[derive(Clone)]
pub struct Pipe {
    sink: Sink,
    unsent: Unsent,
}

#[derive(Clone)]
enum Sink {
    /// The only pipe of its writer.
    Channel(mpsc::UnboundedSender<Vec<u8>>),
    /// One of several pipes of a client with many sessions.
    Queue(Arc<OutputQueue>, u64),
    /// There is no writer.
    Closed,
}

/// The writer's end.
pub struct Drain {
    chunks: mpsc::UnboundedReceiver<Vec<u8>>,
    unsent: Unsent,
}

/// Counts the bytes that the writer has not written yet.
#[derive(Clone, Default)]
struct Unsent {
    bytes: Arc<AtomicUsize>,
    caught_up: Arc<Notify>,
}

/// Makes the pipe from the server to its writer. The channel itself is unbounded, because [`Out`]
/// bounds it; the notification means that a writer that was behind has caught up.
pub fn pipe() -> (Pipe, Drain, Arc<Notify>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unsent = Unsent::default();
    let caught_up = unsent.caught_up.clone();
    let pipe = Pipe { sink: Sink::Channel(sender), unsent: unsent.clone() };
    (pipe, Drain { chunks: receiver, unsent }, caught_up)
}

impl Pipe {
    /// A pipe into a queue that several sessions share.
    pub(crate) fn into_queue(queue: Arc<OutputQueue>) -> (Pipe, Arc<Notify>) {
        let unsent = Unsent::default();
        let caught_up = unsent.caught_up.clone();
        let lane = queue.new_lane();
        (Pipe { sink: Sink::Queue(queue, lane), unsent }, caught_up)
    }

    /// Sends one line.
    pub(crate) fn send_line(&self, line: &str) {
        let mut chunk = Vec::with_capacity(line.len() + 1);
        chunk.extend_from_slice(line.as_bytes());
        chunk.push(b'\n');
        self.send(chunk);
    }

    fn closed() -> Pipe {
        Pipe { sink: Sink::Closed, unsent: Unsent::default() }
    }

    fn send(&self, chunk: Vec<u8>) {
        match &self.sink {
            Sink::Channel(sender) => {
                self.unsent.bytes.fetch_add(chunk.len(), Ordering::AcqRel);
                // A writer that has ended has sent `OutputClosed` itself.
                sender.send(chunk).ok();
            }
            Sink::Queue(queue, lane) => {
                self.unsent.bytes.fetch_add(chunk.len(), Ordering::AcqRel);
                queue.push(*lane, Chunk::new(chunk, self.unsent.clone()));
            }
            Sink::Closed => {}
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.unsent.bytes.load(Ordering::Acquire)
    }
}

impl Drain {
    /// The next chunk; `None` when the server has closed the pipe. Blocks: for a writer thread.
    pub fn wait(&mut self) -> Option<Vec<u8>> {
        self.chunks.blocking_recv()
    }

    /// The same for a reader on the server's runtime.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.chunks.recv().await
    }

    /// The next chunk, if there is one already.
    #[cfg(test)]
    fn try_next(&mut self) -> Option<Vec<u8>> {
        self.chunks.try_recv().ok()
    }

    /// Reports that this many bytes have been read.
    pub fn wrote(&self, bytes: usize) {
        self.unsent.wrote(bytes);
    }
}

impl Unsent {
    fn wrote(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        let after = before - bytes;
        let passed = |mark: usize| before > mark && after <= mark;
        if passed(CONGESTED_BYTES) || passed(FLOODED_BYTES) {
            self.caught_up.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
