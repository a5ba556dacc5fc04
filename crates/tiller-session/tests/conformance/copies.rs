//! Forks, clones and copies of sessions in the store.

use tiller_session::{Body, Error, Session, SessionId, Storage};

use super::{TestStore, all, begin, begin_in, check_lines, check_stored, listed_ids, location_of};
use crate::common::{NOW, answer, ids, new_session, say, show_context, snapshot, user};

/// Two questions with answers, a label, and a branch that was left.
fn conversation(store: &dyn TestStore) -> (Session, [String; 2]) {
    let mut session = begin(&*store.process(0));
    let alpha = say(&mut session, "alpha");
    session.append(answer("one"), NOW).unwrap();
    session.set_label(&alpha, Some("the start"), NOW + 5).unwrap();
    let beta = say(&mut session, "beta");
    session.append(answer("two"), NOW).unwrap();
    session.set_name("conversation", NOW).unwrap();
    session.append_under(Some(&alpha), user("another beta"), NOW).unwrap();
    session.navigate(Some(&beta), NOW).unwrap();
    session.append(answer("three"), NOW).unwrap();
    (session, [alpha, beta])
}

pub fn forks_and_clones_have_the_same_context(store: &dyn TestStore) {
    let (session, [alpha, beta]) = conversation(store);
    let source = location_of(&session).to_str().unwrap().to_owned();
    let ours = store.process(0);
    let storage = || ours.storage(session.cwd());

    let fork = session.fork(&beta, SessionId::fresh(), storage(), NOW).unwrap();
    assert_eq!(fork.text, "beta");
    assert_eq!(show_context(&fork.session), "user \"alpha\"\nassistant \"one\" [stop]\n");
    assert_eq!(fork.session.label(&alpha), Some("the start"));

    let at = session.fork_at(&beta, SessionId::fresh(), storage(), NOW).unwrap();
    let until_beta = "user \"alpha\"\nassistant \"one\" [stop]\nuser \"beta\"\n";
    assert_eq!(show_context(&at), until_beta);

    let clone = session.clone_at_leaf(SessionId::fresh(), storage(), NOW).unwrap();
    assert_eq!(show_context(&clone), until_beta.to_owned() + "assistant \"three\" [stop]\n");
    assert_eq!(clone.name(), None, "the name was given on another branch");

    let copy = session.copy_all(new_session(), storage()).unwrap();
    assert_eq!((copy.len(), copy.name()), (session.len(), Some("conversation")));
    assert_eq!(snapshot(&copy).entries, snapshot(&session).entries);

    for session in [&fork.session, &at, &clone, &copy] {
        assert_eq!(session.header().parent_session.as_deref(), Some(source.as_str()));
        assert!(session.is_stored());
        check_stored(store, session);
        check_lines(store, session);
    }
    assert!(matches!(
        session.fork("none", SessionId::fresh(), storage(), NOW),
        Err(Error::NotAUserMessage)
    ));
    let refused = session.fork_at("none", SessionId::fresh(), storage(), NOW);
    assert!(matches!(refused, Err(Error::EntryNotFound(_))));
    assert_eq!(listed_ids(&*ours, &all()).len(), 5, "refused copies are not stored");
}

pub fn fork_of_the_first_message_is_stored_with_its_first_message(store: &dyn TestStore) {
    let (session, [alpha, _]) = conversation(store);
    let storage = store.process(0).storage(session.cwd());
    let mut fork = session.fork(&alpha, SessionId::fresh(), storage, NOW).unwrap().session;
    assert!(fork.is_empty() && !fork.is_stored());
    assert_eq!(store.lines(&location_of(&fork)), None);
    say(&mut fork, "alpha, better");
    check_lines(store, &fork);
    assert!(fork.header().parent_session.is_some());
    check_stored(store, &fork);
}

pub fn copy_keeps_entries_that_are_not_in_the_context(store: &dyn TestStore) {
    let mut source = Session::new(new_session(), Storage::Memory);
    source.append(Body::SessionInfo { name: "first name".into() }, NOW).unwrap();
    let first = say(&mut source, "hello");
    source.append(Body::Custom { custom_type: "x".into(), data: None }, NOW).unwrap();
    source.set_label(&first, Some("here"), NOW).unwrap();
    source.append(Body::ContextEdit { target_id: first.clone(), replacement: None }, NOW).unwrap();
    source.append(Body::SessionInfo { name: String::new() }, NOW).unwrap();
    let ours = store.process(0);
    let mut copy = source.copy_all(new_session(), ours.storage(source.cwd())).unwrap();
    assert_eq!(snapshot(&copy).tree, snapshot(&source).tree);
    assert_eq!(copy.header().parent_session, None, "the source is not stored");
    check_stored(store, &copy);
    let listed = ours.list(&all()).unwrap().sessions;
    assert_eq!(listed[0].name, None, "the last entry has removed the name");
    copy.set_name("second name", NOW).unwrap();
    assert_eq!(ours.list(&all()).unwrap().sessions[0].name.as_deref(), Some("second name"));
    check_stored(store, &copy);
    assert_eq!(ids(&copy)[..source.len()], ids(&source));
}

pub fn copy_of_a_read_only_session_is_a_session_of_its_own(store: &dyn TestStore) {
    let (session, _) = conversation(store);
    let location = location_of(&session);
    let other = store.process(1);
    let reader = other.open_read_only(&location).unwrap();
    let mut copy = reader.copy_all(new_session(), other.storage(reader.cwd())).unwrap();
    assert_eq!(copy.header().parent_session.as_deref(), location.to_str());
    say(&mut copy, "my own");
    check_stored(store, &copy);
    check_stored(store, &session);
    assert_eq!(copy.len(), session.len() + 1);
}

pub fn session_stored_beside_another_is_listed_with_it(store: &dyn TestStore) {
    let ours = store.process(0);
    let mut first = begin_in(&*ours, "/work/a");
    say(&mut first, "hello");
    let storage = ours.storage_beside(&first);
    let mut second = Session::new(super::named("second", "/work/a"), storage);
    say(&mut second, "hello again");
    let query = tiller_session::list::ListQuery { cwd: Some("/work/a".into()), ..all() };
    assert_eq!(listed_ids(&*store.process(1), &query).len(), 2);
    assert_eq!(location_of(&first).parent(), location_of(&second).parent());
    check_stored(store, &second);
}
