//! The clients in Python and TypeScript, run by their own test scripts against this binary.

use std::path::Path;
use std::process::{Command, Output};

use crate::skip::skip;

#[test]
fn python_client_passes_its_tests() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("PYTHON", "there is no python3");
    }
    assert_passed_or_skip("PYTHON", &run_tests("python"));
}

#[test]
fn typescript_client_passes_its_tests() {
    assert_passed_or_skip("CLIENT", &run_tests("typescript"));
}

fn run_tests(client: &str) -> Output {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    let mut script = Command::new(clients.join(client).join("run-tests"));
    script.env("TILLER_BIN", env!("CARGO_BIN_EXE_tiller")).output().unwrap()
}

/// The exit code of a script that lacks a tool, such as node, mypy or a package from a registry.
const SKIPPED: i32 = 77;

/// Fails the test if its script failed. A script that lacks a tool names it in its last line.
fn assert_passed_or_skip(group: &str, output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() == Some(SKIPPED) {
        let line = stdout.lines().last().unwrap_or_default();
        return skip(group, line.trim_start_matches("SKIPPED: "));
    }
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
}
