//! The functions of `js/runtime/main.js` that tiller calls by name, and their time limits.

use std::time::Duration;

use crate::config::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Loads an extension.
    Load,
    /// Allows extensions to act.
    Bind,
    /// Sets flags from the command line.
    Flags,
    /// Starts the extensions over for another session.
    Renew,
    /// Stops calling handlers, because other engines replace this one.
    Retire,
    /// Runs the handlers of a hook.
    Ask,
    /// Runs the handlers of an event.
    EmitAndWait,
    /// Rewrites the arguments of a tool call before they are checked.
    Prepare,
    Tool,
    /// Runs a shell command with an extension's operations.
    Bash,
    Command,
    /// Streams an answer of an extension's provider.
    Stream,
    /// Makes a key from a stored credential.
    SignIn,
    RefreshModels,
    /// Replays earlier calls to a restarted engine.
    Restore,
}

/// The time limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryLimits {
    /// How long its first turn may block the thread.
    pub slice: Duration,
    /// The same for turns that follow: timers and results of operations.
    pub later_slice: Duration,
    /// How long the call may take in all, if that is limited.
    pub total: Option<Duration>,
}

impl Entry {
    /// The function's name in `main.js`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Entry::Load => "load",
            Entry::Bind => "bind",
            Entry::Flags => "flags",
            Entry::Renew => "renew",
            Entry::Retire => "retire",
            Entry::Ask => "ask",
            Entry::EmitAndWait => "emit_and_wait",
            Entry::Prepare => "prepare",
            Entry::Tool => "tool",
            Entry::Bash => "bash",
            Entry::Command => "command",
            Entry::Stream => "stream",
            Entry::SignIn => "signIn",
            Entry::RefreshModels => "refreshModels",
            Entry::Restore => "restore",
        }
    }

    pub(crate) fn limits(self, limits: &Limits) -> EntryLimits {
        let (slice, later_slice, total) = match self {
            Entry::Ask | Entry::EmitAndWait | Entry::Prepare => {
                (limits.slice, limits.slice, Some(limits.hook))
            }
            Entry::Tool | Entry::Bash | Entry::Command => {
                (limits.long_slice, limits.long_slice, None)
            }
            Entry::Stream => (limits.slice, limits.slice, None),
            Entry::Load => (limits.long_slice, limits.long_slice, Some(limits.load)),
            Entry::Bind
            | Entry::Flags
            | Entry::Renew
            | Entry::Retire
            | Entry::SignIn
            | Entry::RefreshModels
            | Entry::Restore => (limits.long_slice, limits.slice, Some(limits.load)),
        };
        EntryLimits { slice, later_slice, total }
    }

    /// Whether the call configures an engine, so that it is replayed after a restart.
    pub(crate) fn is_replayed(self) -> bool {
        matches!(self, Entry::Load | Entry::Bind | Entry::Flags)
    }

    /// Whether a run waits for the handlers that this calls.
    pub(crate) fn is_hook(self) -> bool {
        matches!(self, Entry::Ask | Entry::EmitAndWait | Entry::Prepare)
    }
}
