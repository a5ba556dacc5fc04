//! Changing files: creating, editing, appending, and not deleting.

use super::{Known, Task, folder, is_path, path, paths};
use crate::demo::STORY;
use crate::demo::words::{Clause, Mark, Word, among, is_key};

/// "replace A with B in FILE", "in FILE, change A to B"
pub(super) fn edit(clause: &Clause, known: &Known) -> Option<Task> {
    let verb = clause.position("replace change substitute swap rename")?;
    if verb > 0 && !clause.begins("in") {
        return None;
    }
    let Some(with) = clause.position_from(verb + 1, "with to by into for") else {
        let question = "With what? For example: replace foo with bar in notes.txt";
        return clause.has("replace").then_some(Task::Ask(question));
    };
    let inside = clause.last_position("in").filter(|at| *at > with);
    if inside.is_none()
        && clause.begins("rename")
        && let [(_, from), (_, to)] = &paths(clause)[..]
    {
        return Some(Task::Run { command: format!("mv {} {}", quote_path(from), quote_path(to)) });
    }
    let end = inside.unwrap_or(clause.words.len());
    let place = match verb {
        0 => clause.words.get(end + 1..).unwrap_or_default(),
        _ => &clause.words[1..verb],
    };
    let named = place.iter().find(|word| is_path(word)).or(place.last());
    let named = named.filter(|word| !is_key(word, "it file there")).map(path);
    let Some(path) = named.or_else(|| known.last_path.clone()) else {
        let question = "In which file? For example: replace foo with bar in notes.txt";
        return Some(Task::Ask(question));
    };
    let old = clause.between(verb + 1, with);
    let new = clause.between(with + 1, end);
    Some(match old {
        "" => Task::Ask("Which text shall I replace?"),
        _ => Task::Edit { path, old: old.into(), new: new.into() },
    })
}

/// For a shell: in single quotes unless it is plainly harmless.
pub(crate) fn quote(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-/+,@".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(harmless) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path for a shell: never mistaken for an option, and home is still home.
pub(crate) fn quote_path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(rest)),
        None if path.starts_with('-') => quote(&format!("./{path}")),
        None => quote(path),
    }
}

/// "make a folder called x"
pub(super) fn make_folder(clause: &Clause, _: &Known) -> Option<Task> {
    if !clause.begins("create make mkdir add") {
        return None;
    }
    let at = clause.position("folder directory dir mkdir")?;
    let path = folder(&clause.words[at + 1..]);
    Some(match path.as_str() {
        "." => Task::Ask("What shall the folder be called?"),
        _ => Task::MakeFolder { path },
    })
}

/// "create FILE with the text X", "write X to FILE", "append X to FILE"
pub(super) fn write(clause: &Clause, known: &Known) -> Option<Task> {
    if !clause.begins("create make write save put touch generate store add append") {
        return None;
    }
    let program = program(clause);
    let Some((at, path)) = named_file(clause).or_else(|| file_in_mind(clause, known)) else {
        let question =
            "What shall the file be called? For example: create notes.txt with the text hello";
        return match program {
            Some((path, content)) => Some(Task::Write { path: path.into(), content }),
            None => clause.has("file").then_some(Task::Ask(question)),
        };
    };
    let adds = clause.begins("append") || (clause.begins("add") && !clause.has("file"));
    let content = match (content(clause, at), program) {
        (Some(line), _) if adds => {
            return Some(Task::Append { path, line: line.into() });
        }
        (_, Some((_, source))) => source,
        (Some(content), None) if is_art(content) => STORY.into(),
        (Some(content), None) => content.into(),
        (None, None) if clause.begins("create make touch add generate") => String::new(),
        (None, None) => {
            let question = "What shall I write into it? For example: write hello to notes.txt";
            return Some(Task::Ask(question));
        }
    };
    Some(Task::Write { path, content })
}

/// The file that a clause names for writing: after "called", or any word that looks like a path.
fn named_file(clause: &Clause) -> Option<(usize, String)> {
    let called = clause.position("called named").map(|at| at + 1);
    if let Some((at, word)) = called.and_then(|at| Some((at, clause.words.get(at)?))) {
        return Some((at, path(word)));
    }
    let paths = paths(clause);
    let introduced = |(at, _): &&(usize, String)| {
        *at > 0 && is_key(&clause.words[at - 1], "to into in as file create touch")
    };
    paths.iter().find(introduced).or(paths.first()).cloned()
}

