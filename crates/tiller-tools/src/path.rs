//! Resolves paths that a model writes.
//!
//! Models copy paths from wherever they saw them: with the `@` of a mention in front, as a
//! `file://` URL, with the unusual spaces of a macOS screenshot's name.

use std::path::{Component, Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

/// An absolute path without `.` and `..`, which need not exist.
pub(crate) fn resolve(cwd: &Path, requested: &str) -> PathBuf {
    locate(cwd, &plain_spaces(requested), home())
}

/// Like [`resolve`], but if the path does not exist, tries other spellings of it.
pub(crate) fn resolve_existing(cwd: &Path, requested: &str) -> PathBuf {
    let path = resolve(cwd, requested);
    if path.exists() {
        return path;
    }
    let as_written = locate(cwd, requested, home());
    let found = [as_written].into_iter().chain(spellings(&path)).find(|other| other.exists());
    found.unwrap_or(path)
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

fn locate(cwd: &Path, requested: &str, home: Option<PathBuf>) -> PathBuf {
    let requested = requested.strip_prefix('@').unwrap_or(requested);
    let path = if let Some(url) = requested.strip_prefix("file://") {
        // The part before the first slash is the host, which is ignored.
        let path = url.find('/').map_or("/", |slash| &url[slash..]);
        PathBuf::from(percent_decoded(path))
    } else {
        match (requested.strip_prefix('~'), home) {
            (Some(""), Some(home)) => home,
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(&rest[1..]),
            _ => PathBuf::from(requested),
        }
    };
    without_dots(&cwd.join(path))
}

/// Removes `.` and `..` lexically, as shells do for the paths they print.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => (),
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Replaces every kind of space by U+0020.
fn plain_spaces(requested: &str) -> String {
    requested.chars().map(|c| if is_odd_space(c) { ' ' } else { c }).collect()
}

pub(crate) fn is_odd_space(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// How macOS may have stored a name: a narrow space before AM and PM, decomposed accents, a curly
/// apostrophe.
fn spellings(path: &Path) -> [PathBuf; 4] {
    let name = path.to_str().unwrap_or_default();
    let narrow = ["AM", "PM", "am", "pm"].iter().fold(name.to_owned(), |name, noon| {
        name.replace(&format!(" {noon}"), &format!("\u{202f}{noon}"))
    });
    let split: String = name.nfd().collect();
    let curly = name.replace('\'', "\u{2019}");
    let split_and_curly = split.replace('\'', "\u{2019}");
    [narrow, split, curly, split_and_curly].map(PathBuf::from)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(requested: &[&str], expect: Expect) {
        let lines = requested.iter().map(|requested| {
            let path =
                locate(Path::new("/project"), &plain_spaces(requested), Some("/home/u".into()));
            format!("{requested:?} is {}\n", path.display())
        });
        expect.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn model_paths_are_resolved() {
        check(
            &[
                "a.txt",
                "./a/../b",
                "/etc//hosts",
                "../../../x",
                "~",
                "~/x",
                "~other/x",
                "@src/a",
                "@~/x",
                "file:///etc/a%20b",
                "file://localhost/etc/x",
                "file://",
                "50%",
                "%zz",
                "",
                "Screenshot 1.02.03\u{202f}PM.png",
                "a\u{a0}b\u{3000}c",
            ],
            expect![[r#"
                "a.txt" is /project/a.txt
                "./a/../b" is /project/b
                "/etc//hosts" is /etc/hosts
                "../../../x" is /x
                "~" is /home/u
                "~/x" is /home/u/x
                "~other/x" is /project/~other/x
                "@src/a" is /project/src/a
                "@~/x" is /home/u/x
                "file:///etc/a%20b" is /etc/a b
                "file://localhost/etc/x" is /etc/x
                "file://" is /
                "50%" is /project/50%
                "%zz" is /project/%zz
                "" is /project
                "Screenshot 1.02.03\u{202f}PM.png" is /project/Screenshot 1.02.03 PM.png
                "a\u{a0}b\u{3000}c" is /project/a b c
            "#]],
        );
    }

    #[test]
    fn macos_spellings_of_a_name_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let pairs = [
            ("Screenshot 1.02.03 PM.png", "Screenshot 1.02.03\u{202f}PM.png"),
            ("caf\u{e9}.txt", "cafe\u{301}.txt"),
            ("it's.txt", "it\u{2019}s.txt"),
            ("l'\u{e9}t\u{e9}.txt", "l\u{2019}e\u{301}te\u{301}.txt"),
            ("wide\u{3000}space", "wide\u{3000}space"),
        ];
        for (requested, stored) in pairs {
            std::fs::write(dir.path().join(stored), "").unwrap();
            assert_eq!(resolve_existing(dir.path(), requested), dir.path().join(stored));
        }
        assert_eq!(resolve_existing(dir.path(), "gone"), dir.path().join("gone"));
    }
}
