//! `tiller serve` as its clients see it: each claim of docs/serve.md, through the real program.

pub mod client;
pub mod server;

mod access;
mod attach;
mod broken_clients;
mod connect;
mod containment;
mod flood_of_connections;
mod killed;
mod life;
mod mcp;
mod open_errors;
mod replay;
mod sessions;
mod shared;
mod stdio;
mod stopping;
