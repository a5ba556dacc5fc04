//! Which entries of a session's branch are the model's context: the summary of the last compaction,
//! the entries it keeps, and all entries after it. Used for the open session, and for entries that
//! extensions read themselves.

use std::collections::HashMap;
use std::hash::Hash;

/// What the projection needs to know about an entry.
#[derive(Clone, Copy, Debug)]
pub enum EntryEffect<I> {
    Compaction {
        first_kept: Option<I>,
    },
    /// Hides or replaces the content of its target.
    Edit {
        target: Option<I>,
    },
    Other,
}

/// An entry of the context, and the edit that applies to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectedEntry<I> {
    pub id: I,
    pub edit: Option<I>,
}

/// Projects a branch from its root to its leaf. Includes entries without a message.
pub fn project<I: Copy + Eq + Hash>(branch: &[(I, EntryEffect<I>)]) -> Vec<ProjectedEntry<I>> {
    let mut edits = HashMap::new();
    let mut compaction = None;
    for (at, (id, effect)) in branch.iter().enumerate() {
        match *effect {
            EntryEffect::Compaction { first_kept } => compaction = Some((at, first_kept)),
            EntryEffect::Edit { target: Some(target) } => drop(edits.insert(target, *id)),
            EntryEffect::Edit { target: None } | EntryEffect::Other => (),
        }
    }
    let (summary, kept, rest) = match compaction {
        Some((at, first_kept)) => {
            let kept = branch[..at].iter().position(|(id, _)| Some(*id) == first_kept);
            (&branch[at..=at], &branch[kept.unwrap_or(at)..at], &branch[at + 1..])
        }
        None => (&branch[..0], &branch[..0], branch),
    };
    let entries = summary.iter().chain(kept).chain(rest);
    entries.map(|&(id, _)| ProjectedEntry { id, edit: edits.get(&id).copied() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(branch: &[(u32, EntryEffect<u32>)], expected: &[(u32, Option<u32>)]) {
        let projected = project(branch).into_iter().map(|entry| (entry.id, entry.edit));
        assert_eq!(projected.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn last_compaction_and_last_edits_count() {
        use EntryEffect::{Compaction, Edit, Other};
        check(&[(1, Other), (2, Other)], &[(1, None), (2, None)]);
        check(
            &[(1, Other), (2, Other), (3, Compaction { first_kept: Some(2) }), (4, Other)],
            &[(3, None), (2, None), (4, None)],
        );
        for first_kept in [None, Some(3), Some(9)] {
            check(
                &[(1, Other), (3, Compaction { first_kept }), (4, Other)],
                &[(3, None), (4, None)],
            );
        }
        check(
            &[(1, Other), (2, Edit { target: Some(1) }), (3, Edit { target: Some(1) })],
            &[(1, Some(3)), (2, None), (3, None)],
        );
    }
}
