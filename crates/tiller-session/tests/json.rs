//! Output is always valid JSON, whatever is in the file, and a check finds every line that is not.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{NOW, answer, begin, say};
use serde_json::Value;
use tiller_session::check::{check, repair};
use tiller_session::{Problem, Session};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/"}"#;

/// Everything of a session that a client can request.
fn shown(session: &Session) -> [Vec<u8>; 4] {
    let mut shown = [const { Vec::new() }; 4];
    let [entries, branch, tree, messages] = &mut shown;
    session.write_entries(None, entries).unwrap();
    session.write_branch(None, branch).unwrap();
    session.write_tree(tree).unwrap();
    session.write_messages(messages).unwrap();
    shown
}

fn check_shown(path: &Path, what: &str) {
    let session = Session::open_read_only(path).unwrap();
    for bytes in shown(&session) {
        assert!(!bytes.contains(&b'\n'), "{what}");
        // The output may be deeply nested, so it is only skipped: `IgnoredAny` does not recurse.
        let valid = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes);
        assert!(valid.is_ok(), "{what}: {}", String::from_utf8_lossy(&bytes));
    }
    for entry in serde_json::from_slice::<Vec<Value>>(&shown(&session)[0]).unwrap() {
        assert_eq!(session.raw(entry["id"].as_str().unwrap()).is_ok(), entry.is_object());
    }
}

/// Lines that look like entries when a session is opened.
const BAD: [&str; 12] = [
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"x" "y":1}}"#,
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user",,,}}"#,
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"\q"}}"#,
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":nul}}"#,
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":01}}"#,
    "{\"type\":\"message\",\"id\":\"b\",\"parentId\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"\u{1}\"}}",
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":[1,]}}"#,
    r#"{"type":"custom","customType":"x","data":{"a":[}]},"id":"b","parentId":"a"}"#,
    r#"{"type":"custom","customType":"x","data":{"a" 1},"id":"b","parentId":"a"}"#,
    r#"{"type":"custom","customType":"x","data":tru,"id":"b","parentId":"a"}"#,
    r#"{"type":"label","id":"b","parentId":"a","targetId":"a","label":"x",}"#,
    r#"{"type":"session_info","id":"b","parentId":"a","name":"x","more":"\u12"}"#,
];

#[test]
fn invalid_json_lines_are_left_out_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"t","message":{{"role":"user","content":"hi","timestamp":1}}}}"#
        )
    };
    for (number, bad) in BAD.iter().enumerate() {
        let path = dir.path().join(format!("{number}.jsonl"));
        let (first, last) = (entry("a", "null"), entry("c", "\"b\""));
        fs::write(&path, format!("{HEADER}\n{first}\n{bad}\n{last}\n")).unwrap();
        check_shown(&path, bad);
        let report = check(&path).unwrap();
        let reported: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(
            reported.iter().any(|problem| problem.starts_with("line 3 ")),
            "{bad}: {reported:?}"
        );
        // A repaired copy has no problems.
        let saved = dir.path().join(format!("{number}-saved.jsonl"));
        repair(&path, &saved, NOW).unwrap();
        let report = check(&saved).unwrap();
        let is_about_tree = |problem: &Problem| matches!(problem, Problem::MissingParent { .. });
        assert!(report.problems.iter().all(is_about_tree), "{bad}: {report:?}");
        assert!(report.unreadable.is_empty(), "{bad}: {report:?}");
    }
}

#[test]
fn invalid_utf8_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let line = b"{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"\xff\"}}";
    fs::write(&path, [HEADER.as_bytes(), b"\n", line, b"\n"].concat()).unwrap();
    check_shown(&path, "invalid UTF-8");
    let problems = check(&path).unwrap().problems;
    assert!(
        problems[0].to_string().starts_with("line 2 is not JSON: invalid utf-8"),
        "{problems:?}"
    );
}

#[test]
fn check_reports_every_bad_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let lines: String = (0..500).map(|_| format!("{}\nnothing\n", BAD[1])).collect();
    fs::write(&path, format!("{HEADER}\n{lines}")).unwrap();
    let problems = check(&path).unwrap().problems;
    let reported = problems.iter().filter_map(|problem| {
        problem.to_string().strip_prefix("line ")?.split(' ').next()?.parse().ok()
    });
    let reported: std::collections::HashSet<u64> = reported.collect();
    assert!((2..=1001).all(|line| reported.contains(&line)), "{} lines", reported.len());
}

/// Messages on abandoned branches are checked, too.
#[test]
fn unreadable_messages_are_reported_on_every_branch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    let bad =
        r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":7}}"#;
    let good = r#"{"type":"message","id":"b","parentId":null,"message":{"role":"user","content":"x","timestamp":1}}"#;
    fs::write(&path, format!("{HEADER}\n{bad}\n{good}\n")).unwrap();
    let report = check(&path).unwrap();
    assert_eq!(report.unreadable.len(), 1, "{report:?}");
}

/// Any byte of a file may change: the output stays JSON, and a check reports exactly the broken
/// lines.
#[test]
fn output_stays_json_with_any_byte_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    let first = say(&mut session, "a \"quoted\" \\ word");
    session.append(answer("an answer"), NOW).unwrap();
    session.set_label(&first, Some("here"), NOW).unwrap();
    session.set_name("a name", NOW).unwrap();
    drop(session);
    let whole = fs::read(&path).unwrap();
    let body = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let changed = dir.path().join("changed.jsonl");
    let mut found = 0;
    for at in (body..whole.len() - 1).step_by(3) {
        for byte in [b'"', b'\\', b'{', b'}', b',', 0x01, 0xff, b'0', b' '] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            fs::write(&changed, &bytes).unwrap();
            let what = format!("byte {at} is {byte:#x}");
            check_shown(&changed, &what);
            if byte != b' ' {
                let is_broken = bytes.split(|&byte| byte == b'\n').any(|line| {
                    let text = str::from_utf8(line);
                    let valid = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
                    !line.is_empty() && !text.is_ok_and(valid)
                });
                let report = check(&changed).unwrap();
                let reported = report.problems.iter().any(|problem| {
                    let reported = problem.to_string();
                    !reported.contains("parent") && !reported.contains("is used twice")
                });
                assert!(reported || !is_broken, "{what}: {report:?}");
                found += u32::from(is_broken);
            }
        }
    }
    assert!(found > 100, "only {found} lines were broken");
}
