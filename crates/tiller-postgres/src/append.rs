//! Appends rows: those of many sessions in one statement, exactly once, and only for the owner of
//! the session.

use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::Object;
use tiller_session::Row;
use tiller_session::database::AppendError;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::Type;

use crate::failure::{Failure, FailureKind};
use crate::host::{HOST_COLUMNS, OtherHost};
use crate::shared::{Pause, Shared};

/// The most appends of a statement, and about the most bytes.
const BATCH_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Rows that a session wants to store.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) session: String,
    pub(crate) fence: i64,
    /// The number of the first row.
    pub(crate) line: i64,
    pub(crate) rows: Vec<Row<'static>>,
    pub(crate) deadline: Instant,
    pub(crate) done: oneshot::Sender<Result<(), AppendError>>,
    /// An earlier attempt may have been carried out.
    pub(crate) is_uncertain: bool,
}

impl Append {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.line.len()).sum()
    }

    fn finish(self, result: Result<(), AppendError>) {
        // A session that has ended needs no answer.
        self.done.send(result).ok();
    }

    fn fail(self, reason: String) {
        let is_uncertain = self.is_uncertain;
        let error = if is_uncertain {
            AppendError::Unknown(reason)
        } else {
            AppendError::NotStored(reason)
        };
        self.finish(Err(error));
    }
}

/// The way to the writers.
#[derive(Clone, Debug)]
pub(crate) struct Appends(mpsc::UnboundedSender<Append>);

impl Appends {
    pub(crate) fn send(&self, append: Append) {
        if let Err(mpsc::error::SendError(append)) = self.0.send(append) {
            append.fail("the store has ended".to_owned());
        }
    }
}

/// Starts tasks that store appends. Each has a statement under way at a time; appends that arrive
/// while all are busy share the next one.
pub(crate) fn start(
    shared: &Arc<Shared>,
    stored: mpsc::UnboundedSender<(String, i64)>,
    spawn: impl Fn(Pin<Box<dyn Future<Output = ()> + Send>>),
) -> Appends {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let writers = shared.options.connections.div_ceil(2);
    for _ in 0..writers {
        let writer = Writer { shared: shared.clone(), stored: stored.clone() };
        spawn(Box::pin(writer.run(receiver.clone())));
    }
    Appends(sender)
}

const APPEND: &str = "
WITH claimed AS (
    UPDATE {schema}.session AS s
    SET lines = s.lines + c.count,
        bytes = s.bytes + c.bytes,
        messages = s.messages + c.messages,
        name = CASE WHEN c.name IS NULL THEN s.name ELSE nullif(c.name, '') END,
        first_message = coalesce(s.first_message, c.first_message),
        seen_at = now(),
        modified_at = now(),
        listed_at = date_trunc('minute', now())
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                $7::text[], $8::text[])
        WITH ORDINALITY
        AS c (session, fence, line, count, bytes, messages, name, first_message, number)
    WHERE s.id = c.session AND s.fence = c.fence AND s.lines = c.line
    RETURNING c.number, s.id
), stored AS (
    INSERT INTO {schema}.entry (session, seq, id, parent, kind, body, words)
    SELECT claimed.id, e.seq, e.id, e.parent, e.kind, e.body,
           array_to_tsvector(string_to_array(nullif(e.words, ''), ' '))
    FROM unnest($9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[],
                $15::text[])
        AS e (append, seq, id, parent, kind, body, words)
    JOIN claimed ON claimed.number = e.append
)
SELECT number FROM claimed";

/// The parameters of an insertion: a column each.
#[derive(Default)]
pub(crate) struct Columns {
    seq: Vec<i64>,
    id: Vec<Option<String>>,
    parent: Vec<Option<String>>,
    kind: Vec<String>,
    body: Vec<String>,
    words: Vec<String>,
}

