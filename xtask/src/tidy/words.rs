//! Words that belong to one machine: local paths, package mirrors.

use super::Problem;
use super::tree::Tree;

/// Split, so that this file may contain them.
const FORBIDDEN: &[(&str, &str)] = &[
    ("/work", "/main"),
    ("/work", "/shared"),
    ("../", "shared"),
    ("/roo", "t/"),
    ("crates", ".io"),
    ("npmjs", ".org"),
    ("pypi", ".org"),
    ("deb.debian", ".org"),
    ("static.rust-lang", ".org"),
];

/// Written by cargo, which has to record its sources.
const EXEMPT: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

pub(super) fn forbidden(tree: &Tree) -> Vec<Problem> {
    let words: Vec<String> = FORBIDDEN.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let mut problems = Vec::new();
    for file in tree.files().iter().filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        for (number, line) in file.lines() {
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                let what = format!("`{word}` means nothing on another machine");
                problems.push(Problem::new(&file.path, number, what));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_paths_are_reported() {
        let word = format!("{}{}", "/roo", "t/");
        let note = format!("fine\nsee {word}x\n");
        let lock = format!("source = \"{}{}\"\n", "crates", ".io");
        let tree = Tree::of(&[("docs/a.md", &note), ("Cargo.lock", &lock)]);
        let what = format!("`{word}` means nothing on another machine");
        assert_eq!(forbidden(&tree), [Problem::new("docs/a.md", 2, what)]);
    }
}
