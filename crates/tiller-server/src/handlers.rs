//! What each command does. A handler shows all its cases side by side, changes the state and
//! returns a result; it does not parse, print or wait.

pub(super) mod abort;
pub(super) mod bash;
pub(super) mod compaction;
pub(super) mod diagnostics;
pub(super) mod export_html;
pub(super) mod hello;
pub(super) mod host_tools;
pub(super) mod get_state;
pub(super) mod limits;
pub(super) mod mcp;
pub(super) mod approvals;
pub(super) mod sandbox;
pub(super) mod model;
pub(super) mod page;
pub(super) mod prompt;
pub(super) mod queue;
pub(super) mod replay;
pub(super) mod resources;
pub(super) mod retry;
pub(super) mod session;
pub(super) mod settings;
pub(super) mod stats;
pub(super) mod thinking;
pub(super) mod todos;
pub(super) mod tools;
pub(super) mod tree;

use tiller_protocol::Reply;

use crate::dispatch::{Handled, Response};

/// A successful response without data.
fn done() -> Handled {
    Ok(Response::Now(Reply::DONE))
}

fn data(data: &impl serde::Serialize) -> Handled {
    Ok(Response::Now(Reply::data(data)))
}
