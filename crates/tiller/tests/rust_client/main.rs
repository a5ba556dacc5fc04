//! The client in Rust, against this binary with a scripted model.

#![allow(clippy::unwrap_used)]

mod support;

mod prompts;
mod queues;
mod tools;
mod dialogs;
mod sessions;
mod replay;
mod ending;
mod example;
