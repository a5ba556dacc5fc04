//! Follows a session that another process writes: takes in what that process stores, and tells the
//! clients about it as if it happened here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_session::database::Watch;
use tiller_session::{Body, Error, Store};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::conversation::NewEntry;
use crate::server::Input;
use crate::state::SessionState;
use crate::tasks::{Pause, Tasks};

/// After how long a failed read is tried again.
const READ_PAUSE: Duration = Duration::from_secs(2);

/// A session that is followed.
pub(crate) struct Follower {
    address: PathBuf,
    store: Arc<dyn Store>,
    phase: FollowPhase,
    /// The last read has failed, and the client was told.
    has_failed: bool,
    _watch: Box<dyn Watch>,
    _task: DropGuard,
}

enum FollowPhase {
    UpToDate,
    /// New lines are being read.
    Reading {
        /// Others were stored since the reading began.
        is_stale: bool,
    },
    /// A read has failed and is tried again later.
    Waiting(#[expect(dead_code, reason = "cancels when dropped")] Pause),
}

/// What happens to a followed session.
pub enum FollowEvent {
    /// The other process may have stored something.
    Changed,
    /// The lines behind this number have been read.
    LinesRead { line: u64, lines: Result<Option<Vec<String>>, Error> },
}

/// Begins to follow the open session if it was opened for reading and is in a store that can be
/// followed; otherwise ends following.
pub(crate) fn begin(state: &mut SessionState) {
    state.follower = None;
    let session = state.session.conversation().session();
    let Some(address) = session.path().filter(|_| session.is_read_only()) else { return };
    let store = state.session.store().store.clone();
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    let Some(watch) = store.watch(address, Box::new(move || notified.notify_one())) else {
        return;
    };
    let address = address.to_owned();
    let (phase, has_failed) = (FollowPhase::UpToDate, false);
    let _task = pass_on(&state.tasks, changed);
    state.follower = Some(Follower { address, store, phase, has_failed, _watch: watch, _task });
}

/// Sends an input for every change, until the result is dropped.
fn pass_on(tasks: &Tasks, changed: Arc<Notify>) -> DropGuard {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    let tasks = tasks.clone();
    tokio::spawn(async move {
        let passing = async {
            loop {
                changed.notified().await;
                tasks.send(Input::Follow(FollowEvent::Changed)).await;
            }
        };
        ended.run_until_cancelled(passing).await;
    });
    guard
}

pub(crate) fn handle(state: &mut SessionState, event: FollowEvent) {
    match event {
        FollowEvent::Changed => read(state),
        FollowEvent::LinesRead { line, lines } => lines_read(state, line, lines),
    }
}

/// Reads new lines on another thread.
fn read(state: &mut SessionState) {
    let line = state.session.conversation().session().lines_after_header();
    let Some(follower) = &mut state.follower else { return };
    if let FollowPhase::Reading { is_stale } = &mut follower.phase {
        *is_stale = true;
        return;
    }
    follower.phase = FollowPhase::Reading { is_stale: false };
    let (store, address) = (follower.store.clone(), follower.address.clone());
    state.tasks.spawn_blocking(
        move || store.lines_since(&address, line),
        move |read| {
            let crashed = |crash| {
                let task = "cannot follow the session".to_owned();
                Err(Error::Database { task, reason: format!("internal error: {crash}") })
            };
            let lines = read.unwrap_or_else(crashed);
            Input::Follow(FollowEvent::LinesRead { line, lines })
        },
    );
}

fn lines_read(state: &mut SessionState, line: u64, lines: Result<Option<Vec<String>>, Error>) {
    let is_current = line == state.session.conversation().session().lines_after_header();
    let Some(follower) = &mut state.follower else { return };
    let FollowPhase::Reading { is_stale } = follower.phase else { return };
    follower.phase = FollowPhase::UpToDate;
    // Lines of a session that was open before are not those of this one.
    let taken = match lines {
        _ if !is_current => Ok(Vec::new()),
        Ok(lines) => state.session.conversation_mut().take_in(&lines.unwrap_or_default()),
        Err(err) => Err(err),
    };
    match taken {
        Ok(entries) => {
            follower.has_failed = false;
            // A long absence is read in several parts.
            let reads_on = is_stale || !entries.is_empty();
            for entry in entries {
                announce(state, entry);
            }
            if reads_on {
                read(state);
            }
        }
        Err(Error::Deleted(address)) => {
            state.follower = None;
            state.emit(Event::SessionError { error: Error::Deleted(address).to_string() });
        }
        Err(err) => {
            let again = Input::Follow(FollowEvent::Changed);
            follower.phase = FollowPhase::Waiting(state.tasks.after(READ_PAUSE, again));
            if !std::mem::replace(&mut follower.has_failed, true) {
                state.emit(Event::SessionError { error: err.to_string() });
            }
        }
    }
}

/// Emits the events that the writer of the session has emitted for this entry.
fn announce(state: &mut SessionState, entry: NewEntry) {
    let message = match entry.body {
        Some(Body::Message(message)) => Some(message),
        Some(Body::CustomMessage(custom)) => Some(Arc::new(Message::Custom(custom))),
        Some(Body::SessionInfo { name }) => {
            let name = Some(name).filter(|name| !name.is_empty());
            return state.emit(Event::SessionInfoChanged { name });
        }
        _ => None,
    };
    if let Some(message) = message {
        state.emit(Event::message_start(message.clone(), None));
        state.emit(Event::MessageEnd { message });
    } else if let Ok(entry) = RawValue::from_string(entry.line) {
        state.emit(Event::EntryAppended { entry });
    }
}
