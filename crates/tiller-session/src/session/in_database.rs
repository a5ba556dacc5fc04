//! A session that is stored in a database. Its lines are committed there before they count, and a
//! local copy is read.

use std::io;
use std::ops::Range;

use crate::context;
use crate::database::{AppendError, CreateError, SessionRow};
use crate::error::Error;
use crate::log::Log;
use crate::row::Row;
use crate::session::{Session, StorageState};
use crate::spool::Spool;

impl Session {
    /// Finds out whether an append was stored whose outcome the database has not told, and returns
    /// the ids of the entries that were. Nothing is uncertain afterwards, so nothing is stored
    /// twice. Does nothing for a session that is not in a database.
    pub fn refresh(&mut self) -> Result<Vec<String>, Error> {
        let StorageState::Database { address, claim, is_uncertain, .. } = &mut self.storage_state
        else {
            return Ok(Vec::new());
        };
        if !*is_uncertain {
            return Ok(Vec::new());
        }
        let address = address.clone();
        let lines = claim.recover().map_err(|why| why.into_error(&address))?;
        *is_uncertain = false;
        self.take_in(&lines)
    }

    /// Adds lines that another process has stored to a session that was opened read-only. Returns
    /// the ids of their entries. The last one becomes the leaf, as for a reader of the file.
    pub fn take_in(&mut self, lines: &[String]) -> Result<Vec<String>, Error> {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let at = self.log.append_lines(&text).map_err(self.read_error())?;
        let known = self.tree.len();
        // Reading from memory does not fail, and a header is known.
        let _read = self.scan_further(text.as_bytes(), at);
        self.context_len = context::project(&self.tree, self.tree.leaf()).items.len();
        Ok(self.tree.all().skip(known).map(|index| self.tree.id(index).to_owned()).collect())
    }

    /// How many lines behind the header were read from the store.
    pub fn lines_after_header(&self) -> u64 {
        self.lines_read.saturating_sub(1)
    }

    /// Creates the session in the database, with everything so far and, optionally, one more line.
    /// Returns the offset of that line.
    pub(super) fn create_in_database(&mut self, line: Option<&str>) -> Result<u64, Error> {
        let StorageState::PlannedInDatabase { address, place, token } = &self.storage_state else {
            unreachable!("only a session planned in a database is created there");
        };
        let text = self.log.memory().unwrap_or_default();
        let text = str::from_utf8(text).expect("lines that were written here are text");
        let row = SessionRow::new(&self.header, self.tree.name(), token);
        let lines: Vec<String> = text.lines().skip(1).chain(line).map(str::to_owned).collect();
        let mut rows = lines.into_iter().map(|line| Ok(Row::read(line)));
        let created = place.database.create(&row, &mut rows);
        let claim = created.map_err(|why| why.into_error(address))?;
        let start = self.log.end();
        let mut bytes = text.as_bytes().to_vec();
        if let Some(line) = line {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let end = bytes.len() as u64;
        let address = address.clone();
        self.log = Log::spooled(Spool::new(bytes, place.scratch.clone()), end);
        self.storage_state = StorageState::Database { address, claim, is_uncertain: false };
        Ok(start)
    }

    /// Appends a line to the local copy and to the database, or to neither.
    pub(super) fn append_to_database(&mut self, line: &str) -> Result<Range<u64>, Error> {
        let StorageState::Database { address, claim, is_uncertain, .. } = &mut self.storage_state
        else {
            unreachable!("only a session in a database is appended to there");
        };
        let before = self.log.mark();
        let copied = self.log.append(line);
        let at = copied.map_err(|why| cannot_copy(address, &why))?;
        match claim.append(&[Row::read(line)]) {
            Ok(()) => Ok(at),
            Err(why) => {
                *is_uncertain = matches!(why, AppendError::Unknown(_));
                let error = why.into_error(address);
                self.log.take_back(before);
                Err(error)
            }
        }
    }
}

/// The local copy could not be written.
pub(crate) fn cannot_copy(address: &std::path::Path, why: &io::Error) -> Error {
    Error::Database {
        task: format!("cannot keep a local copy of session {}", address.display()),
        reason: why.to_string(),
    }
}

impl AppendError {
    pub(crate) fn into_error(self, address: &std::path::Path) -> Error {
        match self {
            AppendError::NotStored(reason) | AppendError::Unknown(reason) => Error::Database {
                task: format!("cannot store session {}", address.display()),
                reason,
            },
            AppendError::TakenOver(owner) => {
                let owner = owner.map(Box::new);
                Error::TakenOver { address: address.to_owned(), owner }
            }
            AppendError::Deleted => Error::Deleted(address.to_owned()),
        }
    }
}

impl CreateError {
    pub(crate) fn into_error(self, address: &std::path::Path) -> Error {
        let task = format!("cannot create session {}", address.display());
        match self {
            CreateError::Exists => {
                let reason = "there is a session with this id already".to_owned();
                Error::Database { task, reason }
            }
            CreateError::Failed(reason) => Error::Database { task, reason },
            CreateError::Source(error) => error,
        }
    }
}
