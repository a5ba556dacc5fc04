//! The conversation that is open: the session it is kept in, and what the model sees of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use tiller_agent::compaction::cut::{self, Plan};
use tiller_agent::message::{Block, Message, ToolCall, ToolResultMessage, UnixMs};
use tiller_agent::tokens;
use tiller_session::{Body, BranchSummary, Compaction, Durability, Error, Session};

pub struct Conversation {
    session: Session,
    /// What the model sees. A large session is opened without reading it: that waits for the
    /// first request that needs it.
    context: Option<Vec<Arc<Message>>>,
    /// What a provider counted before this message no longer holds.
    fresh_from: usize,
    durability: Durability,
    owed: Owed,
}

/// Results that the disk did not take. Their calls are stored, and a conversation with an
/// unanswered call is one that no provider accepts: so they are stored before anything else is.
#[derive(Default)]
struct Owed {
    results: Vec<Arc<Message>>,
    /// Why the first one was not stored.
    why: String,
    /// Stored by now, and not told.
    stored: Vec<Arc<Message>>,
}

/// How long a conversation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tokens {
    /// As a provider counted it, with an estimate of what came after.
    Counted(u64),
    /// The messages alone, without what else is in a request.
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
    pub fn new(mut session: Session, durability: Durability) -> Conversation {
        session.set_durability(durability);
        let context = session.is_empty().then(Vec::new);
        Conversation { session, context, fresh_from: 0, durability, owed: Owed::default() }
    }

    /// Goes on with a stored session. A call that a crash left without a result gets one, since
    /// no provider takes a conversation with an open call.
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

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn id(&self) -> &str {
        self.session.id()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.session.name().filter(|name| !name.is_empty())
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.session.path()
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.session.cwd().to_owned()
    }

    pub(crate) fn message_count(&self) -> usize {
        self.session.context_len()
    }

    /// What the model sees, read from disk when it was not yet.
    pub(crate) fn messages(&mut self) -> Result<&[Arc<Message>], Error> {
        if self.context.is_none() {
            let context = self.session.context()?;
            self.fresh_from = context.fresh_from;
            self.context = Some(context.messages.into_iter().map(|read| read.message).collect());
        }
        Ok(self.context.as_deref().unwrap_or_default())
    }

    /// The same, if it was read already.
    pub(crate) fn loaded(&self) -> Option<&[Arc<Message>]> {
        self.context.as_deref()
    }

    /// The newest messages, back to the one that is `enough`. Cheap however long the session is.
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

    /// Tokens in the model's window.
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

    /// Where to cut the conversation, but for its last `skip` messages, to keep about so many
    /// tokens of it, and the entry to keep from. Nothing when it is too short for that.
    pub(crate) fn cut(&self, keep: u64, skip: usize) -> Result<Option<(Plan, String)>, Error> {
        let mut context = self.session.context()?.messages;
        context.truncate(context.len().saturating_sub(skip));
        let messages: Vec<_> = context.iter().map(|read| read.message.clone()).collect();
        let Some(plan) = cut::plan(&messages, keep) else { return Ok(None) };
        let first_kept = self.session.kept_from(&context[plan.first_kept].entry_id)?;
        Ok(Some((plan, first_kept)))
    }

    /// Puts a summary in the place of everything before an entry.
    /// Gives the id of the entry that says so.
    pub(crate) fn compact(&mut self, compaction: Compaction, now: UnixMs) -> Result<String, Error> {
        let id = self.record(Body::Compaction(compaction), now)?;
        self.reread()?;
        Ok(id)
    }

    /// The session says something else than before: what the model sees is read again.
    pub(crate) fn reread(&mut self) -> Result<(), Error> {
        self.context = None;
        self.messages().map(|_| ())
    }

    /// Adds a message. When this returns it is in the file, as safe as the user wants it.
    pub(crate) fn push(&mut self, message: Arc<Message>, now: UnixMs) -> Result<(), Error> {
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

    /// Adds an entry that is no message.
    pub(crate) fn record(&mut self, body: Body, now: UnixMs) -> Result<String, Error> {
        self.store_owed(now)?;
        self.write(|session| session.append(body, now))
    }

    /// What the session says is what the model sees, also when a line is there that could not be
    /// made safe.
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

    /// A message of a run was not stored. A result is stored later; anything else is not part of
    /// the conversation.
    pub(crate) fn owe(&mut self, message: Arc<Message>, why: &str) {
        if matches!(*message, Message::ToolResult(_)) {
            if self.owed.results.is_empty() {
                self.owed.why = why.to_owned();
            }
            self.owed.results.push(message);
        }
    }

    /// An answer could not be made safe, so its tools are not run; but it is stored, so its calls
    /// must have results.
    pub(crate) fn owe_results_of(&mut self, message: &Message, why: &str, now: UnixMs) {
        let calls = message.as_assistant().into_iter().flat_map(|answer| answer.tool_calls());
        for call in calls {
            self.owe(no_result(call, NOT_EXECUTED, now), why);
        }
    }

    /// Stores the results that are owed, as many as the disk takes.
    pub(crate) fn store_owed(&mut self, now: UnixMs) -> Result<(), Error> {
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

    pub(crate) fn take_stored_late(&mut self) -> Vec<Arc<Message>> {
        std::mem::take(&mut self.owed.stored)
    }

    pub(crate) fn set_name(&mut self, name: &str, now: UnixMs) -> Result<String, Error> {
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

    /// Hides the newest answer and the results of its calls. Returns the entries that say so.
    pub(crate) fn hide_last_answer(&mut self, now: UnixMs) -> Result<Vec<Box<RawValue>>, Error> {
        let mut entries = Vec::new();
        for target_id in self.session.last_answer()? {
            let hidden = self.record(Body::ContextEdit { target_id, replacement: None }, now);
            // Some of it may be hidden by now.
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

    /// Moves to another place in the tree, or before everything.
    pub(crate) fn navigate(&mut self, to: Option<&str>, now: UnixMs) -> Result<(), Error> {
        self.store_owed(now)?;
        self.write(|session| session.navigate(to, now))?;
        self.context = None;
        Ok(())
    }

    /// The same, and there says what happened on the branch that was left. Gives the id of the
    /// entry that does.
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

    /// A run has ended: what it said is made safe.
    pub(crate) fn run_ended(&mut self) -> Result<(), Error> {
        if self.durability.syncs_after_run() {
            self.session.sync()?;
        }
        Ok(())
    }
}

/// The result of a call that has none of its own.
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
const INTERRUPTED: &str =
    "No result: tiller was ended while the tool was at work. Check what it has done so far.";
