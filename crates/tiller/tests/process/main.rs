//! The real program, as the system starts it: command line, pipes, signals, memory. What a
//! conversation looks like is in the transcripts; here is what they cannot see.

#![allow(clippy::unwrap_used)]

mod client;
mod ending;
mod flood;
mod keys;
mod plain;
mod sessions;
mod starting;
