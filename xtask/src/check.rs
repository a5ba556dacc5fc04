//! `cargo xtask check`: everything that must hold, quickest complaint first. CI runs exactly this.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::tidy;

/// Runs the steps in order and stops at the first that fails. What they print is passed through.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let begun = Instant::now();
    step("fmt", || cargo(root, &["fmt", "--all", "--check"]))?;
    step("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    step("tidy", || tidy::tidy(root))?;
    // No documentation tests: our examples are transcripts, and an empty run at the end would
    // hide the figures.
    step("test", || cargo(root, &["test", "--workspace", "--lib", "--bins", "--tests"]))?;
    println!("== check: all good after {} s", begun.elapsed().as_secs());
    Ok(())
}

fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    run().map_err(|why| format!("check stopped at {name}: {why}"))
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    // The cargo that runs us: whoever asked for another toolchain gets it for every step.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = format!("cargo {}", arguments.join(" "));
    let status = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|err| format!("cannot run `{said}`: {err}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{said}` failed")) }
}
