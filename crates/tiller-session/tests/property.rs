//! After any sequence of operations, the file and memory contain the same session.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{NOW, Random, answer, begin, in_dir, new_session, owner, snapshot, user};
use tiller_agent::message::Content;
use tiller_agent::model::ThinkingLevel;
use tiller_session::entry::{BranchSummary, Compaction};
use tiller_session::{Body, Session, SessionId, Storage};

/// A random operation, applicable to a session in memory and on disk alike.
#[derive(Clone, Debug)]
enum Act {
    Append(Body),
    Navigate(Option<usize>),
    Under(Option<usize>, Body),
    Label(usize, Option<String>),
    Name(String),
}

fn random_act(random: &mut Random, len: usize) -> Act {
    let text = ["a", "ü\u{2028}\n\"", "long ", "\\", "\u{0}\u{7f}"][random.below(5)];
    let text = text.repeat(1 + random.below(40));
    let any = |random: &mut Random| random.below(len.max(1));
    match random.below(16) {
        0..=4 => Act::Append(user(&text)),
        5..=7 => Act::Append(answer(&text)),
        8 => Act::Append(Body::ModelChange { provider: "p".into(), model_id: text }),
        9 => Act::Append(Body::ThinkingLevelChange { level: ThinkingLevel::Low }),
        10 => Act::Append(Body::Custom { custom_type: text, data: None }),
        11 => Act::Navigate((random.below(5) > 0).then(|| any(random))),
        12 => Act::Under(
            (random.below(5) > 0).then(|| any(random)),
            Body::BranchSummary(BranchSummary {
                from_id: "root".into(),
                summary: text,
                details: None,
                usage: None,
                from_hook: false,
            }),
        ),
        13 => Act::Label(any(random), (random.below(3) > 0).then_some(text)),
        14 => Act::Name(format!("n{text}")),
        _ => Act::Append(Body::ContextEdit {
            // The number of an entry, replaced by its id when performed.
            target_id: any(random).to_string(),
            replacement: (random.below(2) > 0).then_some(Content::Text(text)),
        }),
    }
}

fn ids(session: &Session) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: String,
    }
    let mut out = Vec::new();
    session.write_entries(None, &mut out).unwrap();
    let entries: Vec<Id> = serde_json::from_slice(&out).unwrap();
    entries.into_iter().map(|entry| entry.id).collect()
}

fn perform(session: &mut Session, act: Act, time: u64) {
    let ids = ids(session);
    let id = |number: usize| ids.get(number).map(String::as_str);
    match act {
        Act::Append(Body::ContextEdit { target_id, replacement }) => {
            if let Some(target) = id(target_id.parse().unwrap()) {
                let body = Body::ContextEdit { target_id: target.into(), replacement };
                session.append(body, time).unwrap();
            }
        }
        Act::Append(body) => drop(session.append(body, time).unwrap()),
        Act::Navigate(to) => session.navigate(to.and_then(id), time).unwrap(),
        Act::Under(parent, body) => {
            drop(session.append_under(parent.and_then(id), body, time).unwrap());
        }
        Act::Label(target, label) => {
            if let Some(target) = id(target) {
                session.set_label(target, label.as_deref(), time).unwrap();
            }
        }
        Act::Name(name) => drop(session.set_name(&name, time).unwrap()),
    }
}

/// Compactions need an entry on the path.
fn compact(session: &mut Session, random: &mut Random, time: u64) {
    let Some(leaf) = session.leaf() else { return };
    let path = session.path_to(leaf).unwrap();
    let first_kept = path[random.below(path.len())].to_owned();
    let compaction = Compaction {
        summary: "s".into(),
        first_kept_entry_id: (random.below(4) > 0).then_some(first_kept),
        tokens_before: 1,
        details: None,
        usage: None,
        from_hook: false,
    };
    session.append(Body::Compaction(compaction), time).unwrap();
}

fn reload(path: &Path) -> Session {
    Session::open(path, owner()).unwrap()
}

