//! The conversation that is open: the session it is kept in, and what the model sees of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use tiller_agent::compaction::cut::{self, Plan};
use tiller_agent::message::{Block, Message, ToolResultMessage, UnixMs};
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
    /// The disk refused a message of the run under way. What follows it belongs to it, so
    /// nothing more is kept until the run has ended.
    pub(crate) is_broken: bool,
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
    pub fn new(session: Session, durability: Durability) -> Conversation {
        let context = session.is_empty().then(Vec::new);
        Conversation { session, context, fresh_from: 0, durability, is_broken: false }
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
                let message = Message::ToolResult(ToolResultMessage {
                    tool_call_id: call.id,
                    tool_name: call.name,
                    content: vec![Block::text(INTERRUPTED)],
                    details: None,
                    is_error: true,
                    usage: None,
                    timestamp: now,
                    duration_ms: None,
                });
                conversation.push(Arc::new(message), now)?;
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
        self.record(Body::Message(message.clone()), now)?;
        if let Some(context) = &mut self.context {
            context.push(message);
        }
        Ok(())
    }

    /// Adds an entry that is no message.
    pub(crate) fn record(&mut self, body: Body, now: UnixMs) -> Result<String, Error> {
        let syncs = self.durability.syncs_after(&body);
        let id = self.session.append(body, now)?;
        if syncs {
            self.session.sync()?;
        }
        Ok(id)
    }

    pub(crate) fn set_name(&mut self, name: &str, now: UnixMs) -> Result<String, Error> {
        self.session.set_name(name, now)
    }

    pub(crate) fn set_label(
        &mut self,
        target: &str,
        label: Option<&str>,
        now: UnixMs,
    ) -> Result<(), Error> {
        self.session.set_label(target, label, now).map(|_| ())
    }

    /// Hides the newest answer and the results of its calls. Returns the entries that say so.
    pub(crate) fn hide_last_answer(&mut self, now: UnixMs) -> Result<Vec<Box<RawValue>>, Error> {
        let mut entries = Vec::new();
        for target_id in self.session.last_answer()? {
            let id = self.record(Body::ContextEdit { target_id, replacement: None }, now)?;
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
        self.session.navigate(to, now)?;
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
        let id = self.session.append_under(to, Body::BranchSummary(summary), now)?;
        self.context = None;
        Ok(id)
    }

    /// A run has ended: what it said is made safe.
    pub(crate) fn run_ended(&mut self) -> Result<(), Error> {
        self.is_broken = false;
        if self.durability.syncs_after_run() {
            self.session.sync()?;
        }
        Ok(())
    }
}

const INTERRUPTED: &str =
    "No result: tiller was ended while the tool was at work. Check what it has done so far.";
