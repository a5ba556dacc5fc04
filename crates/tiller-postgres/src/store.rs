//! The store: [`Postgres`] is a [`Database`] for sessions, used by all sessions of a process.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tiller_session::database::{
    AppendError, Claim, CreateError, Database, SessionRow, StoredSession, Watch,
};
use tiller_session::list::{ListQuery, Listing};
use tiller_session::{Error, Owner, Row};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::SCHEME;
use crate::append::{self, Append, Appends};
use crate::background::Background;
use crate::claims::{Claimed, NotClaimed};
use crate::create::{CHUNK_BYTES, CHUNK_ROWS, Chunk, NotCreated};
use crate::failure::Failure;
use crate::follow::{self, Followers};
use crate::host::HostName;
use crate::options::Options;
use crate::schema::{Initialized, Status};
use crate::shared::Shared;

/// Sessions in PostgreSQL. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Postgres(Arc<Store>);

#[derive(Debug)]
struct Store {
    background: Background,
    shared: Arc<Shared>,
    followers: Arc<Followers>,
    appends: Appends,
    /// The task that shows life, once this process is in the table of hosts.
    life: Mutex<Option<AbortHandle>>,
}

impl Postgres {
    /// Starts the store's thread. Nothing is connected yet.
    pub fn start(options: Options, owner: Owner) -> Result<Postgres, String> {
        let cannot = |err: std::io::Error| format!("cannot start the thread of the store: {err}");
        let background = Background::start().map_err(cannot)?;
        let shared = Shared::new(options, HostName::new(owner))?;
        let (stored, received) = mpsc::unbounded_channel();
        background.spawn(follow::notify(shared.clone(), received));
        let appends = append::start(&shared, stored, |task| {
            background.spawn(task);
        });
        let (followers, life) = (Arc::default(), Mutex::default());
        Ok(Postgres(Arc::new(Store { background, shared, followers, appends, life })))
    }

    /// Connects, and fails unless the tables are there.
    pub fn check_version(&self) -> Result<(), String> {
        let shared = self.0.shared.clone();
        self.ask(async move { shared.check_version().await }, Err)
            .map_err(|why| self.unusable(&why))
    }

    /// Makes the tables, or brings them up to date.
    pub fn init(&self, partitions: u32) -> Result<Initialized, String> {
        let shared = self.0.shared.clone();
        self.ask(async move { shared.init(partitions).await }, Err)
            .map_err(|why| self.unusable(&why))
    }

    /// What the store has.
    pub fn status(&self) -> Result<Status, String> {
        let shared = self.0.shared.clone();
        self.ask(async move { shared.status().await }, Err).map_err(|why| self.unusable(&why))
    }

    /// Compares sessions with their lines. Returns what is wrong.
    pub fn check(&self) -> Result<Vec<String>, String> {
        let shared = self.0.shared.clone();
        self.ask(async move { shared.check().await }, Err).map_err(|why| self.unusable(&why))
    }

    /// Ends this process's ownership of sessions, which must be closed by now. It waits for the
    /// database, but not longer than an append would.
    pub fn close(&self) {
        let Some(life) = self.life().take() else { return };
        // A sign of life after the end would hold up other processes.
        life.abort();
        let shared = self.0.shared.clone();
        let limit = shared.options.timeout.min(CLOSE_MAX);
        let left = async move {
            let leaving = async {
                shared.held.all_released().await;
                shared.leave().await
            };
            timeout(limit, leaving).await.ok();
        };
        // A database that does not answer learns of the end by the lack of signs of life.
        self.0.background.wait(left);
    }

    fn life(&self) -> std::sync::MutexGuard<'_, Option<AbortHandle>> {
        self.0.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unusable(&self, why: &str) -> String {
        format!("cannot use the store {}: {why}", self.0.shared.options.description())
    }

