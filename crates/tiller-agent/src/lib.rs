//! The core: the types of a conversation, and the loop that drives it.
//!
//! Nothing in this crate touches the outside world. The model is a [`provider::Provider`], a tool
//! is a [`tool::Tool`], and the code that runs the loop is a [`driver::Driver`]: values in, events
//! out. Files, sockets, clocks and the environment belong to the crates around it.

pub mod message;
pub mod model;
pub mod mutex;
pub mod address;
pub mod event;
pub mod dialog;
pub mod tokens;
pub mod compaction;
pub mod projection;
pub mod provider;
pub mod retry;
pub mod partial_json;
pub mod front_matter;
pub mod truncate;
pub mod message_builder;
pub mod tool;
pub mod approvals;
pub mod sandbox;
pub mod program;
pub mod mcp;
pub mod todo;
pub mod arguments;
pub mod driver;
pub mod modes;
pub mod limits;
pub mod prompt_result;
pub mod durability;
pub mod time;
pub mod stream_rules;
pub mod run;
mod calls;
