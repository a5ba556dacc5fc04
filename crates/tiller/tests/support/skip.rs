//! Skips tests that need a program which not every machine has: node, bun, Chromium, Python,
//! PostgreSQL, MCP servers. A skipped test prints a line to stderr and is counted by `cargo xtask check`; with
//! `TILLER_…_TESTS=required` in the environment it fails.
//!
//! The tests of other crates use this file, too.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::thread;

/// The file in which `cargo xtask check` collects skipped tests, one line each.
const LOG: &str = "TILLER_SKIPPED_LOG";

/// Records that the running test is skipped, or fails it. `group` is `SIDECAR`, `BROWSER`,
/// `PYTHON`, `CLIENT`, `HOST`, `ACP`, `MCP`, `POSTGRES` or `SANDBOX`.
pub fn skip(group: &str, why: &str) {
    let required = format!("TILLER_{group}_TESTS");
    let is_required = std::env::var(&required).is_ok_and(|value| value == "required");
    assert!(!is_required, "{required}=required, and {why}");
    let line = format!("SKIPPED {}: {why}\n", thread::current().name().unwrap_or("a test"));
    // Written directly, because libtest captures the output of a passing test.
    std::io::stderr().write_all(line.as_bytes()).ok();
    if let Some(log) = std::env::var_os(LOG) {
        let mut log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
}

/// Whether there is a node that can run a sidecar. If not, the test is skipped.
#[allow(dead_code, reason = "the tests of the page need no node")]
pub fn has_node() -> bool {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version = version.unwrap_or_default();
    let mut numbers = version.trim_start_matches('v').split('.');
    let mut number = || numbers.next()?.parse::<u32>().ok();
    if matches!((number(), number()), (Some(a), Some(b)) if (a, b) >= (22, 15)) {
        return true;
    }
    let found = if version.is_empty() { "there is none" } else { &version };
    skip("SIDECAR", &format!("node 22.15 or later is needed ({found})"));
    false
}