#[test]
fn reloading_gives_the_same_tree() {
    for seed in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(seed);
        let mut session = begin(dir.path());
        let path = session.path().unwrap().to_owned();
        for step in 0..60 {
            let time = NOW + step;
            if random.below(12) == 0 {
                compact(&mut session, &mut random, time);
            }
            let act = random_act(&mut random, session.len());
            perform(&mut session, act, time);
            if random.below(10) == 0 && session.is_on_disk() {
                let before = snapshot(&session);
                let looked_at = Session::open_read_only(&path).unwrap();
                assert_eq!(snapshot(&looked_at), before, "seed {seed}, step {step}");
                drop(session);
                session = reload(&path);
                assert_eq!(snapshot(&session), before, "seed {seed}, step {step}");
                assert_eq!(session.problems(), [], "seed {seed}, step {step}");
            }
        }
        session.persist().unwrap();
        let before = snapshot(&session);
        drop(session);
        assert_eq!(snapshot(&reload(&path)), before, "seed {seed}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no note and no draft is left");
    }
}

#[test]
fn memory_and_disk_behave_alike() {
    for seed in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut on_disk = begin(dir.path());
        let mut in_memory = Session::new(new_session(), Storage::Memory);
        let mut random = Random::new(1000 + seed);
        for step in 0..60 {
            let act = random_act(&mut random, on_disk.len());
            perform(&mut on_disk, act.clone(), NOW + step);
            perform(&mut in_memory, act, NOW + step);
            if step % 6 == 5 {
                assert_eq!(shape(&on_disk), shape(&in_memory), "seed {seed}, step {step}");
            }
        }
    }
}

/// What must be equal in two sessions whose ids differ.
fn shape(session: &Session) -> (Vec<Option<usize>>, Option<usize>, usize, String) {
    let ids = ids(session);
    let number = |id: &str| ids.iter().position(|other| other == id);
    let parents = ids.iter().map(|id| {
        let path = session.path_to(id).unwrap();
        path.len().checked_sub(2).and_then(|at| number(path[at]))
    });
    let leaf = session.leaf().and_then(number);
    (parents.collect(), leaf, session.context_len(), common::show_context(session))
}

/// A fork is a path, a clone the path to the leaf, a copy everything; their contexts equal the
/// original's.
#[test]
fn forks_and_clones_have_the_same_context() {
    for seed in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(5000 + seed);
        let mut session = begin(dir.path());
        for step in 0..40 {
            if random.below(15) == 0 {
                compact(&mut session, &mut random, NOW + step);
            }
            let act = random_act(&mut random, session.len());
            perform(&mut session, act, NOW + step);
        }
        let storage = || match seed % 2 {
            0 => in_dir(dir.path()),
            _ => Storage::Memory,
        };
        let clone = session.clone_at_leaf(SessionId::fresh(), storage(), NOW).unwrap();
        let conversation = common::show_context(&session);
        assert_eq!(common::show_context(&clone), conversation, "seed {seed}");
        assert_eq!(clone.problems(), [], "seed {seed}");
        assert_eq!(clone.model().unwrap(), session.model().unwrap());
        check_stored(&clone);

        let copy = session.copy_all(new_session(), storage()).unwrap();
        assert_eq!(snapshot(&copy).tree, snapshot(&session).tree);
        assert_eq!(copy.leaf(), session.leaf());
        check_stored(&copy);

        for fork in session.fork_messages().unwrap().into_iter().take(5) {
            let forked = session.fork(&fork.entry_id, SessionId::fresh(), storage(), NOW).unwrap();
            assert_eq!(forked.text, fork.text);
            let path = session.path_to(&fork.entry_id).unwrap();
            let mut to_parent = session.copy_all(new_session(), Storage::Memory).unwrap();
            to_parent.navigate(path.len().checked_sub(2).map(|at| path[at]), NOW).unwrap();
            let conversation = common::show_context(&to_parent);
            assert_eq!(common::show_context(&forked.session), conversation, "seed {seed}");
            check_stored(&forked.session);
        }
    }
}

fn check_stored(session: &Session) {
    if let Some(path) = session.path().filter(|_| session.is_on_disk()) {
        let stored = Session::open_read_only(path).unwrap();
        assert_eq!(snapshot(&stored), snapshot(session));
    }
}
