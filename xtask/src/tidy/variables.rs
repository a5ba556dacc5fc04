//! Environment variables are documented: each that the program reads or sets under our own or pi's
//! name is in `docs/settings.md`.

use super::Problem;
use super::tree::Tree;

const PAGE: &str = "docs/settings.md";
const PREFIXES: [&str; 2] = ["\"PI_", "\"TILLER_"];

/// Every variable named in a source is on the page.
pub(super) fn documented(tree: &Tree) -> Vec<Problem> {
    let page = tree.file(PAGE).map(|page| page.text.as_str()).unwrap_or_default();
    let mut problems = Vec::new();
    for file in tree.sources().filter(|file| file.path.starts_with("crates/") && !file.is_test()) {
        for (number, line) in file.working_lines() {
            for name in PREFIXES.iter().filter_map(|prefix| named(line, prefix)) {
                if !page.contains(&format!("`{name}")) {
                    let what = format!("the variable {name} is not in {PAGE}");
                    problems.push(Problem::new(&file.path, number, what));
                }
            }
        }
    }
    problems
}

/// The variable name in a string that begins with this prefix.
fn named<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let name = &line[line.find(prefix)? + 1..];
    let name = &name[..name.find('"')?];
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then_some(name)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tidy::check;

    #[test]
    fn undocumented_variable_is_reported() {
        check(
            documented,
            &[
                ("docs/settings.md", "| `PI_KNOWN` | x |\n`TILLER_SET=true`\n"),
                (
                    "crates/a/src/lib.rs",
                    "//! A.\nget(\"PI_KNOWN\");\nset(\"TILLER_SET\");\nget(\"TILLER_NEW\");\nsay(\"PI_odd\");\n",
                ),
                ("crates/a/tests/t.rs", "get(\"PI_IN_A_TEST\");\n"),
            ],
            expect!["crates/a/src/lib.rs:4: the variable TILLER_NEW is not in docs/settings.md"],
        );
    }
}
