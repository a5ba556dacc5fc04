//! Reads, lists, finds and deletes sessions.

use std::ops::Range;
use std::path::PathBuf;

use tiller_agent::time;
use tiller_session::Header;
use tiller_session::database::StoredSession;
use tiller_session::list::{Cursor, ListQuery, Listing, SessionInfo};
use tokio_postgres::types::{ToSql, Type};

use crate::SCHEME;
use crate::claims::NotClaimed;
use crate::failure::{Failure, FailureKind};
use crate::shared::Shared;

/// The most sessions that a beginning of an id finds.
const FOUND_MAX: i64 = 20;

impl Shared {
    pub(crate) async fn stored(&self, id: &str) -> Result<Option<StoredSession>, Failure> {
        let statement = "SELECT header, lines FROM {schema}.session WHERE id = $1";
        let rows = self.query_again(self.deadline(), statement, &[(&id as _, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| StoredSession {
            header: row.get("header"),
            lines: row.get::<_, i64>("lines").unsigned_abs(),
        }))
    }

    pub(crate) async fn read(&self, id: &str, range: Range<u64>) -> Result<Vec<String>, Failure> {
        let statement = "SELECT body FROM {schema}.entry \
             WHERE session = $1 AND seq >= $2 AND seq < $3 ORDER BY seq";
        let (start, end) = (range.start as i64, range.end as i64);
        let parameters =
            &[(&id as _, Type::TEXT), (&start as _, Type::INT8), (&end as _, Type::INT8)];
        let rows = self.query_again(self.deadline(), statement, parameters).await?;
        if rows.len() as u64 != range.end - range.start {
            let (found, wanted) = (rows.len(), range.end - range.start);
            let text = format!(
                "lines are missing: {found} of {wanted} from number {start}; see `tiller store check`"
            );
            return Err(Failure { kind: FailureKind::Refused, text });
        }
        Ok(rows.into_iter().map(|row| row.get("body")).collect())
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Listing, Failure> {
        let Filter { conditions, values } = Filter::of(query);
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
        let place = values.len() + 1;
        let statement = format!(
            "SELECT s.id, s.cwd, s.header, s.parent, s.name, s.first_message, s.messages, \
             (extract(epoch FROM s.modified_at) * 1000000)::bigint AS modified \
             FROM {{schema}}.session s {conditions} \
             ORDER BY s.listed_at DESC, s.modified_at DESC, s.id DESC LIMIT ${place}"
        );
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
        for value in &values {
            parameters.push(value.parameter());
        }
        parameters.push((&limit, Type::INT8));
        let rows = self.query_again(self.deadline(), &statement, &parameters).await?;
        let is_more = rows.len() > query.limit;
        let mut sessions = Vec::new();
        let mut next = None;
        for row in rows.iter().take(query.limit) {
            let modified_us = row.get::<_, i64>("modified").unsigned_abs();
            let id: String = row.get("id");
            let created = created(row.get("header"));
            next = Some(Cursor { modified_ns: u128::from(modified_us) * 1_000, name: id.clone() });
            sessions.push(SessionInfo {
                path: PathBuf::from(format!("{SCHEME}:{id}")),
                id,
                name: row.get("name"),
                cwd: row.get("cwd"),
                parent_session: row.get("parent"),
                created,
                modified: time::iso(modified_us / 1_000),
                message_count: row.get::<_, i64>("messages").unsigned_abs(),
                first_message: row.get::<_, Option<String>>("first_message").unwrap_or_default(),
            });
        }
        Ok(Listing { sessions, next: next.filter(|_| is_more) })
    }

    pub(crate) async fn find(&self, id: &str, cwd: &str) -> Result<Vec<String>, Failure> {
        let begins = format!("{}%", id.replace(['%', '\\'], "").replace('_', "\\_"));
        let statement = "SELECT id FROM {schema}.session WHERE id = $1 OR id LIKE $2 \
             ORDER BY id = $1 DESC, cwd = $3 DESC, listed_at DESC, modified_at DESC LIMIT $4";
        let parameters = &[
            (&id as _, Type::TEXT),
            (&begins as _, Type::TEXT),
            (&cwd as _, Type::TEXT),
            (&FOUND_MAX as _, Type::INT8),
        ];
        let rows = self.query_again(self.deadline(), statement, parameters).await?;
        let ids: Vec<String> = rows.iter().map(|row| row.get("id")).collect();
        if ids.first().is_some_and(|first| first == id) {
            return Ok(vec![id.to_owned()]);
        }
        Ok(ids)
    }

    /// Deletes a session that this process has claimed.
    pub(crate) async fn delete(&self, id: &str, fence: i64) -> Result<(), NotClaimed> {
        let deadline = self.deadline();
        let statement = "WITH gone AS (
                DELETE FROM {schema}.session WHERE id = $1 AND fence = $2 RETURNING id
            ), lines AS (
                DELETE FROM {schema}.entry e USING gone WHERE e.session = gone.id
            )
            SELECT id FROM gone";
        let parameters = &[(&id as _, Type::TEXT), (&fence as _, Type::INT8)];
        let deleted = self.query_again(deadline, statement, parameters).await;
        if !deleted.inspect_err(|_| self.held.doubt(id, fence))?.is_empty() {
            return Ok(());
        }
        match self.in_use(id, deadline).await {
            // An attempt that was not answered was carried out.
            NotClaimed::NoSession => Ok(()),
            other => Err(other),
        }
    }
}

/// The conditions of a list, with their values.
struct Filter {
    conditions: String,
    values: Vec<FilterValue>,
}

enum FilterValue {
    Text(String),
    Number(i64),
}

impl FilterValue {
    fn parameter(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            FilterValue::Text(text) => (text, Type::TEXT),
            FilterValue::Number(number) => (number, Type::INT8),
        }
    }
}

