//! Passes the build target and the commit to the program.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown target".to_owned());
    let built_from = match commit() {
        Some(commit) => format!("{commit}, {target}"),
        None => target,
    };
    println!("cargo::rustc-env=BUILT_FROM={built_from}");
}

/// Absent in a packaged crate: there is no repository, or it belongs to another project.
fn commit() -> Option<String> {
    let prefix = git(&["rev-parse", "--show-prefix"])?;
    if prefix != "crates/tiller/" {
        return None;
    }
    // Written with every commit and checkout, in a worktree too.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}

/// The output of git, if it is installed and succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
