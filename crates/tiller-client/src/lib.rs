//! A client for hosts that run tiller as a process.
//!
//! ```no_run
//! # async fn example() -> Result<(), tiller_client::ClientError> {
//! use tiller_client::Client;
//!
//! let client = Client::builder().model("tiller/demo").start().await?;
//! let mut turn = client.prompt("What is in this folder?").await?;
//! while let Some(text) = turn.next_text().await? {
//!     // Show more text.
//!     # drop(text);
//! }
//! let result = turn.result().await?.check()?;
//! assert!(result.usage.total_tokens > 0);
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Server`] connects to `tiller serve` instead, and opens a session there.
//!
//! [`Turn`] is a prompt: its events and its result. [`Tool`] is a function that the model can call.
//! Every command is a method of [`Client`]. The types of commands, records and data are in
//! [`protocol`].
//!
//! A host in Rust can also run a session in its own process, with the crate `tiller-server`.

#![warn(missing_docs)]

mod builder;
mod client;
mod commands;
mod turn;
mod events;
mod tools;
mod error;
mod requester;
mod connection;
mod routes;
mod host_calls;
mod framing;
mod process;
mod server;
#[cfg(feature = "websocket")]
mod websocket;

pub use builder::Builder;
pub use client::Client;
pub use error::ClientError;
pub use events::{Event, EventStream, Position};
pub use server::Server;
/// The types of commands and records.
pub use tiller_protocol as protocol;
pub use tiller_protocol::{AttachMode, OpenSession};
pub use tools::{Tool, ToolContext, ToolResult};
pub use turn::{PromptResult, Turn};

#[cfg(test)]
mod tests;
