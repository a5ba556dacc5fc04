//! The page of `tiller serve --web`: its modules in node, and the whole page in Chromium against
//! this binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::{has_node, skip};

fn files(suffix: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    found.sort();
    assert!(!found.is_empty(), "no file ends with {suffix}");
    found
}

/// Runs files with node's test runner. A test that it skips fails.
fn run(files: &[PathBuf]) {
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=1", "--test-reporter=tap"]).args(files);
    let output = node.env("TILLER_SERVE", env!("CARGO_BIN_EXE_tiller")).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert!(stdout.contains("\n# skipped 0\n"), "tests of the page were skipped:\n{stdout}");
}

#[test]
fn modules_of_the_page_pass_their_tests() {
    if has_node() {
        run(&files(".test.mjs"));
    }
}

#[test]
fn page_in_the_browser() {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !["chromium", "chromium-browser", "google-chrome"].into_iter().any(has) {
        return skip("BROWSER", "there is no Chromium");
    }
    if has_node() {
        run(&files(".browser.mjs"));
    }
}
