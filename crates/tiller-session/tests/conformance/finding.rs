//! Sessions are found by id, beginning of an id, location and working directory.

use std::path::{Path, PathBuf};

use tiller_session::{Error, Session, SessionId, Store};

use super::{TestStore, all, at, is_missing, listed_ids, location_of, named};
use crate::common::say;

/// Stores a session with this id, last modified at this second.
pub fn store_session(store: &dyn TestStore, id: &str, cwd: &str, second: u64) -> PathBuf {
    let process = store.process(0);
    let mut session = Session::new(named(id, cwd), process.storage(cwd.as_ref()));
    say(&mut session, "hello");
    let location = location_of(&session);
    drop(session);
    store.set_modified(&location, at(second));
    location
}

fn find(store: &dyn Store, query: &str, cwd: &str) -> Option<PathBuf> {
    match store.find(query, cwd.as_ref()) {
        Ok(location) => Some(location),
        Err(Error::NoMatch(named)) => {
            assert_eq!(named, query);
            None
        }
        Err(other) => panic!("{query:?}: {other}"),
    }
}

pub fn session_is_found_by_its_id_or_its_beginning(store: &dyn TestStore) {
    let ab = store_session(store, "ab", "/a", 10);
    let abc = store_session(store, "abc", "/a", 20);
    let abd = store_session(store, "abd", "/a", 15);
    let other = store_session(store, "zz-top", "/a", 5);
    let ours = store.process(1);
    for (query, expected) in [
        // An exact match is not ambiguous.
        ("ab", Some(&ab)),
        ("abd", Some(&abd)),
        // The newest of several.
        ("a", Some(&abc)),
        ("zz", Some(&other)),
        ("zz-top", Some(&other)),
        ("b", None),
        ("bc", None),
        ("abcd", None),
        ("AB", None),
        ("zz-top ", None),
    ] {
        assert_eq!(find(&*ours, query, "/a").as_ref(), expected, "{query:?}");
    }
    // Each session is found by its location, too.
    for location in [&ab, &abc] {
        assert_eq!(ours.find(location.to_str().unwrap(), "/a".as_ref()).unwrap(), *location);
    }
    let error = ours.find("nothing", "/a".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "No session found matching 'nothing'");
}

pub fn sessions_of_the_working_directory_are_found_first(store: &dyn TestStore) {
    let old_a = store_session(store, "s-1", "/a", 10);
    let new_a = store_session(store, "s-2", "/a", 20);
    let new_b = store_session(store, "s-3", "/b", 30);
    let ours = store.process(1);
    assert_eq!(find(&*ours, "s", "/a"), Some(new_a.clone()));
    assert_eq!(find(&*ours, "s-", "/b"), Some(new_b.clone()));
    assert_eq!(find(&*ours, "s-", "/nowhere"), Some(new_b.clone()), "the newest of all");
    assert_eq!(find(&*ours, "s-1", "/b"), Some(old_a.clone()), "in another working directory");
    store.set_modified(&old_a, at(40));
    assert_eq!(find(&*ours, "s", "/a"), Some(old_a));
    assert_eq!(find(&*ours, "s-2", "/a"), Some(new_a));
    assert_eq!(find(&*ours, "s-3", "/a"), Some(new_b));
}

/// In patterns of databases and shells, these signs stand for others.
pub fn signs_in_ids_stand_for_themselves(store: &dyn TestStore) {
    for (number, id) in ["a_b", "axb", "a.b", "a-b", "a1b", "A_b", "a_b_c"].into_iter().enumerate()
    {
        store_session(store, id, "/a", number as u64);
    }
    let ours = store.process(1);
    for (query, expected) in [
        ("a_b", Some("a_b")),
        ("a_", Some("a_b_c")),
        ("a.", Some("a.b")),
        ("a.b", Some("a.b")),
        ("a-", Some("a-b")),
        ("A", Some("A_b")),
        ("a_b_", Some("a_b_c")),
        ("_", None),
        (".", None),
        ("a__", None),
        ("a.*", None),
        ("a?b", None),
        ("a%b", None),
        ("[a]", None),
    ] {
        let found = find(&*ours, query, "/a")
            .map(|location| ours.open_read_only(&location).unwrap().id().to_owned());
        assert_eq!(found.as_deref(), expected, "{query:?}");
    }
}

