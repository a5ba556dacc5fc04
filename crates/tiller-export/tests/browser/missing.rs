//! A machine without a browser.

use std::process::Command;

/// Runs one test of this file again, without Chromium.
#[test]
fn missing_browser_skips_or_fails_the_test() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("skipped");
    let test = "looks::print_shows_only_the_conversation";
    let run = |required: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env_remove("CHROMIUM").env("PATH", dir.path());
        command.env("TILLER_SKIPPED_LOG", &log).env("TILLER_BROWSER_TESTS", required);
        command.output().unwrap()
    };
    let skipped = run("");
    assert!(skipped.status.success(), "{skipped:?}");
    let line = format!("SKIPPED {test}: there is no Chromium");
    assert!(std::fs::read_to_string(&log).unwrap().starts_with(&line));
    // The line is printed though the test passes.
    assert!(String::from_utf8_lossy(&skipped.stderr).contains(&line), "{skipped:?}");
    let failed = run("required");
    assert!(!failed.status.success(), "{failed:?}");
    let said = String::from_utf8_lossy(&failed.stdout);
    assert!(said.contains("TILLER_BROWSER_TESTS=required, and there is no Chromium"), "{said}");
}
