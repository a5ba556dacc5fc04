//! tiller: a coding agent that other programs drive.
//!
//! This crate owns stdin, stdout and the environment, and connects the other crates.
//! Begin reading at [`rpc::server`].

pub mod args;
pub mod api_key;
pub mod usage;
pub mod launch;
mod startup_session;
mod extensions;
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

pub(crate) use tiller_config::{
    credentials, models, project, prompt, settings, startup_model, tool_filter,
};
