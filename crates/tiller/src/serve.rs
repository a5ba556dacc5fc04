//! Many sessions in one process: `tiller serve` on sockets, and `--multi-session` on stdin and
//! stdout. docs/serve.md describes both.

pub(crate) mod address;
mod access;
mod command;
mod connect_command;
mod http;
mod lines;
mod listeners;
mod opener;
mod page;
mod pending;
pub(crate) mod runtime;
mod stdio;
mod token;
mod web_socket;

pub(crate) use opener::Opener;
pub(crate) use stdio::{EXTENSIONS_MAX, SESSIONS_MAX, exit_code, session_flags};

pub use command::ServeCommand;
pub use connect_command::ConnectCommand;
pub use lines::serve_lines;
pub use stdio::multi_session;
pub use web_socket::serve_web_socket;
