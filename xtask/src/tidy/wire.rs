//! Protocol and documentation agree: every command and event is in `docs/protocol.md`, and every
//! section there describes one.

use super::Problem;
use super::tree::{File, Tree};

const PAGE: &str = "docs/protocol.md";
const ROOM: &str = "crates/tiller-protocol/src";

/// The lines that open the tables of commands and events.
const LISTS: [&str; 2] = ["listed {", "events {"];

/// Records with a section that are neither commands nor events.
const OTHERS: &[&str] = &["ready", "response"];

/// Every command and event has its own heading on the page.
pub(super) fn documented(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Problem::new(PAGE, 1, "the file is missing")];
    };
    let headings: Vec<&str> = headings(page).map(|(_, name)| name).collect();
    let mut problems = Vec::new();
    for list in LISTS {
        let names = names(tree, list);
        if names.is_empty() {
            let what = format!("cannot find the names in `{list}`");
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

/// Every heading names an existing command or event.
pub(super) fn headings_exist(tree: &Tree) -> Vec<Problem> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let mut known: Vec<&str> = OTHERS.to_vec();
    for list in LISTS {
        known.extend(names(tree, list).into_iter().map(|(_, _, name)| name));
    }
    let unknown = headings(page).filter(|(_, name)| !known.contains(name));
    let problem = |(line, name)| {
        Problem::new(PAGE, line, format!("`{name}` is neither a command nor an event"))
    };
    unknown.map(problem).collect()
}

/// The names at the start of the lines of a table, with their locations.
fn names<'a>(tree: &'a Tree, opening: &str) -> Vec<(&'a File, usize, &'a str)> {
    for file in tree.sources().filter(|file| file.path.starts_with(ROOM)) {
        let mut lines =
            file.lines().skip_while(|(_, line)| !line.trim().starts_with(opening)).peekable();
        if lines.peek().is_some() {
            let inside = lines.take_while(|(_, line)| line.trim() != "}");
            let name = |(number, line): (usize, &'a str)| {
                let (name, _) = line.trim().strip_prefix('"')?.split_once('"')?;
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

    const COMMAND: (&str, &str) = (
        "crates/tiller-protocol/src/command.rs",
        "commands! {\n    listed {\n        \"prompt\" => Prompt(Prompt),\n        \"abort\" => Abort,\n    }\n    \"x\"\n}\n",
    );
    const RECORD: (&str, &str) = (
        "crates/tiller-protocol/src/record.rs",
        "records! {\n    events {\n        \"agent_start\" => AgentStart,\n    }\n}\n",
    );

    #[test]
    fn undocumented_command_is_reported() {
        let page = (PAGE, "### `prompt`, `agent_start`\n\nNot `abort`.\n");
        check(
            documented,
            &[COMMAND, RECORD, page],
            expect![
                "crates/tiller-protocol/src/command.rs:4: `abort` has no heading in docs/protocol.md"
            ],
        );
    }

    #[test]
    fn heading_without_command_is_reported() {
        let page = (PAGE, "## `pi`\n### `prompt`\n### `ready`\n#### `frob`\n### Plain\n");
        check(
            headings_exist,
            &[COMMAND, RECORD, page],
            expect!["docs/protocol.md:4: `frob` is neither a command nor an event"],
        );
    }

    #[test]
    fn missing_list_of_names_is_reported() {
        check(
            documented,
            &[COMMAND, (PAGE, "### `prompt` `abort`\n")],
            expect!["crates/tiller-protocol/src:1: cannot find the names in `events {`"],
        );
    }
}
