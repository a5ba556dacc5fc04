//! The exported page in a real browser: search, folding and filters work, nothing is requested, and
//! a session cannot run code.
#![allow(clippy::unwrap_used)]

#[path = "../../../tiller/tests/support/skip.rs"]
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
