//! The exported page in a real browser: it finds, folds and filters, asks nobody for anything,
//! and does nothing that a session tells it to do.
#![allow(clippy::unwrap_used)]

#[path = "../support/skip.rs"]
mod skip;

mod chromium;
mod pages;

mod cards;
mod finding;
mod hostile;
mod long;
mod looks;
mod missing;
mod reading;
