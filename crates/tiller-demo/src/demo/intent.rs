//! Parses a request: which of its tasks does the user want?
//!
//! A message is split into clauses, and each is matched against the table `READINGS`, top to
//! bottom; the first match wins.

mod reading;
mod running;
mod searching;
mod talk;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use writing::{quote, quote_path};

use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;

use super::words::{Clause, Mark, Word, among, clauses, is_key};

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    List {
        path: String,
    },
    Read {
        paths: Vec<String>,
        want: Want,
    },
    /// Find the README, whatever its name, and read it.
    Readme,
    /// What the project in this folder is about.
    Project,
    Run {
        command: String,
    },
    /// Run the tests in the way this project does.
    RunTests,
    Write {
        path: String,
        content: String,
    },
    Append {
        path: String,
        line: String,
    },
    MakeFolder {
        path: String,
    },
    Edit {
        path: String,
        old: String,
        new: String,
    },
    Search {
        pattern: String,
        path: String,
    },
    Find {
        glob: String,
    },
    UseTool {
        name: String,
        arguments: Arguments,
    },
    Sum {
        sum: String,
        value: Option<f64>,
    },
    Count {
        to: u32,
    },
    Story,
    Greet,
    Thanks,
    Bye,
    Help,
    /// A question back to the user.
    Ask(&'static str),
    /// Refused without exact instructions.
    WillNotDelete {
        path: String,
    },
}

/// What to say about a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Want {
    Summary,
    Content,
}

/// The context for parsing a clause.
pub(crate) struct Known<'a> {
    pub(crate) tools: &'a [ToolSpec],
    /// What "it" refers to.
    pub(crate) last_path: Option<String>,
}

type RequestReading = fn(&Clause, &Known) -> Option<Task>;

/// The order matters: "run", "replace" and "write" are unambiguous, "what is" could be almost
/// anything.
const READINGS: &[RequestReading] = &[
    running::use_tool,
    talk::sum,
    running::run,
    writing::edit,
    writing::make_folder,
    writing::write,
    writing::delete,
    searching::find,
    searching::search,
    running::small_questions,
    reading::readme,
    reading::project,
    reading::read,
    reading::list,
    talk::count,
    talk::story,
    talk::help,
    talk::manners,
];

/// A message with more is a document, not a request.
const TASKS_MAX: usize = 8;

/// All tasks in the message, in order. Empty if nothing was understood.
pub(crate) fn read(message: &str, mut known: Known) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for clause in clauses(message) {
        let Some(task) = read_clause(&clause, &known) else {
            continue;
        };
        if let Some(path) = task.path() {
            known.last_path = Some(path.to_owned());
        }
        match (tasks.last_mut(), task) {
            // "Read a.txt and summarise it" is one task, not two.
            (
                Some(Task::Read { paths, want }),
                Task::Read { paths: again, want: Want::Summary },
            ) if *paths == again => *want = Want::Summary,
            (Some(Task::Readme), Task::Readme | Task::Ask(_)) => (),
            (_, task) => tasks.push(task),
        }
        if tasks.len() == TASKS_MAX {
            break;
        }
    }
    // Greetings are answered only if there is nothing else to do.
    let work = |task: &Task| !matches!(task, Task::Greet | Task::Thanks | Task::Bye);
    if tasks.iter().any(work) {
        tasks.retain(work);
    }
    tasks.dedup();
    tasks
}

fn read_clause(clause: &Clause, known: &Known) -> Option<Task> {
    READINGS.iter().find_map(|reading| reading(clause, known))
}

impl Task {
    /// What "it" refers to after this task.
    fn path(&self) -> Option<&str> {
        match self {
            Task::Read { paths, .. } => paths.last().map(String::as_str),
            Task::Write { path, .. } | Task::Append { path, .. } | Task::Edit { path, .. } => {
                Some(path)
            }
            _ => None,
        }
    }
}

/// The paths in a clause and their positions.
fn paths(clause: &Clause) -> Vec<(usize, String)> {
    let found = clause.words.iter().enumerate().filter(|(_, word)| is_path(word));
    found.map(|(at, word)| (at, path(word))).collect()
}

fn path(word: &Word) -> String {
    word.text.strip_prefix('@').unwrap_or(word.text).to_owned()
}

fn is_path(word: &Word) -> bool {
    const FILES: &str = "makefile dockerfile license justfile gemfile procfile changelog";
    const NOT_FILES: &str = "e.g i.e and/or either/or yes/no n/a";
    let text = word.text;
    let odd = text.is_empty() || text.contains(char::is_whitespace) || text.contains("://");
    if word.mark == Mark::Json || odd || among(&word.key, NOT_FILES) {
        return false;
    }
    let slash = text.contains('/') && text.contains(char::is_alphanumeric);
    slash || has_extension(text) || among(&word.key, FILES) || text.starts_with('@')
}

/// Words for the current folder.
fn is_here(word: &Word) -> bool {
    is_key(word, "this here current working . it")
}

/// The folder that these words name: "src", "the src folder", "the folder called src".
fn folder(words: &[Word]) -> String {
    const SKIPPED: &str = "folder directory dir called named files file project code repo \
                           repository all every everywhere of in";
    let named = words.iter().find(|word| !is_key(word, SKIPPED) && !is_here(word));
    named.map_or_else(|| ".".into(), path)
}

/// `a.txt` and `.gitignore` have one, `3.5` and `end.` have none.
fn has_extension(text: &str) -> bool {
    let Some((_, extension)) = text.rsplit_once('.') else {
        return false;
    };
    (1..=10).contains(&extension.len())
        && extension.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && extension.contains(|c: char| c.is_ascii_alphabetic())
}
