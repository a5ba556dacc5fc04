//! tiller: a coding agent that other programs drive.
//!
//! This crate owns stdin, stdout, settings and the environment, and connects the other crates.
//! Begin reading at [`rpc::server`].

pub mod args;
pub mod api_key;
pub mod usage;
pub mod launch;
mod tool_filter;
mod startup_session;
pub mod startup_model;
pub mod settings;
pub mod project;
pub mod models;
mod catalogue;
mod prompt;
mod extensions;
pub mod credentials;
pub mod jsonc;
pub mod clock;
pub mod log;
pub mod conversation;
pub mod session_store;
pub mod session_command;
pub mod auth_command;
pub mod rpc;
pub mod print_mode;
pub mod attachments;
pub mod manual;
