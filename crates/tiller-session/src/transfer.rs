//! Moves a session between files and a database, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::database::SessionRow;
use crate::database_store::DatabaseStore;
use crate::entry::{Header, VERSION};
use crate::error::Error;
use crate::file::{self, PendingFile};
use crate::files::Files;
use crate::head::HeadLine;
use crate::migrate;
use crate::name::SessionId;
use crate::row::Row;

/// How many lines are read at a time.
const READ_LINES: u64 = 2_000;

/// What was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub id: String,
    /// Where it is now.
    pub to: PathBuf,
    /// How many lines it has behind its header.
    pub lines: u64,
}

/// Writes a session of a database into a file that does not exist yet. Other processes may write
/// the session meanwhile; the file has what was stored when the export began.
pub fn export(store: &DatabaseStore, address: &Path, to: &Path) -> Result<Transfer, Error> {
    let id = store.id(address)?;
    let stored = store.database().stored(id)?;
    let stored = stored.ok_or_else(|| Error::NotFound(address.to_owned()))?;
    let mut draft =
        PendingFile::begin(file::dir_of(to), &Files::default()).map_err(Error::write(to))?;
    let mut write = |line: &str| {
        draft.write(line.as_bytes()).and_then(|()| draft.write(b"\n")).map_err(Error::write(to))
    };
    write(&stored.header)?;
    let mut line = 0;
    while line < stored.lines {
        let until = stored.lines.min(line + READ_LINES);
        for text in store.database().read(id, line..until)? {
            write(&text)?;
        }
        line = until;
    }
    draft.persist_unlocked(to).map_err(Error::write(to))?;
    Ok(Transfer { id: id.to_owned(), to: to.to_owned(), lines: stored.lines })
}

/// Stores the session of a file in a database, under its own id. The file stays. An older version is
/// migrated; a file that a database cannot keep as it is, is refused.
pub fn import(store: &DatabaseStore, from: &Path) -> Result<Transfer, Error> {
    let bytes = fs::read(from).map_err(Error::read(from))?;
    let header = header_of(&bytes).ok_or_else(|| Error::NotASession(from.to_owned()))?;
    let refuse = |reason: String| Error::NotImported { path: from.to_owned(), reason };
    SessionId::read(&header.id)
        .map_err(|_| refuse(format!("its id {:?} is not valid", header.id)))?;
    let mut text = storable_text(bytes).map_err(refuse)?;
    if header.version < VERSION {
        let migrated = migrate::to_current(text.as_bytes());
        text = String::from_utf8(migrated).expect("a migration of text is text");
    }
    let complete = text.strip_suffix('\n').unwrap_or(&text);
    let mut lines = complete.split('\n');
    let header_line = lines.next().unwrap_or_default();
    let Some(header) = Header::read(header_line) else {
        return Err(refuse("its first line is not a header".to_owned()));
    };
    let mut count = 0;
    let mut name = header.title.clone().filter(|title| !title.is_empty());
    for line in lines.clone() {
        count += 1;
        if let Some(new) = Row::read(line).name {
            name = Some(new).filter(|name| !name.is_empty());
        }
    }
    let token = Uuid::new_v4().to_string();
    let session = SessionRow::new(&header, name.as_deref(), &token);
    let address = store.address(&header.id);
    let mut rows = lines.map(|line| Ok(Row::read(line.to_owned())));
    let claim = store.database().create(&session, &mut rows);
    drop(claim.map_err(|why| why.into_error(&address))?);
    Ok(Transfer { id: header.id, to: address, lines: count })
}

/// The header, if it comes before all entries.
fn header_of(bytes: &[u8]) -> Option<Header> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let is_readable =
        |line: &&[u8]| matches!(HeadLine::read(line), HeadLine::Header | HeadLine::Entry(_));
    let first = lines.filter(|line| !line.is_empty()).find(is_readable)?;
    Header::read(&String::from_utf8_lossy(first))
}

/// The text of a file if a database can keep it, or the reason why not.
fn storable_text(bytes: Vec<u8>) -> Result<String, String> {
    let line_at = |before: &[u8]| before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let text = String::from_utf8(bytes).map_err(|why| {
        let valid = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        format!("line {} is not valid UTF-8", line_at(valid))
    })?;
    if !text.ends_with('\n') {
        return Err("its last line is incomplete".to_owned());
    }
    match text.find('\0') {
        Some(at) => Err(format!("line {} contains a zero byte", line_at(&text.as_bytes()[..at]))),
        None => Ok(text),
    }
}