impl Columns {
    /// Adds the rows of a session, the first with this number.
    pub(crate) fn add<'a>(&mut self, line: i64, rows: impl IntoIterator<Item = &'a Row<'static>>) {
        for (seq, row) in (line..).zip(rows) {
            self.seq.push(seq);
            self.id.push(row.id.clone());
            self.parent.push(row.parent.clone());
            self.kind.push(row.kind.clone());
            self.body.push(row.line.clone().into_owned());
            self.words.push(row.words.join(" "));
        }
    }

    pub(crate) fn parameters(&self) -> [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 6] {
        [
            (&self.seq, Type::INT8_ARRAY),
            (&self.id, Type::TEXT_ARRAY),
            (&self.parent, Type::TEXT_ARRAY),
            (&self.kind, Type::TEXT_ARRAY),
            (&self.body, Type::TEXT_ARRAY),
            (&self.words, Type::TEXT_ARRAY),
        ]
    }
}

/// What rows add to the row of their session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) lines: i64,
    pub(crate) bytes: i64,
    pub(crate) messages: i64,
    pub(crate) name: Option<String>,
    pub(crate) first_message: Option<String>,
}

impl Totals {
    pub(crate) fn add(&mut self, row: &Row<'_>) {
        self.lines += 1;
        // With the line end.
        self.bytes += row.line.len() as i64 + 1;
        self.messages += i64::from(row.is_message);
        if row.name.is_some() {
            self.name.clone_from(&row.name);
        }
        if self.first_message.is_none() {
            self.first_message.clone_from(&row.user_text);
        }
    }

    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a Row<'static>>) -> Totals {
        let mut totals = Totals::default();
        rows.into_iter().for_each(|row| totals.add(row));
        totals
    }
}

/// What became of an append that the statement did not carry out.
#[derive(Debug, PartialEq)]
enum Fate {
    /// An earlier attempt has stored it.
    Stored,
    /// Nothing stands in its way any more.
    TryAgain,
    Failed(AppendError),
}

/// What the database has of the session.
#[derive(Debug, PartialEq)]
struct Found {
    fence: i64,
    lines: i64,
    /// The line at the place of the first row.
    body: Option<String>,
    owner: Option<OtherHost>,
}

fn fate(append: &Append, found: Option<Found>) -> Fate {
    let Some(found) = found else { return Fate::Failed(AppendError::Deleted) };
    let own = append.rows.first().map(|row| &*row.line);
    if own.is_none() || found.body.as_deref() == own {
        Fate::Stored
    } else if found.fence != append.fence {
        Fate::Failed(AppendError::TakenOver(found.owner.map(|host| host.owner)))
    } else if found.lines == append.line {
        Fate::TryAgain
    } else {
        let (lines, line) = (found.lines, append.line);
        let reason = format!("the database has {lines} lines of this session, expected {line}");
        Fate::Failed(AppendError::NotStored(reason))
    }
}

/// A task that stores appends.
#[derive(Clone)]
struct Writer {
    shared: Arc<Shared>,
    /// Where followers of the sessions are told, which the writer does not wait for.
    stored: mpsc::UnboundedSender<(String, i64)>,
}

impl Writer {
    async fn run(self, receiver: Arc<Mutex<mpsc::UnboundedReceiver<Append>>>) {
        loop {
            let mut appends = Vec::new();
            // The writer that waits has the lock; the others wait for it.
            if receiver.lock().await.recv_many(&mut appends, BATCH_MAX).await == 0 {
                return;
            }
            // Batches that share sessions lock them in the same order.
            appends.sort_by(|one, other| one.session.cmp(&other.session));
            let mut batch = Vec::new();
            let mut bytes = 0;
            for append in appends {
                bytes += append.bytes();
                batch.push(append);
                if bytes > BATCH_BYTES_MAX {
                    self.store(std::mem::take(&mut batch)).await;
                    bytes = 0;
                }
            }
            self.store(batch).await;
        }
    }

    /// Stores the appends, each exactly once, or reports why not.
    async fn store(&self, mut appends: Vec<Append>) {
        let mut pause = Pause::new();
        loop {
            // A session that has waited for too long does not want its append stored any more.
            appends.retain(|append| !append.done.is_closed());
            let Some(deadline) = appends.iter().map(|append| append.deadline).max() else { return };
            match self.shared.try_store(&appends, deadline).await {
                Ok(fates) => {
                    appends = self.finish(appends, fates);
                    if !appends.is_empty() && !pause.before(deadline).await {
                        return fail(appends, &Failure::timeout());
                    }
                }
                Err(failure) => {
                    let is_lost = failure.kind == FailureKind::Lost;
                    appends.iter_mut().for_each(|append| append.is_uncertain |= is_lost);
                    if failure.kind == FailureKind::Refused && appends.len() == 1 {
                        return fail(appends, &failure);
                    }
                    let now = Instant::now();
                    let (late, left) = appends.into_iter().partition(|one| one.deadline <= now);
                    fail(late, &failure);
                    appends = left;
                    let is_temporary =
                        matches!(failure.kind, FailureKind::Unreachable | FailureKind::Busy);
                    if appends.len() > 1 && !is_temporary {
                        // One of them may be the cause.
                        return self.store_each(appends).await;
                    }
                    if !pause.before(deadline).await {
                        return fail(appends, &failure);
                    }
                }
            }
        }
    }

