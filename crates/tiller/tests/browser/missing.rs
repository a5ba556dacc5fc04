//! A machine without a browser.

use std::process::Command;

/// Runs one test of this file again, where no Chromium can be found.
#[test]
fn a_missing_browser_is_a_skip_that_is_counted_or_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("skipped");
    let test = "looks::paper_gets_the_conversation_alone";
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
    // It is said though the test passes.
    assert!(String::from_utf8_lossy(&skipped.stderr).contains(&line), "{skipped:?}");
    let failed = run("required");
    assert!(!failed.status.success(), "{failed:?}");
    let said = String::from_utf8_lossy(&failed.stdout);
    assert!(said.contains("TILLER_BROWSER_TESTS=required, and there is no Chromium"), "{said}");
}
