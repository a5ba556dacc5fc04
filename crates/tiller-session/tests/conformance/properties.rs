//! After any sequence of operations, the store and memory contain the same session.

use tiller_agent::message::Content;
use tiller_agent::model::ThinkingLevel;
use tiller_session::entry::{BranchSummary, Compaction};
use tiller_session::{Body, Session, SessionId, Storage};

use super::{TestStore, begin, check_lines, location_of};
use crate::common::{NOW, Random, answer, ids, new_session, show_context, snapshot, user};

/// A random operation, for any session.
#[derive(Clone, Debug)]
pub enum Act {
    Append(Body),
    Navigate(Option<usize>),
    Under(Option<usize>, Body),
    Label(usize, Option<String>),
    Name(String),
}

pub fn random_act(random: &mut Random, len: usize) -> Act {
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

pub fn perform(session: &mut Session, act: Act, time: u64) {
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

pub fn reloading_gives_the_same_tree(store: &dyn TestStore) {
    for seed in 0..store.rounds(60) {
        let mut random = Random::new(seed);
        let mut session = begin(&*store.process(0));
        let location = location_of(&session);
        for step in 0..60 {
            let time = NOW + step;
            if random.below(12) == 0 {
                compact(&mut session, &mut random, time);
            }
            let act = random_act(&mut random, session.len());
            perform(&mut session, act, time);
            if random.below(10) == 0 && session.is_stored() {
                let before = snapshot(&session);
                let reader = store.process(1).open_read_only(&location).unwrap();
                assert_eq!(snapshot(&reader), before, "seed {seed}, step {step}");
                drop(session);
                session = store.process(step as usize % 2).open(&location).unwrap();
                assert_eq!(snapshot(&session), before, "seed {seed}, step {step}");
                assert_eq!(session.problems(), [], "seed {seed}, step {step}");
            }
        }
        session.persist().unwrap();
        check_lines(store, &session);
        let before = snapshot(&session);
        drop(session);
        let session = store.process(2).open(&location).unwrap();
        assert_eq!(snapshot(&session), before, "seed {seed}");
        drop(session);
        store.check_closed();
    }
}

pub fn memory_and_store_behave_alike(store: &dyn TestStore) {
    for seed in 0..store.rounds(20) {
        let mut stored = begin(&*store.process(0));
        let mut in_memory = Session::new(new_session(), Storage::Memory);
        let mut random = Random::new(1000 + seed);
        for step in 0..60 {
            let act = random_act(&mut random, stored.len());
            perform(&mut stored, act.clone(), NOW + step);
            perform(&mut in_memory, act, NOW + step);
            if step % 6 == 5 {
                assert_eq!(shape(&stored), shape(&in_memory), "seed {seed}, step {step}");
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
    (parents.collect(), leaf, session.context_len(), show_context(session))
}

/// A fork is a path, a clone the path to the leaf, a copy everything; their contexts equal the
/// original's.
pub fn context_of_forks_clones_and_copies_is_that_of_the_original(store: &dyn TestStore) {
    for seed in 0..store.rounds(40) {
        let mut random = Random::new(5000 + seed);
        let mut session = begin(&*store.process(0));
        for step in 0..40 {
            if random.below(15) == 0 {
                compact(&mut session, &mut random, NOW + step);
            }
            let act = random_act(&mut random, session.len());
            perform(&mut session, act, NOW + step);
        }
        let ours = store.process(0);
        let storage = || match seed % 2 {
            0 => ours.storage(session.cwd()),
            _ => Storage::Memory,
        };
        let clone = session.clone_at_leaf(SessionId::fresh(), storage(), NOW).unwrap();
        let conversation = show_context(&session);
        assert_eq!(show_context(&clone), conversation, "seed {seed}");
        assert_eq!(clone.problems(), [], "seed {seed}");
        assert_eq!(clone.model().unwrap(), session.model().unwrap());
        super::check_stored(store, &clone);

        let copy = session.copy_all(new_session(), storage()).unwrap();
        assert_eq!(snapshot(&copy).tree, snapshot(&session).tree);
        assert_eq!(copy.leaf(), session.leaf());
        super::check_stored(store, &copy);

        for fork in session.fork_messages().unwrap().into_iter().take(5) {
            let forked = session.fork(&fork.entry_id, SessionId::fresh(), storage(), NOW).unwrap();
            assert_eq!(forked.text, fork.text);
            let path = session.path_to(&fork.entry_id).unwrap();
            let mut to_parent = session.copy_all(new_session(), Storage::Memory).unwrap();
            to_parent.navigate(path.len().checked_sub(2).map(|at| path[at]), NOW).unwrap();
            let conversation = show_context(&to_parent);
            assert_eq!(show_context(&forked.session), conversation, "seed {seed}");
            super::check_stored(store, &forked.session);
        }
    }
}
