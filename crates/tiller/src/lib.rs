//! tiller: a coding agent that other programs drive.
//!
//! This crate is the process: it owns the command line, the environment, stdin, stdout and signals,
//! and starts a session of `tiller-server` with them. Begin reading at `main.rs`, then [`launch`].

pub mod args;
mod limit_flags;
mod sandbox_flags;
pub mod api_key;
pub mod usage;
pub mod launch;
mod startup_session;
pub mod stores;
pub mod log;
pub mod sandbox_command;
pub mod schema_command;
pub mod session_command;
pub mod store_command;
pub mod mcp_command;
pub mod auth_command;
pub mod conform;
pub mod chat;
pub mod stdio;
pub mod serve;
pub mod acp;
pub mod print_mode;
pub mod attachments;
pub mod manual;
