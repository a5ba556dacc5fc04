//! Claims: which process may write a session, and which sessions this process has.
//!
//! Every change of the owner names the fence that it was decided by, and increases it. So of two
//! changes that were decided at the same moment one has no effect, and neither has one that a lost
//! connection delivers late.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tiller_session::database::{AppendError, StoredSession};
use tiller_session::{Error, Owner};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::host::{HOST_COLUMNS, HOST_VALUES, OtherHost};
use crate::shared::Shared;

/// The sessions that this process has claimed.
#[derive(Debug, Default)]
pub(crate) struct Held {
    sessions: Mutex<HashMap<String, HeldState>>,
    released: Notify,
    /// Sessions that this process does not have although the database may say so, because a claim, a
    /// release or a deletion was not answered; with the fence that a late claim would need.
    doubts: Mutex<HashMap<String, i64>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum HeldState {
    Claimed,
    /// The database has not been told yet.
    Releasing,
}

impl Held {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, HeldState>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubts(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session, after its release if that is under way. False: it is claimed already.
    pub(crate) async fn add(&self, id: &str, deadline: Instant) -> Result<bool, Failure> {
        loop {
            let released = self.released.notified();
            match self.sessions().entry(id.to_owned()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(HeldState::Claimed);
                    return Ok(true);
                }
                Entry::Occupied(held) if *held.get() == HeldState::Claimed => return Ok(false),
                Entry::Occupied(_) => {}
            }
            timeout_at(deadline, released).await.map_err(|_| Failure::timeout())?;
        }
    }

    fn has(&self, id: &str) -> bool {
        self.sessions().contains_key(id)
    }

    pub(crate) fn remove(&self, id: &str) {
        self.sessions().remove(id);
        self.released.notify_waiters();
    }

    pub(crate) fn begin_release(&self, id: &str) {
        self.sessions().insert(id.to_owned(), HeldState::Releasing);
    }

    /// Waits until no release is under way.
    pub(crate) async fn all_released(&self) {
        loop {
            let released = self.released.notified();
            if !self.sessions().values().any(|state| *state == HeldState::Releasing) {
                return;
            }
            released.await;
        }
    }

    /// Records that the database may count a session as this process's.
    pub(crate) fn doubt(&self, id: &str, fence: i64) {
        self.doubts().insert(id.to_owned(), fence);
    }

    /// The doubts about sessions that this process does not have.
    fn open_doubts(&self) -> Vec<(String, i64)> {
        let mut doubts: Vec<(String, i64)> =
            self.doubts().iter().map(|(id, fence)| (id.clone(), *fence)).collect();
        doubts.retain(|(id, _)| !self.has(id));
        doubts
    }

    /// Removes a doubt, unless there is a new one.
    fn settle(&self, id: &str, fence: i64) {
        let mut doubts = self.doubts();
        if doubts.get(id) == Some(&fence) {
            doubts.remove(id);
        }
    }
}

/// Claims the session with the fence `$10`, unless its owner is alive. `$11` names an owner that is
/// known to be dead. An owner that has not shown life for `$12` seconds counts as dead, if the
/// database could have been told for so long; one whose row is gone has ended. The claim enters its
/// own row if another process has removed that.
fn claim_statement() -> String {
    format!(
        "WITH host AS (
            INSERT INTO {{schema}}.host {HOST_VALUES} ON CONFLICT (id) DO NOTHING
        )
        UPDATE {{schema}}.session AS s
        SET owner = $1, fence = s.fence + 1, seen_at = now()
        WHERE s.id = $9 AND s.fence = $10 AND (
            s.owner IS NULL OR s.owner = $1 OR s.owner = $11
            OR NOT EXISTS (
                SELECT FROM {{schema}}.host h
                WHERE h.id = s.owner
                AND greatest(h.seen_at, s.seen_at, pg_postmaster_start_time())
                    > now() - make_interval(secs => $12)
            )
        )
        RETURNING s.fence, s.header, s.lines"
    )
}

