//! Leaves, branches, labels and names, through the public interface.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{NOW, answer, begin, in_dir, new_session, reopen, say, show_context, user};
use expect_test::expect;
use tiller_agent::message::{Message, ToolResultMessage};
use tiller_session::entry::Compaction;
use tiller_session::{Body, Error, LEAF_MARK, Session, SessionId, Storage};

#[test]
fn file_is_created_with_the_first_user_message() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(&dir.path().join("deep/below"));
    let path = session.path().unwrap().to_owned();
    session.append(Body::ModelChange { provider: "p".into(), model_id: "m".into() }, NOW).unwrap();
    session.set_name("early", NOW).unwrap();
    assert!(!session.is_stored() && session.syncer().is_none());
    session.sync().unwrap();
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    say(&mut session, "hello");
    assert!(session.is_stored());
    session.sync().unwrap();
    session.syncer().unwrap().sync().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
    let before = common::snapshot(&session);
    drop(session);
    assert_eq!(common::snapshot(&reopen(&path)), before);
}

#[test]
fn session_is_unchanged_if_its_file_cannot_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("blocked");
    fs::write(&blocked, "a file where a folder should be").unwrap();
    let mut session = begin(&blocked.join("sessions"));
    session.set_name("early", NOW).unwrap();
    let before = common::snapshot(&session);
    let refused = session.append(user("hello"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Write { .. }), "{refused}");
    assert_eq!(common::snapshot(&session), before);
    fs::remove_file(&blocked).unwrap();
    say(&mut session, "hello");
    assert_eq!(session.len(), 2);
    assert!(session.is_stored());
}

#[test]
fn navigation_survives_a_reload_in_pi() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    let first = say(&mut session, "first");
    session.append(answer("one"), NOW).unwrap();
    say(&mut session, "second");
    session.navigate(Some(&first), NOW).unwrap();
    assert_eq!(show_context(&session), "user \"first\"\n");
    // pi's rule: the leaf is the last line, and its ancestors are the conversation.
    let text = fs::read_to_string(&path).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "custom");
    assert_eq!(last["customType"], LEAF_MARK);
    assert_eq!(last["parentId"], first.as_str());
    drop(session);

    let mut session = reopen(&path);
    assert_eq!(show_context(&session), "user \"first\"\n");
    assert_eq!(session.context_len(), 1);
    let len = session.len();
    let leaf = session.leaf().unwrap().to_owned();
    session.navigate(Some(&leaf), NOW).unwrap();
    assert_eq!(session.len(), len, "there already");
    say(&mut session, "another second");
    assert_eq!(show_context(&session), "user \"first\"\nuser \"another second\"\n");
    session.navigate(None, NOW).unwrap();
    assert_eq!(show_context(&session), "\n");
    drop(session);
    let mut session = reopen(&path);
    assert_eq!(session.context_len(), 0);
    say(&mut session, "from scratch");
    assert_eq!(session.children(None).unwrap().len(), 2);
    let refused = session.navigate(Some("zzz"), NOW).unwrap_err();
    assert_eq!(refused.to_string(), "Entry not found: zzz");
}

#[test]
fn branch_diff_lists_the_abandoned_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let first = say(&mut session, "first");
    let one = session.append(answer("one"), NOW).unwrap();
    let second = say(&mut session, "second");
    let two = session.append(answer("two"), NOW).unwrap();
    let diff = session.branch_diff(&one).unwrap();
    assert_eq!(diff.common.as_deref(), Some(one.as_str()));
    assert_eq!(diff.abandoned, [second.clone(), two]);
    assert_eq!(session.messages_of(&diff.abandoned).unwrap().len(), 2);
    // A user message is sent again below its parent.
    assert_eq!(session.resend_parent(&second).unwrap().as_deref(), Some(one.as_str()));
    assert_eq!(session.resend_parent(&first).unwrap(), None);
    assert_eq!(session.resend_parent(&one).unwrap().as_deref(), Some(one.as_str()));
    // Moving back along the same path leaves nothing behind.
    session.navigate(Some(&first), NOW).unwrap();
    let diff = session.branch_diff(&second).unwrap();
    assert_eq!(session.messages_of(&diff.abandoned).unwrap(), []);
    assert!(session.branch_diff("zzz").is_err());
    let forked = session.fork_at(&one, SessionId::fresh(), Storage::Memory, NOW).unwrap();
    assert_eq!(forked.leaf(), Some(one.as_str()));
}

