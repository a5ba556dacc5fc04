//! A process follows a session that another one writes. Stores of files cannot do this; they say so.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use tiller_session::database::Watch;
use tiller_session::{Body, Error, Session, Store};

use super::{LIMIT, TestStore, begin, location_of};
use crate::common::{NOW, answer, ids, lines_of, say, snapshot};

/// Adds what was stored since to a session that was opened read-only.
fn follow(store: &dyn Store, reader: &mut Session) -> Vec<String> {
    let location = location_of(reader);
    let mut found = Vec::new();
    loop {
        let lines = store.lines_since(&location, reader.lines_after_header()).unwrap().unwrap();
        if lines.is_empty() {
            return found;
        }
        found.extend(reader.take_in(&lines).unwrap());
    }
}

pub fn reader_follows_line_by_line(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    let first = say(&mut session, "first");
    let other = store.process(1);
    let mut reader = other.open_read_only(&location).unwrap();
    let Some(lines) = other.lines_since(&location, 0).unwrap() else {
        assert!(store.database(0).is_none(), "a database can be followed");
        return;
    };
    assert_eq!(lines, lines_of(&session)[1..]);
    assert_eq!(follow(&*other, &mut reader), [] as [String; 0]);
    let steps: [&dyn Fn(&mut Session); 6] = [
        &|session| drop(session.append(answer("one"), NOW).unwrap()),
        &|session| session.navigate(Some(&first), NOW).unwrap(),
        &|session| drop(session.set_name("followed", NOW).unwrap()),
        &|session| drop(session.set_label(&first, Some("here"), NOW).unwrap()),
        &|session| drop(say(session, &"long ".repeat(100_000))),
        &|session| {
            for number in 0..30 {
                session.append(Body::Custom { custom_type: "c".into(), data: None }, NOW).unwrap();
                say(session, &format!("number {number}"));
            }
        },
    ];
    for step in steps {
        let known = session.len();
        step(&mut session);
        assert_eq!(follow(&*other, &mut reader), ids(&session)[known..]);
        assert!(snapshot(&reader) == snapshot(&session));
        let count = reader.lines_after_header();
        assert_eq!(count as usize, session.len());
        assert_eq!(other.lines_since(&location, count + 10).unwrap(), Some(Vec::new()));
    }
    assert_eq!(reader.problems(), []);
    // The writer changes.
    drop(session);
    let mut session = store.process(2).open(&location).unwrap();
    say(&mut session, "another writer");
    follow(&*other, &mut reader);
    assert!(snapshot(&reader) == snapshot(&session));
}

fn watch(store: &dyn Store, location: &Path) -> Option<(Box<dyn Watch>, Receiver<()>)> {
    let (sender, woken) = channel();
    // The test may have ended.
    let watch = store.watch(location, Box::new(move || sender.send(()).unwrap_or_default()))?;
    Some((watch, woken))
}

pub fn follower_is_woken_by_another_process(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "first");
    let other = store.process(1);
    let mut reader = other.open_read_only(&location).unwrap();
    let Some((_watch, woken)) = watch(&*other, &location) else {
        assert!(store.database(0).is_none(), "a database can be followed");
        return;
    };
    let mut second = begin(&*store.process(0));
    say(&mut second, "first");
    let (_second_watch, second_woken) = watch(&*other, &location_of(&second)).unwrap();
    for round in 0..3 {
        let id = say(&mut session, &format!("round {round}"));
        // It may be woken without new lines, but not left asleep with them.
        while !follow(&*other, &mut reader).contains(&id) {
            woken.recv_timeout(LIMIT).expect("the follower is woken");
        }
    }
    let known = second.lines_after_header() + 1;
    say(&mut second, "another session");
    while other.lines_since(&location_of(&second), known).unwrap().unwrap().is_empty() {
        second_woken.recv_timeout(LIMIT).expect("each follower is woken");
    }
}

pub fn follower_is_woken_when_the_session_is_deleted(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "first");
    drop(session);
    let other = store.process(1);
    let Some((_watch, woken)) = watch(&*other, &location) else { return };
    store.process(0).delete(&location).unwrap();
    loop {
        match other.lines_since(&location, 1) {
            Err(Error::Deleted(address)) => break assert_eq!(address, location),
            Err(error) => panic!("{error}"),
            Ok(_) => woken.recv_timeout(LIMIT).expect("the follower is woken"),
        }
    }
}

pub fn ended_follower_is_not_called_again(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "first");
    let other = store.process(1);
    let Some((first, woken)) = watch(&*other, &location) else { return };
    let (second, second_woken) = watch(&*other, &location).unwrap();
    drop(first);
    // Its function was dropped with it, so the channel has ended.
    let ended = loop {
        match woken.recv_timeout(LIMIT) {
            Ok(()) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, RecvTimeoutError::Disconnected);
    say(&mut session, "second");
    while other.lines_since(&location, 1).unwrap().unwrap().is_empty() {
        second_woken.recv_timeout(LIMIT).expect("the other follower goes on");
    }
    drop(second);
}
