//! Where sessions are stored: in files or in a database, as the command line, the environment or the
//! user's settings say. All sessions of the process share the databases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tiller_postgres::{Options, Postgres};
use tiller_server::session_store::SessionStore;
use tiller_session::{DatabaseStore, Owner};

/// The variable that names a database. It may hold a password, so tools do not get it.
pub(crate) const STORE_VARIABLE: &str = "TILLER_STORE";

/// The error of a command that needs a database.
pub(crate) const NO_DATABASE: &str =
    "no database: name one with --store, in the variable TILLER_STORE, or in the setting `store`";

/// Where sessions are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Files,
    /// The database with this URL.
    Database(String),
}

/// What says where sessions are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreSources<'a> {
    /// `--store`.
    pub(crate) flag: Option<&'a str>,
    /// The environment.
    pub(crate) variable: Option<&'a str>,
    /// The user's settings.
    pub(crate) setting: Option<&'a str>,
    /// Whether `--session-dir` is on the command line.
    pub(crate) has_session_dir: bool,
}

/// The command line decides before the environment, and the environment before the settings.
pub(crate) fn choose(sources: StoreSources<'_>) -> Result<StoreChoice, String> {
    let StoreSources { flag, variable, setting, has_session_dir } = sources;
    let (name, value) = match (flag, has_session_dir) {
        (Some(_), true) => {
            return Err("--store cannot be combined with --session-dir".to_owned());
        }
        (Some(flag), false) => ("--store", flag),
        (None, true) => return Ok(StoreChoice::Files),
        (None, false) => match (variable, setting) {
            (Some(variable), _) => (STORE_VARIABLE, variable),
            (None, Some(setting)) => ("setting store", setting),
            (None, None) => return Ok(StoreChoice::Files),
        },
    };
    if value == "files" {
        return Ok(StoreChoice::Files);
    }
    let is_url = value.starts_with("postgres://") || value.starts_with("postgresql://");
    if is_url {
        return Ok(StoreChoice::Database(value.to_owned()));
    }
    // The value is not repeated: it may contain a password.
    Err(format!("{name}: expected a URL that begins with postgres://, or `files`"))
}

/// The databases of this process, by their URLs. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Databases(Arc<Mutex<HashMap<String, OpenDatabase>>>);

#[derive(Debug)]
struct OpenDatabase {
    database: Postgres,
    /// It was reached and has the tables.
    is_checked: bool,
}

impl Databases {
    /// The database with this URL. Nothing is connected yet.
    pub(crate) fn open(&self, url: &str, owner: Owner) -> Result<Postgres, String> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = open.get(url) {
            return Ok(one.database.clone());
        }
        let options = Options::read(url).map_err(|why| format!("URL of the store: {why}"))?;
        let database = Postgres::start(options, owner)?;
        let one = OpenDatabase { database: database.clone(), is_checked: false };
        open.insert(url.to_owned(), one);
        Ok(database)
    }

    /// The sessions in the database with this URL, which must have its tables.
    pub(crate) fn store(&self, url: &str, owner: Owner) -> Result<SessionStore, String> {
        Ok(SessionStore::new(Arc::new(self.database_store(url, owner)?)))
    }

    /// The same for moving sessions.
    pub(crate) fn database_store(&self, url: &str, owner: Owner) -> Result<DatabaseStore, String> {
        let database = self.open(url, owner)?;
        let is_checked = |one: &OpenDatabase| one.is_checked;
        let is_known = {
            let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            open.get(url).is_some_and(is_checked)
        };
        if !is_known {
            database.check_version()?;
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(one) = open.get_mut(url) {
                one.is_checked = true;
            }
        }
        Ok(DatabaseStore::new(Arc::new(database), std::env::temp_dir()))
    }

    /// Whether all databases answer. None are, if sessions are stored in files.
    pub(crate) fn are_ready(&self) -> bool {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let databases: Vec<Postgres> = open.values().map(|one| one.database.clone()).collect();
        drop(open);
        databases.iter().all(|database| database.check_version().is_ok())
    }

    /// Tells the databases that this process has ended. Its sessions must be closed by now.
    pub fn close(&self) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, one) in open.drain() {
            one.database.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_decides_before_environment_and_settings() {
        let url = |name: &str| Ok(StoreChoice::Database(format!("postgres://{name}")));
        let sources = StoreSources::default();
        for (sources, expected) in [
            (sources, Ok(StoreChoice::Files)),
            (StoreSources { setting: Some("postgres://s"), ..sources }, url("s")),
            (
                StoreSources {
                    variable: Some("postgres://v"),
                    setting: Some("postgres://s"),
                    ..sources
                },
                url("v"),
            ),
            (
                StoreSources {
                    flag: Some("postgres://f"),
                    variable: Some("postgres://v"),
                    ..sources
                },
                url("f"),
            ),
            (
                StoreSources { flag: Some("files"), setting: Some("postgres://s"), ..sources },
                Ok(StoreChoice::Files),
            ),
            (
                StoreSources { variable: Some("postgres://v"), has_session_dir: true, ..sources },
                Ok(StoreChoice::Files),
            ),
            (
                StoreSources { flag: Some("postgres://f"), has_session_dir: true, ..sources },
                Err("--store cannot be combined with --session-dir".to_owned()),
            ),
            (
                StoreSources { variable: Some("mysql://u:secret@h"), ..sources },
                Err("TILLER_STORE: expected a URL that begins with postgres://, or `files`"
                    .to_owned()),
            ),
        ] {
            assert_eq!(choose(sources), expected, "{sources:?}");
        }
    }
}
