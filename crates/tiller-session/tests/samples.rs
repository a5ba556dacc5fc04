//! Reads files written by other programs.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{NOW, in_dir, reopen, say, show_context, show_problems, snapshot};
use expect_test::{Expect, expect};
use tiller_agent::message::Message;
use tiller_session::{Page, PageRange, Session, SessionId, check};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// Prints a file after opening it, and checks that opening it changed nothing.
fn check(name: &str, expected: Expect) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let before = fs::read(sample(name)).unwrap();
    fs::write(&path, &before).unwrap();
    let session = reopen(&path);
    expected.assert_eq(&show(&session));
    let read_only = Session::open_read_only(&path).unwrap();
    assert_eq!(snapshot(&read_only), snapshot(&session));
    assert_eq!(fs::read(&path).unwrap(), before);
}

fn show(session: &Session) -> String {
    let model = session.model().unwrap();
    let model = model.map_or("none".into(), |model| format!("{} {}", model.provider, model.id));
    let thinking = session.thinking_level().unwrap().map_or("none", |level| level.name());
    let mut out = format!("id {}\n", session.id());
    out += &format!("name {}\n", session.name().unwrap_or("none"));
    out += &format!("model {model}, thinking {thinking}\n");
    out += &show_context(session);
    out += &format!("{:?}", session.stats());
    out += "\n";
    for fork in session.fork_messages().unwrap() {
        out += &format!("fork {} {:?}\n", fork.entry_id, fork.text);
    }
    out += &show_problems(&session.problems());
    out
}

