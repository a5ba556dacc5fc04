//! The diff of an edit: with line numbers for people, and as a patch for programs.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Context lines around a change.
const CONTEXT: usize = 4;
/// Comparing two texts without common lines takes time proportional to their product. After this
/// time, the diff may be larger than necessary.
const COMPARE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Diff<'t> {
    old: Vec<&'t str>,
    new: Vec<&'t str>,
    /// Changes with their context; nearby changes form one group.
    groups: Vec<Vec<DiffOp>>,
}

impl Diff<'_> {
    pub(crate) fn between<'t>(old: &'t str, new: &'t str) -> Diff<'t> {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let deadline = Instant::now().checked_add(COMPARE_MAX);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
        Diff { groups: group_diff_ops(ops, CONTEXT), old, new }
    }

    /// The number of the first changed line, in the new text.
    pub(crate) fn first_changed_line(&self) -> Option<usize> {
        let changed = |op: &&DiffOp| op.tag() != DiffTag::Equal;
        self.groups.first()?.iter().find(changed).map(|op| op.new_range().start + 1)
    }

    /// The changed lines with their numbers; omitted lines are shown as `...`.
    pub(crate) fn numbered(&self) -> String {
        let width = self.old.len().max(self.new.len()).to_string().len();
        let gap = format!(" {:width$} ...", "");
        let mut lines = Vec::new();
        let mut seen = 0;
        for group in &self.groups {
            if group.first().is_some_and(|op| op.old_range().start > seen) {
                lines.push(gap.clone());
            }
            each_line(group, |sign, line| {
                let (number, text) = match sign {
                    Sign::Added => (line, self.new[line]),
                    Sign::Kept | Sign::Removed => (line, self.old[line]),
                };
                let text = text.strip_suffix('\n').unwrap_or(text);
                lines.push(format!("{}{:width$} {text}", sign.mark(), number + 1));
            });
            seen = group.last().map_or(seen, |op| op.old_range().end);
        }
        if seen < self.old.len() {
            lines.push(gap);
        }
        lines.join("\n")
    }

    /// The unified diff.
    pub(crate) fn patch(&self, name: &str) -> String {
        let mut patch = format!("--- {name}\n+++ {name}\n");
        for group in &self.groups {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let old = hunk(first.old_range().start..last.old_range().end);
            let new = hunk(first.new_range().start..last.new_range().end);
            patch += &format!("@@ -{old} +{new} @@\n");
            each_line(group, |sign, line| {
                let text = match sign {
                    Sign::Added => self.new[line],
                    Sign::Kept | Sign::Removed => self.old[line],
                };
                patch.push(sign.mark());
                patch += text;
                if !text.ends_with('\n') {
                    patch += "\n\\ No newline at end of file\n";
                }
            });
        }
        patch
    }
}

/// `START,COUNT`; for an empty range, the line before it.
fn hunk(lines: Range<usize>) -> String {
    let start = if lines.is_empty() { lines.start } else { lines.start + 1 };
    format!("{start},{}", lines.len())
}

#[derive(Clone, Copy)]
enum Sign {
    Kept,
    Removed,
    Added,
}

impl Sign {
    fn mark(self) -> char {
        match self {
            Sign::Kept => ' ',
            Sign::Removed => '-',
            Sign::Added => '+',
        }
    }
}

/// Calls `line` for the lines of a group, removed before added. An added line is an index into the
/// new text; all others are indices into the old.
fn each_line(group: &[DiffOp], mut line: impl FnMut(Sign, usize)) {
    for op in group {
        let sign = if op.tag() == DiffTag::Equal { Sign::Kept } else { Sign::Removed };
        op.old_range().for_each(|at| line(sign, at));
        if op.tag() != DiffTag::Equal {
            op.new_range().for_each(|at| line(Sign::Added, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(old: &str, new: &str, expect: Expect) {
        let diff = Diff::between(old, new);
        let (line, patch) = (diff.first_changed_line(), diff.patch("f"));
        expect.assert_eq(&format!("{}\n\n{patch}\n{line:?}\n", diff.numbered()));
    }

    fn numbers(count: usize) -> String {
        (1..=count).map(|i| format!("line {i}\n")).collect()
    }

    #[test]
    fn one_line() {
        check(
            "alpha\nbeta\ngamma\n",
            "alpha\nBETA\ngamma\n",
            expect![[r#"
             1 alpha
            -2 beta
            +2 BETA
             3 gamma

            --- f
            +++ f
            @@ -1,3 +1,3 @@
             alpha
            -beta
            +BETA
             gamma

            Some(2)
        "#]],
        );
    }

    #[test]
    fn far_apart() {
        let old = numbers(30);
        let new = old.replace("line 6\n", "").replace("line 25\n", "line 25\nand a half\n");
        check(
            &old,
            &new,
            expect![[r#"
                ...
              2 line 2
              3 line 3
              4 line 4
              5 line 5
            - 6 line 6
              7 line 7
              8 line 8
              9 line 9
             10 line 10
                ...
             22 line 22
             23 line 23
             24 line 24
             25 line 25
            +25 and a half
             26 line 26
             27 line 27
             28 line 28
             29 line 29
                ...

            --- f
            +++ f
            @@ -2,9 +2,8 @@
             line 2
             line 3
             line 4
             line 5
            -line 6
             line 7
             line 8
             line 9
             line 10
            @@ -22,8 +21,9 @@
             line 22
             line 23
             line 24
             line 25
            +and a half
             line 26
             line 27
             line 28
             line 29

            Some(6)
        "#]],
        );
    }

    #[test]
    fn close_together() {
        let old = numbers(12);
        let new = old.replace("line 2\n", "two\n").replace("line 11\n", "eleven\n");
        check(
            &old,
            &new,
            expect![[r#"
              1 line 1
            - 2 line 2
            + 2 two
              3 line 3
              4 line 4
              5 line 5
              6 line 6
              7 line 7
              8 line 8
              9 line 9
             10 line 10
            -11 line 11
            +11 eleven
             12 line 12

            --- f
            +++ f
            @@ -1,12 +1,12 @@
             line 1
            -line 2
            +two
             line 3
             line 4
             line 5
             line 6
             line 7
             line 8
             line 9
             line 10
            -line 11
            +eleven
             line 12

            Some(2)
        "#]],
        );
    }

    #[test]
    fn ends_of_files() {
        check(
            "a\nb",
            "a\nb\n",
            expect![[r#"
             1 a
            -2 b
            +2 b

            --- f
            +++ f
            @@ -1,2 +1,2 @@
             a
            -b
            \ No newline at end of file
            +b

            Some(2)
        "#]],
        );
        check(
            "a\n",
            "a\nb",
            expect![[r#"
             1 a
            +2 b

            --- f
            +++ f
            @@ -1,1 +1,2 @@
             a
            +b
            \ No newline at end of file

            Some(2)
        "#]],
        );
        check(
            "",
            "a\n",
            expect![[r#"
            +1 a

            --- f
            +++ f
            @@ -0,0 +1,1 @@
            +a

            Some(1)
        "#]],
        );
        check(
            "a\n",
            "",
            expect![[r#"
            -1 a

            --- f
            +++ f
            @@ -1,1 +0,0 @@
            -a

            Some(1)
        "#]],
        );
    }

    #[test]
    fn nothing_in_common() {
        let old: String = (0..30_000).map(|i| format!("old {i}\n")).collect();
        let new: String = (0..30_000).map(|i| format!("new {i}\n")).collect();
        let started = Instant::now();
        assert!(Diff::between(&old, &new).patch("f").ends_with("+new 29999\n"));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