impl Filter {
    fn of(query: &ListQuery) -> Filter {
        let mut filter = Filter { conditions: String::new(), values: Vec::new() };
        if let Some(cwd) = &query.cwd {
            let cwd = filter.value(FilterValue::Text(cwd.to_string_lossy().into_owned()));
            filter.add(&format!("s.cwd = {cwd}"));
        }
        if let Some(name) = &query.name {
            let name = filter.value(FilterValue::Text(name.replace('\0', "")));
            filter.add(&format!("strpos(lower(s.name), lower({name})) > 0"));
        }
        let words = query.words();
        if !words.is_empty() {
            // Words consist of letters and digits, so nothing has to be quoted but the word.
            let wanted: Vec<String> = words.iter().map(|word| format!("'{word}':*")).collect();
            let wanted = filter.value(FilterValue::Text(wanted.join(" & ")));
            filter.add(&format!(
                "s.id IN (SELECT e.session FROM {{schema}}.entry e \
                 WHERE e.words IS NOT NULL AND e.words @@ {wanted}::tsquery)"
            ));
        }
        if let Some(since) = query.modified_since {
            let since = filter.time(since.saturating_mul(1_000));
            filter.add(&format!("s.listed_at >= date_trunc('minute', {since})"));
            filter.add(&format!("s.modified_at >= {since}"));
        }
        if let Some(until) = query.modified_until {
            let until = filter.time(until.saturating_mul(1_000));
            filter.add(&format!("s.listed_at <= {until} AND s.modified_at < {until}"));
        }
        if let Some(Cursor { modified_ns, name }) = &query.before {
            let at = filter.time(u64::try_from(modified_ns / 1_000).unwrap_or(u64::MAX));
            let id = filter.value(FilterValue::Text(name.replace('\0', "")));
            filter.add(&format!(
                "(s.listed_at, s.modified_at, s.id) < (date_trunc('minute', {at}), {at}, {id})"
            ));
        }
        filter
    }

    fn add(&mut self, condition: &str) {
        let lead = if self.conditions.is_empty() { "WHERE " } else { " AND " };
        self.conditions.push_str(lead);
        self.conditions.push_str(condition);
    }

    fn value(&mut self, value: FilterValue) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// A time in microseconds since 1970. Times beyond the year 9999 are cut, so that the database
    /// can represent them.
    fn time(&mut self, us: u64) -> String {
        const MAX: u64 = 253_402_300_799_000_000;
        let place = self.value(FilterValue::Number(us.min(MAX).cast_signed()));
        format!("(timestamptz 'epoch' + {place} * interval '1 microsecond')")
    }
}

/// When a session was created, as its header says.
fn created(header: &str) -> String {
    Header::read(header).map(|header| header.timestamp).unwrap_or_default()
}
