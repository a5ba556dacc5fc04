//! The checks, in the order of the table.

pub(super) mod start;
mod framing;
mod order;
mod queues;
mod abort;
mod retries;
mod sessions;
mod host_tools;
mod ending;
mod hygiene;

use super::check::{Check, Group};

/// The check that comes before all others: they are only run if it passes.
pub(super) const START: Check = Check {
    group: Group::Start,
    name: "the server answers get_state and a prompt",
    run: |bench| start::probe(bench).map(|_| ()),
};

/// All other checks.
pub(super) fn all() -> Vec<Check> {
    let groups: [&[Check]; 9] = [
        framing::CHECKS,
        order::CHECKS,
        queues::CHECKS,
        abort::CHECKS,
        retries::CHECKS,
        sessions::CHECKS,
        host_tools::CHECKS,
        ending::CHECKS,
        hygiene::CHECKS,
    ];
    groups.concat()
}

/// A shell command that creates the file `begun`, and ends when there is a file `go`.
const WAIT_FOR_GO: &str = "touch begun; until [ -e go ]; do sleep 0.02; done; echo gone";

/// A shell command that creates the file `begun`, and sleeps with a child in the background.
const SLEEP: &str = "sleep 300 & touch begun; echo sleeping; sleep 300";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn page_lists_the_checks_in_their_order() {
        let page = include_str!("../../../../docs/conform.md");
        let (_, page) = page.split_once("\n## Checks\n").unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
        let listed: Vec<&str> = rows.filter(|row| *row != "what holds").collect();
        let checks: Vec<Check> = [START].into_iter().chain(all()).collect();
        assert_eq!(listed, checks.iter().map(|check| check.name).collect::<Vec<_>>());
    }

    #[test]
    fn every_check_has_its_own_name() {
        let mut names = BTreeSet::new();
        for check in [START].into_iter().chain(all()) {
            assert!(names.insert((check.group.name(), check.name)), "{}", check.name);
        }
    }
}
