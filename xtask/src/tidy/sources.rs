//! Rules for source files: each begins with a description, none is too long, and access to the
//! outside world stays in the crate that owns it.

use super::Problem;
use super::tree::{File, Tree};

/// A longer file holds more than one noun. Its tests do not count.
const LINES_MAX: usize = 600;

/// Tables may be as long as necessary: list one here, with the reason.
const TABLES: &[&str] = &[];

/// Names of the standard library and of tokio for things outside memory.
const OUTSIDE_MEMORY: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "tokio::fs",
    "tokio::net",
    "tokio::process",
];

/// What belongs to the process, and the crates whose caller passes it.
const PROCESS: &[&str] =
    &["std::env", "io::stdin", "io::stdout", "io::stderr", "process::exit", "tokio::signal"];
const LIBRARIES: &[&str] = &["crates/tiller-config/src/", "crates/tiller-server/src/"];

/// The only files that may write to stdout: others would break a client's framing.
const STDOUT_WRITERS: &[&str] = &[
    "crates/tiller/src/acp.rs",
    "crates/tiller-client/examples/host.rs",
    // `tiller chat` is a client: its tiller is another process, with a stdout of its own.
    "crates/tiller/src/chat/printer.rs",
    "crates/tiller/src/chat/terminal.rs",
    "crates/tiller/src/main.rs",
    "crates/tiller/src/print_mode.rs",
    "crates/tiller/src/serve/command.rs",
    "crates/tiller/src/serve/connect_command.rs",
    "crates/tiller/src/serve/stdio.rs",
    "crates/tiller/src/session_command.rs",
    "crates/tiller/src/stdio.rs",
    "crates/tiller-server/examples/embed.rs",
];

pub(super) fn openings(tree: &Tree) -> Vec<Problem> {
    let silent = |file: &&File| file.name() != "tests.rs" && !file.text.starts_with("//!");
    let problem = |file: &File| {
        Problem::new(&file.path, 1, "expected a `//!` comment that says what the file is for")
    };
    tree.sources().filter(silent).map(problem).collect()
}

pub(super) fn lengths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.sources().filter(|file| !file.is_test()) {
        let lines = file.working_lines().count();
        if lines > LINES_MAX && !TABLES.contains(&file.path.as_str()) {
            let what = format!("{lines} lines, {LINES_MAX} allowed: split it by noun");
            problems.push(Problem::new(&file.path, lines, what));
        }
    }
    problems
}

pub(super) fn outside_access(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.sources().filter(|file| file.path.starts_with("crates/") && !file.is_test()) {
        for (number, line) in file.working_lines() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            if file.path.starts_with("crates/tiller-agent/src/")
                && let Some(word) = OUTSIDE_MEMORY.iter().find(|word| line.contains(**word))
            {
                let what = format!("`{word}`: this crate touches nothing outside memory");
                problems.push(Problem::new(&file.path, number, what));
            }
            let word = PROCESS.iter().find(|word| line.contains(**word));
            if let Some(word) =
                word.filter(|_| LIBRARIES.iter().any(|path| file.path.starts_with(path)))
            {
                let what = format!("`{word}`: the caller of this crate owns the process");
                problems.push(Problem::new(&file.path, number, what));
            }
            if line.contains("stdout()") && !STDOUT_WRITERS.contains(&file.path.as_str()) {
                let what =
                    "this file may not write to stdout; the files that may are listed in xtask";
                problems.push(Problem::new(&file.path, number, what));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check;
    use super::*;

    #[test]
    fn file_without_description_is_reported() {
        check(
            openings,
            &[
                ("crates/a/src/lib.rs", "//! Good.\n"),
                ("crates/a/src/lib/tests.rs", "use super::*;\n"),
                ("crates/a/src/b.rs", "use std::fmt;\n"),
                ("crates/a/notes.md", "notes\n"),
            ],
            expect!["crates/a/src/b.rs:1: expected a `//!` comment that says what the file is for"],
        );
    }

    #[test]
    fn tests_do_not_count_towards_length() {
        let code = "let x = 1;\n".repeat(LINES_MAX);
        let with_tests = format!("{code}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let with_test_file = format!("{code}\n#[cfg(test)]\nmod tests;\n{code}");
        check(
            lengths,
            &[
                ("crates/a/src/a.rs", &with_tests),
                ("crates/a/src/b.rs", &with_test_file),
                ("crates/a/src/b/tests.rs", &with_test_file),
                ("crates/a/tests/c.rs", &with_test_file),
            ],
            expect!["crates/a/src/b.rs:1203: 1203 lines, 600 allowed: split it by noun"],
        );
    }

    #[test]
    fn outside_access_is_reported() {
        check(
            outside_access,
            &[
                ("crates/tiller-agent/src/run.rs", "// Like std::fs.\nuse std::fs;\n"),
                ("crates/tiller-config/src/settings.rs", "use std::fs;\nstd::env::vars();\n"),
                ("crates/tiller-server/src/out.rs", "use std::fs;\nstd::io::stderr();\n"),
                ("crates/tiller-tools/src/ls.rs", "use std::fs;\nstd::io::stdout();\n"),
                ("crates/tiller/src/main.rs", "std::io::stdout();\n"),
            ],
            expect![[r#"
                crates/tiller-agent/src/run.rs:2: `std::fs`: this crate touches nothing outside memory
                crates/tiller-config/src/settings.rs:2: `std::env`: the caller of this crate owns the process
                crates/tiller-server/src/out.rs:2: `io::stderr`: the caller of this crate owns the process
                crates/tiller-tools/src/ls.rs:2: this file may not write to stdout; the files that may are listed in xtask"#]],
        );
    }
}