    /// Stores each append with a statement of its own.
    fn store_each(&self, appends: Vec<Append>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let writer = self.clone();
        Box::pin(async move {
            let mut tasks = JoinSet::new();
            for append in appends {
                let writer = writer.clone();
                tasks.spawn(async move { writer.store(vec![append]).await });
            }
            // A task that has panicked has dropped its append, which is the answer.
            while tasks.join_next().await.is_some() {}
        })
    }

    /// Reports what became of the appends. Returns those to try again.
    fn finish(&self, appends: Vec<Append>, fates: Vec<Fate>) -> Vec<Append> {
        let mut left = Vec::new();
        for (append, fate) in appends.into_iter().zip(fates) {
            match fate {
                Fate::Stored => {
                    let lines = append.line + append.rows.len() as i64;
                    // Without the task that notifies, followers ask now and then.
                    self.stored.send((append.session.clone(), lines)).ok();
                    append.finish(Ok(()));
                }
                Fate::Failed(error) => append.finish(Err(error)),
                Fate::TryAgain => left.push(append),
            }
        }
        left
    }
}

fn fail(appends: Vec<Append>, failure: &Failure) {
    appends.into_iter().for_each(|append| append.fail(failure.text.clone()));
}

impl Shared {
    /// Runs the statement once. Returns what became of each append.
    async fn try_store(&self, appends: &[Append], deadline: Instant) -> Result<Vec<Fate>, Failure> {
        // Half of the time: if the connection leads nowhere any more, another one is tried.
        let deadline = deadline.min(Instant::now() + self.options.timeout / 2);
        let begin = Instant::now();
        let connection = self.connection(deadline).await?;
        let stored = match timeout_at(deadline, self.insert(&connection, appends)).await {
            Ok(Ok(stored)) => stored,
            Ok(Err(err)) => return Err(self.failed(connection, &err)),
            Err(_) => return Err(self.give_up(connection, begin)),
        };
        let mut fates = Vec::new();
        for (number, append) in (1..).zip(appends) {
            if stored.contains(&number) {
                fates.push(Fate::Stored);
                continue;
            }
            fates.push(match timeout_at(deadline, self.found(&connection, append)).await {
                Ok(Ok(found)) => fate(append, found),
                // Others of the appends may be stored.
                Ok(Err(err)) => {
                    let failure = self.failed(connection, &err);
                    return Err(Failure { kind: FailureKind::Lost, ..failure });
                }
                Err(_) => return Err(self.give_up(connection, begin)),
            });
        }
        Ok(fates)
    }

