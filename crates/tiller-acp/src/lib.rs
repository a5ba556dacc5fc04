//! The Agent Client Protocol (ACP), version 1: what an editor says to an agent, translated to the
//! commands of a tiller server with many sessions, and that server's records translated back.
//!
//! [`Connection`] is a state machine without I/O. It takes the lines of the client and of the
//! server, and returns lines for both:
//!
//! ```
//! use tiller_acp::Connection;
//!
//! let mut connection = Connection::new("1.0.0", "/home/ada");
//! connection.client_line(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
//! let output = connection.take_output();
//! assert!(output.to_client[0].contains(r#""protocolVersion":1"#));
//! assert!(output.to_server[0].contains(r#""type":"hello""#));
//! ```
//!
//! docs/acp.md is the version for users.

mod connection;
mod json_rpc;
mod initialize;
mod link;
mod sessions;
mod session;
mod opening;
mod prompting;
mod prompt_content;
mod updates;
mod tool_calls;
mod tool_content;
mod plan;
mod replay;
mod config_options;
mod mcp_servers;
mod questions;

pub use connection::Connection;
pub use link::Output;
