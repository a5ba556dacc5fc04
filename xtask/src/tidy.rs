//! `cargo xtask tidy`: the repository's rules that no compiler checks.
//!
//! A rule is a function from the text of the repository to problems, so each can be tested on a
//! repository of three lines.

mod tree;
mod star;
mod sources;
mod words;
mod vocabulary;
mod wire;
mod links;
mod variables;

use std::fmt;
use std::path::Path;

use tree::Tree;

/// Checks every rule and prints every problem, not only the first.
pub(crate) fn tidy(root: &Path) -> Result<(), String> {
    let tree = Tree::load(root).map_err(|err| format!("cannot read the repository: {err}"))?;
    let mut problems: Vec<Problem> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: {} files in order", tree.files().len());
            Ok(())
        }
        1 => Err("1 problem".to_owned()),
        count => Err(format!("{count} problems")),
    }
}

const RULES: &[fn(&Tree) -> Vec<Problem>] = &[
    star::dependencies,
    star::lints,
    sources::openings,
    sources::lengths,
    sources::outside_access,
    words::forbidden,
    vocabulary::subjects,
    vocabulary::retired,
    vocabulary::file_names,
    vocabulary::type_names,
    wire::documented,
    wire::headings_exist,
    links::local,
    variables::documented,
];

/// A problem and its location, printed so that editors can jump there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    line: usize,
    what: String,
}

impl Problem {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { path, line, what } = self;
        write!(f, "{path}:{line}: {what}")
    }
}

/// Checks a rule on a small repository: every file is a path and a text.
#[cfg(test)]
fn check(rule: fn(&Tree) -> Vec<Problem>, files: &[(&str, &str)], expect: expect_test::Expect) {
    let problems = rule(&Tree::of(files));
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    expect.assert_eq(&lines.join("\n"));
}
