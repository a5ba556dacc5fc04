//! Wakes followers of a session that has new lines: by notifications, which other processes send, and
//! by asking now and then, because a notification can be lost and poolers pass none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::failure::Failure;
use crate::shared::Shared;

/// How long stored lines wait for others, so that one transaction notifies of all: every commit of a
/// notification takes a lock of the whole database.
const NOTIFY_PAUSE: Duration = Duration::from_millis(50);
/// How often the database is asked.
const POLL_PAUSE: Duration = Duration::from_secs(2);

/// A notification.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    session: String,
    /// The number of lines.
    seq: i64,
}

/// The sessions that are followed.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    followed: Mutex<FollowedSessions>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct FollowedSessions {
    last: u64,
    by_number: HashMap<u64, Followed>,
    is_listening: bool,
}

struct Followed {
    session: String,
    /// The number of lines that was reported to the follower.
    lines: i64,
    wake: Box<dyn Fn() + Send>,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followed").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Followers {
    fn sessions(&self) -> MutexGuard<'_, FollowedSessions> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a follower. Returns its number, and whether it is the first one ever.
    pub(crate) fn add(&self, session: &str, wake: Box<dyn Fn() + Send>) -> (u64, bool) {
        let mut sessions = self.sessions();
        sessions.last += 1;
        let number = sessions.last;
        // What was stored before is found by the next question.
        let followed = Followed { session: session.to_owned(), lines: -1, wake };
        sessions.by_number.insert(number, followed);
        let is_first = !std::mem::replace(&mut sessions.is_listening, true);
        drop(sessions);
        self.changed.notify_one();
        (number, is_first)
    }

    pub(crate) fn remove(&self, number: u64) {
        self.sessions().by_number.remove(&number);
    }

    fn ids(&self) -> Vec<String> {
        self.sessions().by_number.values().map(|one| one.session.clone()).collect()
    }

    /// Wakes the followers of a session that has more lines than they know, or is gone.
    fn report(&self, session: &str, lines: i64) {
        for followed in self.sessions().by_number.values_mut() {
            if followed.session == session && followed.lines != lines {
                followed.lines = lines;
                (followed.wake)();
            }
        }
    }
}

/// Sends notifications of stored lines, until the store ends.
pub(crate) async fn notify(
    shared: Arc<Shared>,
    mut stored: mpsc::UnboundedReceiver<(String, i64)>,
) {
    while let Some((session, seq)) = stored.recv().await {
        let mut newest = HashMap::from([(session, seq)]);
        tokio::time::sleep(NOTIFY_PAUSE).await;
        while let Ok((session, seq)) = stored.try_recv() {
            newest.insert(session, seq);
        }
        let payloads: Vec<String> = newest
            .into_iter()
            .map(|(session, seq)| Stored { session, seq })
            .map(|stored| serde_json::to_string(&stored).expect("plain data serializes to JSON"))
            .collect();
        let statement = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";
        let channel = channel(&shared);
        let parameters = &[(&channel as _, Type::TEXT), (&payloads as _, Type::TEXT_ARRAY)];
        // Followers ask now and then, so a notification may be lost.
        shared.query(shared.deadline(), statement, parameters).await.ok();
    }
}

fn channel(shared: &Shared) -> String {
    format!("tiller_{}", shared.options.schema)
}

/// Wakes followers, until the store ends.
pub(crate) async fn listen(shared: Arc<Shared>, followers: Arc<Followers>) {
    tokio::spawn(receive(shared.clone(), followers.clone()));
    loop {
        let ids = followers.ids();
        if ids.is_empty() {
            followers.changed.notified().await;
            continue;
        }
        // A failure lasts until the next question.
        if let Ok(lines) = shared.lines_of(&ids).await {
            for id in &ids {
                followers.report(id, lines.get(id).copied().unwrap_or(i64::MAX));
            }
        }
        // A new follower does not wait.
        timeout(POLL_PAUSE, followers.changed.notified()).await.ok();
    }
}

impl Shared {
    async fn lines_of(&self, ids: &[String]) -> Result<HashMap<String, i64>, Failure> {
        let statement = "SELECT id, lines FROM {schema}.session WHERE id = ANY ($1)";
        let rows = self.query(self.deadline(), statement, &[(&ids as _, Type::TEXT_ARRAY)]).await?;
        Ok(rows.iter().map(|row| (row.get("id"), row.get("lines"))).collect())
    }
}

/// Receives notifications on a connection of its own, which is made again when it is lost, until the
/// store ends.
async fn receive(shared: Arc<Shared>, followers: Arc<Followers>) {
    let (config, limit) = (&shared.options.config, shared.options.timeout);
    loop {
        match shared.tls() {
            Some(tls) => {
                let connect = config.connect(MakeRustlsConnect::new(tls.clone()));
                if let Ok(Ok((client, connection))) = timeout(limit, connect).await {
                    pass_on(&shared, client, connection, &followers).await;
                }
            }
            None => {
                if let Ok(Ok((client, connection))) = timeout(limit, config.connect(NoTls)).await {
                    pass_on(&shared, client, connection, &followers).await;
                }
            }
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Passes notifications on until the connection is lost.
async fn pass_on<S>(
    shared: &Shared,
    client: Client,
    mut connection: Connection<Socket, S>,
    followers: &Followers,
) where
    S: tokio_postgres::tls::TlsStream + Unpin,
{
    let statement = format!("LISTEN {}", channel(shared));
    let listen = client.batch_execute(&statement);
    tokio::pin!(listen);
    let mut is_listening = false;
    loop {
        let message = std::future::poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Ok(Stored { session, seq }) = serde_json::from_str(notification.payload())
                    {
                        followers.report(&session, seq);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            result = &mut listen, if !is_listening => {
                if result.is_err() {
                    return;
                }
                is_listening = true;
            }
        }
    }
}
