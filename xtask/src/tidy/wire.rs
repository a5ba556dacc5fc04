//! The wire and its page move together: what can be said is in `docs/protocol.md`, and what has a
//! section there can be said.

use super::Problem;
use super::tree::{File, Tree};

const PAGE: &str = "docs/protocol.md";
const ROOM: &str = "crates/tiller/src/rpc/wire";

/// Records with a section that are neither commands nor events.
const OTHERS: &[&str] = &["ready", "response"];

/// Every command and event is on the page, under its own heading.
pub(super) fn documented(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Problem::new(PAGE, 1, "there is no such file")];
    };
    let headings: Vec<&str> = headings(page).map(|(_, name)| name).collect();
    let mut problems = Vec::new();
    for list in ["COMMANDS", "EVENTS"] {
        let names = names(tree, list);
        if names.is_empty() {
            let what = format!("cannot find the names in `const {list}`");
            problems.push(Problem::new(ROOM, 1, what));
        }
        for (file, line, name) in names {
            if !headings.contains(&name) {
                let what = format!("`{name}` has no heading in {PAGE}");
                problems.push(Problem::new(&file.path, line, what));
            }
        }
    }
    problems
}

/// A heading promises something that exists.
pub(super) fn spoken(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let mut known: Vec<&str> = OTHERS.to_vec();
    for list in ["COMMANDS", "EVENTS"] {
        known.extend(names(tree, list).into_iter().map(|(_, _, name)| name));
    }
    let unknown = headings(page).filter(|(_, name)| !known.contains(name));
    let problem = |(line, name)| {
        Problem::new(PAGE, line, format!("`{name}` is neither a command nor an event"))
    };
    unknown.map(problem).collect()
}

/// The strings of a list of names, with their places.
fn names<'a>(tree: &'a Tree, list: &str) -> Vec<(&'a File, usize, &'a str)> {
    let opening = format!("const {list}:");
    for file in tree.sources().filter(|file| file.path.starts_with(ROOM)) {
        let mut lines = file.lines().skip_while(|(_, line)| !line.contains(&opening)).peekable();
        if lines.peek().is_some() {
            let inside = lines.take_while(|(_, line)| line.trim() != "];");
            let name = |(number, line): (usize, &'a str)| {
                let name = line.trim().strip_prefix('"')?.strip_suffix("\",")?;
                Some((file, number, name))
            };
            return inside.filter_map(name).collect();
        }
    }
    Vec::new()
}

/// The names in headings below the sections: ``### `steer`, `follow_up` ``.
fn headings(page: &File) -> impl Iterator<Item = (usize, &str)> {
    page.lines().filter(|(_, line)| line.starts_with("###")).flat_map(|(number, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.map(move |name| (number, name))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check;
    use super::*;

    const REQUEST: (&str, &str) = (
        "crates/tiller/src/rpc/wire/request.rs",
        "const COMMANDS: &[&str] = &[\n    \"prompt\",\n    \"abort\",\n];\nlet other = [\n\"x\",\n];\n",
    );
    const RECORD: (&str, &str) = (
        "crates/tiller/src/rpc/wire/record.rs",
        "pub(crate) const EVENTS: &[&str] = &[\n    \"agent_start\",\n];\n",
    );

    #[test]
    fn what_can_be_said_is_on_the_page() {
        let page = (PAGE, "### `prompt`, `agent_start`\n\nNot `abort`.\n");
        check(
            documented,
            &[REQUEST, RECORD, page],
            expect![
                "crates/tiller/src/rpc/wire/request.rs:3: `abort` has no heading in docs/protocol.md"
            ],
        );
    }

    #[test]
    fn what_is_on_the_page_can_be_said() {
        let page = (PAGE, "## `pi`\n### `prompt`\n### `ready`\n#### `frob`\n### Plain\n");
        check(
            spoken,
            &[REQUEST, RECORD, page],
            expect!["docs/protocol.md:4: `frob` is neither a command nor an event"],
        );
    }

    #[test]
    fn a_list_that_moved_is_noticed() {
        check(
            documented,
            &[REQUEST, (PAGE, "### `prompt` `abort`\n")],
            expect!["crates/tiller/src/rpc/wire:1: cannot find the names in `const EVENTS`"],
        );
    }
}
