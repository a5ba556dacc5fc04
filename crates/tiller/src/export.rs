//! A session as a page that anybody can open: one HTML file that needs no network, reads well
//! without scripting and better with it, and keeps the user's keys to itself.
//!
//! Everything that a person reads is drawn here, in Rust, by [`entry`]; `assets/page.js` only
//! finds, folds and filters what is there. What the page promises is in `docs/export.md`.

mod page;
mod head;
mod chart;
mod tree_order;
mod scan;
mod entry;
mod calls;
mod tool;
mod diff;
mod markdown;
mod highlight;
mod text;
mod time;
pub(crate) mod mask;
mod embed;
mod file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::provider::ToolSpec;
use tiller_session::Session;

/// A session that will never have a file.
pub(crate) const IN_MEMORY: &str = "Cannot export in-memory session to HTML";
/// A session that has none yet, or nothing in it.
pub(crate) const NOTHING_YET: &str = "Nothing to export yet - start a conversation first";

/// What to make a page of, and with what.
pub struct Export {
    /// The session's file.
    pub session: PathBuf,
    /// Absolute.
    pub to: PathBuf,
    /// Values that must not be in the page.
    pub secrets: Vec<String>,
    /// How much each model can hold, by `provider/model`.
    pub windows: HashMap<String, u64>,
    /// Known while the session is open.
    pub setting: Option<Setting>,
}

/// What the model was told, and what it could use.
pub struct Setting {
    pub system: Arc<str>,
    pub tools: Arc<[ToolSpec]>,
}

impl Export {
    /// Where a page goes that is asked for like this. `prefix` is whose client asks.
    pub fn place(session: &Path, wanted: Option<&Path>, prefix: &str, cwd: &Path) -> PathBuf {
        file::place(session, wanted, prefix, cwd)
    }

    /// Reads the session and writes the page. Takes as long as that takes: for a blocking thread.
    pub fn run(&self) -> Result<(), String> {
        let session = Session::open_read_only(&self.session).map_err(|err| err.to_string())?;
        if session.stats().total_messages == 0 {
            return Err(NOTHING_YET.to_owned());
        }
        let is_same =
            std::fs::canonicalize(&self.to).ok() == std::fs::canonicalize(&self.session).ok();
        if is_same && self.to.exists() {
            return Err(format!("cannot write {}: it is the session itself", self.to.display()));
        }
        file::replace(&self.to, |out| page::write(self, &session, out))
            .map_err(|err| format!("cannot write {}: {err}", self.to.display()))
    }
}

#[cfg(test)]
mod tests;
