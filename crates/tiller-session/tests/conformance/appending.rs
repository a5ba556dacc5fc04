//! What is appended is stored when the call returns, whatever it contains.

use serde_json::json;
use tiller_agent::message::{Content, CustomMessage, Message};
use tiller_session::{Body, Error, Session, Storage};

use super::{TestStore, begin, check_lines, check_stored, location_of};
use crate::common::{NOW, Random, answer, new_session, say, snapshot, user};

pub fn entry_is_visible_to_another_process_when_append_returns(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    let other = store.process(1);
    for number in 0..20 {
        let id = say(&mut session, &format!("message {number}"));
        let seen = other.open_read_only(&location).unwrap();
        assert_eq!((seen.len(), seen.leaf()), (number + 1, Some(id.as_str())));
        assert_eq!(seen.raw(&id).unwrap(), session.raw(&id).unwrap());
        assert!(seen.is_read_only() && !session.is_read_only());
    }
    check_lines(store, &session);
}

/// Texts that a format, a statement or an encoding could trip over.
pub fn unusual_texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "\u{0}",
        "a\u{0}b\u{0}",
        "\u{1}\u{8}\u{b}\u{1b}[31m\u{7f}\u{85}\u{9f}",
        "\r\n\r mixed \n line ends \r",
        "\u{2028}\u{2029}\u{feff}\u{fffd}\u{ffff}\u{10ffff}",
        "\u{1f980} Größe \u{65e5}\u{672c}\u{8a9e} e\u{301} \u{130}\u{df}",
        "quotes \" ' ` and \\ and \\\" and \\u0000 and \\ud800",
        "'; DROP TABLE session; --",
        "$1 $$ %s %_ \\% {schema} {} :name ?",
        "{\"type\":\"session\",\"version\":3}",
        "}{\"type\":\"message\",\"id\":\"x\",\"parentId\":null}",
        "\t \u{a0} ",
    ]
    .map(str::to_owned)
    .into();
    texts.push("x".repeat(2 << 20));
    texts.push("\u{0}\"\u{1f980}".repeat(100_000));
    // More different words than are searched.
    texts.push((0..300_000).map(|number| format!("w{number} ")).collect());
    texts
}

pub fn unusual_texts_are_stored_unchanged(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    for text in unusual_texts() {
        say(&mut session, &text);
        session.append(answer(&text), NOW).unwrap();
    }
    let read: Vec<String> =
        session.fork_messages().unwrap().into_iter().map(|message| message.text).collect();
    check_lines(store, &session);
    let before = snapshot(&session);
    drop(session);
    let session = store.process(1).open(&location).unwrap();
    assert!(snapshot(&session) == before);
    assert_eq!(session.problems(), []);
    let texts =
        session.context().unwrap().messages.into_iter().filter_map(|item| match &*item.message {
            Message::User(user) => Some(user.content.text()),
            _ => None,
        });
    assert!(texts.eq(unusual_texts()));
    // A client is not offered the empty ones.
    assert!(read.iter().all(|text| unusual_texts().contains(text)));
}

pub fn names_labels_and_extension_data_are_stored_unchanged(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    let first = say(&mut session, "first");
    for text in unusual_texts().into_iter().filter(|text| text.len() < 1000) {
        session.append(Body::SessionInfo { name: text.clone() }, NOW).unwrap();
        session.set_label(&first, Some(&text), NOW).unwrap();
        session
            .append(Body::ModelChange { provider: text.clone(), model_id: text.clone() }, NOW)
            .unwrap();
        let data = Some(json!({ &text: [&text, 1.5, null, {"deep": &text}] }));
        session.append(Body::Custom { custom_type: text.clone(), data }, NOW).unwrap();
        let message = CustomMessage {
            custom_type: text.clone(),
            content: Content::Text(text.clone()),
            display: true,
            details: Some(json!(&text)),
            timestamp: NOW,
        };
        session.append(Body::message(Message::Custom(message)), NOW).unwrap();
        session.append(Body::TtsrInjection { rules: vec![text] }, NOW).unwrap();
        check_stored(store, &session);
    }
    check_lines(store, &session);
    let before = snapshot(&session);
    drop(session);
    let session = store.process(1).open(&location).unwrap();
    assert_eq!(snapshot(&session), before);
}

/// More lines and bytes than are read or written at once, and than are kept in memory.
pub fn session_of_five_thousand_entries_opens_equal(store: &dyn TestStore) {
    let mut source = Session::new(new_session(), Storage::Memory);
    let mut random = Random::new(5000);
    while source.len() < 5000 {
        let text = "words of a line ".repeat(random.below(100));
        let body = if source.len().is_multiple_of(2) { user(&text) } else { answer(&text) };
        source.append(body, NOW + source.len() as u64).unwrap();
    }
    let new = new_session();
    let mut copy = source.copy_all(new.clone(), store.process(0).storage(&new.cwd)).unwrap();
    assert_eq!(copy.len(), 5000);
    let location = location_of(&copy);
    assert!(snapshot(&copy).entries == snapshot(&source).entries);
    for number in 0..20 {
        say(&mut copy, &format!("later {number}"));
    }
    let before = snapshot(&copy);
    assert!(snapshot(&store.process(1).open_read_only(&location).unwrap()) == before);
    drop(copy);
    let mut again = store.process(1).open(&location).unwrap();
    assert!(snapshot(&again) == before);
    assert_eq!(again.problems(), []);
    say(&mut again, "the end");
    check_lines(store, &again);
    assert_eq!(again.len(), 5021);
}

type Call = fn(&mut Session) -> Result<String, Error>;

pub fn refused_calls_store_nothing(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "first");
    let before = (store.lines(&location), snapshot(&session));
    let refusals: [Call; 4] = [
        |session| session.set_name(" \n", NOW),
        |session| session.set_label("none", Some("x"), NOW),
        |session| session.append_under(Some("none"), user("x"), NOW),
        |session| session.navigate(Some("none"), NOW).map(|()| String::new()),
    ];
    for refused in refusals {
        refused(&mut session).unwrap_err();
        assert_eq!((store.lines(&location), snapshot(&session)), before);
    }
    // The leaf is there already.
    let leaf = session.leaf().unwrap().to_owned();
    session.navigate(Some(&leaf), NOW).unwrap();
    assert_eq!((store.lines(&location), snapshot(&session)), before);
}