/// A claim, and the session as it was then.
pub(crate) struct Claimed {
    pub(crate) fence: i64,
    pub(crate) stored: StoredSession,
}

/// Who may write a session.
struct Ownership {
    fence: i64,
    is_free: bool,
    is_own: bool,
    /// None if it has none, or one that has ended.
    owner: Option<OtherHost>,
}

impl Ownership {
    fn read(row: &Row, own: &str) -> Ownership {
        let id: Option<&str> = row.get("owner");
        Ownership {
            fence: row.get("fence"),
            is_free: id.is_none(),
            is_own: id == Some(own),
            owner: OtherHost::read(row),
        }
    }

    fn owner(self) -> Option<Owner> {
        self.owner.map(|owner| owner.owner)
    }
}

/// Why a session was not claimed.
#[derive(Debug)]
pub(crate) enum NotClaimed {
    NoSession,
    InUse(Option<Owner>),
    Failed(Failure),
}

impl From<Failure> for NotClaimed {
    fn from(failure: Failure) -> NotClaimed {
        NotClaimed::Failed(failure)
    }
}

impl NotClaimed {
    /// `task` says what was tried: `cannot open session`.
    pub(crate) fn into_error(self, task: &str, address: PathBuf) -> Error {
        match self {
            NotClaimed::NoSession => Error::NotFound(address),
            NotClaimed::InUse(owner) => Error::InUse { path: address, owner: owner.map(Box::new) },
            NotClaimed::Failed(failure) => Error::Database {
                task: format!("{task} {}", address.display()),
                reason: failure.text,
            },
        }
    }
}

impl Shared {
    /// Claims a session that no other part of this process has: see [`Held`].
    pub(crate) async fn claim(&self, id: &str, deadline: Instant) -> Result<Claimed, NotClaimed> {
        let secs = self.options.takeover.as_secs_f64();
        let mut ownership = self.ownership(id, deadline).await?.ok_or(NotClaimed::NoSession)?;
        loop {
            let fence = ownership.fence;
            let dead = ownership.owner.as_ref().filter(|owner| owner.has_died(&self.host));
            let dead = dead.map(|owner| &owner.id);
            let mut parameters = self.host.parameters().to_vec();
            parameters.extend([
                (&id as _, Type::TEXT),
                (&fence as _, Type::INT8),
                (&dead as _, Type::TEXT),
                (&secs as _, Type::FLOAT8),
            ]);
            let claimed = self.query_again(deadline, &claim_statement(), &parameters).await;
            let rows = claimed.inspect_err(|_| self.held.doubt(id, fence))?;
            if let Some(row) = rows.first() {
                // A late claim needs a fence that is gone.
                self.held.doubts().remove(id);
                let lines = row.get::<_, i64>("lines").unsigned_abs();
                let stored = StoredSession { header: row.get("header"), lines };
                return Ok(Claimed { fence: row.get("fence"), stored });
            }
            ownership = self.ownership(id, deadline).await?.ok_or(NotClaimed::NoSession)?;
            // Otherwise it was changed meanwhile, or its owner has ended.
            if ownership.fence == fence && ownership.owner.is_some() {
                return Err(NotClaimed::InUse(ownership.owner()));
            }
        }
    }

    /// Who may write a session. None: there is no such session.
    async fn ownership(&self, id: &str, deadline: Instant) -> Result<Option<Ownership>, Failure> {
        let found = self.ownerships(&[id], deadline).await?;
        Ok(found.into_values().next())
    }

    async fn ownerships(
        &self,
        ids: &[&str],
        deadline: Instant,
    ) -> Result<HashMap<String, Ownership>, Failure> {
        let statement = format!(
            "SELECT s.id, s.fence, s.owner, {HOST_COLUMNS} FROM {{schema}}.session s \
             LEFT JOIN {{schema}}.host h ON h.id = s.owner WHERE s.id = ANY ($1)"
        );
        let rows = self.query_again(deadline, &statement, &[(&ids as _, Type::TEXT_ARRAY)]).await?;
        let read = |row: &Row| (row.get("id"), Ownership::read(row, &self.host.id));
        Ok(rows.iter().map(read).collect())
    }

