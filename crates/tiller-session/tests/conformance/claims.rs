//! One process at a time writes a session; all may read it.

use std::sync::Barrier;
use std::thread;

use tiller_session::{Error, Session, SessionId};

use super::{TestStore, begin, location_of};
use crate::common::{NOW, new_session, owner_of, say, show_context, snapshot};

/// Checks that the session is in use by the process with this number.
fn check_in_use(opened: Result<Session, Error>, location: &std::path::Path, process: usize) {
    let refused = opened.err().expect("the session is in use");
    let text = refused.to_string();
    let Error::InUse { path, owner } = refused else { panic!("{text}") };
    assert_eq!((path.as_path(), owner), (location, Some(Box::new(owner_of(process)))));
    assert!(text.contains(&format!("in use by tiller {process} (pid")), "{text}");
    if let Some(address) = owner_of(process).address {
        assert!(text.contains(&address), "{text}");
    }
}

pub fn second_writer_is_refused_and_learns_the_owner(store: &dyn TestStore) {
    let mut session = begin(&*store.process(1));
    let location = location_of(&session);
    say(&mut session, "hello");
    drop(session);
    for owner in [0, 1] {
        let mut session = store.process(owner).open(&location).unwrap();
        for other in [0, 1, 2] {
            check_in_use(store.process(other).open(&location), &location, owner);
        }
        let mut reader = store.process(2).open_read_only(&location).unwrap();
        assert_eq!(show_context(&reader), show_context(&session));
        assert!(matches!(reader.set_name("mine", NOW), Err(Error::ReadOnly)));
        // The refused attempts have taken nothing from the owner.
        say(&mut session, "more");
        assert_eq!(store.process(2).open_read_only(&location).unwrap().len(), session.len());
    }
}

pub fn session_is_claimed_from_its_first_message_on(store: &dyn TestStore) {
    let mut session = begin(&*store.process(1));
    let location = location_of(&session);
    session.set_name("early", NOW).unwrap();
    assert!(matches!(store.process(0).open(&location), Err(Error::NotFound(_))));
    say(&mut session, "hello");
    check_in_use(store.process(0).open(&location), &location, 1);
    let mut other = begin(&*store.process(2));
    other.persist().unwrap();
    let persisted = location_of(&other);
    check_in_use(store.process(0).open(&persisted), &persisted, 2);
}

pub fn copy_is_claimed_by_its_process(store: &dyn TestStore) {
    let mut session = begin(&*store.process(1));
    say(&mut session, "hello");
    let id = say(&mut session, "and");
    let ours = store.process(2);
    let storage = || ours.storage(session.cwd());
    let copies = [
        session.fork(&id, SessionId::fresh(), storage(), NOW).unwrap().session,
        session.fork_at(&id, SessionId::fresh(), storage(), NOW).unwrap(),
        session.clone_at_leaf(SessionId::fresh(), storage(), NOW).unwrap(),
        session.copy_all(new_session(), storage()).unwrap(),
    ];
    for mut copy in copies {
        let location = location_of(&copy);
        check_in_use(store.process(0).open(&location), &location, 2);
        say(&mut copy, "its own");
        let before = snapshot(&copy);
        drop(copy);
        assert_eq!(snapshot(&store.process(0).open(&location).unwrap()), before);
    }
}

pub fn dropped_session_can_be_opened_at_once(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "hello");
    for round in 1..20 {
        drop(session);
        session = store.process(round % 3).open(&location).unwrap();
        assert_eq!((session.len(), session.problems()), (round, Vec::new()));
        say(&mut session, "again");
    }
}

pub fn one_of_many_writers_gets_the_session(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    say(&mut session, "hello");
    drop(session);
    let processes: Vec<_> = (0..4).map(|number| store.process(number)).collect();
    for round in 0..store.rounds(20) {
        let (start, end) = (Barrier::new(8), Barrier::new(8));
        let winners: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let (process, location) = (processes[number % 4].clone(), location.clone());
                    let (start, end) = (&start, &end);
                    scope.spawn(move || {
                        start.wait();
                        let opened = process.open(&location);
                        // Nothing is released before every thread has tried.
                        end.wait();
                        match opened {
                            Ok(mut session) => {
                                say(&mut session, "mine");
                                1
                            }
                            Err(Error::InUse { .. }) => 0,
                            Err(other) => panic!("{other}"),
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(winners, 1, "round {round}");
        let stored = processes[0].open_read_only(&location).unwrap();
        assert_eq!(stored.len() as u64, round + 2);
        assert_eq!(stored.path_to(stored.leaf().unwrap()).unwrap().len(), stored.len());
    }
}

pub fn read_only_session_is_not_appended_to(store: &dyn TestStore) {
    let mut session = begin(&*store.process(0));
    let location = location_of(&session);
    let first = say(&mut session, "hello");
    drop(session);
    let before = store.lines(&location);
    let mut reader = store.process(1).open_read_only(&location).unwrap();
    let refusals: [Result<(), Error>; 4] = [
        reader.append(crate::common::user("x"), NOW).map(drop),
        reader.set_name("x", NOW).map(drop),
        reader.navigate(None, NOW),
        reader.set_label(&first, Some("x"), NOW).map(drop),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    assert_eq!((reader.len(), store.lines(&location)), (1, before));
    // A reader is in the way of no writer, nor of a second reader.
    store.process(1).open_read_only(&location).unwrap();
    store.process(2).open(&location).unwrap();
}
