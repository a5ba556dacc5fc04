//! The real program, as the system starts it: command line, pipes, signals, memory. Conversations
//! are tested by transcripts; these tests cover what transcripts cannot see.

#![allow(clippy::unwrap_used)]

#[path = "../support/acp_clients.rs"]
mod acp_clients;
#[path = "../support/examples.rs"]
mod example_lines;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/schema.rs"]
mod schema;
#[path = "../support/skip.rs"]
mod skip;

mod acp;
mod approvals;
mod chat;
mod client;
mod clients;
mod conform;
mod documents;
mod examples;
mod ending;
mod extensions;
mod extensions_catalogue;
mod extensions_ending;
mod extensions_files;
mod extensions_hostile;
mod extensions_loading;
mod extensions_models;
mod extensions_providers;
mod extensions_requests;
mod extensions_shell;
mod extensions_sidecar;
mod extensions_tools;
mod export;
mod flood;
mod hosts;
mod keys;
mod log;
mod loopback;
mod mcp;
mod place;
mod plain;
mod proxies;
mod rules;
mod sandbox;
mod secure;
mod serve;
mod session_links;
mod sessions;
mod starting;
mod store;
mod terminal;
mod xcsh;
mod xcsh_edges;
mod web;