#[test]
fn forks_and_clones() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let source = session.path().unwrap().to_owned();
    let alpha = say(&mut session, "alpha");
    session.append(answer("one"), NOW).unwrap();
    session.set_label(&alpha, Some("the start"), NOW + 5).unwrap();
    let beta = say(&mut session, "beta");
    session.set_label(&beta, Some("gone"), NOW).unwrap();
    session.append(answer("two"), NOW).unwrap();
    session.navigate(Some(&alpha), NOW).unwrap();

    let fork = session.fork(&beta, SessionId::fresh(), in_dir(dir.path()), NOW).unwrap();
    assert_eq!(fork.text, "beta");
    let path = fork.session.path().unwrap().to_owned();
    let mut text = fs::read_to_string(&path).unwrap();
    for (id, name) in [
        (fork.session.id().to_owned(), "SESSION"),
        (source.to_str().unwrap().to_owned(), "SOURCE"),
        (alpha.clone(), "ALPHA"),
        (fork.session.path_to(fork.session.leaf().unwrap()).unwrap()[1].to_owned(), "ONE"),
        (fork.session.leaf().unwrap().to_owned(), "LABEL"),
    ] {
        text = text.replace(&id, name);
    }
    expect![[r#"
        {"type":"session","version":3,"id":"SESSION","timestamp":"2026-11-15T20:39:16.762Z","cwd":"/work","parentSession":"SOURCE"}
        {"type":"message","id":"ALPHA","parentId":null,"timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"user","content":[{"type":"text","text":"alpha"}],"timestamp":1794775156762}}
        {"type":"message","id":"ONE","parentId":"ALPHA","timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"assistant","content":[{"type":"text","text":"one"}],"api":"a","provider":"p","model":"m","usage":{"input":3,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":5,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5}},"stopReason":"stop","timestamp":1}}
        {"type":"label","id":"LABEL","parentId":"ONE","timestamp":"2026-11-15T20:39:16.767Z","targetId":"ALPHA","label":"the start"}
    "#]].assert_eq(&text);

    let clone = session.clone_at_leaf(SessionId::fresh(), in_dir(dir.path()), NOW).unwrap();
    assert_eq!(show_context(&clone), "user \"alpha\"\n");
    assert!(clone.is_stored());
    assert_eq!(clone.label(&alpha), Some("the start"));
    assert_eq!(clone.len(), 2, "the mark of the navigation is not copied");

    // A fork of the first message has no entries to store yet, and so no file.
    let empty = session.fork(&alpha, SessionId::fresh(), in_dir(dir.path()), NOW).unwrap();
    assert_eq!((empty.text.as_str(), empty.session.is_stored()), ("alpha", false));
    assert_eq!(empty.session.header().parent_session.as_deref(), source.to_str());

    let leaf = session.leaf().unwrap().to_owned();
    for not_user in [leaf.as_str(), "zzz"] {
        let refused = session.fork(not_user, SessionId::fresh(), Storage::Memory, NOW).err();
        assert_eq!(refused.unwrap().to_string(), "Invalid entry ID for forking");
    }
    let nothing = Session::new(new_session(), Storage::Memory);
    let refused = nothing.clone_at_leaf(SessionId::fresh(), Storage::Memory, NOW).err();
    assert_eq!(refused.unwrap().to_string(), "Cannot clone session: no current entry selected");
}

#[test]
fn labels_and_names_are_set_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    let first = say(&mut session, "first");
    session.set_label(&first, Some("  a "), NOW).unwrap();
    assert_eq!(session.label(&first), Some("a"));
    session.set_label(&first, Some("b"), NOW).unwrap();
    assert_eq!(session.set_name(" my\nname ", NOW).unwrap(), "my name");
    drop(session);
    let mut session = reopen(&path);
    assert_eq!((session.label(&first), session.name()), (Some("b"), Some("my name")));
    session.set_label(&first, None, NOW).unwrap();
    session.append(Body::SessionInfo { name: String::new() }, NOW).unwrap();
    drop(session);
    let mut session = reopen(&path);
    assert_eq!((session.label(&first), session.name()), (None, None));
    let refused = session.set_label("zzz", Some("x"), NOW).unwrap_err();
    assert_eq!(refused.to_string(), "Entry not found: zzz");
    assert_eq!(session.set_name(" ", NOW).unwrap_err().to_string(), "Session name cannot be empty");
}

#[test]
fn unanswered_calls_are_found_after_a_crash_in_a_turn() {
    let mut session = Session::new(new_session(), Storage::Memory);
    say(&mut session, "do three things");
    assert!(session.unanswered_calls().unwrap().is_empty());
    let calls = r#"{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"a","arguments":{}},{"type":"toolCall","id":"2","name":"b","arguments":{}},{"type":"toolCall","id":"3","name":"c","arguments":{}}],"api":"a","provider":"p","model":"m","usage":{},"stopReason":"toolUse","timestamp":1}"#;
    session.append(Body::message(serde_json::from_str(calls).unwrap()), NOW).unwrap();
    let result = |call: &str| {
        Body::message(Message::ToolResult(ToolResultMessage {
            tool_call_id: call.into(),
            tool_name: "x".into(),
            content: Vec::new(),
            details: None,
            is_error: false,
            usage: None,
            timestamp: 1,
            duration_ms: None,
        }))
    };
    session.append(result("2"), NOW).unwrap();
    session.set_name("meanwhile", NOW).unwrap();
    let open: Vec<String> =
        session.unanswered_calls().unwrap().into_iter().map(|call| call.id).collect();
    assert_eq!(open, ["1", "3"]);
    session.append(result("1"), NOW).unwrap();
    session.append(result("3"), NOW).unwrap();
    assert!(session.unanswered_calls().unwrap().is_empty());
}

