//! MCP servers as tools: connections to servers, their lives, and their tools as the model sees
//! them.
//!
//! [`Pool`] holds the servers of a session. A [`server`] is a task that owns a [`connection`], which
//! speaks over [`traffic`] to a program ([`stdio`]) or to an address ([`http`]). `rmcp` has the types
//! and the rules of the protocol; children run under the guardian of `tiller-tools`, and requests go
//! through the HTTP client of `tiller-llm`.
//!
//! Which servers there are is read elsewhere (`tiller-config`), and what a session does with their
//! tools is decided elsewhere (`tiller-server`).

mod environment;
mod pool;
mod exposure;
mod names;
mod server;
mod connection;
mod traffic;
mod clock_hold;
mod frames;
mod stdio;
mod http;
mod header_value;
mod result;
mod search;

pub use connection::{RemoteTool, TOOLS_MAX};
pub use environment::{Environment, Resolve};
pub use exposure::DIRECT_MAX;
pub use names::PREFIX;
pub use pool::{McpTool, Pool};
pub use search::{SEARCH_TOOL, Searchable, search};
pub use server::{Status, Step};
