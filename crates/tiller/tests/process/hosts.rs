//! The example hosts in shell and Go, run by their own test script against this binary, and the
//! pages about them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

fn in_repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

#[test]
fn example_hosts_pass_their_tests() {
    for (program, argument) in [("jq", "--version"), ("go", "version")] {
        if Command::new(program).arg(argument).output().is_err() {
            return skip("HOST", &format!("there is no {program}"));
        }
    }
    let output = Command::new(in_repository("examples/run-tests"))
        .env("TILLER_BIN", env!("CARGO_BIN_EXE_tiller"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
}

/// Every block of a page in the example's language is a part of the example.
#[test]
fn pages_about_hosts_quote_their_examples() {
    for (page, fence, files) in [
        ("docs/hosts/shell.md", "\n```bash\n", &["examples/host.sh"][..]),
        (
            "docs/hosts/go.md",
            "\n```go\n",
            &[
                "examples/host-go/client.go",
                "examples/host-go/main.go",
                "examples/host-go/records.go",
                "examples/host-go/server.go",
            ],
        ),
    ] {
        let read = |name: &str| fs::read_to_string(in_repository(name)).unwrap();
        let examples: Vec<String> = files.iter().map(|name| read(name)).collect();
        let page_text = read(page);
        let blocks: Vec<&str> =
            page_text.split(fence).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
        assert!(!blocks.is_empty(), "{page} quotes nothing");
        for block in blocks {
            let is_quoted = examples.iter().any(|example| example.contains(block));
            assert!(is_quoted, "{page}: this is not in {files:?}:\n{block}");
        }
    }
}