#[test]
fn context_after_a_compaction_that_keeps_nothing() {
    let mut session = Session::new(new_session(), Storage::Memory);
    say(&mut session, "long ago");
    session.append(answer("indeed"), NOW).unwrap();
    let compaction = Compaction {
        summary: "all of it".into(),
        first_kept_entry_id: None,
        tokens_before: 9,
        details: None,
        usage: None,
        from_hook: false,
    };
    let id = session.append(Body::Compaction(compaction), NOW).unwrap();
    assert_eq!(show_context(&session), "summary \"all of it\" of 9 tokens\n");
    say(&mut session, "now");
    assert_eq!(session.context_len(), 2);
    // A hidden attempt stays hidden, here and after a reload; the totals include it.
    let failed = session.append(answer("failed"), NOW).unwrap();
    session.append(Body::ContextEdit { target_id: failed, replacement: None }, NOW).unwrap();
    assert_eq!(show_context(&session), "summary \"all of it\" of 9 tokens\nuser \"now\"\n");
    assert_eq!(session.stats().assistant_messages, 2);
    session.append(Body::ContextEdit { target_id: id, replacement: None }, NOW).unwrap();
    assert_eq!(show_context(&session), "user \"now\"\n");
}

/// A conversation is as deep as it is long; nothing may recurse into it.
#[test]
fn long_conversation_does_not_overflow_the_stack() {
    let mut session = Session::new(new_session(), Storage::Memory);
    for _ in 0..30_000 {
        session.append(Body::Custom { custom_type: "c".into(), data: None }, NOW).unwrap();
    }
    let mut out = Vec::new();
    session.write_tree(&mut out).unwrap();
    assert_eq!(out.iter().filter(|byte| **byte == b'[').count(), 30_001);
    assert_eq!(session.path_to(session.leaf().unwrap()).unwrap().len(), 30_000);
    let clone = session.clone_at_leaf(SessionId::fresh(), Storage::Memory, NOW).unwrap();
    assert_eq!(clone.len(), 30_000);
}

#[test]
fn outline_lists_entries_in_file_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    let first = say(&mut session, "first");
    session.append(answer("one"), NOW).unwrap();
    session.append_under(Some(&first), answer("two"), NOW).unwrap();
    session.set_label(&first, Some("here"), NOW).unwrap();
    drop(session);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "{\"type\":\"label\",\"id\":\"torn\",\"parentId\":null,\"te\n")
        .unwrap();
    let session = Session::open_read_only(&path).unwrap();
    let mut outline = session.outline();
    let parents: Vec<_> = (0..outline.len()).map(|place| outline.parent(place)).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(2), None]);
    assert_eq!(
        (outline.id(0), outline.label(0), outline.leaf()),
        (first.as_str(), Some("here"), Some(4))
    );
    assert_eq!((outline.is_damaged(3), outline.is_damaged(4)), (false, true));
    let lines = fs::read_to_string(&path).unwrap();
    for (place, line) in lines.lines().skip(1).enumerate() {
        assert_eq!(outline.line(place).unwrap(), line);
        assert_eq!(outline.bytes(place), line.len() as u64);
    }
    assert!(!outline.is_empty());
    // An unknown block does not hide the others.
    let newer = lines.lines().nth(2).unwrap().replacen(r#"[{"#, r#"[{"type":"hologram"},{"#, 1);
    let read = outline.entry(1, &newer).unwrap();
    assert_eq!(read.body, Some(answer("one")));
    assert_eq!(outline.entry(3, lines.lines().nth(4).unwrap()).unwrap().kind, "label");
}

#[test]
fn injected_rules_are_known_on_their_branch_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let rules = |names: &[&str]| Body::TtsrInjection {
        rules: names.iter().map(|&name| name.into()).collect(),
    };
    let show = |session: &Session| {
        let mut rules: Vec<_> = session.injected_rules().unwrap().into_iter().collect();
        rules.sort();
        format!("{rules:?}")
    };
    let first = say(&mut session, "hi");
    assert_eq!(show(&session), "[]");
    session.append(rules(&["a", "b"]), NOW).unwrap();
    session.append(answer("one"), NOW).unwrap();
    session.append(rules(&["b"]), NOW).unwrap();
    session.append(answer("two"), NOW).unwrap();
    session.append(answer("three"), NOW).unwrap();
    assert_eq!(show(&session), r#"[("a", 3), ("b", 2)]"#);
    let path = session.path().unwrap().to_owned();
    drop(session);
    let mut session = reopen(&path);
    assert_eq!(show(&session), r#"[("a", 3), ("b", 2)]"#);
    session.navigate(Some(&first), NOW).unwrap();
    assert_eq!(show(&session), "[]");
}
