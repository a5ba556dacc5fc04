//! The conversation with the client: lines in, lines out, one owner of everything in between.
//!
//! A line's way: [`lines`] → [`wire`] → [`server`] → [`dispatch`] → [`handlers`], from there into
//! the agent's run, whose events come back through [`server`] to [`wire`] and [`out`].

pub mod lines;
pub mod server;
mod shutdown;
mod dispatch;
mod parked;
mod handlers;
mod prompt;
mod state;
pub(crate) mod tasks;
mod storing;
mod resources;
mod tool_set;
mod host_tools;
mod todos;
mod todo_tool;
mod queues;
mod client_bash;
mod bash_outcome;
mod deferred;
mod requester;
mod session_change;
mod tree_navigation;
mod retry;
mod stream_rules;
mod compaction;
pub mod extensions;
mod run_host;
mod modes;
mod outbox;
pub mod out;
pub mod stdio;

pub(crate) use state::model_change;
pub use tiller_protocol as wire;
pub(crate) use todo_tool::NAME as TODO_TOOL;
