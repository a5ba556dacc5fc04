//! The open conversation: its session, and the messages the model sees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use tiller_agent::compaction::cut::{self, Plan};
use tiller_agent::message::{Block, Message, ToolCall, ToolResultMessage, UnixMs};
use tiller_agent::tokens;
use tiller_session::{Body, BranchSummary, Compaction, Durability, Entry, Error, Session};

/// A session and the messages that the model sees of it.
pub struct Conversation {
    session: Session,
    /// The messages the model sees. A large session is opened without reading them; they are loaded
    /// when a request first needs them.
    context: Option<Vec<Arc<Message>>>,
    /// Token counts of providers before this message no longer hold.
    fresh_from: usize,
    durability: Durability,
    owed: Owed,
}

/// Tool results that could not be written. Their calls are stored, and no provider accepts a
/// conversation with an unanswered call: so they are stored before anything else.
#[derive(Default)]
struct Owed {
    results: Vec<Arc<Message>>,
    /// Why the first one could not be stored.
    why: String,
    /// Stored by now, but not announced.
    stored: Vec<Arc<Message>>,
    /// The ids of entries that were stored although their append failed, and that the results above
    /// do not take into account yet.
    found: Vec<String>,
}

/// An entry that another process has stored.
pub(crate) struct NewEntry {
    /// None if its kind is unknown.
    pub(crate) body: Option<Body>,
    pub(crate) line: String,
}

/// The length of a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tokens {
    /// As counted by a provider, with an estimate of later messages.
    Counted(u64),
    /// An estimate of the messages alone, without the rest of a request.
    Estimated(u64),
}

impl Tokens {
    fn of(messages: &[Arc<Message>], fresh_from: usize) -> Tokens {
        match tokens::counted(messages, fresh_from) {
            Some(tokens) => Tokens::Counted(tokens),
            None => Tokens::Estimated(tokens::estimate_all(messages)),
        }
    }
}

impl Conversation {
    /// A conversation in a session that needs no repair.
    pub fn new(mut session: Session, durability: Durability) -> Conversation {
        session.set_durability(durability);
        let context = session.is_empty().then(Vec::new);
        Conversation { session, context, fresh_from: 0, durability, owed: Owed::default() }
    }

    /// Resumes a stored session. A call that a crash left without a result gets one, since no
    /// provider accepts an unanswered call.
    pub fn resume(
        session: Session,
        durability: Durability,
        now: UnixMs,
    ) -> Result<Conversation, Error> {
        let mut conversation = Conversation::new(session, durability);
        if !conversation.session.is_read_only() {
            for call in conversation.session.unanswered_calls()? {
                conversation.push(no_result(&call, INTERRUPTED, now), now)?;
            }
        }
        Ok(conversation)
    }

    /// The stored session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The id of the session.
    pub fn id(&self) -> &str {
        self.session.id()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.session.name().filter(|name| !name.is_empty())
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.session.path()
    }

    /// The working directory of the session.
    pub fn cwd(&self) -> PathBuf {
        self.session.cwd().to_owned()
    }

    pub(crate) fn message_count(&self) -> usize {
        self.session.context_len()
    }

    /// The messages the model sees, loaded from disk if necessary.
    pub(crate) fn messages(&mut self) -> Result<&[Arc<Message>], Error> {
        if self.context.is_none() {
            let context = self.session.context()?;
            self.fresh_from = context.fresh_from;
            self.context = Some(context.messages.into_iter().map(|read| read.message).collect());
        }
        Ok(self.context.as_deref().unwrap_or_default())
    }

    /// The same, if already loaded.
    pub(crate) fn loaded(&self) -> Option<&[Arc<Message>]> {
        self.context.as_deref()
    }

    /// The newest messages, back to the first for which `enough` is true. Cheap even in a long
    /// session.
    pub(crate) fn tail(
        &self,
        mut enough: impl FnMut(&Message) -> bool,
    ) -> Result<Vec<Arc<Message>>, Error> {
        let Some(context) = &self.context else {
            return self.session.context_tail(|message, _| enough(message));
        };
        let from = context.iter().rposition(|message| enough(message)).unwrap_or(0);
        Ok(context[from..].to_vec())
    }

    /// Tokens in the model's context window.
    pub(crate) fn tokens(&self) -> Result<Tokens, Error> {
        if let Some(context) = &self.context {
            return Ok(Tokens::of(context, self.fresh_from));
        }
        let mut is_counted = false;
        let tail = self.session.context_tail(|message, is_fresh| {
            is_counted = is_fresh && tokens::is_counted(message);
            is_counted
        })?;
        Ok(Tokens::of(&tail, if is_counted { 0 } else { tail.len() }))
    }

