//! Walks a tree on all cores, skipping ignored files, and keeps the first results ordered by path.
//! Threads meet files in any order; the kept results do not depend on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ignore::{DirEntry, WalkBuilder, WalkState};
use tiller_agent::mutex;
use tokio_util::sync::CancellationToken;

/// A walker that includes hidden files, respects ignore files, and skips `.git`, whose objects are
/// never what a search is for.
pub(crate) fn builder(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    builder
}

/// Walks the tree and keeps the first results by their paths relative to the root. `new_visit` is
/// called once per thread; the function it returns is called for each entry below the root.
pub(crate) fn walk<T, V>(
    builder: &WalkBuilder,
    root: &Path,
    firsts: &SmallestPaths<T>,
    cancel: &CancellationToken,
    new_visit: impl Fn() -> V,
) where
    T: SearchHit,
    V: FnMut(&DirEntry) -> Option<T> + Send,
{
    builder.build_parallel().run(|| {
        let mut visit = new_visit();
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // Entries that cannot be read are skipped.
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.depth() == 0 {
                return WalkState::Continue;
            }
            // In path order, a directory's content comes after it.
            if firsts.is_full() && !firsts.accepts(below(root, &entry)) {
                return WalkState::Skip;
            }
            if let Some(answer) = visit(&entry) {
                firsts.add(below(root, &entry).to_owned(), answer);
            }
            WalkState::Continue
        })
    });
}

/// The path of an entry relative to the root of the walk.
pub(crate) fn below<'e>(root: &Path, entry: &'e DirEntry) -> &'e Path {
    entry.path().strip_prefix(root).unwrap_or(entry.path())
}

/// A result for one file.
pub(crate) trait SearchHit: Send {
    /// How many matches it counts for.
    fn count(&self) -> usize;
    /// How many bytes of text it takes.
    fn bytes(&self) -> usize;
}

/// The results with the smallest paths: enough to reach the limits, and one more to show that there
/// are more.
pub(crate) struct SmallestPaths<T> {
    max_count: usize,
    max_bytes: usize,
    collected: Mutex<Collected<T>>,
    /// Whether paths after the last one can be skipped. Can be read without the lock.
    full: AtomicBool,
}

struct Collected<T> {
    answers: BTreeMap<PathBuf, T>,
    count: usize,
    bytes: usize,
}

impl<T: SearchHit> SmallestPaths<T> {
    pub(crate) fn new(max_count: usize, max_bytes: usize) -> SmallestPaths<T> {
        let collected = Mutex::new(Collected { answers: BTreeMap::new(), count: 0, bytes: 0 });
        SmallestPaths { max_count, max_bytes, collected, full: AtomicBool::new(false) }
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether a result with this path, or below it, would be kept.
    fn accepts(&self, path: &Path) -> bool {
        !self.is_full()
            || self.collected().answers.last_key_value().is_none_or(|(last, _)| path < last)
    }

    fn add(&self, path: PathBuf, answer: T) {
        let mut collected = self.collected();
        collected.count += answer.count();
        collected.bytes += answer.bytes();
        collected.answers.insert(path, answer);
        loop {
            let full = collected.count > self.max_count || collected.bytes > self.max_bytes;
            self.full.store(full, Ordering::Relaxed);
            let Some((_, last)) = collected.answers.last_key_value() else { return };
            let (count, bytes) = (collected.count - last.count(), collected.bytes - last.bytes());
            // Whether the limits are still exceeded without the last one.
            if count <= self.max_count && bytes <= self.max_bytes {
                return;
            }
            (collected.count, collected.bytes) = (count, bytes);
            collected.answers.pop_last();
        }
    }

    fn collected(&self) -> MutexGuard<'_, Collected<T>> {
        mutex::lock(&self.collected)
    }

    pub(crate) fn into_answers(self) -> BTreeMap<PathBuf, T> {
        self.collected.into_inner().unwrap_or_else(PoisonError::into_inner).answers
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    impl SearchHit for (usize, usize) {
        fn count(&self) -> usize {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// Whatever the order of insertion, the first results in path order are kept.
        #[test]
        fn kept_results_do_not_depend_on_insertion_order(
            answers in prop::collection::btree_map("[ab]{1,3}(/[ab]{1,2})?", (1usize..4, 0usize..20), 0..30)
                .prop_map(Vec::from_iter)
                .prop_shuffle(),
        ) {
            let firsts = SmallestPaths::new(5, 60);
            for (path, answer) in answers.clone() {
                if firsts.accepts(Path::new(&path)) {
                    firsts.add(path.into(), answer);
                }
            }
            let mut sorted: Vec<(PathBuf, (usize, usize))> =
                answers.into_iter().map(|(path, answer)| (path.into(), answer)).collect();
            sorted.sort();
            let (mut count, mut bytes) = (0, 0);
            let expected: Vec<_> = sorted
                .into_iter()
                .take_while(|(_, answer)| {
                    let more = count <= 5 && bytes <= 60;
                    (count, bytes) = (count + answer.0, bytes + answer.1);
                    more
                })
                .collect();
            prop_assert_eq!(firsts.into_answers().into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
