//! A client for hosts that run tiller as a process.
//!
//! ```no_run
//! # async fn example() -> Result<(), tiller_client::ClientError> {
//! use tiller_client::Client;
//!
//! let client = Client::builder().args(["--model", "tiller/demo"]).start().await?;
//! let outcome = client.prompt("What is in this folder?").await?.result().await?;
//! assert!(outcome.text.contains("folder"));
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A prompt is a [`PromptRun`]: a stream of events that ends with the prompt's result.
//!
//! ```no_run
//! # async fn example(client: tiller_client::Client) -> Result<(), tiller_client::ClientError> {
//! use tiller_client::protocol::Record;
//!
//! let mut run = client.prompt("Fix the failing test.").await?;
//! while let Some(record) = run.next().await {
//!     if let Record::ToolExecutionStart { tool_name, .. } = record {
//!         // Show that the tool runs.
//!         # drop(tool_name);
//!     }
//! }
//! let outcome = run.result().await?;
//! # drop(outcome);
//! # Ok(())
//! # }
//! ```
//!
//! Every other command is sent with [`Client::request`], or with [`Client::request_data`] if it has
//! data. The types of commands, records and data are in [`protocol`].
//!
//! A host in Rust can also run a session in its own process, with the crate `tiller-server`.

#![warn(missing_docs)]

mod builder;
mod client;
mod run;
mod events;
mod host_tools;
mod connection;
mod error;

pub use builder::Builder;
pub use client::Client;
pub use error::ClientError;
pub use events::{Events, Position, Replay, StampedRecord};
pub use host_tools::HostToolCall;
pub use run::{PromptOutcome, PromptRun};
/// The types of commands and records.
pub use tiller_protocol as protocol;

#[cfg(test)]
mod tests;
