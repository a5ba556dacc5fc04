//! Writes the answers: tool results in a few friendly sentences.

use super::file;
use super::intent::{Task, Want};
use super::plan::{Offer, Outcome, Wanted};
use super::sums;
use crate::script::nearest;

/// The most names that are listed.
const NAMES_MAX: usize = 20;
/// The most lines of output that are shown.
const LINES_MAX: usize = 20;

/// The thinking text before a call.
pub(crate) fn thought(task: &Task, again: bool) -> String {
    if again {
        return "That was the first step. One more look and I can answer.".into();
    }
    match task {
        Task::List { path } => {
            format!("They want to know what is in {}. I will look.", place(path))
        }
        Task::Read { paths, .. } => {
            format!("They ask about {}. I have to read it first.", file::list_of(paths))
        }
        Task::Readme => "They mean the README. I need to see what it is called here.".into(),
        Task::Project => {
            "A README or a manifest would tell what this is. First, what files are there?".into()
        }
        Task::Run { command } => format!("They want `{command}` run. That is one call."),
        Task::RunTests => "How are tests run here? The files will tell.".into(),
        Task::Write { path, .. } => format!("I know the text and the place: `{path}`."),
        Task::Append { path, .. } => format!("A line goes to the end of `{path}`."),
        Task::MakeFolder { path } => format!("A new folder `{path}`, then."),
        Task::Edit { path, old, .. } => {
            format!("Before I change `{old}` I should see `{path}` as it is.")
        }
        Task::Search { pattern, path } => {
            format!("I have to look for `{pattern}` in {}.", place(path))
        }
        Task::Find { glob } => format!("Which files match `{glob}`?"),
        Task::UseTool { name, .. } => format!("They want me to call `{name}`. It is on offer."),
        _ => "Let me see.".into(),
    }
}

