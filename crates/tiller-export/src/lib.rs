//! Exports a session as one HTML file that needs no network, works without scripting and better
//! with it, and does not contain the user's keys.
//!
//! [`Export`] is one export: it names the session, the page and the secrets, and [`Export::run`] writes the page. All content is rendered here, by `entry`; `assets/page.js`
//! only searches, folds and filters it. `docs/export.md` says what the page guarantees.
//!
//! This crate knows no settings, no client and no open session: it reads a stored session and writes
//! a file.
//! [`Mask`] is public because other outputs must hide the same secrets.

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
mod mask;
mod embed;
mod file;
mod source;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::provider::ToolSpec;

pub use mask::Mask;
pub use source::ExportSource;

/// The session will never be stored.
pub const IN_MEMORY: &str = "Cannot export in-memory session to HTML";
/// The session is not stored yet, or has no entries.
pub const NOTHING_YET: &str = "Nothing to export yet - start a conversation first";

/// The input of an export.
pub struct Export {
    /// The session.
    pub source: ExportSource,
    /// Absolute path of the page.
    pub to: PathBuf,
    /// Values that must not be in the page.
    pub secrets: Vec<String>,
    /// The context window of each model, by `provider/model`.
    pub windows: HashMap<String, u64>,
    /// Known only while the session is open.
    pub setting: Option<Setting>,
}

/// The system prompt and the tools.
pub struct Setting {
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools as the model sees them.
    pub tools: Arc<[ToolSpec]>,
}

impl Export {
    /// The path of the page. `prefix` names the kind of client that asks.
    pub fn output_path(
        source: &ExportSource,
        requested: Option<&Path>,
        prefix: &str,
        cwd: &Path,
    ) -> PathBuf {
        file::output_path(source, requested, prefix, cwd)
    }

    /// Reads the session and writes the page. Call it on a blocking thread.
    pub fn run(&self) -> Result<(), String> {
        let session = self.source.open().map_err(|err| err.to_string())?;
        if session.stats().total_messages == 0 {
            return Err(NOTHING_YET.to_owned());
        }
        if self.source.is_at(&self.to) {
            return Err(format!("cannot write {}: it is the session itself", self.to.display()));
        }
        file::replace(&self.to, |out| page::write(self, &session, out))
            .map_err(|err| format!("cannot write {}: {err}", self.to.display()))
    }
}

#[cfg(test)]
mod tests;
