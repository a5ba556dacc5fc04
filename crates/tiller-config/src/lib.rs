//! What a session is configured with: the user's and the project's files, and the flags that change
//! what they say.
//!
//! - [`settings`]: `settings.json` of the user and of the project
//! - [`project`]: trust, context files, skills, templates and rules
//! - [`models`], [`credentials`]: which models exist, how to reach them, and with which key
//! - [`mcp`]: the MCP servers in `mcp.json`
//! - [`config_files`]: `auth.json` and `models.json` as the sessions of a process share them
//! - [`startup_model`], [`tool_filter`]: what flags and settings select
//! - [`prompt`]: the system prompt
//!
//! This crate reads files when it is called. It knows no client and no session, and it reads neither
//! the command line nor the environment: the caller passes flags, folders and variables.

pub mod settings;
pub mod project;
pub mod models;
pub mod credentials;
pub mod start_error;
pub mod startup_model;
pub mod tool_filter;
pub mod prompt;
pub mod mcp;
pub mod config_files;
mod catalogue;
mod jsonc;