/// The text that accompanies calls.
pub(crate) fn announcement(calls: &[Wanted]) -> String {
    let argument = |call: &Wanted, name: &str| {
        call.arguments.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let Some(call) = calls.first() else {
        return String::new();
    };
    match call.tool.as_str() {
        "ls" => format!("Let me look at {}.", place(&argument(call, "path"))),
        "find" => format!("Let me look for `{}`.", argument(call, "pattern")),
        "read" => {
            let paths: Vec<_> = calls.iter().map(|call| argument(call, "path")).collect();
            format!("I will read {}.", file::list_of(&paths))
        }
        "bash" => format!("I will run `{}`.", argument(call, "command")),
        "write" => format!("I will write `{}`.", argument(call, "path")),
        "edit" => format!("I will edit `{}`.", argument(call, "path")),
        "grep" => format!("I will search for `{}`.", argument(call, "pattern")),
        other => format!("I will call `{other}`."),
    }
}

pub(crate) fn talk(task: &Task) -> String {
    match task {
        Task::Greet => "Hello! I am tiller's demo model. Ask me what is in this folder, to read a \
                        file or to run a command; say \"help\" for more."
            .into(),
        Task::Thanks => "You are welcome. What next?".into(),
        Task::Bye => "Goodbye, and fair winds.".into(),
        Task::Help => super::HELP.trim_end().into(),
        Task::Story => super::STORY.trim_end().into(),
        Task::Sum { sum, value: Some(value) } => format!("{sum} = **{}**", sums::number(*value)),
        Task::Sum { sum, value: None } => format!("{sum} has no finite value."),
        Task::Count { to } => {
            let numbers: Vec<_> = (1..=*to).map(|number| number.to_string()).collect();
            format!("{}.", numbers.join(", "))
        }
        Task::Ask(question) => (*question).into(),
        Task::WillNotDelete { path } => format!(
            "I would rather not delete `{path}` on my own reading of a sentence. \
             If you are sure, say: run `rm {}`",
            super::intent::quote_path(path)
        ),
        _ => String::new(),
    }
}

/// The answer if nothing in the message was understood.
pub(crate) fn not_understood(text: &str, images: usize) -> String {
    if images > 0 {
        let images = file::count(images, "image", "images");
        return format!(
            "I got {images} from you. A real model would look at it; I can only tell that it \
             arrived. Say \"help\" to see what I can do."
        );
    }
    if text.trim().is_empty() {
        return "You sent me an empty message. Say \"help\" to see what I can do.".into();
    }
    format!("I did not understand that; I am only a small demo.\n\n{}", super::HELP.trim_end())
}

pub(crate) fn no_tool(wanted: &[&str], offer: Offer) -> String {
    let names: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
    let needed = match &names[..] {
        [name] => format!("the tool `{name}`"),
        _ => format!("one of the tools {}", file::list_of(&names)),
    };
    let offered: Vec<_> = offer.names().map(str::to_owned).collect();
    let have = match &offered[..] {
        [] => "I have been given no tools at all".into(),
        _ => format!("I have only {}", file::list_of(&offered)),
    };
    format!("For that I would need {needed}, but {have}.")
}

pub(crate) fn failed(what: &str, outcome: &Outcome) -> String {
    format!("I could not {what}. The tool says:\n\n{}", fenced(&outcome.text))
}

/// The names in a listing of any tool.
pub(crate) fn names(listing: &Outcome) -> Vec<String> {
    if listing.is_error {
        return Vec::new();
    }
    let mut names: Vec<String> = items(&listing.text)
        .map(|line| match line.trim_start_matches("./").split_once('/') {
            // `find` lists nested paths.
            Some((folder, _)) if listing.tool == "find" => format!("{folder}/"),
            _ => line.trim_start_matches("./").to_owned(),
        })
        .collect();
    if listing.tool == "find" {
        names.sort_unstable();
    }
    names.dedup();
    names
}

/// The lines of a list, without the tool's notes.
fn items(text: &str) -> impl Iterator<Item = &str> {
    const NOTHING: [&str; 3] =
        ["(empty directory)", "(no output)", "No files found matching pattern"];
    let remark = |line: &str| {
        let bracketed = line.starts_with('[') && line.ends_with(']');
        bracketed && (line.contains("limit reached") || line.contains("Showing "))
    };
    let lines = text.lines().map(str::trim_end);
    lines.filter(move |line| !line.is_empty() && !NOTHING.contains(line) && !remark(line))
}

pub(crate) fn listing(path: &str, listing: &Outcome) -> String {
    if listing.is_error {
        return failed(&format!("look into {}", place(path)), listing);
    }
    let names = names(listing);
    if names.is_empty() {
        return format!("There is nothing in {}.", place(path));
    }
    let folders = names.iter().filter(|name| name.ends_with('/')).count();
    let files = names.len() - folders;
    let counted = match (folders, files) {
        (0, _) => file::count(files, "file", "files"),
        (_, 0) => file::count(folders, "folder", "folders"),
        _ => format!(
            "{} and {}",
            file::count(folders, "folder", "folders"),
            file::count(files, "file", "files")
        ),
    };
    let mut text = match path {
        "." => format!("This folder holds {counted}:\n"),
        _ => format!("`{path}` holds {counted}:\n"),
    };
    for name in names.iter().take(NAMES_MAX) {
        text.push_str(&format!("\n- `{name}`"));
    }
    if names.len() > NAMES_MAX {
        text.push_str(&format!("\n- … and {} more", names.len() - NAMES_MAX));
    }
    text
}

pub(crate) fn file(path: &str, outcome: &Outcome, want: Want) -> String {
    if outcome.is_error {
        return failed(&format!("read `{path}`"), outcome);
    }
    if outcome.images > 0 {
        return format!("`{path}` is an image. I got it, but only a real model could look at it.");
    }
    let silent = outcome.tool == "bash" && outcome.text.trim() == "(no output)";
    match want {
        _ if silent || outcome.text.trim().is_empty() => format!("`{path}` is empty."),
        Want::Summary => file::summary(path, &outcome.text),
        Want::Content => format!("This is `{path}`:\n\n{}", fenced(&outcome.text)),
    }
}

/// A file that does not exist, and what exists instead.
pub(crate) fn missing(path: &str, missing: &Outcome, listing: &Outcome) -> String {
    let names = names(listing);
    let wanted = path.rsplit('/').next().unwrap_or(path);
    let text = failed(&format!("read `{path}`"), missing);
    match nearest(wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("{text}\n\nThere is a `{near}`, though. Did you mean that?"),
        None if names.is_empty() => text,
        None => {
            let known: Vec<String> = names.into_iter().take(NAMES_MAX).collect();
            format!("{text}\n\nWhat I do see is {}.", file::list_of(&known))
        }
    }
}

pub(crate) fn no_readme(listing: &Outcome) -> String {
    if listing.is_error {
        failed("look around", listing)
    } else {
        "There is no README in this folder.".into()
    }
}

pub(crate) fn no_tests(listing: &Outcome) -> String {
    if listing.is_error {
        failed("look around", listing)
    } else {
        "I do not see how tests are run here. Tell me the command, for example: \
                  run `make test`"
            .into()
    }
}

/// `read` are the results of reading `files`, which are in `listing`.
pub(crate) fn project(listing: &Outcome, files: &[String], read: &[Outcome]) -> String {
    if listing.is_error {
        return failed("look around", listing);
    }
    if files.is_empty() {
        let about = "I found neither a README nor a manifest, so I can only go by the names.";
        return format!("{about}\n\n{}", self::listing(".", listing));
    }
    let reported = files.iter().zip(read).map(|(path, outcome)| file(path, outcome, Want::Summary));
    let names = names(listing);
    let folders: Vec<_> = names.iter().filter(|name| name.ends_with('/')).cloned().collect();
    let folders = match &folders[..] {
        [] => String::new(),
        _ => format!(
            "\n\nThe rest is in {}.",
            file::list_of(&folders[..folders.len().min(NAMES_MAX)])
        ),
    };
    format!("{}{folders}", reported.collect::<Vec<_>>().join("\n\n"))
}

pub(crate) fn command(command: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        return format!("`{command}` failed:\n\n{}", fenced(&outcome.text));
    }
    match outcome.text.trim() {
        "" | "(no output)" => format!("`{command}` went well and printed nothing."),
        _ => format!("`{command}` went well. It printed:\n\n{}", fenced(&outcome.text)),
    }
}

