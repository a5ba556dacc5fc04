//! Through a tree on all cores, past what is ignored, to the first answers in the order of their
//! paths. The threads meet files in any order; what is kept does not depend on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

/// A walker that sees hidden files, keeps to the ignore files it finds, and leaves out `.git`:
/// nobody who searches a project means the objects of its history.
pub(crate) fn builder(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    builder
}

/// Walks the tree and keeps the first answers by their paths from the root. `visitor` is called
/// once for each thread; what it returns is called for each entry below the root.
pub(crate) fn walk<T, V>(
    builder: &WalkBuilder,
    root: &Path,
    firsts: &SmallestPaths<T>,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V,
) where
    T: SearchHit,
    V: FnMut(&DirEntry) -> Option<T> + Send,
{
    builder.build_parallel().run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // What cannot be read is not there, as far as a search is concerned.
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.depth() == 0 {
                return WalkState::Continue;
            }
            // In the order of paths, what is below a directory comes after it.
            if firsts.is_full() && !firsts.wants(below(root, &entry)) {
                return WalkState::Skip;
            }
            if let Some(answer) = visit(&entry) {
                firsts.add(below(root, &entry).to_owned(), answer);
            }
            WalkState::Continue
        })
    });
}

/// The path of an entry from the root of the walk.
pub(crate) fn below<'e>(root: &Path, entry: &'e DirEntry) -> &'e Path {
    entry.path().strip_prefix(root).unwrap_or(entry.path())
}

/// Something found in one place.
pub(crate) trait SearchHit: Send {
    /// How many results it counts for.
    fn count(&self) -> usize;
    /// How much room it takes in the text.
    fn bytes(&self) -> usize;
}

/// The answers with the smallest paths: enough to fill the limits, and one more to tell that there
/// are more.
pub(crate) struct SmallestPaths<T> {
    max_count: usize,
    max_bytes: usize,
    kept: Mutex<Kept<T>>,
    /// Whether paths later than the last have no chance. Can be asked without waiting for others.
    full: AtomicBool,
}

struct Kept<T> {
    answers: BTreeMap<PathBuf, T>,
    count: usize,
    bytes: usize,
}

impl<T: SearchHit> SmallestPaths<T> {
    pub(crate) fn new(max_count: usize, max_bytes: usize) -> SmallestPaths<T> {
        let kept = Mutex::new(Kept { answers: BTreeMap::new(), count: 0, bytes: 0 });
        SmallestPaths { max_count, max_bytes, kept, full: AtomicBool::new(false) }
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether an answer with that path, or below it, would be kept.
    fn wants(&self, path: &Path) -> bool {
        !self.is_full() || self.kept().answers.last_key_value().is_none_or(|(last, _)| path < last)
    }

    fn add(&self, path: PathBuf, answer: T) {
        let mut kept = self.kept();
        kept.count += answer.count();
        kept.bytes += answer.bytes();
        kept.answers.insert(path, answer);
        loop {
            let full = kept.count > self.max_count || kept.bytes > self.max_bytes;
            self.full.store(full, Ordering::Relaxed);
            let Some((_, last)) = kept.answers.last_key_value() else { return };
            let (count, bytes) = (kept.count - last.count(), kept.bytes - last.bytes());
            // Without the last one, is there still more than is shown?
            if count <= self.max_count && bytes <= self.max_bytes {
                return;
            }
            (kept.count, kept.bytes) = (count, bytes);
            kept.answers.pop_last();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_answers(self) -> BTreeMap<PathBuf, T> {
        self.kept.into_inner().unwrap_or_else(PoisonError::into_inner).answers
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

        /// Whatever the order, the kept are those that come first when all are sorted.
        #[test]
        fn the_order_of_arrival_does_not_matter(
            answers in prop::collection::btree_map("[ab]{1,3}(/[ab]{1,2})?", (1usize..4, 0usize..20), 0..30)
                .prop_map(Vec::from_iter)
                .prop_shuffle(),
        ) {
            let firsts = SmallestPaths::new(5, 60);
            for (path, answer) in answers.clone() {
                if firsts.wants(Path::new(&path)) {
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