pub fn hostile_ids_find_nothing_and_harm_nothing(store: &dyn TestStore) {
    let location = store_session(store, "precious", "/a", 10);
    let before = store.lines(&location);
    let ours = store.process(1);
    for query in [
        "%",
        "%%",
        "prec%",
        "_recious",
        "________",
        "\\",
        "\\%",
        "'",
        "''",
        "precious'",
        "'; drop table session; --",
        "' OR '1'='1",
        "$1",
        "{schema}",
        "\u{0}",
        "precious\u{0}",
        "\n",
        " ",
        "precious\n",
        "\u{1f980}",
        "PRECIOUS",
        &"p".repeat(100_000),
    ] {
        if query.contains('\\') {
            // A file is meant: it is found when it is opened, or not.
            if let Ok(location) = ours.find(query, "/a".as_ref()) {
                ours.open_read_only(&location).err().unwrap();
            }
            continue;
        }
        assert_eq!(find(&*ours, query, "/a"), None, "{query:?}");
    }
    for named in ["../../etc/passwd", "/etc/passwd", "./precious.jsonl", "x/../precious"] {
        match ours.find(named, "/a".as_ref()) {
            Ok(location) => drop(ours.open_read_only(&location).err().unwrap()),
            Err(error) => assert!(matches!(error, Error::NotInDatabase(_)), "{error}"),
        }
    }
    assert_eq!(store.lines(&location), before);
    assert_eq!(listed_ids(&*ours, &all()), ["precious"]);
    // Nothing at all is the beginning of every id.
    assert_eq!(find(&*ours, "", "/a"), Some(location));
}

pub fn exact_id_is_found_in_its_working_directory(store: &dyn TestStore) {
    let ours = store.process(1);
    let id = |text: &str| SessionId::read(text).unwrap();
    let cwd = Path::new("/a");
    assert_eq!(ours.exact(&id("ab"), cwd).unwrap(), None);
    let abc = store_session(store, "abc", "/a", 20);
    assert_eq!(ours.exact(&id("ab"), cwd).unwrap(), None, "it is only a beginning");
    let ab = store_session(store, "ab", "/a", 10);
    assert_eq!(ours.exact(&id("ab"), cwd).unwrap(), Some(ab));
    assert_eq!(ours.exact(&id("abc"), cwd).unwrap(), Some(abc));
    assert_eq!(ours.exact(&id("a"), cwd).unwrap(), None);
    assert_eq!(ours.exact(&id("AB"), cwd).unwrap(), None);
}

pub fn newest_session_of_a_working_directory_is_found(store: &dyn TestStore) {
    let ours = store.process(1);
    let newest = |cwd: &str| ours.newest(cwd.as_ref()).unwrap();
    assert_eq!(newest("/a"), None);
    let first = store_session(store, "first", "/a", 10);
    let second = store_session(store, "second", "/a", 20);
    let elsewhere = store_session(store, "elsewhere", "/a/b", 30);
    let quoted = store_session(store, "quoted", "/it's 100%_\\\"", 5);
    assert_eq!(newest("/a"), Some(second));
    assert_eq!(newest("/a/b"), Some(elsewhere));
    assert_eq!(newest("/it's 100%_\\\""), Some(quoted));
    assert_eq!(newest("/"), None);
    assert_eq!(newest("/%"), None);
    store.set_modified(&first, at(40));
    assert_eq!(newest("/a"), Some(first));
}

pub fn location_of_a_stored_session_is_kept(store: &dyn TestStore) {
    let ours = store.process(1);
    let location = store_session(store, "here", "/a", 10);
    assert!(ours.may_have(&location));
    assert_eq!(ours.location(&location, "/elsewhere".as_ref()), location);
    let name = ours.location("name.jsonl".as_ref(), "/elsewhere".as_ref());
    assert_eq!(name, Path::new("/elsewhere/name.jsonl"));
    let session = ours.open(&location).unwrap();
    assert!(session.is_at(&location) && !session.is_at("/elsewhere".as_ref()));
    assert_eq!(session.path(), Some(location.as_path()));
    let (folder, root) = (ours.project_dir("/a".as_ref(), &session), ours.root());
    match store.database(0) {
        Some(_) => assert_eq!((folder, root), (None, None)),
        None => assert_eq!((folder.as_deref(), root.is_some()), (location.parent(), true)),
    }
}

pub fn missing_session_is_not_opened(store: &dyn TestStore) {
    let ours = store.process(1);
    let location = store_session(store, "here", "/a", 10);
    let missing = PathBuf::from(location.to_str().unwrap().replace("here", "gone"));
    for opened in [ours.open(&missing), ours.open_read_only(&missing)] {
        let error = opened.err().unwrap();
        assert!(is_missing(&error));
        let expected = format!("Session file not found: {}", missing.display());
        assert_eq!(error.to_string(), expected);
    }
    if store.database(0).is_some() {
        for path in ["/a/b.jsonl", "here", "other:here", ""] {
            let opened = [ours.open(path.as_ref()), ours.open_read_only(path.as_ref())];
            for error in opened.into_iter().map(|opened| opened.err().unwrap()) {
                assert!(matches!(error, Error::NotInDatabase(_)), "{path}: {error}");
            }
            assert!(matches!(ours.delete(path.as_ref()), Err(Error::NotInDatabase(_))));
        }
    }
    assert_eq!(listed_ids(&*ours, &all()), ["here"]);
}
