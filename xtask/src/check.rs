//! `cargo xtask check`: all checks, fastest first. CI runs exactly this.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::{clients, package, skipped, tidy};

/// Runs the steps in order and stops at the first that fails. Their output is passed through.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let begun = Instant::now();
    step("fmt", || cargo(root, &["fmt", "--all", "--check"]))?;
    step("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    step("tidy", || tidy::tidy(root))?;
    step("clients", || clients::check(root))?;
    step("package", || package::list(root))?;
    // No documentation tests: our examples are transcripts, and an empty run at the end would hide
    // the summary.
    let log = skipped::begin()?;
    let tested = step("test", || {
        let tests = &["test", "--workspace", "--lib", "--bins", "--tests"];
        cargo_with(root, tests, &[(skipped::LOG, log.as_os_str())])
    });
    println!("== {}", skipped::end(&log));
    tested?;
    println!("== check: all good after {} s", begun.elapsed().as_secs());
    Ok(())
}

fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    run().map_err(|why| format!("check stopped at {name}: {why}"))
}

pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    cargo_with(root, arguments, &[])
}

fn cargo_with(root: &Path, arguments: &[&str], env: &[(&str, &OsStr)]) -> Result<(), String> {
    // The cargo that runs xtask, so that every step uses the requested toolchain.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = format!("cargo {}", arguments.join(" "));
    let status = Command::new(cargo)
        .args(arguments)
        .envs(env.iter().copied())
        .current_dir(root)
        .status()
        .map_err(|err| format!("cannot run `{said}`: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{said}` failed")) }
}