    /// Where to cut the conversation, without its last `skip` messages, to keep about `keep`
    /// tokens, and the first entry to keep. `None` if it is too short.
    pub(crate) fn cut(&self, keep: u64, skip: usize) -> Result<Option<(Plan, String)>, Error> {
        let mut context = self.session.context()?.messages;
        context.truncate(context.len().saturating_sub(skip));
        let messages: Vec<_> = context.iter().map(|read| read.message.clone()).collect();
        let Some(plan) = cut::plan(&messages, keep) else { return Ok(None) };
        let first_kept = self.session.kept_from(&context[plan.first_kept].entry_id)?;
        Ok(Some((plan, first_kept)))
    }

    /// Replaces everything before an entry by a summary. Returns the id of the compaction entry.
    pub(crate) fn compact(&mut self, compaction: Compaction, now: UnixMs) -> Result<String, Error> {
        let id = self.record(Body::Compaction(compaction), now)?;
        self.reread()?;
        Ok(id)
    }

    /// Reloads the messages from the session.
    pub(crate) fn reread(&mut self) -> Result<(), Error> {
        self.context = None;
        self.messages().map(|_| ())
    }

    /// Appends a message. On return it is in the file, as durable as configured.
    pub fn push(&mut self, message: Arc<Message>, now: UnixMs) -> Result<(), Error> {
        self.store_owed(now)?;
        self.push_now(message, now)
    }

    fn push_now(&mut self, message: Arc<Message>, now: UnixMs) -> Result<(), Error> {
        let body = Body::Message(message.clone());
        self.write(|session| session.append(body, now))?;
        if let Some(context) = &mut self.context {
            context.push(message);
        }
        Ok(())
    }

    /// Appends an entry that is not a message.
    pub fn record(&mut self, body: Body, now: UnixMs) -> Result<String, Error> {
        self.store_owed(now)?;
        self.write(|session| session.append(body, now))
    }