    /// Runs a task on the store's thread. `crashed` makes the result of a task that panicked.
    fn ask<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        crashed: impl FnOnce(String) -> T,
    ) -> T {
        let done = self.0.background.wait(work);
        done.unwrap_or_else(|| {
            crashed("internal error: the task of the store has failed".to_owned())
        })
    }

    /// Enters this process among the hosts, once.
    fn show_life(&self, deadline: Instant) -> Result<(), Failure> {
        if self.life().is_some() {
            return Ok(());
        }
        let shared = self.0.shared.clone();
        let shown = self.0.background.wait(async move { shared.show_life(deadline).await });
        shown.unwrap_or_else(|| Err(Failure::crashed()))?;
        let keep = || self.0.background.spawn(self.0.shared.clone().keep_showing_life());
        self.life().get_or_insert_with(keep);
        Ok(())
    }

    fn claimed(&self, id: &str, fence: i64, line: u64) -> Box<dyn Claim> {
        let line = line as i64;
        Box::new(PostgresClaim { store: self.clone(), id: id.to_owned(), fence, line })
    }

    fn try_claim(&self, id: &str) -> Result<Claimed, NotClaimed> {
        let deadline = self.0.shared.deadline();
        self.show_life(deadline)?;
        let (shared, wanted) = (self.0.shared.clone(), id.to_owned());
        let claim = async move {
            if !shared.held.add(&wanted, deadline).await? {
                return Err(NotClaimed::InUse(Some(shared.host.owner.clone())));
            }
            let claimed = shared.claim(&wanted, deadline).await;
            if claimed.is_err() {
                shared.held.remove(&wanted);
            }
            claimed
        };
        self.ask(claim, |_| Err(NotClaimed::Failed(Failure::crashed())))
    }

    /// Stores a session with its first lines. Returns its fence and the number of lines.
    fn try_create(
        &self,
        session: &SessionRow,
        rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>,
        deadline: Instant,
    ) -> Result<(i64, u64), CreateError> {
        let failed = |why: NotCreated| match why {
            NotCreated::Exists => CreateError::Exists,
            NotCreated::Failed(failure) => CreateError::Failed(failure.text),
        };
        let crashed = |_| Err(NotCreated::Failed(Failure::crashed()));
        let mut next = chunk(rows).map_err(CreateError::Source)?;
        let mut lines = next.rows.len() as u64;
        let (shared, row) = (self.0.shared.clone(), session.clone());
        if next.is_last {
            let created = async move { shared.create(&row, &next.rows, deadline).await };
            return Ok((self.ask(created, crashed).map_err(failed)?, lines));
        }
        let (chunks, received) = mpsc::channel(1);
        let (done, result) = oneshot::channel();
        self.0.background.spawn(async move {
            // If nothing waits for the result, the rows could not be read.
            done.send(shared.create_large(&row, received).await).ok();
        });
        loop {
            let (sender, is_last) = (chunks.clone(), next.is_last);
            // A transaction that has failed takes no more; its result says why.
            let is_open = self.ask(async move { sender.send(next).await.is_ok() }, |_| false);
            if is_last || !is_open {
                break;
            }
            next = chunk(rows).map_err(CreateError::Source)?;
            lines += next.rows.len() as u64;
        }
        drop(chunks);
        let created = async move {
            result.await.unwrap_or_else(|_| Err(NotCreated::Failed(Failure::crashed())))
        };
        Ok((self.ask(created, crashed).map_err(failed)?, lines))
    }
}

/// The next rows of a statement.
fn chunk(rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>) -> Result<Chunk, Error> {
    let mut chunk = Chunk { rows: Vec::new(), is_last: false };
    let mut bytes = 0;
    for row in rows {
        let row = row?;
        bytes += row.line.len();
        chunk.rows.push(row);
        if chunk.rows.len() == CHUNK_ROWS || bytes >= CHUNK_BYTES {
            return Ok(chunk);
        }
    }
    chunk.is_last = true;
    Ok(chunk)
}

impl Database for Postgres {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn create(
        &self,
        session: &SessionRow,
        rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>,
    ) -> Result<Box<dyn Claim>, CreateError> {
        let deadline = self.0.shared.deadline();
        let failed = |failure: Failure| CreateError::Failed(failure.text);
        self.show_life(deadline).map_err(failed)?;
        let (shared, id) = (self.0.shared.clone(), session.id.clone());
        let added = self.ask(async move { shared.held.add(&id, deadline).await }, crashed);
        if !added.map_err(failed)? {
            return Err(CreateError::Exists);
        }
        match self.try_create(session, rows, deadline) {
            Ok((fence, lines)) => Ok(self.claimed(&session.id, fence, lines)),
            Err(error) => {
                self.0.shared.held.remove(&session.id);
                Err(error)
            }
        }
    }

    fn claim(&self, id: &str) -> Result<(StoredSession, Box<dyn Claim>), Error> {
        let error = |why: NotClaimed| why.into_error("cannot open session", address(id));
        let Claimed { fence, stored } = self.try_claim(id).map_err(error)?;
        let claim = self.claimed(id, fence, stored.lines);
        Ok((stored, claim))
    }

    fn stored(&self, id: &str) -> Result<Option<StoredSession>, Error> {
        let (shared, wanted) = (self.0.shared.clone(), id.to_owned());
        let stored = self.ask(async move { shared.stored(&wanted).await }, crashed);
        stored.map_err(|failure| unread(&address(id), failure))
    }

    fn read(&self, id: &str, range: Range<u64>) -> Result<Vec<String>, Error> {
        let (shared, wanted) = (self.0.shared.clone(), id.to_owned());
        let read = self.ask(async move { shared.read(&wanted, range).await }, crashed);
        read.map_err(|failure| unread(&address(id), failure))
    }