    /// The owner of a session that this process could not claim or delete.
    pub(crate) async fn in_use(&self, id: &str, deadline: Instant) -> NotClaimed {
        match self.ownership(id, deadline).await {
            Ok(Some(ownership)) => NotClaimed::InUse(ownership.owner()),
            Ok(None) => NotClaimed::NoSession,
            Err(failure) => NotClaimed::Failed(failure),
        }
    }

    /// Claims a session again that this process has, so that nothing of an earlier attempt to write
    /// it can succeed any more. Returns the new fence and the number of lines.
    pub(crate) async fn claim_again(
        &self,
        id: &str,
        mut fence: i64,
    ) -> Result<(i64, i64), AppendError> {
        let deadline = self.deadline();
        let unknown = |failure: Failure| AppendError::Unknown(failure.text);
        let statement = "UPDATE {schema}.session SET fence = fence + 1, seen_at = now() \
             WHERE id = $1 AND owner = $2 AND fence = $3 RETURNING fence, lines";
        loop {
            let parameters = &[
                (&id as _, Type::TEXT),
                (&self.host.id as _, Type::TEXT),
                (&fence as _, Type::INT8),
            ];
            let rows = self.query_again(deadline, statement, parameters).await.map_err(unknown)?;
            if let Some(row) = rows.first() {
                return Ok((row.get("fence"), row.get("lines")));
            }
            match self.ownership(id, deadline).await.map_err(unknown)? {
                None => return Err(AppendError::Deleted),
                // An attempt that was not answered was carried out.
                Some(ownership) if ownership.is_own && ownership.fence > fence => {
                    fence = ownership.fence;
                }
                Some(ownership) => return Err(AppendError::TakenOver(ownership.owner())),
            }
        }
    }

    /// Gives a claim back. A failure is not reported: the release is made up for later.
    pub(crate) async fn release(self: Arc<Self>, id: String, fence: i64) {
        let statement = "UPDATE {schema}.session \
             SET owner = NULL, fence = fence + 1, seen_at = now() \
             WHERE id = $1 AND fence = $2 AND owner = $3";
        let parameters =
            &[(&id as _, Type::TEXT), (&fence as _, Type::INT8), (&self.host.id as _, Type::TEXT)];
        if self.query_again(self.deadline(), statement, parameters).await.is_err() {
            self.held.doubt(&id, fence);
        }
        self.held.remove(&id);
    }

    /// Releases sessions that the database counts as this process's although it does not have them.
    /// Otherwise no other process could open them while this one lives.
    pub(crate) async fn settle_doubts(&self, deadline: Instant) -> Result<(), Failure> {
        let doubts = self.held.open_doubts();
        if doubts.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = doubts.iter().map(|(id, _)| id.as_str()).collect();
        let found = self.ownerships(&ids, deadline).await?;
        let (mut ids, mut fences) = (Vec::new(), Vec::new());
        for (id, late) in &doubts {
            // Whether this process has it is asked again: a claim may have succeeded meanwhile. One
            // that succeeds from now on changes the fence.
            match found.get(id) {
                _ if self.held.has(id) => {}
                Some(found) if found.is_own || (found.is_free && found.fence == *late) => {
                    ids.push(id.as_str());
                    fences.push(found.fence);
                }
                // A late claim could still succeed if the owner ends.
                Some(found) if found.fence == *late => {}
                _ => self.held.settle(id, *late),
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        // The next attempt finds what has become of them.
        let statement = "UPDATE {schema}.session AS s SET owner = NULL, fence = s.fence + 1 \
             FROM unnest($1::text[], $2::bigint[]) AS c (session, fence) \
             WHERE s.id = c.session AND s.fence = c.fence AND (s.owner IS NULL OR s.owner = $3)";
        let parameters = &[
            (&ids as _, Type::TEXT_ARRAY),
            (&fences as _, Type::INT8_ARRAY),
            (&self.host.id as _, Type::TEXT),
        ];
        self.query_again(deadline, statement, parameters).await.map(|_| ())
    }
}
