//! Session files that are moved into a database, or that it refuses.

/// Files of programs, as they were written.
const WRITTEN: [(&str, &str); 3] = [
    ("pi-0.80.2", include_str!("../files/pi-0.80.2.jsonl")),
    ("pi-0.87.1", include_str!("../files/pi-0.87.1.jsonl")),
    ("xcsh", include_str!("../files/xcsh.jsonl")),
];

/// Files of versions before 3.
pub const OLD: [(&str, &str); 2] =
    [("v1", include_str!("../files/v1.jsonl")), ("v2", include_str!("../files/v2.jsonl"))];

pub const HEADER: &str = r#"{"type":"session","version":3,"id":"sample","timestamp":"2026-11-15T20:39:16.762Z","cwd":"/work"}"#;

/// A file that opens, but is not listed: every program writes the type first.
pub const TYPE_LAST: &str = "header whose type comes last";

/// A line with a message of the user.
pub fn message(id: &str, parent: &str, content: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-11-15T20:39:17.000Z","message":{{"role":"user","content":{content},"timestamp":1}}}}"#
    )
}

fn file(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Files with everything that a database keeps as it is. Their names say what is in them.
pub fn kept() -> Vec<(&'static str, String)> {
    let first = message("a1", "null", r#""first""#);
    let second = message("a2", "\"a1\"", r#""second""#);
    let third = message("a3", "\"a2\"", r#""third""#);
    let newer = HEADER.replace(":3", ":4");
    let extended = HEADER
        .replace("}", r#","title":"A title","new":{"field":[1,2]},"parentSession":"/a/b.jsonl"}"#);
    let odd = r#"{"type":"session","cwd":7,"version":3,"timestamp":null,"id":"sample","title":[]}"#;
    let type_last = r#"{"version":3,"id":"sample","cwd":"/work","type":"session"}"#;
    let spaced = r#" { "type" : "session" , "version" : 3 , "id" : "sample" } "#;
    let mut kept: Vec<(&'static str, String)> =
        WRITTEN.map(|(name, text)| (name, text.to_owned())).into();
    kept.extend([
        ("header only", file(&[HEADER])),
        ("header of a newer version", file(&[&newer, &first])),
        ("header with a title and unknown fields", file(&[&extended, &first])),
        ("header with fields of other types", file(&[odd, &first])),
        (TYPE_LAST, file(&[type_last, &first])),
        ("header with spaces", file(&[spaced, &first])),
        (
            "title that is replaced and removed",
            file(&[
                &extended,
                r#"{"type":"session_info","id":"n1","parentId":null,"name":"Another"}"#,
                &first,
                r#"{"type":"session_info","id":"n2","parentId":"a1","name":""}"#,
            ]),
        ),
        (
            "names of other types",
            file(&[
                HEADER,
                r#"{"type":"session_info","id":"n1","parentId":null,"name":"A name"}"#,
                &first,
                r#"{"type":"session_info","id":"n2","parentId":"a1","name":7}"#,
                r#"{"type":"session_info","id":"n3","parentId":"n2"}"#,
            ]),
        ),
        (
            "unknown entries, roles and blocks",
            file(&[
                HEADER,
                r#"{"type":"hologram","id":"u1","parentId":null,"data":{"x":[1,{"y":"z"}]}}"#,
                r#"{"type":"message","id":"u2","parentId":"u1","message":{"role":"alien","content":"?"}}"#,
                r#"{"type":"message","id":"u3","parentId":"u2","message":{"role":"user","content":[{"type":"hologram","text":7},{"type":"text","text":"seen"}],"timestamp":1}}"#,
                r#"{"type":"message","id":"u4","parentId":"u3"}"#,
                r#"{"id":"u5","parentId":"u4","type":"custom","customType":"x"}"#,
                r#"{"type":"message","id":"u6","parentId":"u5","message":{"role":"user","content":{"of":"another type"}}}"#,
            ]),
        ),
        (
            "malformed and blank lines",
            file(&[
                HEADER, "", &first, "   ", "no JSON", "[1,2]", "{", "null", &second, "\t",
                r#"{"type":"message"}"#, "\u{feff}", &third, "",
            ]),
        ),
        ("CRLF lines", file(&[HEADER, &first, "", "broken", &second]).replace('\n', "\r\n")),
        ("spaces around lines", file(&[HEADER, &format!("  {first}\t "), &second])),
        (
            "damaged lines",
            file(&[
                HEADER,
                &first,
                r#"{"type":"message","id":"d1","parentId":"a1","timestamp":"t","message":{"role":"us"#,
                &message("d2", "\"d1\"", r#""below a damaged line""#),
                r#"{"type":"label","id":"d3","parentId":"d2","te"#,
            ]),
        ),
        (
            "several entries in a line",
            file(&[HEADER, &format!("{first}{second}"), &format!("{third}garbage")]),
        ),
        (
            "used ids and missing parents",
            file(&[
                HEADER,
                &first,
                &message("a1", "\"a1\"", r#""the same id""#),
                &message("a4", "\"missing\"", r#""an orphan""#),
                HEADER,
                &second,
            ]),
        ),
        (
            "lone surrogates and zeros, escaped",
            file(&[
                HEADER,
                &message("a1", "null", r#""cut \ud83e here""#),
                &message("a2", "\"a1\"", r#""a zero \u0000 and \udc00 both""#),
                &message("a3", "\"a2\"", r#""only a zero \u0000""#),
                r#"{"type":"session_info","id":"a4","parentId":"a3","name":"na\u0000me"}"#,
                r#"{"type":"label","id":"a5","parentId":"a4","targetId":"a3","label":"\u0000"}"#,
                r#"{"type":"custom","customType":"\ud800","id":"a6","parentId":"a5"}"#,
                r#"{"type":"custom","customType":"\u0000","id":"a\u0000b","parentId":"a6"}"#,
            ]),
        ),
        ("control characters", file(&[HEADER, &first, "\u{1}\u{b}\u{c}\r\u{1f}\u{7f}\u{85}\u{2028}"])),
        ("a very long line", file(&[HEADER, &message("a1", "null", &format!("\"{}\"", "long ".repeat(1 << 19)))])),
    ]);
    kept
}

/// Files that are refused, with the reason.
pub fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let first = message("a1", "null", r#""first""#);
    let complete = file(&[HEADER, &first]);
    let torn = |cut: usize| complete.as_bytes()[..complete.len() - cut].to_vec();
    let after = |bytes: &[u8]| [complete.as_bytes(), bytes].concat();
    let with_id = |id: &str| file(&[&HEADER.replace("sample", id), &first]).into_bytes();
    vec![
        ("nothing", Vec::new(), "is not a valid pi session"),
        ("only a line end", b"\n".to_vec(), "is not a valid pi session"),
        ("another file", b"hello\n".to_vec(), "is not a valid pi session"),
        ("no header", (first.clone() + "\n").into_bytes(), "is not a valid pi session"),
        (
            "header without an id",
            b"{\"type\":\"session\",\"version\":3}\n".to_vec(),
            "is not a valid pi session",
        ),
        (
            "header after a blank line",
            [b"\n", complete.as_bytes()].concat(),
            "its first line is not a header",
        ),
        (
            "header after a broken line",
            [b"{\n", complete.as_bytes()].concat(),
            "its first line is not a header",
        ),
        ("id with a space", with_id("a b"), "its id \"a b\" is not valid"),
        ("id with a slash", with_id("../a"), "its id \"../a\" is not valid"),
        ("no id", with_id(""), "its id \"\" is not valid"),
        (
            "invalid UTF-8",
            after(b"{\"type\":\"x\",\"id\":\"\xff\"}\n"),
            "line 3 is not valid UTF-8",
        ),
        ("half a character", after("ü\n".as_bytes().split_at(1).0), "line 3 is not valid UTF-8"),
        ("zero byte", after(b"\n{\"type\":\"x\0\"}\n"), "line 4 contains a zero byte"),
        ("no line end", torn(1), "its last line is incomplete"),
        ("torn line", torn(20), "its last line is incomplete"),
        ("torn header", HEADER.as_bytes()[..40].to_vec(), "is not a valid pi session"),
        ("header without a line end", HEADER.into(), "its last line is incomplete"),
    ]
}

/// Files of an old version that are refused like newer ones.
pub fn refused_old() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let old = OLD[1].1;
    let lines = old.matches('\n').count();
    assert_eq!(lines, 4);
    vec![
        ("old, invalid UTF-8", [old.as_bytes(), b"\xff\n"].concat(), "line 5 is not valid UTF-8"),
        ("old, zero byte", [old.as_bytes(), b"\0\n"].concat(), "line 5 contains a zero byte"),
        ("old, torn line", [old.as_bytes(), b"{\"type\":"].concat(), "its last line is incomplete"),
    ]
}
