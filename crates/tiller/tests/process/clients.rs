//! The clients in Python and TypeScript, run by their own test scripts against this binary.

use std::path::Path;
use std::process::{Command, Output};

use crate::skip::skip;

#[test]
fn python_client_passes_its_tests() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("PYTHON", "there is no python3");
    }
    assert_passed(&run_tests("python"));
}

#[test]
fn typescript_client_passes_its_tests() {
    let output = run_tests("typescript");
    // The exit code of a missing tool: node, npm or the packages from its registry.
    if output.status.code() == Some(77) {
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = stdout.lines().last().unwrap_or_default();
        return skip("CLIENT", line.trim_start_matches("SKIPPED: "));
    }
    assert_passed(&output);
}

fn run_tests(client: &str) -> Output {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    let mut script = Command::new(clients.join(client).join("run-tests"));
    script.env("TILLER_BIN", env!("CARGO_BIN_EXE_tiller")).output().unwrap()
}

fn assert_passed(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
}