    /// Returns the numbers of the appends that were stored; the first one has number 1.
    async fn insert(
        &self,
        connection: &Object,
        appends: &[Append],
    ) -> Result<Vec<i64>, tokio_postgres::Error> {
        let totals: Vec<Totals> = appends.iter().map(|append| Totals::of(&append.rows)).collect();
        let column = |of: &dyn Fn(&Append) -> i64| appends.iter().map(of).collect::<Vec<i64>>();
        let total = |of: &dyn Fn(&Totals) -> i64| totals.iter().map(of).collect::<Vec<i64>>();
        let sessions: Vec<&str> = appends.iter().map(|append| append.session.as_str()).collect();
        let (fences, lines) = (column(&|append| append.fence), column(&|append| append.line));
        let counts = total(&|totals| totals.lines);
        let bytes = total(&|totals| totals.bytes);
        let messages = total(&|totals| totals.messages);
        let names: Vec<Option<&str>> = totals.iter().map(|one| one.name.as_deref()).collect();
        let first: Vec<Option<&str>> =
            totals.iter().map(|one| one.first_message.as_deref()).collect();
        let mut numbers: Vec<i64> = Vec::new();
        let mut columns = Columns::default();
        for (number, append) in (1..).zip(appends) {
            numbers.extend(append.rows.iter().map(|_| number));
            columns.add(append.line, &append.rows);
        }
        let [seq, id, parent, kind, body, words] = columns.parameters();
        let parameters = &[
            (&sessions as _, Type::TEXT_ARRAY),
            (&fences as _, Type::INT8_ARRAY),
            (&lines as _, Type::INT8_ARRAY),
            (&counts as _, Type::INT8_ARRAY),
            (&bytes as _, Type::INT8_ARRAY),
            (&messages as _, Type::INT8_ARRAY),
            (&names as _, Type::TEXT_ARRAY),
            (&first as _, Type::TEXT_ARRAY),
            (&numbers as _, Type::INT8_ARRAY),
            seq,
            id,
            parent,
            kind,
            body,
            words,
        ];
        let rows = connection.query_typed(&self.sql(APPEND), parameters).await?;
        Ok(rows.iter().map(|row| row.get("number")).collect())
    }

    async fn found(
        &self,
        connection: &Object,
        append: &Append,
    ) -> Result<Option<Found>, tokio_postgres::Error> {
        let statement = format!(
            "SELECT s.fence, s.lines, e.body, {HOST_COLUMNS} FROM {{schema}}.session s \
             LEFT JOIN {{schema}}.entry e ON e.session = s.id AND e.seq = $2 \
             LEFT JOIN {{schema}}.host h ON h.id = s.owner WHERE s.id = $1"
        );
        let parameters = &[(&append.session as _, Type::TEXT), (&append.line as _, Type::INT8)];
        let row = connection.query_typed_opt(&self.sql(&statement), parameters).await?;
        Ok(row.map(|row| Found {
            fence: row.get("fence"),
            lines: row.get("lines"),
            body: row.get("body"),
            owner: OtherHost::read(&row),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append() -> Append {
        let rows = vec![Row::read("mine".to_owned())];
        let (done, _) = oneshot::channel();
        let deadline = Instant::now();
        let session = "s".to_owned();
        Append { session, fence: 3, line: 7, rows, deadline, done, is_uncertain: false }
    }

    /// Whether an append is stored is decided by what the database has, whichever process owns it by now.
    #[test]
    fn fate_of_an_append_that_was_not_carried_out() {
        let found = |fence, lines, body: Option<&str>| {
            Some(Found { fence, lines, body: body.map(str::to_owned), owner: None })
        };
        let taken = || Fate::Failed(AppendError::TakenOver(None));
        for (found, expected) in [
            (found(3, 8, Some("mine")), Fate::Stored),
            (found(4, 8, Some("mine")), Fate::Stored),
            (found(4, 9, Some("mine")), Fate::Stored),
            (found(4, 8, Some("theirs")), taken()),
            (found(4, 7, None), taken()),
            (found(3, 7, None), Fate::TryAgain),
            (None, Fate::Failed(AppendError::Deleted)),
        ] {
            let what = format!("{found:?}");
            assert_eq!(fate(&append(), found), expected, "{what}");
        }
        let other = fate(&append(), found(3, 9, Some("theirs")));
        assert!(matches!(other, Fate::Failed(AppendError::NotStored(_))), "{other:?}");
    }

    #[test]
    fn totals_are_those_of_a_list() {
        let lines = [
            r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"first"}}"#,
            r#"{"type":"message","id":"2","parentId":"1","message":{"role":"user","content":"second"}}"#,
            r#"{"type":"session_info","id":"3","parentId":"2","name":"Harbour"}"#,
            r#"{"type":"label","id":"4","parentId":"3"}"#,
        ];
        let rows: Vec<Row<'static>> =
            lines.iter().map(|line| Row::read(line.to_string())).collect();
        let bytes = lines.iter().map(|line| line.len() as i64 + 1).sum();
        let expected = Totals {
            lines: 4,
            bytes,
            messages: 2,
            name: Some("Harbour".to_owned()),
            first_message: Some("first".to_owned()),
        };
        assert_eq!(Totals::of(&rows), expected);
    }
}