    fn list(&self, query: &ListQuery) -> Result<Listing, Error> {
        let (shared, query) = (self.0.shared.clone(), query.clone());
        let listed = self.ask(async move { shared.list(&query).await }, crashed);
        listed.map_err(|failure| Error::List { what: "list", reason: failure.text })
    }

    fn find(&self, id: &str, cwd: &str) -> Result<Vec<String>, Error> {
        let (shared, id, cwd) = (self.0.shared.clone(), id.to_owned(), cwd.to_owned());
        let found = self.ask(async move { shared.find(&id, &cwd).await }, crashed);
        found.map_err(|failure| Error::List { what: "search", reason: failure.text })
    }

    fn delete(&self, id: &str) -> Result<(), Error> {
        let error = |why: NotClaimed| why.into_error("cannot delete session", address(id));
        let fence = self.try_claim(id).map_err(error)?.fence;
        let (shared, wanted) = (self.0.shared.clone(), id.to_owned());
        let deleted = async move { shared.delete(&wanted, fence).await };
        let deleted = self.ask(deleted, |_| Err(NotClaimed::Failed(Failure::crashed())));
        self.0.shared.held.remove(id);
        deleted.map_err(error)
    }

    fn watch(&self, id: &str, wake: Box<dyn Fn() + Send>) -> Box<dyn Watch> {
        let followers = self.0.followers.clone();
        let (number, is_first) = followers.add(id, wake);
        if is_first {
            self.0.background.spawn(follow::listen(self.0.shared.clone(), followers.clone()));
        }
        Box::new(PostgresWatch { followers, number })
    }
}

fn crashed<T>(_: String) -> Result<T, Failure> {
    Err(Failure::crashed())
}

fn address(id: &str) -> PathBuf {
    PathBuf::from(format!("{SCHEME}:{id}"))
}

fn unread(address: &Path, failure: Failure) -> Error {
    Error::Database {
        task: format!("cannot read session {}", address.display()),
        reason: failure.text,
    }
}

/// How long the end of a session waits for its release.
const RELEASE_MAX: Duration = Duration::from_secs(1);
/// How long the end of the store waits.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// How much later than its time an append may be answered.
const ANSWER_MAX: Duration = Duration::from_millis(250);

/// A session that this process may write.
struct PostgresClaim {
    store: Postgres,
    id: String,
    fence: i64,
    /// The number of lines.
    line: i64,
}

impl Claim for PostgresClaim {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), AppendError> {
        let Store { background, shared, appends, .. } = &*self.store.0;
        let (done, result) = oneshot::channel();
        let deadline = shared.deadline();
        appends.send(Append {
            session: self.id.clone(),
            fence: self.fence,
            line: self.line,
            rows: rows.iter().cloned().map(Row::into_owned).collect(),
            deadline,
            done,
            is_uncertain: false,
        });
        // An append may share a statement with others whose time is up later. If it is stored after
        // all, `recover` finds it, or makes sure that it is not stored any more.
        let unknown = |failure: Failure| Err(AppendError::Unknown(failure.text));
        let stored = background.wait(async move {
            match timeout_at(deadline + ANSWER_MAX, result).await {
                Ok(Ok(stored)) => stored,
                Ok(Err(_)) => unknown(Failure::crashed()),
                Err(_) => unknown(Failure::timeout()),
            }
        });
        stored.unwrap_or_else(|| unknown(Failure::crashed()))?;
        self.line += rows.len() as i64;
        Ok(())
    }

    fn recover(&mut self) -> Result<Vec<String>, AppendError> {
        let (shared, id) = (self.store.0.shared.clone(), self.id.clone());
        let (fence, line) = (self.fence, self.line);
        let recovered = async move {
            let (fence, lines) = shared.claim_again(&id, fence).await?;
            let read = shared.read(&id, line.unsigned_abs()..lines.max(line).unsigned_abs()).await;
            let read = read.map_err(|failure| AppendError::Unknown(failure.text));
            Ok((fence, read))
        };
        let crashed = |_| Err(AppendError::Unknown(Failure::crashed().text));
        let (fence, read) = self.store.ask(recovered, crashed)?;
        self.fence = fence;
        let lines = read?;
        self.line += lines.len() as i64;
        Ok(lines)
    }
}

impl Drop for PostgresClaim {
    fn drop(&mut self) {
        let Store { background, shared, .. } = &*self.store.0;
        shared.held.begin_release(&self.id);
        let release = shared.clone().release(self.id.clone(), self.fence);
        // If it takes longer, it goes on in the background.
        background.wait_at_most(RELEASE_MAX, release);
    }
}

/// A follower. It ends when it is dropped.
struct PostgresWatch {
    followers: Arc<Followers>,
    number: u64,
}

impl Watch for PostgresWatch {}

impl Drop for PostgresWatch {
    fn drop(&mut self) {
        self.followers.remove(self.number);
    }
}
