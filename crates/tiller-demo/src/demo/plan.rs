//! Decides what to do next, from the task, the results so far and the available tools.
//!
//! The demo has no state. Each request is processed from the user's question again, with existing
//! results in place of their calls, until a call has no result yet: that one is made. So it
//! continues any conversation.

use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;

use super::answer;
use super::file;
use super::intent::{Task, Want, quote, quote_path};

/// What the demo does for one request.
#[derive(Debug, PartialEq)]
pub(crate) enum Act {
    /// Parallel calls, and why.
    Call {
        thought: String,
        calls: Vec<Wanted>,
    },
    Say {
        thought: String,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
}

impl Wanted {
    fn new(tool: &str, arguments: Value) -> Wanted {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Arguments::new(),
        };
        Wanted { tool: tool.into(), arguments }
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) tool: String,
    pub(crate) text: String,
    pub(crate) images: usize,
    pub(crate) is_error: bool,
}

/// The available tools.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a>(pub(crate) &'a [ToolSpec]);

impl Offer<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|tool| tool.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.name.as_str())
    }
}

/// One step of a task.
enum Move {
    Calls(Vec<Wanted>),
    Say(String),
}

/// Processes the tasks until a call is needed or all text is written.
pub(crate) fn next_act(tasks: &[Task], outcomes: Vec<Outcome>, offer: Offer) -> Act {
    let tools_used = !outcomes.is_empty();
    let mut outcomes = outcomes.into_iter();
    let mut said = Vec::new();
    for task in tasks {
        let mut done: Vec<Outcome> = Vec::new();
        loop {
            match next_move(task, &done, offer) {
                Move::Say(text) => {
                    said.push(text);
                    break;
                }
                Move::Calls(calls) => {
                    let known = done.len();
                    done.extend(outcomes.by_ref().take(calls.len()));
                    if done.len() < known + calls.len() {
                        // Some calls may have results and others not; the others are repeated.
                        let missing = calls[done.len() - known..].to_vec();
                        let thought = answer::thought(task, known > 0);
                        return Act::Call { thought, calls: missing };
                    }
                }
            }
        }
    }
    let thought = if tools_used {
        "The tools have told me what I need. I can answer now.".to_owned()
    } else {
        "I can answer this without a tool.".to_owned()
    };
    Act::Say { thought, text: said.join("\n\n") }
}

fn next_move(task: &Task, done: &[Outcome], offer: Offer) -> Move {
    match task {
        Task::List { path } => list(path, done, offer),
        Task::Read { paths, want } => read(paths, *want, done, offer),
        Task::Readme => readme(done, offer),
        Task::Project => project(done, offer),
        Task::RunTests => run_tests(done, offer),
        Task::Edit { path, old, new } => edit(path, old, new, done, offer),
        Task::Run { command } => {
            let calls = [("bash", json!({ "command": command }))];
            one_call(&calls, done, offer, |outcome| answer::command(command, outcome))
        }
        Task::Write { path, content } => {
            let calls = [("write", json!({ "path": path, "content": content }))];
            one_call(&calls, done, offer, |outcome| answer::written(path, content, outcome))
        }
        Task::Append { path, line } => {
            let command = format!("printf '%s\\n' {} >> {}", quote(line), quote_path(path));
            let calls = [("bash", json!({ "command": command }))];
            one_call(&calls, done, offer, |outcome| answer::appended(path, outcome))
        }
        Task::MakeFolder { path } => {
            let calls = [("bash", json!({ "command": format!("mkdir -p {}", quote_path(path)) }))];
            one_call(&calls, done, offer, |outcome| answer::made_folder(path, outcome))
        }
        Task::Search { pattern, path } => {
            let command = format!("grep -rnF -e {} {}", quote(pattern), quote_path(path));
            let calls = [
                ("grep", json!({ "pattern": pattern, "path": path, "literal": true })),
                ("bash", json!({ "command": command })),
            ];
            one_call(&calls, done, offer, |outcome| answer::matches(pattern, path, outcome))
        }
        Task::Find { glob } => {
            let command = format!("find . -name {} -not -path '*/.git/*'", quote(glob));
            let calls =
                [("find", json!({ "pattern": glob })), ("bash", json!({ "command": command }))];
            one_call(&calls, done, offer, |outcome| answer::found(glob, outcome))
        }
        Task::UseTool { name, arguments } => {
            let calls = [(name.as_str(), Value::Object(arguments.clone()))];
            one_call(&calls, done, offer, |outcome| answer::used(name, outcome))
        }
        Task::Sum { .. }
        | Task::Count { .. }
        | Task::Story
        | Task::Greet
        | Task::Thanks
        | Task::Bye
        | Task::Help
        | Task::Ask(_)
        | Task::WillNotDelete { .. } => Move::Say(answer::talk(task)),
    }
}

