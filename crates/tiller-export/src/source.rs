//! The session to export: a file, or a session in a database.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_session::{Error, Session, Store};

/// Where the session is.
#[derive(Clone, Debug)]
pub enum ExportSource {
    File(PathBuf),
    Database {
        /// Has the session.
        store: Arc<dyn Store>,
        address: PathBuf,
    },
}

impl ExportSource {
    /// Opens the session for reading, also while it is being written.
    pub(crate) fn open(&self) -> Result<Session, Error> {
        match self {
            ExportSource::File(path) => Session::open_read_only(path),
            ExportSource::Database { store, address } => store.open_read_only(address),
        }
    }

    /// The name under which the page offers the session: that of its file, or its id.
    pub(crate) fn file_name(&self) -> Cow<'_, str> {
        match self {
            ExportSource::File(path) => path.file_name().unwrap_or_default().to_string_lossy(),
            ExportSource::Database { address, .. } => format!("{}.jsonl", id_in(address)).into(),
        }
    }

    /// The same without the ending.
    pub(crate) fn stem(&self) -> Cow<'_, str> {
        match self {
            ExportSource::File(path) => path.file_stem().unwrap_or_default().to_string_lossy(),
            ExportSource::Database { address, .. } => id_in(address),
        }
    }

    /// Whether this path is the session's file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        match self {
            ExportSource::File(file) => {
                path.exists() && path.canonicalize().ok() == file.canonicalize().ok()
            }
            ExportSource::Database { .. } => false,
        }
    }
}

/// The id in an address such as `postgres:ID`.
fn id_in(address: &Path) -> Cow<'_, str> {
    let text = address.to_string_lossy();
    match text.split_once(':') {
        Some((_, id)) => Cow::Owned(id.to_owned()),
        None => text,
    }
}
