//! Tasks for working on the repository. `cargo xtask help` lists them.
//!
//! Depends on the protocol and on nothing else of ours, so that the first task a newcomer runs builds
//! quickly.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task prints for the user who started it, not for a client"
)]

mod catalogue;
mod check;
mod clients;
mod package;
mod skipped;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the root");
    let done = match task.as_str() {
        "catalogue" => catalogue::catalogue(root),
        "check" => check::check(root),
        "clients" => match std::env::args().nth(2).as_deref() {
            None => clients::write(root),
            Some("--check") => clients::check(root),
            Some(other) => Err(format!("unknown option `{other}`; the only one is --check")),
        },
        "package" => package::package(root),
        "tidy" => tidy::tidy(root),
        "" | "help" | "--help" | "-h" => {
            print!("{}", include_str!("help.txt"));
            Ok(())
        }
        other => Err(format!("unknown task `{other}`; `cargo xtask help` lists the tasks")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
