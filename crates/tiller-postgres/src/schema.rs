//! The tables: made and changed by numbered migrations, each once, and checked.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::failure::{Failure, describe};
use crate::shared::{Pause, Shared};

/// The migrations, in order. A released migration is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/1.sql")];

/// How many tables the entries are divided among, unless `tiller store init --partitions` says otherwise.
pub const PARTITIONS: u32 = 16;

/// What `tiller store init` has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialized {
    /// The version of the tables before; 0 if there were none.
    pub from: u32,
    pub to: u32,
}

/// The state of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// For people: without the password.
    pub database: String,
    /// The version of the tables, and the one that this program knows.
    pub version: u32,
    pub known_version: u32,
    pub sessions: u64,
    /// Those that a process has open.
    pub owned: u64,
    pub lines: u64,
    /// The bytes of the lines.
    pub bytes: u64,
    /// The bytes of all tables and indexes.
    pub table_bytes: u64,
    /// Processes that have shown life lately.
    pub hosts: Vec<String>,
}

impl Shared {
    /// Makes the tables, or changes those of an older version. Several processes may do so at once.
    pub(crate) async fn init(&self, partitions: u32) -> Result<Initialized, String> {
        let deadline = self.deadline();
        let mut pause = Pause::new();
        loop {
            match self.try_init(partitions).await {
                // Another process has made the schema at the same moment.
                Err(InitError::Database(err))
                    if err.code().is_some_and(is_conflict) && pause.before(deadline).await => {}
                Err(InitError::Database(err)) => return Err(describe(&err)),
                Err(InitError::Other(why)) => return Err(why),
                Ok(initialized) => return Ok(initialized),
            }
        }
    }