pub(crate) fn written(path: &str, content: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        return failed(&format!("write `{path}`"), outcome);
    }
    match content.lines().count() {
        0 => format!("Done: `{path}` is there and still empty."),
        lines => format!("Done: `{path}` now holds {}.", file::count(lines, "line", "lines")),
    }
}

pub(crate) fn appended(path: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        failed(&format!("write to `{path}`"), outcome)
    } else {
        format!("Done: the line is at the end of `{path}`.")
    }
}

pub(crate) fn made_folder(path: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        failed(&format!("make the folder `{path}`"), outcome)
    } else {
        format!("Done: there is a folder `{path}` now.")
    }
}

pub(crate) fn edited(path: &str, old: &str, new: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        failed(&format!("change `{path}`"), outcome)
    } else {
        format!("Done: in `{path}`, `{old}` is now `{new}`.")
    }
}

pub(crate) fn too_many(path: &str, old: &str, count: usize) -> String {
    format!(
        "`{old}` stands in `{path}` {count} times, in lines I cannot tell apart. \
         Give me a longer piece of text, so that I know which one you mean."
    )
}

pub(crate) fn matches(pattern: &str, path: &str, outcome: &Outcome) -> String {
    let nothing = ["No matches found", "(no output)"].contains(&outcome.text.trim());
    // A grep without matches fails in a shell, without output.
    let grep_failed = outcome.tool == "bash" && outcome.text.trim().ends_with("exited with code 1");
    if nothing || grep_failed {
        return format!("I found no `{pattern}` in {}.", place(path));
    }
    if outcome.is_error {
        return failed(&format!("search {}", place(path)), outcome);
    }
    let found = file::count(items(&outcome.text).count(), "line", "lines");
    format!("I found {found} with `{pattern}` in {}:\n\n{}", place(path), fenced(&outcome.text))
}

pub(crate) fn found(glob: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        return failed(&format!("look for `{glob}`"), outcome);
    }
    let count = items(&outcome.text).count();
    if count == 0 {
        return format!("I found no file that matches `{glob}`.");
    }
    let found = file::count(count, "match", "matches");
    format!("I found {found} for `{glob}`:\n\n{}", fenced(&outcome.text))
}

pub(crate) fn used(name: &str, outcome: &Outcome) -> String {
    if outcome.is_error {
        return format!("`{name}` failed:\n\n{}", fenced(&outcome.text));
    }
    let images = match outcome.images {
        0 => String::new(),
        images => format!(" and {}", file::count(images, "image", "images")),
    };
    match outcome.text.trim() {
        "" => format!("`{name}` answered without words{images}."),
        _ => format!("`{name}` answered{images}:\n\n{}", fenced(&outcome.text)),
    }
}

/// How a folder is called in a sentence.
fn place(path: &str) -> String {
    match path {
        "." | "" => "this folder".into(),
        _ => format!("`{path}`"),
    }
}

/// A text in a code fence; only its beginning if it is long.
fn fenced(text: &str) -> String {
    const LINE_MAX_CHARS: usize = 200;
    let text = text.trim_end();
    let mut shown: Vec<String> = text
        .lines()
        .take(LINES_MAX)
        .map(|line| match line.char_indices().nth(LINE_MAX_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.into(),
        })
        .collect();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        shown.push(format!("… ({} more)", file::count(lines - LINES_MAX, "line", "lines")));
    }
    // A fence must be longer than any inside it.
    let fence = if text.contains("```") { "````" } else { "```" };
    format!("{fence}\n{}\n{fence}", shown.join("\n"))
}
