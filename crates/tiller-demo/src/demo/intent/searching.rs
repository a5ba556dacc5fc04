//! Finding things: files by their names, lines by what they say.

use super::{Known, Task, folder, paths};
use crate::demo::words::{Clause, Mark, is_key};

/// What people call files of a kind, and the pattern they mean.
const KINDS: [(&str, &str); 13] = [
    ("rust", "*.rs"),
    ("python", "*.py"),
    ("javascript js", "*.js"),
    ("typescript ts", "*.ts"),
    ("markdown md", "*.md"),
    ("json", "*.json"),
    ("toml", "*.toml"),
    ("yaml yml", "*.y*ml"),
    ("text txt", "*.txt"),
    ("go", "*.go"),
    ("html", "*.html"),
    ("css", "*.css"),
    ("test", "*test*"),
];

/// Words between "files" and what stands in them.
const MENTIONING: &str = "mention mentions mentioning contain contains containing use uses";

/// "find all Rust files", "find *.md", "where is Cargo.toml?"
pub(super) fn find(clause: &Clause, _: &Known) -> Option<Task> {
    const WONDERING: &str = "where is/where are/is there/are there/do you see/do we have";
    let finds = clause.begins("find locate search look list show count how");
    let wonders = clause.phrase(WONDERING).is_some();
    if !(finds || wonders || clause.begins("which what are")) {
        return None;
    }
    let task = |glob: &str| Some(Task::Find { glob: glob.into() });
    if let Some(glob) = clause.words.iter().find(|word| is_glob(word.text)) {
        return task(glob.text);
    }
    let kind = KINDS.iter().find(|(names, _)| clause.has(names));
    if let Some((_, glob)) = kind
        && clause.has("files file documents sources")
        && !clause.has(MENTIONING)
    {
        return task(glob);
    }
    let named = clause.position("called named").and_then(|at| clause.words.get(at + 1));
    if let Some(word) = named.filter(|_| finds) {
        return task(word.text);
    }
    let (at, path) = paths(clause).into_iter().next()?;
    let last = at + 1 == clause.words.len() && at <= 3;
    (last && (wonders || clause.begins("find locate"))).then_some(Task::Find { glob: path })
}

fn is_glob(text: &str) -> bool {
    text.contains('*') && text.len() > 1 && !text.contains(char::is_whitespace)
}

/// "search for X in src", "grep X", "which files mention X?", "where is X defined?"
pub(super) fn search(clause: &Clause, _: &Known) -> Option<Task> {
    const DOING: &str = "defined used mentioned called declared set implemented";
    let asks_where = clause.phrase("where is/where are").filter(|_| clause.has(DOING));
    // Behind which word stands what is looked for?
    let mentioned = || clause.position(MENTIONING).filter(|_| clause.has("files file"));
    let from = match (asks_where, mentioned()) {
        (Some(from), _) => from,
        (None, Some(at)) => at + 1,
        (None, None) if clause.begins("search look find grep rg") => {
            let counted = clause.phrase("occurrences of/mentions of/uses of");
            let wanted = clause.position_from(1, "for").map(|at| at + 1);
            // "look around" is not a search.
            counted.or(wanted).or((!clause.begins("look")).then_some(1))?
        }
        (None, None) => return None,
    };
    let inside = clause.last_position("in inside under within").filter(|at| *at > from);
    let doing = asks_where.and_then(|from| clause.position_from(from, DOING));
    let to = [inside, doing].into_iter().flatten().min().unwrap_or(clause.words.len());
    let from = clause.skip(from, to, "word text string pattern all every");
    let words = clause.words.get(from..to).unwrap_or_default();
    let quoted = words.iter().find(|word| word.mark != Mark::Plain);
    let pattern = quoted.map_or_else(|| clause.span(from, to), |word| word.text);
    if pattern.is_empty() {
        let question = "What shall I search for? For example: search for TODO in src";
        return Some(Task::Ask(question));
    }
    // "search for TODO in src", "search src for TODO"
    let place = match inside {
        Some(inside) => &clause.words[inside + 1..],
        None if clause.begins("search grep") => &clause.words[1..from.max(1)],
        None => &[],
    };
    let place = place.split(|word| is_key(word, "for")).next().unwrap_or_default();
    Some(Task::Search { pattern: pattern.into(), path: folder(place) })
}
