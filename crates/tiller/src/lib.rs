//! tiller: a coding agent that other programs drive.
//!
//! This crate owns stdin, stdout, settings and the environment, and wires the others together.
//! Begin reading at [`rpc::server`].

pub mod args;
pub mod launch;
pub mod settings;
pub mod models;
mod prompt;
pub mod credentials;
pub mod jsonc;
pub mod clock;
mod conversation;
pub mod rpc;
pub mod plain;
