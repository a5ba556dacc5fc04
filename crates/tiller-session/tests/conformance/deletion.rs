//! Deleting sessions.

use tiller_session::{Error, Session};

use super::{TestStore, all, begin, is_missing, listed_ids, location_of, named};
use crate::common::{NOW, owner_of, say, user};

pub fn session_in_use_is_not_deleted(store: &dyn TestStore) {
    let mut session = begin(&*store.process(1));
    let location = location_of(&session);
    say(&mut session, "hello");
    let before = store.lines(&location);
    for process in [0, 1] {
        let refused = store.process(process).delete(&location).unwrap_err();
        let Error::InUse { path, owner } = refused else { panic!("{refused}") };
        assert_eq!((path, owner), (location.clone(), Some(Box::new(owner_of(1)))));
    }
    assert_eq!(store.lines(&location), before);
    say(&mut session, "more");
    assert_eq!(store.process(0).open_read_only(&location).unwrap().len(), 2);
}

pub fn deleted_session_is_gone(store: &dyn TestStore) {
    let ours = store.process(0);
    let mut kept = begin(&*ours);
    say(&mut kept, "keep me");
    let mut session = begin(&*ours);
    let location = location_of(&session);
    let id = session.id().to_owned();
    for number in 0..10 {
        say(&mut session, &format!("secret{number}"));
    }
    let cwd = session.cwd().to_owned();
    drop(session);
    // A reader has what it has read.
    let reader = store.process(2).open_read_only(&location).unwrap();
    let other = store.process(1);
    other.delete(&location).unwrap();

    assert_eq!(store.lines(&location), None);
    for process in [&ours, &other] {
        assert!(is_missing(&process.open(&location).err().unwrap()));
        assert!(is_missing(&process.open_read_only(&location).err().unwrap()));
        assert!(is_missing(&process.delete(&location).unwrap_err()));
        assert_eq!(listed_ids(&**process, &all()), [kept.id()]);
        let words = tiller_session::list::ListQuery { text: Some("secret3".into()), ..all() };
        assert_eq!(listed_ids(&**process, &words), [] as [String; 0]);
        assert!(matches!(process.find(&id, &cwd), Err(Error::NoMatch(_))));
        assert_eq!(process.newest(&cwd).unwrap().as_deref(), kept.path());
        match process.lines_since(&location, 0) {
            Ok(lines) => assert_eq!(lines, None, "the store cannot follow"),
            Err(error) => assert!(matches!(error, Error::Deleted(_)), "{error}"),
        }
    }
    assert_eq!(reader.context().unwrap().messages.len(), 10);
    say(&mut kept, "still here");
}

pub fn id_of_a_deleted_session_can_be_used_again(store: &dyn TestStore) {
    let ours = store.process(0);
    let cwd = "/work";
    for round in 0..3 {
        let storage = store.process(round % 2).storage(cwd.as_ref());
        let mut session = Session::new(named("again", cwd), storage);
        let location = location_of(&session);
        for _ in 0..=round {
            session.append(user(&format!("round {round}")), NOW).unwrap();
        }
        drop(session);
        let stored = ours.open_read_only(&location).unwrap();
        assert_eq!((stored.len(), stored.context_len()), (round + 1, round + 1));
        ours.delete(&location).unwrap();
    }
    assert_eq!(listed_ids(&*ours, &all()), [] as [String; 0]);
}

pub fn what_is_not_stored_cannot_be_deleted(store: &dyn TestStore) {
    let ours = store.process(0);
    let mut kept = begin(&*ours);
    say(&mut kept, "keep me");
    let planned = begin(&*ours);
    assert!(is_missing(&ours.delete(&location_of(&planned)).unwrap_err()));
    drop(kept);
    for hostile in ["", "%", "postgres:", "postgres:%", "fake:%", "*", "a'; DELETE FROM session"] {
        ours.delete(&ours.location(hostile.as_ref(), "/nowhere".as_ref())).unwrap_err();
    }
    assert_eq!(listed_ids(&*ours, &all()).len(), 1);
}
