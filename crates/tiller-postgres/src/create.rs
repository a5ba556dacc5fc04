//! Stores a new session with its first lines: a small one in one statement, a large one in one
//! transaction.

use deadpool_postgres::Object;
use tiller_session::Row;
use tiller_session::database::SessionRow;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use crate::append::{Columns, Totals};
use crate::failure::{Failure, FailureKind};
use crate::shared::{Pause, Shared};

/// The rows of a statement, about.
pub(crate) const CHUNK_ROWS: usize = 500;
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// The session with this id that exists already.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Existing {
    None,
    /// An earlier attempt of this process has created it, with this fence and number of lines.
    Own {
        fence: i64,
        lines: i64,
    },
    Other,
}

/// A part of a large session.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<Row<'static>>,
    pub(crate) is_last: bool,
}

/// Why a session was not created.
#[derive(Debug)]
pub(crate) enum NotCreated {
    Exists,
    Failed(Failure),
}

impl From<Failure> for NotCreated {
    fn from(failure: Failure) -> NotCreated {
        NotCreated::Failed(failure)
    }
}

const SESSION_COLUMNS: &str = "(id, cwd, header, parent, name, first_message, messages, lines, \
     bytes, token, owner, fence, seen_at, modified_at, listed_at)";
/// The first fence is the time in microseconds. So it is not one of a session that had the same id
/// and was deleted, whose process may still try to write it.
const SESSION_VALUES: &str = "($1, $2, $3, $4, nullif($5, ''), $6, $7, $8, $9, $10, $11, \
     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, now(), now(), \
     date_trunc('minute', now()))";
const ENTRY_INSERT: &str = "INSERT INTO {schema}.entry (session, seq, id, parent, kind, body, words) \
     SELECT $1, e.seq, e.id, e.parent, e.kind, e.body, \
     array_to_tsvector(string_to_array(nullif(e.words, ''), ' '))";

impl Shared {
    /// Creates a session whose rows are all here. Returns its fence.
    pub(crate) async fn create(
        &self,
        session: &SessionRow,
        rows: &[Row<'static>],
        deadline: Instant,
    ) -> Result<i64, NotCreated> {
        let totals = Totals::of(rows);
        let mut columns = Columns::default();
        columns.add(0, rows);
        let statement = self.sql(&format!(
            "WITH created AS (
                INSERT INTO {{schema}}.session {SESSION_COLUMNS} VALUES {SESSION_VALUES}
                ON CONFLICT (id) DO NOTHING RETURNING fence
            ), stored AS (
                {ENTRY_INSERT}
                FROM created, unnest($12::bigint[], $13::text[], $14::text[], $15::text[],
                                     $16::text[], $17::text[])
                    AS e (seq, id, parent, kind, body, words)
            )
            SELECT fence FROM created"
        ));
        let mut parameters = self.session_parameters(session, &totals);
        parameters.extend(columns.parameters());
        let mut pause = Pause::new();
        loop {
            let failure = match self.query(deadline, &statement, &parameters).await {
                Ok(created) => match created.first() {
                    Some(row) => return Ok(row.get("fence")),
                    // The attempt was not answered, or had other lines.
                    None => match self.remove_own(session, deadline).await? {
                        Existing::Other => return Err(NotCreated::Exists),
                        Existing::None | Existing::Own { .. } => Failure::timeout(),
                    },
                },
                Err(failure) => failure,
            };
            if !failure.may_pass() || !pause.before(deadline).await {
                return Err(NotCreated::Failed(failure));
            }
        }
    }

