//! Chores of the repository. `cargo xtask help` lists them.
//!
//! Only the standard library: the first chore a newcomer runs should not wait for a build.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to the person who started it, not to a client"
)]

mod catalogue;
mod check;
mod package;
mod skipped;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the root");
    let done = match chore.as_str() {
        "catalogue" => catalogue::catalogue(root),
        "check" => check::check(root),
        "package" => package::package(root),
        "tidy" => tidy::tidy(root),
        "" | "help" | "--help" | "-h" => {
            print!("{}", include_str!("help.txt"));
            Ok(())
        }
        other => Err(format!("there is no chore called `{other}`; try `cargo xtask help`")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
