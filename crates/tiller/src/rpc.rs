//! The conversation with the client: lines in, lines out, one owner of everything in between.
//!
//! A line's way: [`lines`] → [`wire`] → [`server`] → [`dispatch`] → [`handlers`], from there into
//! the agent's run, whose events come back through [`server`] to [`wire`] and [`out`].

pub mod lines;
pub mod server;
pub mod connection;
mod shutdown;
mod dispatch;
mod held_requests;
mod handlers;
mod prompt;
mod state;
mod open_session;
mod model_state;
mod queues;
mod project_state;
mod modes;
mod tools;
mod host_tools;
mod todos;
mod todo_tool;
mod workspace;
mod work;
mod run_host;
mod transition;
mod session_change;
mod tree_navigation;
mod client_bash;
mod bash_outcome;
pub mod extensions;
pub(crate) mod tasks;
mod requester;
mod outbox;
pub mod out;
pub mod stdio;

pub(crate) use model_state::model_change;
pub use tiller_protocol as wire;
pub(crate) use todo_tool::NAME as TODO_TOOL;
pub use tools::ToolConfig;
pub(crate) use tools::with_settings;
pub use workspace::Workspace;
