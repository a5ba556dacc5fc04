//! The words of the program, as far as a machine can check them: the subject of a comment is a
//! thing in the program, a type name is used once per crate, and a word that was retired stays
//! retired.

use std::collections::BTreeMap;

use super::Problem;
use super::tree::{File, Tree};

/// A comment that needs one of these words does not say which part of the program it is about.
/// `One that` counts at the beginning of a sentence only, where it is the subject.
const INDEFINITE: &[&str] =
    &["nobody", "somebody", "whoever", "anybody", "everybody", "those who", "One that"];

/// Parts of names from the time when the program had words of its own, with the word of today.
const RETIRED: &[(&str, &str)] = &[
    ("guest", "extension"),
    ("guests", "extensions"),
    ("visitors", "extensions"),
    ("wish", "request"),
    ("wishes", "options"),
    ("farewell", "shutdown"),
    ("onlooker", "interceptor"),
    ("shelf", "store"),
    ("whereabouts", "dirs"),
    ("surroundings", "env"),
    ("workplace", "workspace"),
    ("journey", "session start"),
    ("papers", "auth"),
    ("teller", "sender"),
    ("told", "reported"),
    ("telling", "reporting"),
    ("heard", "received"),
    ("hears", "listens"),
    ("brought", "registered"),
    ("usual", "default"),
    ("complain", "report"),
    ("complaint", "error"),
    ("complaints", "errors"),
    ("spoken", "sent"),
    ("unmet", "warnings"),
    ("parting", "shutdown"),
    ("asides", "messages"),
];

pub(super) fn subjects(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files().iter().filter(is_code) {
        for (number, line) in file.lines() {
            let Some(comment) = comment(line) else { continue };
            let lower = comment.to_lowercase();
            let is_used = |word: &&&str| {
                has_words(if word.starts_with('O') { comment } else { &lower }, word)
            };
            for word in INDEFINITE.iter().filter(is_used) {
                let what = format!("`{word}`: say which part of the program is meant");
                problems.push(Problem::new(&file.path, number, what));
            }
        }
    }
    problems
}

pub(super) fn retired(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files().iter().filter(is_code) {
        for (number, line) in file.lines() {
            let code = line.split("//").next().unwrap_or_default();
            for (word, today) in RETIRED {
                if names(code).any(|name| parts(name).any(|part| part == *word)) {
                    let what = format!("`{word}` is a retired word; today it is `{today}`");
                    problems.push(Problem::new(&file.path, number, what));
                }
            }
        }
    }
    problems
}

/// A file is named like anything else, transcripts included.
pub(super) fn file_names(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files() {
        let name = file.name().to_lowercase();
        let retired = RETIRED.iter().map(|(word, _)| word);
        for word in INDEFINITE.iter().chain(retired).filter(|word| has_words(&name, word)) {
            let what = format!("`{word}` in a file's name: name the situation in plain words");
            problems.push(Problem::new(&file.path, 1, what));
        }
    }
    problems
}

pub(super) fn type_names(tree: &Tree) -> Vec<Problem> {
    let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in tree.sources().filter(|file| !file.is_test()) {
        let Some((name_of_crate, _)) = file.path.split_once("/src/") else { continue };
        for (number, line) in file.working_lines() {
            let Some(name) = defined_type(line) else { continue };
            if let Some(first) = seen.insert((name_of_crate, name), &file.path) {
                let what = format!("the type name `{name}` is used in {first} too");
                problems.push(Problem::new(&file.path, number, what));
            }
        }
    }
    problems
}

/// Our own Rust and JavaScript. This file names the words that it forbids.
fn is_code(file: &&File) -> bool {
    let is_ours = file.path.ends_with(".rs") || file.path.ends_with(".js");
    is_ours && file.path != "xtask/src/tidy/vocabulary.rs"
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").or_else(|| line.strip_prefix("* ")).or_else(|| line.strip_prefix("/*"))
}

fn has_words(text: &str, words: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(words).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + words.len()..].chars().next())
    })
}

/// The name of a type that is defined at the top level of a file.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let mut word = words.next()?;
    if word.starts_with("pub") {
        word = words.find(|word| !word.ends_with(')'))?;
    }
    if !["struct", "enum", "trait", "type"].contains(&word) {
        return None;
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

/// Everything in a line of code that could be a name. Texts in quotes are data.
fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split('"')
        .step_by(2)
        .flat_map(|piece| piece.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// `GuestProvider` and `guest_provider` are both made of `guest` and `provider`.
fn parts(name: &str) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("there is one").extend(c.to_lowercase());
        }
    }
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check;
    use super::*;

    #[test]
    fn a_comment_names_its_subject() {
        check(
            subjects,
            &[
                ("crates/a/src/a.rs", "//! Fine.\n/// Nobody waits.\nlet nobody = 1;\n"),
                ("crates/a/js/b.js", "// The engine waits.\n * One that waits.\n"),
                ("docs/a.md", "Nobody reads this rule.\n"),
            ],
            expect![[r#"
                crates/a/src/a.rs:2: `nobody`: say which part of the program is meant
                crates/a/js/b.js:2: `One that`: say which part of the program is meant"#]],
        );
    }

    #[test]
    fn a_retired_word_is_found_in_any_spelling() {
        check(
            retired,
            &[(
                "crates/a/src/a.rs",
                "struct GuestProvider;\nlet guest_count = 1;\nlet suggestion = \"a guest\";\n",
            )],
            expect![[r#"
                crates/a/src/a.rs:1: `guest` is a retired word; today it is `extension`
                crates/a/src/a.rs:2: `guest` is a retired word; today it is `extension`"#]],
        );
    }

    #[test]
    fn a_file_name_has_no_retired_word() {
        check(
            file_names,
            &[
                ("crates/a/tests/transcripts/nobody-reads.txt", ""),
                ("crates/a/src/guest.rs", ""),
                ("crates/a/src/storyteller.rs", ""),
            ],
            expect![[r#"
                crates/a/tests/transcripts/nobody-reads.txt:1: `nobody` in a file's name: name the situation in plain words
                crates/a/src/guest.rs:1: `guest` in a file's name: name the situation in plain words"#]],
        );
    }

    #[test]
    fn a_type_name_is_used_once_per_crate() {
        check(
            type_names,
            &[
                ("crates/a/src/a.rs", "pub(crate) struct Entry<T> {\n"),
                ("crates/a/src/b.rs", "enum Entry {\n    type Entry = u8;\n"),
                ("crates/b/src/b.rs", "enum Entry {\n"),
            ],
            expect!["crates/a/src/b.rs:1: the type name `Entry` is used in crates/a/src/a.rs too"],
        );
    }
}