/// Makes the first possible call; explains it if none is possible.
fn one_call(
    ways: &[(&str, Value)],
    done: &[Outcome],
    offer: Offer,
    say: impl FnOnce(&Outcome) -> String,
) -> Move {
    if let [outcome, ..] = done {
        return Move::Say(say(outcome));
    }
    match ways.iter().find(|(tool, _)| offer.has(tool)) {
        Some((tool, arguments)) => Move::Calls(vec![Wanted::new(tool, arguments.clone())]),
        None => {
            let wanted: Vec<_> = ways.iter().map(|(tool, _)| *tool).collect();
            Move::Say(answer::no_tool(&wanted, offer))
        }
    }
}

fn list(path: &str, done: &[Outcome], offer: Offer) -> Move {
    match done {
        [] => match list_call(path, offer) {
            Some(call) => Move::Calls(vec![call]),
            None => Move::Say(answer::no_tool(&["ls", "find", "bash"], offer)),
        },
        [listing] if listing.is_error && listing.says("not a directory") && offer.has("read") => {
            Move::Calls(vec![Wanted::new("read", json!({ "path": path }))])
        }
        [listing] => Move::Say(answer::listing(path, listing)),
        [_, file, ..] => Move::Say(answer::file(path, file, Want::Summary)),
    }
}

fn list_call(path: &str, offer: Offer) -> Option<Wanted> {
    let bash = match path {
        "." => "ls -1Ap".into(),
        _ => format!("ls -1Ap {}", quote_path(path)),
    };
    let ways = [
        ("ls", json!({ "path": path })),
        ("find", json!({ "pattern": "*", "path": path })),
        ("bash", json!({ "command": bash })),
    ];
    let way = ways.into_iter().find(|(tool, _)| offer.has(tool));
    way.map(|(tool, arguments)| Wanted::new(tool, arguments))
}

fn read(paths: &[String], want: Want, done: &[Outcome], offer: Offer) -> Move {
    if done.is_empty() {
        let calls: Option<Vec<_>> = paths.iter().map(|path| read_call(path, offer)).collect();
        return match calls {
            Some(calls) => Move::Calls(calls),
            None => Move::Say(answer::no_tool(&["read", "bash"], offer)),
        };
    }
    // A single file with an unexpected result is checked again.
    if let ([path], [outcome]) = (paths, done)
        && outcome.is_error
    {
        let is_folder = outcome.says("is a directory") || outcome.says("eisdir");
        let is_missing = outcome.says("no such file") || outcome.says("not found");
        let look_at = match (is_folder, is_missing) {
            (true, _) => Some(path.as_str()),
            (false, true) => Some(parent(path)),
            (false, false) => None,
        };
        if let Some(call) = look_at.and_then(|folder| list_call(folder, offer)) {
            return Move::Calls(vec![call]);
        }
    }
    match (paths, done) {
        ([path], [first, listing, ..]) if first.says("is a directory") || first.says("eisdir") => {
            Move::Say(answer::listing(path, listing))
        }
        ([path], [missing, listing, ..]) => Move::Say(answer::missing(path, missing, listing)),
        _ => {
            let reported =
                paths.iter().zip(done).map(|(path, file)| answer::file(path, file, want));
            Move::Say(reported.collect::<Vec<_>>().join("\n\n"))
        }
    }
}

fn read_call(path: &str, offer: Offer) -> Option<Wanted> {
    let ways = [
        ("read", json!({ "path": path })),
        ("bash", json!({ "command": format!("cat {}", quote_path(path)) })),
    ];
    let way = ways.into_iter().find(|(tool, _)| offer.has(tool));
    way.map(|(tool, arguments)| Wanted::new(tool, arguments))
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    }
}

