//! What an engine holds open for its extensions. All of it is closed with the engine.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::host_api::{Answers, Child};

use super::child::Flow;
use super::http::Body;
use super::net::Sockets;

/// A model's answer that an extension reads.
pub(crate) struct ModelStream {
    /// How many events may be unhandled.
    pub room: Arc<Semaphore>,
    pub answers: Arc<Answers>,
}

#[derive(Default)]
pub(crate) struct OpenResources {
    pub files: HashMap<i32, File>,
    pub children: HashMap<u64, Arc<dyn Child>>,
    /// How much of a child's output is unread.
    pub flows: HashMap<u64, Arc<Flow>>,
    pub bodies: HashMap<u64, Body>,
    pub model_streams: HashMap<u64, ModelStream>,
    pub sockets: Sockets,
    next: u64,
}

impl OpenResources {
    /// A unique number. Starts at 3, because the first three are the standard streams.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next + 2
    }
}

impl Drop for OpenResources {
    fn drop(&mut self) {
        for child in self.children.values() {
            child.kill(9);
        }
    }
}
