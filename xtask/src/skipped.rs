//! Counts tests that were skipped because a program is missing. libtest counts them as passed, so
//! each writes a line into a file, and the summary at the end of `check` counts those.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The variable with the path of that file; see `skip.rs` among the tests of `tiller`.
pub(crate) const LOG: &str = "TILLER_SKIPPED_LOG";

/// Creates an empty file for this run.
pub(crate) fn begin() -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("tiller-skipped-{}", std::process::id()));
    fs::write(&path, "").map_err(|err| format!("cannot write {}: {err}", path.display()))?;
    Ok(path)
}

/// Removes the file and returns its summary.
pub(crate) fn end(log: &Path) -> String {
    let lines = fs::read_to_string(log).unwrap_or_default();
    // A file that cannot be removed stays in the temporary folder.
    fs::remove_file(log).ok();
    summary(&lines)
}

/// `skipped: 3`, followed by the reasons with the tests they apply to.
fn summary(log: &str) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in log.lines().filter_map(|line| line.strip_prefix("SKIPPED ")) {
        let (test, why) = line.split_once(": ").unwrap_or((line, "no reason is given"));
        by_reason.entry(why).or_default().push(test);
    }
    let count: usize = by_reason.values().map(Vec::len).sum();
    let mut text = format!("skipped: {count}");
    for (why, tests) in by_reason {
        text += &format!("\n  {} tests, {why}:\n    {}", tests.len(), tests.join("\n    "));
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn skipped_tests_are_counted_by_their_reasons() {
        expect!["skipped: 0"].assert_eq(&summary(""));
        let log = "SKIPPED looks::dark: there is no Chromium: install it\n\
                   SKIPPED bus::node: node is needed\n\
                   SKIPPED looks::phone: there is no Chromium: install it\n";
        expect![[r#"
            skipped: 3
              1 tests, node is needed:
                bus::node
              2 tests, there is no Chromium: install it:
                looks::dark
                looks::phone"#]]
        .assert_eq(&summary(log));
    }
}