    async fn try_init(&self, partitions: u32) -> Result<Initialized, InitError> {
        let connected = self.connection(self.deadline()).await;
        let mut connection = connected.map_err(|failure| InitError::Other(failure.text))?;
        let transaction = connection.transaction().await?;
        // The lock, which ends with the transaction, lets one process at a time go on.
        let prepare = self.sql(
            "CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE IF NOT EXISTS {schema}.migration (
                 version integer PRIMARY KEY,
                 at timestamptz NOT NULL DEFAULT now()
             );
             LOCK TABLE {schema}.migration IN EXCLUSIVE MODE",
        );
        transaction.batch_execute(&prepare).await?;
        let rows = transaction.query_typed(&self.sql(VERSION), &[]).await?;
        let from = read_version(&rows).unwrap_or(0);
        let to = MIGRATIONS.len() as u32;
        if from > to {
            return Err(InitError::Other(newer(from)));
        }
        for (number, migration) in (1..).zip(MIGRATIONS).skip(from as usize) {
            let migration = self.sql(migration).replace("{partitions}", &partitions.to_string());
            transaction.batch_execute(&migration).await?;
            let statement = self.sql("INSERT INTO {schema}.migration (version) VALUES ($1)");
            transaction.query_typed(&statement, &[(&number, Type::INT4)]).await?;
        }
        transaction.commit().await?;
        Ok(Initialized { from, to })
    }

    /// Fails unless the tables are those that this program knows.
    pub(crate) async fn check_version(&self) -> Result<(), String> {
        let found = self.version().await.map_err(|failure| failure.text)?;
        let known = MIGRATIONS.len() as u32;
        match found {
            Some(version) if version == known => Ok(()),
            Some(version) if version > known => Err(newer(version)),
            Some(version) => Err(format!(
                "its tables have version {version}, expected {known}: run `tiller store init`"
            )),
            None => Err("it has no tables of tiller: run `tiller store init`".to_owned()),
        }
    }

    /// The version of the tables. None: there are none.
    async fn version(&self) -> Result<Option<u32>, Failure> {
        let deadline = self.deadline();
        let table = format!("{}.migration", self.options.schema);
        let statement = "SELECT to_regclass($1) IS NOT NULL AS known";
        let known = self.query_again(deadline, statement, &[(&table as _, Type::TEXT)]).await?;
        if !known.first().is_some_and(|row| row.get("known")) {
            return Ok(None);
        }
        Ok(read_version(&self.query_again(deadline, VERSION, &[]).await?))
    }

    pub(crate) async fn status(&self) -> Result<Status, String> {
        let text = |failure: Failure| failure.text;
        let version = self.version().await.map_err(text)?.unwrap_or(0);
        let mut status = Status {
            database: self.options.description(),
            version,
            known_version: MIGRATIONS.len() as u32,
            sessions: 0,
            owned: 0,
            lines: 0,
            bytes: 0,
            table_bytes: 0,
            hosts: Vec::new(),
        };
        if version == 0 {
            return Ok(status);
        }
        let totals = "SELECT count(*) AS sessions, \
             count(h.id) FILTER (WHERE greatest(h.seen_at, s.seen_at) > now() - make_interval(secs => $1)) AS owned, \
             coalesce(sum(s.lines), 0)::bigint AS lines, coalesce(sum(s.bytes), 0)::bigint AS bytes, \
             (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
              WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r') AS table_bytes \
             FROM {schema}.session s LEFT JOIN {schema}.host h ON h.id = s.owner";
        let secs = self.options.takeover.as_secs_f64();
        let rows = self
            .query_again(self.deadline(), totals, &[(&secs, Type::FLOAT8)])
            .await
            .map_err(text)?;
        let number = |row: &Row, name: &str| row.get::<_, i64>(name).unsigned_abs();
        if let Some(row) = rows.first() {
            status.sessions = number(row, "sessions");
            status.owned = number(row, "owned");
            status.lines = number(row, "lines");
            status.bytes = number(row, "bytes");
            status.table_bytes = number(row, "table_bytes");
        }
        let hosts = "SELECT program || ' (pid ' || pid || ' on ' || name || ', started ' || started \
             || coalesce(', at ' || address, '') || ')' AS host FROM {schema}.host \
             WHERE seen_at > now() - make_interval(secs => $1) ORDER BY started, id";
        let rows = self
            .query_again(self.deadline(), hosts, &[(&secs, Type::FLOAT8)])
            .await
            .map_err(text)?;
        status.hosts = rows.iter().map(|row| row.get("host")).collect();
        Ok(status)
    }

    /// Compares the rows of sessions with those of their entries. Returns sentences, none if all is
    /// well.
    pub(crate) async fn check(&self) -> Result<Vec<String>, String> {
        self.check_version().await?;
        let statement = "
            SELECT coalesce(s.id, e.session) AS id, s.id IS NULL AS orphan, s.lines,
                   coalesce(e.count, 0) AS count, coalesce(e.last, -1) AS last, s.bytes,
                   coalesce(e.bytes, 0)::bigint AS found
            FROM {schema}.session s
            FULL JOIN (
                SELECT session, count(*) AS count, max(seq) AS last,
                       sum(octet_length(body) + 1) AS bytes
                FROM {schema}.entry GROUP BY session
            ) e ON e.session = s.id
            WHERE s.id IS NULL OR s.lines <> coalesce(e.count, 0)
               OR coalesce(e.last, -1) <> s.lines - 1 OR s.bytes <> coalesce(e.bytes, 0)
            ORDER BY 1 LIMIT 1000";
        let deadline = tokio::time::Instant::now() + CHECK_MAX;
        let rows = self.query(deadline, statement, &[]).await.map_err(|failure| failure.text)?;
        let sentence = |row: &Row| {
            let (id, count): (String, i64) = (row.get("id"), row.get("count"));
            if row.get("orphan") {
                return format!("{id}: {count} lines belong to no session");
            }
            let (lines, last): (i64, i64) = (row.get("lines"), row.get("last"));
            if count != lines || last != lines - 1 {
                return format!("{id}: has {count} lines up to number {last}, expected {lines}");
            }
            let (bytes, found): (i64, i64) = (row.get("bytes"), row.get("found"));
            format!("{id}: its lines have {found} bytes, expected {bytes}")
        };
        Ok(rows.iter().map(sentence).collect())
    }
}

enum InitError {
    Database(tokio_postgres::Error),
    Other(String),
}

impl From<tokio_postgres::Error> for InitError {
    fn from(err: tokio_postgres::Error) -> InitError {
        InitError::Database(err)
    }
}

/// Whether another process has made the same object at the same moment.
fn is_conflict(state: &SqlState) -> bool {
    [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_TABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ]
    .contains(state)
}

/// A check reads every line.
const CHECK_MAX: std::time::Duration = std::time::Duration::from_secs(3600);

const VERSION: &str = "SELECT max(version) AS version FROM {schema}.migration";

fn read_version(rows: &[Row]) -> Option<u32> {
    let version = rows.first().and_then(|row| row.get::<_, Option<i32>>("version"));
    version.map(i32::unsigned_abs)
}

fn newer(version: u32) -> String {
    format!(
        "its tables have version {version}, and this tiller knows only {}: use a newer tiller",
        MIGRATIONS.len()
    )
}
