//! What every check needs: the command line of the server, its level, the time limits, and folders.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiller_protocol::Level;

use super::check::NotMet;
use super::home::Home;
use super::model::Model;
use super::peer::Peer;
use super::processes::Servers;
use super::reply::Reply;

pub(super) struct Bench {
    pub(super) command_line: Vec<OsString>,
    pub(super) level: Level,
    /// The limit of each wait.
    pub(super) wait: Duration,
    /// When the suite ends, whatever has not been checked.
    pub(super) end: Instant,
    /// Contains the folders of all checks.
    pub(super) folder: PathBuf,
    pub(super) servers: Arc<Servers>,
    /// How many checks have created a home.
    pub(super) homes: AtomicUsize,
    /// Whether the server writes `agent_settled`; found out by the first check.
    pub(super) settles: bool,
}

impl Bench {
    /// A server with a fresh home, whose model gives these replies.
    pub(super) fn start(&self, replies: Vec<Reply>) -> Result<Peer, NotMet> {
        self.start_with(replies, &json!({}))
    }

    /// The same, with these in settings.json.
    pub(super) fn start_with(&self, replies: Vec<Reply>, settings: &Value) -> Result<Peer, NotMet> {
        let model = Model::start(replies)?;
        let number = self.homes.fetch_add(1, Ordering::Relaxed);
        let home = Home::create(self.folder.join(number.to_string()), &model, settings)?;
        self.start_in(home, model)
    }

    /// A server in a home that exists.
    pub(super) fn start_in(&self, home: Home, model: Model) -> Result<Peer, NotMet> {
        let mut peer = Peer::spawn(self, home, model)?;
        peer.wait_until_ready()?;
        Ok(peer)
    }
}
