//! A store in PostgreSQL for the laws: tables of its own in a schema of the shared cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tempfile::TempDir;
use tiller_agent::message::UnixMs;
use tiller_postgres::{Options, Postgres};
use tiller_session::{DatabaseStore, Store};

use crate::common::owner_of;
use crate::conformance::TestStore;
use crate::postgres::{Cluster, cluster};

/// Tables in the shared cluster, and the processes that use them.
pub struct InPostgres {
    cluster: &'static Cluster,
    /// The database, and the one with the parameters of the store.
    database: &'static str,
    url: String,
    schema: String,
    processes: Mutex<BTreeMap<usize, Postgres>>,
    scratch: TempDir,
}

impl InPostgres {
    /// None: the test is skipped.
    pub fn new() -> Option<InPostgres> {
        let store = InPostgres::without_tables()?;
        store.postgres(0).init(3).unwrap();
        Some(store)
    }

    /// The same without tables.
    pub fn without_tables() -> Option<InPostgres> {
        static DATABASE: OnceLock<String> = OnceLock::new();
        static SCHEMAS: AtomicU32 = AtomicU32::new(1);
        let cluster = cluster()?;
        let database = DATABASE.get_or_init(|| cluster.create_database());
        let schema = format!("law_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        // A slow machine takes no session over.
        let parameters = format!("schema={schema}&connections=2&takeover_seconds=3600");
        let url = format!("{database}?{parameters}");
        let scratch = tempfile::tempdir().unwrap();
        Some(InPostgres { cluster, database, url, schema, processes: Mutex::default(), scratch })
    }

    pub fn options(&self) -> Options {
        Options::read(&self.url).unwrap()
    }

    /// The database as a process sees it.
    pub fn postgres(&self, number: usize) -> Postgres {
        let mut processes = self.processes.lock().unwrap();
        let start = || Postgres::start(self.options(), owner_of(number)).unwrap();
        processes.entry(number).or_insert_with(start).clone()
    }

    pub fn store(&self, number: usize) -> DatabaseStore {
        DatabaseStore::new(Arc::new(self.postgres(number)), self.scratch.path().to_owned())
    }

    /// Runs a statement; `{schema}` in it stands for the name of the schema.
    pub fn sql(&self, statement: &str) -> String {
        self.cluster.sql(self.database, &statement.replace("{schema}", &self.schema))
    }
}

impl TestStore for InPostgres {
    fn process(&self, number: usize) -> Arc<dyn Store> {
        Arc::new(self.store(number))
    }

    fn database(&self, number: usize) -> Option<DatabaseStore> {
        Some(self.store(number))
    }

    fn lines(&self, location: &Path) -> Option<Vec<String>> {
        let id = location.to_str().unwrap().strip_prefix("postgres:").unwrap();
        // In hexadecimal digits: psql drops a few characters.
        let lines = self.sql(&format!(
            "SELECT encode(convert_to(line, 'UTF8'), 'hex') FROM (
                SELECT -1 AS seq, header AS line FROM {{schema}}.session WHERE id = '{id}'
                UNION ALL SELECT seq, body FROM {{schema}}.entry WHERE session = '{id}'
            ) AS lines ORDER BY seq"
        ));
        (!lines.is_empty()).then(|| lines.split('\n').map(from_hex).collect())
    }

    fn set_modified(&self, location: &Path, time: UnixMs) {
        let id = location.to_str().unwrap().strip_prefix("postgres:").unwrap();
        let time = format!("timestamptz 'epoch' + {time} * interval '1 millisecond'");
        self.sql(&format!(
            "UPDATE {{schema}}.session SET modified_at = {time},
             listed_at = date_trunc('minute', {time}) WHERE id = '{id}'"
        ));
    }

    fn rounds(&self, wanted: u64) -> u64 {
        (wanted / 5).max(2)
    }

    fn for_child(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn check_closed(&self) {
        let claimed = self.sql("SELECT id FROM {schema}.session WHERE owner IS NOT NULL");
        assert_eq!(claimed, "", "every claim was released");
        assert_eq!(self.postgres(0).check().unwrap(), [] as [String; 0]);
        let left = fs::read_dir(self.scratch.path()).unwrap().count();
        assert_eq!(left, 0, "local copies have no names");
    }
}

fn from_hex(digits: &str) -> String {
    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap() as u8;
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { panic!("an odd number of digits") };
    String::from_utf8(pairs.iter().map(|[high, low]| value(high) * 16 + value(low)).collect())
        .unwrap()
}

impl Drop for InPostgres {
    fn drop(&mut self) {
        for postgres in self.processes.lock().unwrap().values() {
            postgres.close();
        }
    }
}
