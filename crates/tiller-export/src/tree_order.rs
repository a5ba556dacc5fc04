//! The order of entries on the page: the conversation from its first entry to its last, with other
//! branches before the entry where the conversation continues.

use tiller_session::Outline;

/// One entry's position on the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TreeRow {
    /// Its index in the file.
    pub index: usize,
    /// How many forks away from the current path it is.
    pub depth: u32,
    /// The first row of an abandoned branch, which extends to the next row on the path or the next
    /// such row.
    pub begins_branch: bool,
    /// Its parent is not the row before it.
    pub is_fork: bool,
}

impl TreeRow {
    /// Whether it is part of the current conversation.
    pub(crate) fn is_on_path(&self) -> bool {
        self.depth == 0
    }
}

/// Every entry once. Iterative, because a long session is a deep tree.
pub(crate) fn order(outline: &Outline<'_>) -> Vec<TreeRow> {
    let parents: Vec<Option<usize>> =
        (0..outline.len()).map(|index| outline.parent(index)).collect();
    rows(&parents, outline.leaf())
}

fn rows(parents: &[Option<usize>], leaf: Option<usize>) -> Vec<TreeRow> {
    let child_index = ChildIndex::of(parents);
    let mut is_on_path = vec![false; parents.len()];
    for index in std::iter::successors(leaf, |&index| parents[index]) {
        is_on_path[index] = true;
    }
    let mut rows: Vec<TreeRow> = Vec::with_capacity(parents.len());
    let mut waiting: Vec<(usize, u32)> = Vec::new();
    let mut children = Vec::new();
    let mut next = None;
    loop {
        // The main child is pushed first, so that the others come before it.
        children.clear();
        children.extend(child_index.children(next.map(|(index, _)| index)));
        let depth = next.map_or(0, |(_, depth)| depth);
        let main = children.iter().copied().find(|&child| is_on_path[child]).or_else(|| {
            // Beside the path, the newest child counts as the main one.
            (depth > 0).then(|| children.last().copied()).flatten()
        });
        waiting.extend(main.map(|main| (main, depth)));
        let others = children.iter().rev().copied().filter(|&child| Some(child) != main);
        waiting.extend(others.map(|child| (child, depth + 1)));
        next = waiting.pop();
        let Some((index, depth)) = next else { return rows };
        let parent = parents[index];
        let is_beside_path = parent.is_none_or(|parent| is_on_path[parent]);
        rows.push(TreeRow {
            index,
            depth,
            begins_branch: depth > 0 && is_beside_path,
            is_fork: depth > 0 && !is_beside_path && parent != rows.last().map(|row| row.index),
        });
    }
}

/// The children of each entry, in two arrays.
struct ChildIndex {
    first: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
    first_root: Option<usize>,
}

impl ChildIndex {
    fn of(parents: &[Option<usize>]) -> ChildIndex {
        let mut child_index = ChildIndex {
            first: vec![None; parents.len()],
            next: vec![None; parents.len()],
            first_root: None,
        };
        for (index, parent) in parents.iter().enumerate().rev() {
            let first = match parent {
                Some(parent) => &mut child_index.first[*parent],
                None => &mut child_index.first_root,
            };
            child_index.next[index] = first.replace(index);
        }
        child_index
    }

    fn children(&self, of: Option<usize>) -> impl Iterator<Item = usize> {
        let first = of.map_or(self.first_root, |index| self.first[index]);
        std::iter::successors(first, |&index| self.next[index])
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// One digit or dot per entry: the index of its parent.
    fn check(parents: &str, leaf: Option<usize>, expected: Expect) {
        let parents: Vec<Option<usize>> =
            parents.chars().map(|c| c.to_digit(10).map(|d| d as usize)).collect();
        let shown: Vec<String> = rows(&parents, leaf)
            .iter()
            .map(|row| {
                let mark = match (row.begins_branch, row.is_fork) {
                    (true, _) => "+",
                    (_, true) => "^",
                    _ => "",
                };
                format!("{}{mark}{}", "-".repeat(row.depth as usize), row.index)
            })
            .collect();
        expected.assert_eq(&shown.join(" "));
    }

    #[test]
    fn branches_come_before_what_goes_on() {
        check(".0123", Some(4), expect!["0 1 2 3 4"]);
        check(".01102", Some(4), expect!["0 -+1 --2 --5 -^3 4"]);
        check(".0111", Some(4), expect!["0 1 -+2 -+3 4"]);
        check(".011335", Some(2), expect!["0 1 -+3 --4 -^5 -6 2"]);
        check("..01", Some(3), expect!["-+0 -2 1 3"]);
        check(".01", Some(1), expect!["0 1 -+2"]);
        check("", None, expect![""]);
    }

    #[test]
    fn a_deep_tree_is_no_deep_stack() {
        let chain: Vec<Option<usize>> =
            (0..200_000usize).map(|index| index.checked_sub(1)).collect();
        assert_eq!(rows(&chain, Some(199_999)).len(), 200_000);
        let star: Vec<Option<usize>> =
            (0..200_000usize).map(|index| (index > 0).then_some(0)).collect();
        assert_eq!(rows(&star, Some(7)).len(), 200_000);
    }
}