    /// Keeps the messages in step with the session, also if an entry was written but could not be
    /// synced.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let written = write(&mut self.session);
        if matches!(written, Err(Error::NotSynced { .. })) {
            self.context = None;
        }
        written
    }

    /// Why results are owed, if there are any.
    pub(crate) fn owes(&self) -> Option<&str> {
        (!self.owed.results.is_empty()).then_some(self.owed.why.as_str())
    }

    /// A message of a run was not stored. A result is stored later; any other message is not part
    /// of the conversation.
    pub(crate) fn owe(&mut self, message: Arc<Message>, why: &str) {
        if matches!(*message, Message::ToolResult(_)) {
            if self.owed.results.is_empty() {
                self.owed.why = why.to_owned();
            }
            self.owed.results.push(message);
        }
    }

    /// An answer is stored although an error was reported, so its tools do not run; but its calls
    /// need results.
    pub(crate) fn owe_results_of(&mut self, message: &Message, why: &str, now: UnixMs) {
        let calls = message.as_assistant().into_iter().flat_map(|answer| answer.tool_calls());
        for call in calls {
            self.owe(no_result(call, NOT_EXECUTED, now), why);
        }
    }

    /// Stores owed results until a write fails. Before, it finds out what an earlier write has
    /// stored although it failed.
    pub(crate) fn store_owed(&mut self, now: UnixMs) -> Result<(), Error> {
        self.find_stored(now)?;
        while let Some(result) = self.owed.results.first().cloned() {
            let stored = self.push_now(result.clone(), now);
            if matches!(stored, Ok(()) | Err(Error::NotSynced { .. })) {
                self.owed.results.remove(0);
            }
            stored?;
            self.owed.stored.push(result);
        }
        Ok(())
    }

    /// A database may have stored an entry although its append failed, for example because the
    /// connection was lost before the answer came. Such a result is not stored again, and the calls
    /// of such an answer get results, since its tools did not run.
    fn find_stored(&mut self, now: UnixMs) -> Result<(), Error> {
        let found = self.session.refresh()?;
        self.owed.found.extend(found);
        if self.owed.found.is_empty() {
            return Ok(());
        }
        // At once, because a run that starts now begins with the messages in memory.
        self.reread()?;
        while let Some(id) = self.owed.found.first() {
            if let Some(Body::Message(message)) = self.session.entry(id)?.and_then(|it| it.body) {
                self.stored_after_all(&message, now);
            }
            self.owed.found.remove(0);
        }
        Ok(())
    }

    fn stored_after_all(&mut self, message: &Arc<Message>, now: UnixMs) {
        match &**message {
            Message::ToolResult(stored) => {
                let is_it = |owed: &Arc<Message>| match &**owed {
                    Message::ToolResult(owed) => owed.tool_call_id == stored.tool_call_id,
                    _ => false,
                };
                if let Some(at) = self.owed.results.iter().position(is_it) {
                    let result = self.owed.results.remove(at);
                    self.owed.stored.push(result);
                }
            }
            Message::Assistant(_) => self.owe_results_of(message, STORED_AFTER_ALL, now),
            _ => {}
        }
    }

    pub(crate) fn take_stored_late(&mut self) -> Vec<Arc<Message>> {
        std::mem::take(&mut self.owed.stored)
    }

    /// Stores the name and returns it, without surrounding space.
    pub fn set_name(&mut self, name: &str, now: UnixMs) -> Result<String, Error> {
        self.store_owed(now)?;
        self.write(|session| session.set_name(name, now))
    }

    pub(crate) fn set_label(
        &mut self,
        target: &str,
        label: Option<&str>,
        now: UnixMs,
    ) -> Result<(), Error> {
        self.store_owed(now)?;
        self.write(|session| session.set_label(target, label, now)).map(|_| ())
    }

    /// Hides the newest answer and the results of its calls. Returns the entries for that.
    pub(crate) fn hide_last_answer(&mut self, now: UnixMs) -> Result<Vec<Box<RawValue>>, Error> {
        let mut entries = Vec::new();
        for target_id in self.session.last_answer()? {
            let hidden = self.record(Body::ContextEdit { target_id, replacement: None }, now);
            // Parts of it may be hidden already.
            let id = hidden.inspect_err(|_| self.context = None)?;
            let text = self.session.raw(&id)?;
            entries.extend(text.and_then(|text| RawValue::from_string(text).ok()));
        }
        if let Some(context) = &mut self.context {
            let answer = context.iter().rposition(|message| message.as_assistant().is_some());
            context.truncate(answer.unwrap_or(context.len()));
            self.fresh_from = self.fresh_from.min(context.len());
        }
        Ok(entries)
    }

    /// Moves to another entry of the tree, or before the first.
    pub(crate) fn navigate(&mut self, to: Option<&str>, now: UnixMs) -> Result<(), Error> {
        self.store_owed(now)?;
        self.write(|session| session.navigate(to, now))?;
        self.context = None;
        Ok(())
    }

    /// The same, and appends a summary of the abandoned branch. Returns the id of its entry.
    pub(crate) fn navigate_with(
        &mut self,
        to: Option<&str>,
        summary: BranchSummary,
        now: UnixMs,
    ) -> Result<String, Error> {
        self.store_owed(now)?;
        let summary = Body::BranchSummary(summary);
        let id = self.write(|session| session.append_under(to, summary, now))?;
        self.context = None;
        Ok(id)
    }

    /// Adds lines that another process has stored, in a session that was opened for reading.
    pub(crate) fn take_in(&mut self, lines: &[String]) -> Result<Vec<NewEntry>, Error> {
        let ids = self.session.take_in(lines)?;
        self.context = None;
        let mut entries = Vec::new();
        for id in ids {
            if let Some(line) = self.session.raw(&id)? {
                let body = Entry::read(&line).and_then(|entry| entry.body);
                entries.push(NewEntry { body, line });
            }
        }
        Ok(entries)
    }

    /// A run has ended: syncs its entries.
    pub(crate) fn run_ended(&mut self) -> Result<(), Error> {
        if self.durability.syncs_after_run() {
            self.session.sync()?;
        }
        Ok(())
    }
}

/// A placeholder result for a call without one.
fn no_result(call: &ToolCall, text: &str, now: UnixMs) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: vec![Block::text(text)],
        details: None,
        is_error: true,
        usage: None,
        timestamp: now,
        duration_ms: None,
    }))
}

const NOT_EXECUTED: &str =
    "The tool was not executed: the session file could not be written at that time.";
const STORED_AFTER_ALL: &str =
    "the database has stored an answer that it had not confirmed, and its calls have no results";
const INTERRUPTED: &str =
    "No result: tiller exited while the tool was running. Check what it has already done.";

#[cfg(test)]
mod tests;