/// "write hello to it"
fn file_in_mind(clause: &Clause, known: &Known) -> Option<(usize, String)> {
    let at = clause.last_position("it file").filter(|at| *at > 1)?;
    let into = is_key(&clause.words[at - 1], "to into in");
    known.last_path.clone().filter(|_| into).map(|path| (at, path))
}

/// The text to write, given the position of the file.
fn content<'a>(clause: &Clause<'a>, at: usize) -> Option<&'a str> {
    const MARKERS: &str = "with containing saying says contains reading content contents text";
    const INTRODUCTIONS: &str = "text content contents line word words following that says \
                                 contains exactly string single";
    if let Some(marker) = clause.position_from(at + 1, MARKERS) {
        let end = clause.words.len();
        // "with hello in it"
        let to = if clause.phrase("in it") == Some(end) { end - 2 } else { end };
        let from = clause.skip(marker + 1, to, INTRODUCTIONS);
        return Some(clause.span(from, to)).filter(|content| !content.is_empty());
    }
    // "write X to FILE", "append X to the end of FILE"
    let at_end = clause.phrase("to end of/at end of") == Some(at);
    let mut to = if at_end { at - 3 } else { at };
    while to > 1 && is_key(&clause.words[to - 1], "to into in as inside file called named") {
        to -= 1;
    }
    let mut from = 1;
    while from < to && is_key(&clause.words[from], "text line word string file new empty content") {
        from += 1;
    }
    let before = clause.span(from, to);
    // Quoted after the file: "create a.txt: `hi`".
    let quoted = || clause.words[at + 1..].iter().find(|word| word.mark != Mark::Plain);
    Some(before).filter(|text| !text.is_empty()).or_else(|| quoted().map(|word| word.text))
}

/// A request for a poem does not mean the words "a poem".
fn is_art(content: &str) -> bool {
    let content = content.to_lowercase();
    let mut words = content.split_whitespace();
    words.clone().count() <= 6
        && words.next().is_some_and(|word| among(word, "a an some short"))
        && words.any(|word| among(word, "poem story haiku tale joke"))
}

/// A language, the file name of its first program, and that program with `…` for the text.
const LANGUAGES: [(&str, &str, &str); 7] = [
    ("python py", "hello.py", "print(\"…\")\n"),
    ("rust rs", "hello.rs", "fn main() {\n    println!(\"…\");\n}\n"),
    ("javascript js node", "hello.js", "console.log(\"…\");\n"),
    ("bash shell sh", "hello.sh", "#!/bin/sh\necho \"…\"\n"),
    ("ruby rb", "hello.rb", "puts \"…\"\n"),
    ("c", "hello.c", "#include <stdio.h>\n\nint main(void) {\n    puts(\"…\");\n}\n"),
    ("html", "hello.html", "<!doctype html>\n<title>Hello</title>\n<p>…</p>\n"),
];

/// Hello-world requests: "a hello world program in Rust", "x.py that prints hi".
fn program(clause: &Clause) -> Option<(&'static str, String)> {
    let prints = clause.position("prints printing outputs");
    let printed = match prints.map(|at| clause.rest(at + 1)) {
        Some(text) if !text.is_empty() => text,
        _ => clause.phrase("hello world").map(|_| "Hello, world!")?,
    };
    let extension = |word: &Word| Some(word.key.rsplit_once('.')?.1.to_owned());
    let file = clause.words.iter().filter(|word| is_path(word)).find_map(extension);
    let language = LANGUAGES.iter().find(|(names, ..)| {
        clause.has(names) || file.as_ref().is_some_and(|file| among(file, names))
    });
    // The default language is Python.
    let guessed = clause.has("program script app application").then_some(&LANGUAGES[0]);
    let (_, path, source) = language.or(guessed)?;
    Some((path, source.replace('…', &printed.replace(['"', '\\'], ""))))
}

/// A sentence is easily misread, and a deleted file is lost.
pub(super) fn delete(clause: &Clause, _: &Known) -> Option<Task> {
    let asked = clause.begins("delete remove erase rm");
    let (_, path) = paths(clause).into_iter().next().filter(|_| asked)?;
    Some(Task::WillNotDelete { path })
}