fn readme(done: &[Outcome], offer: Offer) -> Move {
    let [listing, read @ ..] = done else {
        return list(".", done, offer);
    };
    let names = answer::names(listing);
    match (names.iter().find(|name| is_readme(name)), read) {
        (None, _) => Move::Say(answer::no_readme(listing)),
        (Some(readme), []) => self::read(&[readme.to_string()], Want::Summary, &[], offer),
        (Some(readme), [file, ..]) => Move::Say(answer::file(readme, file, Want::Summary)),
    }
}

fn project(done: &[Outcome], offer: Offer) -> Move {
    let [listing, read @ ..] = done else {
        return list(".", done, offer);
    };
    let names = answer::names(listing);
    let readme = names.iter().find(|name| is_readme(name));
    let manifest = names.iter().find(|name| MANIFESTS.contains(&name.as_str()));
    let files: Vec<String> = readme.into_iter().chain(manifest).cloned().collect();
    if !files.is_empty() && read.is_empty() {
        return self::read(&files, Want::Summary, &[], offer);
    }
    Move::Say(answer::project(listing, &files, read))
}

/// Files that describe a project.
const MANIFESTS: [&str; 6] =
    ["Cargo.toml", "package.json", "pyproject.toml", "go.mod", "pom.xml", "Makefile"];

fn is_readme(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "readme" || name.starts_with("readme.")
}

fn run_tests(done: &[Outcome], offer: Offer) -> Move {
    const TESTS: [(&str, &str); 5] = [
        ("Cargo.toml", "cargo test"),
        ("package.json", "npm test"),
        ("go.mod", "go test ./..."),
        ("pyproject.toml", "python3 -m pytest"),
        ("Makefile", "make test"),
    ];
    let [listing, run @ ..] = done else {
        return list(".", done, offer);
    };
    let names = answer::names(listing);
    let known = TESTS.iter().find(|(file, _)| names.iter().any(|name| name == file));
    match known {
        None => Move::Say(answer::no_tests(listing)),
        Some((_, command)) => {
            let calls = [("bash", json!({ "command": command }))];
            one_call(&calls, run, offer, |outcome| answer::command(command, outcome))
        }
    }
}

/// Reads before it edits, so that it can report problems before changing anything.
fn edit(path: &str, old: &str, new: &str, done: &[Outcome], offer: Offer) -> Move {
    if !offer.has("edit") {
        return Move::Say(answer::no_tool(&["edit"], offer));
    }
    let edits = |edits: Vec<Value>| {
        Move::Calls(vec![Wanted::new("edit", json!({ "path": path, "edits": edits }))])
    };
    let one_edit = || edits(vec![json!({ "oldText": old, "newText": new })]);
    let (file, edited) = match done {
        [] if offer.has("read") => {
            return Move::Calls(vec![Wanted::new("read", json!({ "path": path }))]);
        }
        [] => return one_edit(),
        [file, edited @ ..] if file.tool == "read" => (Some(file), edited),
        edited => (None, edited),
    };
    if let Some(file) = file
        && file.is_error
    {
        return Move::Say(answer::failed(&format!("read `{path}`"), file));
    }
    if let [outcome, ..] = edited {
        return Move::Say(answer::edited(path, old, new, outcome));
    }
    let text = file.map_or("", |file| file.text.as_str());
    match text.matches(old).count() {
        // It may be in the part that was not shown; the tool will report it.
        0 if !file::is_whole(text) => one_edit(),
        0 => Move::Say(format!("`{path}` does not contain `{old}`, so I left it as it is.")),
        1 => one_edit(),
        count => {
            // The tool requires unique texts; whole lines usually are.
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(old)).collect();
            let unique = |line: &&str| text.matches(line).count() == 1;
            if lines.len() > EDITS_MAX || !lines.iter().all(unique) {
                return Move::Say(answer::too_many(path, old, count));
            }
            let edit = |line: &&str| json!({ "oldText": line, "newText": line.replace(old, new) });
            edits(lines.iter().map(edit).collect())
        }
    }
}

/// Each edit searches the whole file, so their number is limited.
const EDITS_MAX: usize = 20;

impl Outcome {
    fn says(&self, words: &str) -> bool {
        self.is_error && self.text.to_lowercase().contains(words)
    }
}