#[test]
fn pi_0_80_2() {
    check(
        "pi-0.80.2.jsonl",
        expect![[r###"
            id 01a1e0ef-880c-75b1-bb49-2574b66bab7c
            name lighthouse
            model openai gpt, thinking medium
            summary "## Goal\nKnow the notes." of 4510 tokens
            user "Another way: read the notes"
            custom reminder "Mind the tests"
            assistant "Read." [stop]
            user "And now?"
            Stats { user_messages: 4, assistant_messages: 4, tool_calls: 1, tool_results: 1, total_messages: 10, tokens: Tokens { input: 450, output: 31, cache_read: 5, cache_write: 7, total: 493 }, cost: 0.00141675 }
            fork 10000004 "What is here?"
            fork 10000009 "A question of an older version, as a plain string"
            fork 1000000b "Another way: read the notes"
            fork 10000011 "And now?"
        "###]],
    );
}

#[test]
fn pi_0_87_1() {
    check(
        "pi-0.87.1.jsonl",
        expect![[r#"
            id 01a1e0ef-880c-75b1-bb49-000000000087
            name none
            model mock mock-1, thinking max
            summary "counted" of 120 tokens
            assistant task({"what":"count"}) [tooluse]
            result task ok "(shortened)"
            assistant "One." [stop]
            user "and now?"
            branch "tried something else"
            Stats { user_messages: 2, assistant_messages: 3, tool_calls: 1, tool_results: 1, total_messages: 7, tokens: Tokens { input: 1018, output: 81, cache_read: 1000, cache_write: 0, total: 2099 }, cost: 0.0045509999999999995 }
            fork 20000004 "try hard"
            fork 2000000d "and now?"
        "#]],
    );
}

#[test]
fn xcsh() {
    check(
        "xcsh.jsonl",
        expect![[r#"
            id 15cf8825e2c6f988
            name Fix the lamp
            model openrouter meta/llama, thinking none
            summary "before" of 7 tokens
            user "alpha" "(image is not stored in this session file)"
            custom fileMention "<file path=\"a.txt\">\nx\n</file>"
            custom developer "stay calm"
            custom fileMention "<file path=\"b.txt\">\ntwo\nlines\n</file>\n<file path=\"big.bin\">\n(not shown: tooLarge)\n</file>\n<file path=\"c.png\">\n</file>" <image/png, 4 bytes>
            bash "print(1)" "1\n"
            custom lint "No warnings"
            Stats { user_messages: 1, assistant_messages: 0, tool_calls: 0, tool_results: 0, total_messages: 6, tokens: Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0, total: 0 }, cost: 0.0 }
            fork 3000000000000006 "alpha"
        "#]],
    );
}

/// xcsh stores large images outside its sessions. They are read from there, and a fork, which may
/// lie anywhere, contains them. Addresses that are not of that store are left alone.
#[test]
fn xcsh_images_outside_the_session_are_restored() {
    let hash = "ab".repeat(32);
    let address = format!("blob:sha256:{hash}");
    let agent = tempfile::tempdir().unwrap();
    let sessions = agent.path().join("sessions/-proj");
    fs::create_dir_all(&sessions).unwrap();
    fs::create_dir_all(agent.path().join("blobs")).unwrap();
    fs::write(agent.path().join("blobs").join(&hash), b"picture").unwrap();
    fs::write(agent.path().join("secret"), b"secret").unwrap();
    let image =
        |data: &str| serde_json::json!({"type": "image", "mimeType": "image/png", "data": data});
    let escape = format!("blob:sha256:..{}secret", "/".repeat(56));
    let text = format!("it is at \"{address}\"");
    let lines = [
        serde_json::json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-15T20:39:16.762Z", "cwd": "/p"}),
        serde_json::json!({"type": "message", "id": "1", "parentId": null, "timestamp": "2026-11-15T20:39:16.762Z",
            "message": {"role": "user", "timestamp": 1, "content": [{"type": "text", "text": text}, image(&address),
            image(&format!("blob:sha256:{}", "0".repeat(64))), image(&escape), image("blob:sha256:é")]}}),
        serde_json::json!({"type": "message", "id": "2", "parentId": "1", "timestamp": "2026-11-15T20:39:16.762Z",
            "message": {"role": "user", "timestamp": 1, "content": "and?"}}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = sessions.join("x.jsonl");
    fs::write(&path, &lines).unwrap();

    let session = reopen(&path);
    let shown = show_context(&session);
    let missing = "\"(image is not stored in this session file)\"";
    let first = format!("user {text:?} <image/png, 12 bytes> {missing} {missing} {missing}\n");
    assert!(shown.starts_with(&first), "{shown}");
    let mut messages = Vec::new();
    session.write_messages(&mut messages).unwrap();
    let messages: serde_json::Value = serde_json::from_slice(&messages).unwrap();
    assert_eq!(messages[0]["content"][1]["data"], "cGljdHVyZQ==");

    let elsewhere = tempfile::tempdir().unwrap();
    let storage = in_dir(elsewhere.path());
    let fork = session.fork("2", SessionId::fresh(), storage, NOW).unwrap().session;
    let copied = fork.raw("1").unwrap().unwrap();
    let original = lines.lines().nth(1).unwrap();
    assert_eq!(copied, original.replacen(&format!("\"{address}\""), "\"cGljdHVyZQ==\"", 1));
    assert_eq!(fs::read_to_string(&path).unwrap(), lines, "the original is as it was");
}

/// The tree is that of the file, with labels and unknown entries.
#[test]
fn tree_contains_labels_and_unknown_entries() {
    fn outline(nodes: &serde_json::Value, depth: usize, out: &mut String) {
        for node in nodes.as_array().unwrap() {
            let entry = &node["entry"];
            let label = node.get("label").map(|label| format!(" {label}")).unwrap_or_default();
            *out += &format!(
                "{}{} {}{label}\n",
                "  ".repeat(depth),
                entry["id"].as_str().unwrap(),
                entry["type"].as_str().unwrap()
            );
            let children = node["children"].as_array().unwrap();
            let depth = if children.len() > 1 { depth + 1 } else { depth };
            outline(&node["children"], depth, out);
        }
    }
    let session = Session::open_read_only(&sample("pi-0.80.2.jsonl")).unwrap();
    let mut text = Vec::new();
    session.write_tree(&mut text).unwrap();
    let tree: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut out = String::new();
    outline(&tree, 0, &mut out);
    expect![[r#"
        10000001 session_info
        10000002 model_change
        10000003 thinking_level_change
        10000004 message
        10000005 message
        10000006 message
        10000007 message
          10000008 message
          10000009 message
          1000000a message
          1000000b message "the other way"
          1000000c custom
          1000000d custom_message
          1000000e message
          1000000f label
          10000010 compaction
          10000011 message
    "#]]
    .assert_eq(&out);
}

/// `get_messages` returns what the model sees.
#[test]
fn written_messages_equal_the_context() {
    let session = Session::open_read_only(&sample("pi-0.80.2.jsonl")).unwrap();
    let mut text = Vec::new();
    session.write_messages(&mut text).unwrap();
    let written: Vec<Message> = serde_json::from_slice(&text).unwrap();
    let read = session.context().unwrap().messages;
    assert_eq!(written, read.iter().map(|item| (*item.message).clone()).collect::<Vec<_>>());
    let ids: Vec<&str> = read.iter().map(|item| item.entry_id.as_str()).collect();
    assert_eq!(ids, ["10000010", "1000000b", "1000000d", "1000000e", "10000011"]);
}

/// Every line is returned unchanged, whichever program wrote it.
#[test]
fn entries_are_returned_unchanged() {
    for name in ["pi-0.80.2.jsonl", "pi-0.87.1.jsonl", "xcsh.jsonl"] {
        let text = fs::read_to_string(sample(name)).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let session = Session::open_read_only(&sample(name)).unwrap();
        let mut out = Vec::new();
        session.write_entries(None, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{}]", lines.join(",")));
        let ids: Vec<&str> = session.path_to(session.leaf().unwrap()).unwrap();
        for id in ids {
            assert!(lines.contains(&session.raw(id).unwrap().unwrap().as_str()));
        }
        let since = session.path_to(session.leaf().unwrap()).unwrap()[2].to_owned();
        let at =
            lines.iter().position(|line| line.contains(&format!("\"id\":\"{since}\""))).unwrap();
        let mut out = Vec::new();
        session.write_entries(Some(&since), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{}]", lines[at + 1..].join(",")));
        let unknown = session.write_entries(Some("zzz"), &mut Vec::new());
        assert_eq!(unknown.unwrap_err().to_string(), "Entry not found: zzz");
    }
}

/// Pages of any size follow each other without a gap.
#[test]
fn pages_make_up_the_list() {
    type WritePage<'a> = &'a dyn Fn(PageRange, &mut Vec<u8>) -> Page;
    for name in ["pi-0.80.2.jsonl", "pi-0.87.1.jsonl", "xcsh.jsonl"] {
        let session = Session::open_read_only(&sample(name)).unwrap();
        let entries: WritePage<'_> =
            &|range, out| session.write_entries_page(None, range, out).unwrap();
        let messages: WritePage<'_> =
            &|range, out| session.write_messages_page(range, out, |_| None).unwrap();
        for write in [entries, messages] {
            let read = |range: PageRange| {
                let mut out = Vec::new();
                let page = write(range, &mut out);
                (serde_json::from_slice::<Vec<serde_json::Value>>(&out).unwrap(), page)
            };
            let (all, whole) = read(PageRange::ALL);
            assert_eq!((whole.total, whole.next), (all.len(), None));
            for (limit, max_bytes) in [(1, usize::MAX), (3, usize::MAX), (usize::MAX, 700), (2, 0)]
            {
                let mut paged = Vec::new();
                let mut next = Some(0);
                while let Some(offset) = next {
                    let (items, page) = read(PageRange { offset, limit, max_bytes });
                    assert!((1..=limit).contains(&items.len()), "{name}: {} items", items.len());
                    assert_eq!(page.total, all.len());
                    paged.extend(items);
                    next = page.next;
                }
                assert_eq!(paged, all, "{name} in pages of {limit} items and {max_bytes} bytes");
            }
        }
    }
}

/// Prints an old file after it was opened, with new ids numbered.
fn check_migration(name: &str, expected: Expect) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::copy(sample(name), &path).unwrap();
    let looked_at = Session::open_read_only(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(sample(name)).unwrap());
    let mut session = reopen(&path);
    assert_eq!(show_context(&looked_at), show_context(&session));
    let mut text = fs::read_to_string(&path).unwrap();
    for (number, id) in session.path_to(session.leaf().unwrap()).unwrap().iter().enumerate() {
        text = text.replace(&format!("\"{id}\""), &format!("\"#{number}\""));
    }
    let shown = format!("{text}{}{}", show_context(&session), show_problems(&session.problems()));
    expected.assert_eq(&shown);
    // It is an ordinary session now: it can be appended to and opened again.
    say(&mut session, "more");
    let before = snapshot(&session);
    drop(session);
    assert_eq!(snapshot(&reopen(&path)), before);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [name]);
}

#[test]
fn version_1_gets_ids() {
    check_migration(
        "v1.jsonl",
        expect![[r##"
        {"type":"session","id":"old-session","timestamp":"2025-06-01T10:00:00.000Z","cwd":"/home/me/old","provider":"anthropic","modelId":"sonnet","thinkingLevel":"off","version":3}
        {"type":"message","timestamp":"2025-06-01T10:00:01.000Z","message":{"role":"user","content":"first words","timestamp":1748772001000},"id":"#0","parentId":null}
        {"type":"message","timestamp":"2025-06-01T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"an answer"}],"api":"anthropic-messages","provider":"anthropic","model":"sonnet","usage":{"input":1.0,"output":2,"cacheRead":0,"cacheWrite":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.25}},"stopReason":"stop","timestamp":1748772002000},"id":"#1","parentId":"#0"}
        this line was torn by a crash {"type":
        {"type":"message","timestamp":"2025-06-01T10:00:03.000Z","message":{"role":"custom","customType":"old-hook","content":"from a hook","display":true,"timestamp":1748772003000},"id":"#2","parentId":"#1"}
        {"type":"message","timestamp":"2025-06-01T10:00:04.000Z","message":{"role":"user","content":"kept words","timestamp":1748772004000},"id":"#3","parentId":"#2"}
        {"type":"compaction","timestamp":"2025-06-01T10:00:05.000Z","summary":"what was","tokensBefore":1200,"id":"#4","parentId":"#3","firstKeptEntryId":"#2"}
        {"type":"message","timestamp":"2025-06-01T10:00:06.000Z","message":{"role":"user","content":"last words","timestamp":1748772006000},"strange":123456789012345678901234567890,"id":"#5","parentId":"#4"}
        summary "what was" of 1200 tokens
        custom old-hook "from a hook"
        user "kept words"
        user "last words"
        line 4 is not an entry and is ignored: expected ident at line 1 column 2
        migrated from version 1 to version 3
    "##]],
    );
}

#[test]
fn version_2_loses_hook_messages() {
    check_migration(
        "v2.jsonl",
        expect![[r##"
        {"type":"session","version":3,"id":"second","timestamp":"2025-09-01T10:00:00.000Z","cwd":"/home/me/old"}
        {"type":"message","id":"#0","parentId":null,"timestamp":"2025-09-01T10:00:01.000Z","message":{"role":"user","content":"first words","timestamp":1756720801000}}
        {"type":"message","id":"#1","parentId":"#0","timestamp":"2025-09-01T10:00:02.000Z","message":{"role":"custom","customType":"old-hook","content":[{"type":"text","text":"from a hook"}],"display":true,"timestamp":1756720802000}}
        {"type":"message","id":"#2","parentId":"#1","timestamp":"2025-09-01T10:00:03.000Z","message":{"role":"user","content":"the word \"hookMessage\" is no role here","timestamp":1756720803000}}
        user "first words"
        custom old-hook "from a hook"
        user "the word \"hookMessage\" is no role here"
        migrated from version 2 to version 3
    "##]],
    );
}

#[test]
fn damaged_lines_are_reported_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.jsonl");
    let user = |id: &str, parent: &str, text: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":"{parent}","timestamp":"t","message":{{"role":"user","content":"{text}","timestamp":1}}}}"#
        )
    };
    let lines = [
        "not json".to_owned(),
        r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/"}"#.to_owned(),
        user("a", "", "one").replace("\"\",\"timestamp\"", "null,\"timestamp\""),
        String::new(),
        // Cut short, and then terminated by a program that repairs line ends.
        user("b", "a", "two")[..90].to_owned(),
        user("c", "b", "three"),
        // Two lines joined by a program that does not.
        user("d", "c", "four") + &user("e", "d", "five"),
        r#"{"type":"message","message":{}}"#.to_owned(),
        "[]".to_owned(),
        r#"{"type":"session","version":3,"id":"t"}"#.to_owned(),
        user("f", "e", "six") + "\r",
        user("c", "f", "seven"),
        user("g", "nobody", "eight"),
        user("h", "g", "nine").replace("nine", "\u{0}"),
    ];
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let session = reopen(&path);
    expect![[r#"
        user "eight"
        unreadable h: control character (\u0000-\u001F) found while parsing a string at line 1 column 95
        line 1 is not an entry and is ignored: expected ident at line 1 column 2
        line 5 (entry b) is damaged and has no content
        line 7 holds several entries
        line 8 is not an entry and is ignored: missing field `id`
        line 9 is not an entry and is ignored: not an object
        line 10 is not an entry and is ignored: a second header
        line 12: entry id c is used twice
        line 13: parent nobody of entry g is missing
    "#]].assert_eq(&(show_context(&session) + &show_problems(&session.problems())));
    assert_eq!(session.path_to("f").unwrap(), ["a", "b", "c", "d", "e", "f"]);

    // The repaired copy has the remaining entries, and only problems of the tree itself.
    let copy = dir.path().join("copy.jsonl");
    check::repair(&path, &copy, NOW).unwrap();
    let report = check::check(&copy).unwrap();
    expect![[r#"
        line 8: entry id c is used twice
        line 9: parent nobody of entry g is missing
    "#]]
    .assert_eq(&show_problems(&report.problems));
    assert_eq!((report.entries, report.ends), (9, 2));
    let copied = reopen(&copy);
    assert_eq!(copied.path_to("f").unwrap(), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(copied.leaf(), session.leaf());
    assert!(check::repair(&path, &copy, NOW).is_err(), "never over another file");

    // A file without problems is copied unchanged, including its header.
    let copy = dir.path().join("xcsh.jsonl");
    check::repair(&sample("xcsh.jsonl"), &copy, NOW).unwrap();
    assert_eq!(fs::read(&copy).unwrap(), fs::read(sample("xcsh.jsonl")).unwrap());
}
