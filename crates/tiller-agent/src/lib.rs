//! The middle of the star: what a conversation is made of, and the loop that moves it forward.
//!
//! Nothing in this crate touches the world. The model is a [`provider::Provider`], a tool is a
//! [`tool::Tool`], and whoever runs the loop is a [`host::Host`]: values in, events out. Files,
//! sockets, clocks on the wall and the environment belong to the crates around it.

pub mod message;
pub mod model;
pub mod address;
pub mod event;
pub mod tokens;
pub mod compaction;
pub mod provider;
pub mod retry;
pub mod partial_json;
pub mod message_builder;
pub mod tool;
pub mod todo;
pub mod arguments;
pub mod driver;
pub mod stream_rules;
pub mod run;
mod calls;
