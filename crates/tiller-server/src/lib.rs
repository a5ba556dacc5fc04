//! One session as an actor: commands in, records out.
//!
//! [`serve`] runs a session with one client over channels; stdin, stdout, signals and the environment
//! belong to the caller. [`SessionHandle`] is the same for a Rust program that runs a session in its
//! own process and speaks in typed commands and records.
//!
//! A line's way: [`lines`] → `tiller_protocol` → [`server`] → `dispatch` → `handlers`, from there into
//! the agent's run, whose events come back through [`server`] and [`connection`] to [`out`].

pub mod lines;
mod config;
pub mod server;
mod session_handle;
pub mod connection;
mod connections;
mod router;
mod hosted;
mod session_observer;
mod open_records;
mod shutdown;
mod dispatch;
mod held_requests;
mod handlers;
mod prompt;
mod prompt_results;
mod budget;
mod approvals;
mod state;
mod open_session;
mod model_state;
mod queues;
mod project_state;
mod modes;
mod tools;
mod host_tools;
mod mcp;
mod todos;
mod todo_tool;
mod workspace;
mod work;
mod run_host;
mod transition;
mod session_change;
mod session_loading;
mod tree_navigation;
mod client_bash;
mod bash_outcome;
pub mod extensions;
pub(crate) mod tasks;
mod requester;
mod outbox;
pub mod out;

pub mod clock;
pub mod conversation;
pub mod session_store;
pub mod follow;

pub use config::ServerConfig;
pub use mcp::McpOptions;
pub use model_state::model_change;
pub use router::{
    ClientInputs, Gauges, Metrics, OpenError, Router, RouterConfig, RouterEnd, SessionInUse,
    SessionOpener,
};
pub use server::{OnEof, serve};
pub use session_handle::{SessionEnded, SessionHandle};
pub use todo_tool::NAME as TODO_TOOL;
pub use tools::{ToolConfig, with_settings};
pub use workspace::Workspace;
