//! Requests to read: files, folders, the whole project.

use super::{Known, Task, Want, folder, is_here, is_path, path, paths};
use crate::demo::words::{Clause, among, is_key};

const VERBS: &str = "read open show cat print display view summarise summarize explain describe \
                     see check look review inspect analyse analyze compare tell give head tail";

/// Verbs that ask for the text itself.
const SHOWING: &str = "show cat print display view open head tail";

/// The README by its name alone.
pub(super) fn readme(clause: &Clause, _: &Known) -> Option<Task> {
    let asked = clause.begins(VERBS) || clause.begins("what is do");
    (asked && clause.has("readme")).then_some(Task::Readme)
}

/// "What is this project about?"
pub(super) fn project(clause: &Clause, _: &Known) -> Option<Task> {
    const NOUNS: &str = "project repo repository codebase package crate app program code";
    const ASKING: &str = "what about describe explain summarise summarize overview understand tell \
                          summary";
    const VAGUE: &str = "what is this about/what is this all about/what does this do/\
                         give overview/explain this/what am i looking at";
    if clause.phrase(VAGUE).is_some() || clause.phrase("what is this") == Some(clause.words.len()) {
        return Some(Task::Project);
    }
    let noun = clause.position(NOUNS).filter(|_| clause.has(ASKING))?;
    // "Which files are in this project?" asks for a list, and a path for something else.
    let inside = clause.has("files") || clause.position("in").is_some_and(|at| at < noun);
    (!inside && paths(clause).is_empty()).then_some(Task::Project)
}

/// "read a.txt", "what does a.txt say?", "summarise it"
pub(super) fn read(clause: &Clause, known: &Known) -> Option<Task> {
    let verb = clause.begins(VERBS);
    if !(verb || clause.begins("what how is does") || is_path(&clause.words[0])) {
        return None;
    }
    let want = if clause.begins(SHOWING) { Want::Content } else { Want::Summary };
    let read = |paths: Vec<String>| Some(Task::Read { paths, want });
    let mentioned = paths(clause);
    let is_file = |(at, path): &&(usize, String)| {
        let next = clause.words.get(at + 1);
        !path.ends_with('/') && !next.is_some_and(|word| is_key(word, "folder directory dir"))
    };
    let files: Vec<_> = mentioned.iter().filter(is_file).map(|(_, path)| path.clone()).collect();
    if !files.is_empty() {
        return read(files);
    }
    if mentioned.is_empty() && speaks_of_it(clause, verb) {
        return match &known.last_path {
            Some(path) => read(vec![path.clone()]),
            None if clause.begins("read open summarise summarize") => {
                Some(Task::Ask("Which file? For example: read README.md"))
            }
            None => None,
        };
    }
    // "read notes"
    match &clause.words[..] {
        [verb, word] if is_key(verb, "read open cat") && !is_here(word) => read(vec![path(word)]),
        _ => None,
    }
}

fn speaks_of_it(clause: &Clause, verb: bool) -> bool {
    let pronoun = clause.has("it that them")
        || clause.phrase("this file").is_some()
        || (clause.words.len() == 2 && clause.words[1].key == "file");
    let asked = verb || clause.has("lines say contain about");
    pronoun && asked && !clause.has("folder directory")
}

/// "what is in this folder?", "list src", "look around"
pub(super) fn list(clause: &Clause, _: &Known) -> Option<Task> {
    const PLACES: &str = "folder directory dir here files contents entries subfolders folders";
    const ASKING: &str = "what which list show tell ls give see print display how look describe \
                          explore check are explain summarise summarize";
    const PHRASES: &str = "what is in/what is inside/look around/look in/look into/look at/\
                           what do you see/what have we got";
    let listed = clause.begins("list ls dir");
    let asked = clause.begins(ASKING) && clause.has(PLACES);
    let mentioned = paths(clause).into_iter().next();
    let alone = clause.words.len() == 1 && mentioned.is_some();
    if !(listed || asked || alone || clause.phrase(PHRASES).is_some()) {
        return None;
    }
    if let Some((_, path)) = mentioned {
        return Some(Task::List { path });
    }
    let inside = clause.last_position("in of inside under into at");
    let noun = clause.position("folder directory dir").filter(|noun| *noun > 0);
    let path = match (inside, noun) {
        (Some(inside), _) => folder(&clause.words[inside + 1..]),
        // "show the src folder", "list folder src"
        (None, Some(noun)) => {
            let before = &clause.words[noun - 1];
            let named = noun > 1 && !is_here(before) && !among(&before.key, ASKING);
            if named { path(before) } else { folder(&clause.words[noun + 1..]) }
        }
        (None, None) if listed => folder(&clause.words[1..]),
        (None, None) => ".".into(),
    };
    Some(Task::List { path })
}