    /// Creates a session whose rows arrive in chunks, in one transaction. It is not tried again: the
    /// chunks are gone then. Returns its fence.
    pub(crate) async fn create_large(
        &self,
        session: &SessionRow,
        mut chunks: mpsc::Receiver<Chunk>,
    ) -> Result<i64, NotCreated> {
        let deadline = self.deadline();
        if self.remove_own(session, deadline).await? == Existing::Other {
            return Err(NotCreated::Exists);
        }
        let connection = self.connection(deadline).await?;
        // A transaction that is not finished must not stay on a connection of the pool.
        let mut client = Object::take(connection);
        let transaction = self.in_time(client.transaction()).await?;
        let mut totals = Totals::default();
        loop {
            let Some(Chunk { rows, is_last }) = chunks.recv().await else {
                // The rest could not be read. Dropping the transaction undoes it.
                let text = "the lines of the session could not be read".to_owned();
                return Err(NotCreated::Failed(Failure { kind: FailureKind::Refused, text }));
            };
            let mut columns = Columns::default();
            columns.add(totals.lines, &rows);
            rows.iter().for_each(|row| totals.add(row));
            let statement = self.sql(&format!(
                "{ENTRY_INSERT} FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], \
                 $6::text[], $7::text[]) AS e (seq, id, parent, kind, body, words)"
            ));
            let mut parameters = vec![(&session.id as _, Type::TEXT)];
            parameters.extend(columns.parameters());
            self.in_time(transaction.query_typed(&statement, &parameters)).await?;
            if is_last {
                break;
            }
        }
        let statement = self.sql(&format!(
            "INSERT INTO {{schema}}.session {SESSION_COLUMNS} VALUES {SESSION_VALUES} \
             RETURNING fence"
        ));
        let parameters = self.session_parameters(session, &totals);
        let created = self.in_time(transaction.query_typed_one(&statement, &parameters)).await?;
        let fence = created.get("fence");
        let failure = match self.in_time(transaction.commit()).await {
            Ok(()) => return Ok(fence),
            Err(NotCreated::Exists) => return Err(NotCreated::Exists),
            Err(NotCreated::Failed(failure)) => failure,
        };
        // Perhaps only the answer was lost.
        match self.find_created(session, self.deadline()).await? {
            Existing::Own { fence: found, lines } if found == fence && lines == totals.lines => {
                Ok(fence)
            }
            _ => Err(NotCreated::Failed(failure)),
        }
    }

    /// Waits for a step of a large creation, but not for too long.
    async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, NotCreated> {
        match timeout_at(self.deadline(), step).await {
            Ok(Ok(result)) => Ok(result),
            // Another process has created it meanwhile.
            Ok(Err(err)) if err.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                Err(NotCreated::Exists)
            }
            Ok(Err(err)) => Err(NotCreated::Failed(Failure::of(&err))),
            Err(_) => Err(NotCreated::Failed(Failure::timeout())),
        }
    }

    fn session_parameters<'a>(
        &'a self,
        session: &'a SessionRow,
        totals: &'a Totals,
    ) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        let name = if totals.name.is_some() { &totals.name } else { &session.name };
        vec![
            (&session.id, Type::TEXT),
            (&session.cwd, Type::TEXT),
            (&session.header, Type::TEXT),
            (&session.parent, Type::TEXT),
            (name, Type::TEXT),
            (&totals.first_message, Type::TEXT),
            (&totals.messages, Type::INT8),
            (&totals.lines, Type::INT8),
            (&totals.bytes, Type::INT8),
            (&session.token, Type::TEXT),
            (&self.host.id, Type::TEXT),
        ]
    }

    /// The session that has this id already.
    async fn find_created(
        &self,
        session: &SessionRow,
        deadline: Instant,
    ) -> Result<Existing, Failure> {
        let statement = "SELECT token, owner, fence, lines FROM {schema}.session WHERE id = $1";
        let rows = self.query_again(deadline, statement, &[(&session.id as _, Type::TEXT)]).await?;
        let Some(row) = rows.first() else { return Ok(Existing::None) };
        // Another process may have claimed it: what it has written must stay.
        let is_own = row.get::<_, &str>("token") == session.token
            && row.get::<_, Option<&str>>("owner") == Some(&self.host.id);
        if !is_own {
            return Ok(Existing::Other);
        }
        Ok(Existing::Own { fence: row.get("fence"), lines: row.get("lines") })
    }

    /// Deletes what an earlier attempt of this process has stored: this one may have other lines.
    /// Returns what was there. A late deletion does not find the fence of a later creation.
    async fn remove_own(
        &self,
        session: &SessionRow,
        deadline: Instant,
    ) -> Result<Existing, Failure> {
        let found = self.find_created(session, deadline).await?;
        if let Existing::Own { fence, .. } = found {
            let statement = "WITH gone AS (
                    DELETE FROM {schema}.session WHERE id = $1 AND fence = $2 AND owner = $3
                    RETURNING id
                )
                DELETE FROM {schema}.entry e USING gone WHERE e.session = gone.id";
            let parameters = &[
                (&session.id as _, Type::TEXT),
                (&fence as _, Type::INT8),
                (&self.host.id as _, Type::TEXT),
            ];
            self.query_again(deadline, statement, parameters).await?;
        }
        Ok(found)
    }
}
