//! The terminal: whether it can edit lines, how wide it is, and its state at the start.

use std::collections::HashMap;
use std::io::{IsTerminal, Write, stdin, stdout};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// If the terminal does not say how wide it is.
const DEFAULT_COLUMNS: usize = 80;
/// Ends a mode that the line editor may have begun.
const BRACKETED_PASTE_OFF: &[u8] = b"\x1b[?2004l";

/// Whether lines can be edited: stdin and stdout are a terminal that understands escape sequences.
pub(super) fn can_edit_lines(variables: &HashMap<String, String>) -> bool {
    let is_dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

pub(super) fn has_color(variables: &HashMap<String, String>) -> bool {
    let is_refused = variables.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !is_refused && !is_dumb
}

/// The width of the terminal.
pub(super) fn columns() -> usize {
    let columns = tcgetwinsize(stdout()).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// The state of the terminal before the line editor changed it. Dropping this restores it: the
/// thread of the editor may still be in its raw mode when the process ends.
pub(super) struct TerminalState {
    saved: Option<Termios>,
}

impl TerminalState {
    pub(super) fn save() -> TerminalState {
        TerminalState { saved: tcgetattr(stdin()).ok() }
    }

    /// Leaves the line of the prompt, for an error text below it.
    pub(super) fn leave_prompt(&self) {
        if self.saved.is_some() && stdout().is_terminal() {
            // A terminal that is gone needs no line break.
            stdout().write_all(b"\r\n").and_then(|()| stdout().flush()).ok();
        }
    }
}

impl Drop for TerminalState {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            // A terminal that is gone needs no state.
            tcsetattr(stdin(), OptionalActions::Now, saved).ok();
            stdout().write_all(BRACKETED_PASTE_OFF).and_then(|()| stdout().flush()).ok();
        }
    }
}
