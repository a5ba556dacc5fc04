//! The client in Python, run by its own test script against this binary.

use std::path::Path;
use std::process::Command;

use crate::skip::skip;

#[test]
fn python_client_passes_its_tests() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("PYTHON", "there is no python3");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/run-tests");
    let output =
        Command::new(&script).env("TILLER_BIN", env!("CARGO_BIN_EXE_tiller")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
}
