//! Which sessions a list has, in which order, and what it shows of them. What is expected is worked
//! out here from what was stored, without the code of a store.

use std::path::{Path, PathBuf};

use tiller_agent::message::UnixMs;
use tiller_session::list::{Cursor, ListQuery, SessionInfo};
use tiller_session::{Body, NewSession, Session, Store};

use super::{TestStore, all, at, begin, listed_ids, location_of, named};
use crate::common::{NOW, Random, answer, say, user};

pub fn listed_session_has_its_details(store: &dyn TestStore) {
    let ours = store.process(0);
    let new = NewSession { parent_session: Some("/old 'one'.jsonl".into()), ..named("one", "/a") };
    let mut session = Session::new(new, ours.storage("/a".as_ref()));
    session.append(answer("the model begins"), NOW).unwrap();
    say(&mut session, &("the first words\nof a long message ".to_owned() + &"ü".repeat(500)));
    say(&mut session, "the second message");
    session.set_name(r#"it's 100% "named" \ _"#, NOW).unwrap();
    session.append(Body::Custom { custom_type: "x".into(), data: None }, NOW).unwrap();
    let path = location_of(&session);
    store.set_modified(&path, at(7));
    let first_message: String = ("the first words\nof a long message ".to_owned()
        + &"ü".repeat(500))
        .chars()
        .take(200)
        .collect();
    let expected = SessionInfo {
        id: "one".into(),
        path,
        name: Some(r#"it's 100% "named" \ _"#.into()),
        cwd: "/a".into(),
        parent_session: Some("/old 'one'.jsonl".into()),
        created: "2026-11-15T20:39:16.762Z".into(),
        modified: "2026-11-15T20:39:23.762Z".into(),
        message_count: 3,
        first_message,
    };
    let listing = store.process(1).list(&all()).unwrap();
    assert_eq!((listing.sessions, listing.next), (vec![expected], None));

    drop(session);
    let mut plain = begin(&*ours);
    plain.append(answer("no question"), NOW).unwrap();
    store.set_modified(&location_of(&plain), at(8));
    let listed = store.process(1).list(&all()).unwrap().sessions;
    assert_eq!((&listed[0].name, &listed[0].parent_session), (&None, &None));
    assert_eq!((listed[0].message_count, listed[0].first_message.as_str()), (1, ""));
}

/// What the sessions of these laws have.
#[derive(Clone, Debug)]
struct Stored {
    id: String,
    cwd: &'static str,
    name: Option<&'static str>,
    texts: Vec<&'static str>,
    modified: UnixMs,
}

const CWDS: [&str; 4] = ["/work/a", "/work/ab", "/work/a/b", "/it's 100%_\"\\"];
const NAMES: [&str; 6] =
    ["Harbour 100%", "it's _odd_ \"name\"", "ÄÖÜ straße", "harbour", "\\ $1 {schema}", "%"];
const TEXTS: [&str; 8] = [
    "Fix src/main.rs, please: FIX it",
    "don't 'quote' the \"quoted\"",
    "Größe 日本語 naïve",
    "100% of tiller_session and session-id 0199abcd",
    "'; drop table session; --",
    "fixed long ago & forgotten | not !fix:*",
    "... --- ...",
    "a_b.c-d",
];
const WORDS: [&str; 22] = [
    "fix",
    "FIX it",
    "fixed",
    "ix",
    "main rs",
    "main.rs",
    "it fix src",
    "quote",
    "'quote'",
    "don't",
    "größe",
    "GRÖSSE",
    "GRÖ",
    "日本",
    "na\u{ef}ve",
    "100",
    "tiller session",
    "0199",
    "drop table",
    "fix & !forgotten | x:*",
    "harbour",
    "straße",
];
const PARTS_OF_NAMES: [&str; 13] =
    ["harb", "HARBOUR", "%", "_", "100%", "'", "\"", "äö", "ü S", "\\", "$1", "{", "name\" "];

/// Stores sessions of every kind. Some have the same time; their ids decide.
fn store_sessions(store: &dyn TestStore, count: usize, random: &mut Random) -> Vec<Stored> {
    let ours = store.process(0);
    let sessions = (0..count).map(|number| {
        let stored = Stored {
            id: format!("s{}-{number}", random.below(10)),
            cwd: CWDS[random.below(CWDS.len())],
            name: (random.below(2) == 0).then(|| NAMES[random.below(NAMES.len())]),
            texts: (0..1 + random.below(3)).map(|_| TEXTS[random.below(TEXTS.len())]).collect(),
            modified: at(random.below(count / 2 + 1) as u64 * 40),
        };
        let storage = ours.storage(stored.cwd.as_ref());
        let mut session = Session::new(named(&stored.id, stored.cwd), storage);
        for (number, text) in stored.texts.iter().enumerate() {
            let body = if number % 2 == 0 { user(text) } else { answer(text) };
            session.append(body, NOW).unwrap();
        }
        if let Some(name) = stored.name {
            session.set_name("an earlier name", NOW).unwrap();
            session.set_name(name, NOW).unwrap();
        }
        let location = location_of(&session);
        drop(session);
        store.set_modified(&location, stored.modified);
        stored
    });
    let mut sessions: Vec<Stored> = sessions.collect();
    sessions.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
    sessions
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

impl Stored {
    fn matches(&self, query: &ListQuery) -> bool {
        let has_all = |text: &str, wanted: &[String]| {
            let words = words_of(text);
            wanted.iter().all(|wanted| words.iter().any(|word| word.starts_with(wanted.as_str())))
        };
        let wanted = words_of(query.text.as_deref().unwrap_or_default());
        let earlier = self.name.map(|_| "an earlier name");
        let name = self.name.unwrap_or_default().to_lowercase();
        let wanted_name = query.name.as_deref().map(str::to_lowercase);
        query.cwd.as_ref().is_none_or(|cwd| cwd.as_path() == Path::new(self.cwd))
            && wanted_name.is_none_or(|part| self.name.is_some() && name.contains(&part))
            && (wanted.is_empty()
                || self
                    .texts
                    .iter()
                    .chain(&self.name)
                    .chain(&earlier)
                    .any(|text| has_all(text, &wanted)))
            && query.modified_since.is_none_or(|since| self.modified >= since)
            && query.modified_until.is_none_or(|until| self.modified < until)
    }
}

fn expected(sessions: &[Stored], query: &ListQuery) -> Vec<String> {
    let matching = sessions.iter().filter(|session| session.matches(query));
    matching.map(|session| session.id.clone()).collect()
}

/// All pages, each with at most so many sessions. The cursor is passed on as a client does.
fn paged(store: &dyn Store, query: &ListQuery, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut query = ListQuery { limit, ..query.clone() };
    loop {
        let page = store.list(&query).unwrap();
        assert!(page.sessions.len() <= limit);
        ids.extend(page.sessions.into_iter().map(|session| session.id));
        let Some(next) = page.next else { return ids };
        let next = Cursor::read(&next.to_string()).unwrap();
        assert_ne!(query.before.as_ref(), Some(&next), "the next page begins further on");
        query.before = Some(next);
    }
}

pub fn sessions_are_listed_newest_first(store: &dyn TestStore) {
    let sessions = store_sessions(store, 30, &mut Random::new(1));
    let ours = store.process(1);
    assert_eq!(listed_ids(&*ours, &all()), expected(&sessions, &all()));
    let oldest = sessions.last().unwrap();
    let location = ours.find(&oldest.id, "/".as_ref()).unwrap();
    store.set_modified(&location, at(100_000));
    assert_eq!(listed_ids(&*ours, &all())[0], oldest.id);
    // A time before the seconds were counted in tens of digits.
    store.set_modified(&location, 1);
    assert_eq!(listed_ids(&*ours, &all()).last(), Some(&oldest.id));
    let listed = ours.list(&all()).unwrap().sessions;
    assert_eq!(listed.last().unwrap().modified, "1970-01-01T00:00:00.001Z");
}

pub fn pages_make_up_the_list_at_every_page_size(store: &dyn TestStore) {
    let sessions = store_sessions(store, 23, &mut Random::new(2));
    let ours = store.process(1);
    let of_cwd = ListQuery { cwd: Some(CWDS[0].into()), ..all() };
    let with_words = ListQuery { text: Some("fix".into()), ..all() };
    for query in [all(), of_cwd, with_words] {
        let expected = expected(&sessions, &query);
        assert!(expected.len() > 3, "{query:?}");
        for limit in (1..=24).chain([usize::MAX]) {
            assert_eq!(paged(&*ours, &query, limit), expected, "pages of {limit}, {query:?}");
        }
    }
    let none = ours.list(&ListQuery { limit: 0, ..all() }).unwrap();
    assert_eq!((none.sessions, none.next), (Vec::new(), None));
    // A cursor whose session is gone still has its place.
    let query = ListQuery { limit: 5, ..all() };
    let page = ours.list(&query).unwrap();
    let last = page.sessions.last().unwrap();
    ours.delete(&last.path).unwrap();
    let rest = ours.list(&ListQuery { before: page.next, ..all() }).unwrap().sessions;
    let rest: Vec<String> = rest.into_iter().map(|session| session.id).collect();
    assert_eq!(rest, expected_after(&sessions, 5));
}

fn expected_after(sessions: &[Stored], count: usize) -> Vec<String> {
    sessions[count..].iter().map(|session| session.id.clone()).collect()
}

pub fn any_combination_of_filters_lists_the_sessions_that_match(store: &dyn TestStore) {
    let mut random = Random::new(3);
    let sessions = store_sessions(store, 40, &mut random);
    let ours = store.process(1);
    let mut found = 0;
    for name in PARTS_OF_NAMES {
        let query = ListQuery { name: Some(name.into()), ..all() };
        assert_eq!(listed_ids(&*ours, &query), expected(&sessions, &query), "{name:?}");
    }
    for text in WORDS {
        let query = ListQuery { text: Some(text.into()), ..all() };
        assert_eq!(listed_ids(&*ours, &query), expected(&sessions, &query), "{text:?}");
    }
    for round in 0..store.rounds(300) {
        let mut one_of = |values: &[&str], share| {
            (random.below(share) == 0).then(|| values[random.below(values.len())].to_owned())
        };
        let (cwd, name) = (one_of(&CWDS, 3), one_of(&PARTS_OF_NAMES, 4));
        let text = one_of(&WORDS, 3);
        let mut time = || {
            // At, just before and just after the times of sessions.
            let edge = random.below(3) as u64;
            (random.below(3) == 0).then(|| at(random.below(21) as u64 * 40) + edge - 1)
        };
        let (modified_since, modified_until) = (time(), time());
        let cwd = cwd.map(PathBuf::from);
        let query = ListQuery { cwd, name, text, modified_since, modified_until, ..all() };
        let expected = expected(&sessions, &query);
        found += expected.len();
        assert_eq!(listed_ids(&*ours, &query), expected, "round {round}: {query:?}");
        let limit = 1 + random.below(4);
        assert_eq!(paged(&*ours, &query, limit), expected, "round {round}, by {limit}");
    }
    assert!(found as u64 > store.rounds(300), "the filters found {found} sessions");
}

pub fn empty_queries_filter_nothing(store: &dyn TestStore) {
    let sessions = store_sessions(store, 12, &mut Random::new(4));
    let ours = store.process(1);
    for text in ["", " ", "...", "'\"%_&|!:*()\\", "\u{0}", &"x".repeat(65)] {
        let query = ListQuery { text: Some(text.into()), ..all() };
        assert_eq!(listed_ids(&*ours, &query), expected(&sessions, &all()), "{text:?}");
    }
    let times = ListQuery { modified_since: Some(0), modified_until: Some(u64::MAX), ..all() };
    assert_eq!(listed_ids(&*ours, &times), expected(&sessions, &all()));
    let never = ListQuery { modified_since: Some(u64::MAX), ..all() };
    assert_eq!(listed_ids(&*ours, &never), [] as [String; 0]);
    let before = ListQuery { modified_until: Some(0), ..all() };
    assert_eq!(listed_ids(&*ours, &before), [] as [String; 0]);
    // Every name contains the empty text; a session without a name has none.
    let named = ListQuery { name: Some(String::new()), ..all() };
    assert_eq!(listed_ids(&*ours, &named), expected(&sessions, &named));
    let ends = [
        Cursor { modified_ns: 0, name: String::new() },
        Cursor { modified_ns: 1, name: "zzz".into() },
    ];
    for end in ends {
        let query = ListQuery { before: Some(end), ..all() };
        assert_eq!(listed_ids(&*ours, &query), [] as [String; 0]);
    }
    let start = Cursor { modified_ns: u128::MAX, name: "\u{10ffff}".into() };
    let query = ListQuery { before: Some(start), ..all() };
    assert_eq!(listed_ids(&*ours, &query), expected(&sessions, &all()));
}

pub fn hostile_filters_list_nothing_and_harm_nothing(store: &dyn TestStore) {
    let sessions = store_sessions(store, 6, &mut Random::new(5));
    let ours = store.process(1);
    let attempts =
        ["x' OR '1'='1", "'; drop table session; --x", "none%", "$1::text", "\u{0}x none"];
    for hostile in attempts {
        let text = || Some(hostile.to_owned());
        let name = ListQuery { name: text(), ..all() };
        let words = ListQuery { text: Some(format!("{hostile} xyzzy")), ..all() };
        for query in [name, words] {
            assert_eq!(listed_ids(&*ours, &query), [] as [String; 0], "{query:?}");
        }
        let cwd = ListQuery { cwd: Some(hostile.replace('\0', "").into()), ..all() };
        assert_eq!(listed_ids(&*ours, &cwd), [] as [String; 0]);
        let cursor = Cursor { modified_ns: 1, name: hostile.into() };
        ours.list(&ListQuery { before: Some(cursor), ..all() }).unwrap();
    }
    let many = (0..5000).map(|number| format!("w{number} ")).collect();
    let query = ListQuery { text: Some(many), ..all() };
    assert_eq!(listed_ids(&*ours, &query), [] as [String; 0]);
    assert_eq!(listed_ids(&*ours, &all()), expected(&sessions, &all()));
}

/// A list shows what is stored now, also of a session that is being written.
pub fn list_follows_names_and_messages(store: &dyn TestStore) {
    let other = store.process(1);
    let one = || {
        let mut sessions = other.list(&all()).unwrap().sessions;
        assert_eq!(sessions.len(), 1);
        sessions.remove(0)
    };
    let mut session = begin(&*store.process(0));
    session.set_name("early", NOW).unwrap();
    session.append(answer("hello"), NOW).unwrap();
    assert_eq!((one().name.as_deref(), one().message_count), (Some("early"), 1));
    assert_eq!(one().first_message, "");
    say(&mut session, "first");
    say(&mut session, "second");
    assert_eq!((one().first_message.as_str(), one().message_count), ("first", 3));
    session.set_name("later", NOW).unwrap();
    assert_eq!((one().name.as_deref(), one().message_count), (Some("later"), 3));
    let has = |text: &str| {
        !listed_ids(&*other, &ListQuery { text: Some(text.into()), ..all() }).is_empty()
    };
    assert!(has("early") && has("later") && has("second") && !has("third"));
    session.append(Body::SessionInfo { name: String::new() }, NOW).unwrap();
    assert_eq!(one().name, None);
    say(&mut session, "third");
    assert!(has("third"));
    // An empty name that was given before the session was stored.
    let mut other_session = begin(&*store.process(0));
    other_session.set_name("early", NOW).unwrap();
    other_session.append(Body::SessionInfo { name: String::new() }, NOW).unwrap();
    say(&mut other_session, "hello");
    let listed = other.list(&all()).unwrap().sessions;
    let names: Vec<Option<String>> = listed.into_iter().map(|session| session.name).collect();
    assert_eq!(names, [None, None]);
    // Blocks of a message are one text.
    let blocks = r#"{"role":"user","content":[{"type":"text","text":"two "},{"type":"image","data":"x","mimeType":"image/png"},{"type":"text","text":"blocks"}],"timestamp":1}"#;
    let mut third = begin(&*store.process(0));
    third.append(Body::message(serde_json::from_str(blocks).unwrap()), NOW).unwrap();
    let listed = other.list(&all()).unwrap().sessions;
    let third = listed.iter().find(|session| session.id == third.id()).unwrap();
    assert_eq!(third.first_message, "two blocks");
}
