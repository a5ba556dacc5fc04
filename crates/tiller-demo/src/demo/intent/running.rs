//! Commands and tools: what is to be run.

use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;

use super::{Known, Task, is_path, read_clause};
use crate::demo::words::{Clause, Mark, clauses, is_key};

/// "call NAME {…}", "use the NAME tool with …": any tool on offer, the client's own included.
pub(super) fn use_tool(clause: &Clause, known: &Known) -> Option<Task> {
    const CALLING: &str = "use call invoke";
    if !clause.begins(CALLING) {
        return None;
    }
    let arguments = arguments(clause);
    let offered = known.tools.iter().find_map(|tool| {
        let at = clause.words.iter().position(|word| word.text == tool.name)?;
        (at > 0).then_some((at, tool))
    });
    let Some((at, tool)) = offered else {
        // A tool that is not there: to be called by its name all the same, and then refused.
        let name = clause.words.get(1).filter(|word| word.key != "tool")?.text.to_owned();
        let meant = clause.has("tool") || arguments.is_some();
        let arguments = arguments.unwrap_or_default();
        return meant.then_some(Task::UseTool { name, arguments });
    };
    let name = tool.name.clone();
    if let Some(arguments) = arguments {
        return Some(Task::UseTool { name, arguments });
    }
    let end = clause.words.len();
    let rest = clause.rest(clause.skip(at + 1, end, "tool with on for to and of command"));
    let Some(verb) = verb_of(&name) else {
        let arguments = fill(tool, rest);
        return Some(Task::UseTool { name, arguments });
    };
    // "use bash to list the files" says what to do, and "use read on a.txt" nearly.
    let reported = clause.position_from(at + 1, "to").is_some();
    let said = if reported { rest.to_owned() } else { format!("{verb} {rest}") };
    let again = Known { tools: &[], last_path: known.last_path.clone() };
    let clauses = clauses(&said);
    let clause = clauses.first().filter(|clause| !clause.begins(CALLING))?;
    read_clause(clause, &again)
}

/// The JSON object a user wrote for a tool.
fn arguments(clause: &Clause) -> Option<Arguments> {
    let word = clause.words.iter().find(|word| word.mark == Mark::Json)?;
    serde_json::from_str(word.text).ok()
}

/// How one asks for what a well-known tool does.
fn verb_of(tool: &str) -> Option<&'static str> {
    match tool {
        "read" => Some("read"),
        "bash" => Some("run"),
        "ls" => Some("list"),
        "grep" => Some("search for"),
        "find" => Some("find"),
        "write" => Some("write"),
        "edit" => Some("edit"),
        _ => None,
    }
}

/// The arguments a tool must have, made of what the user said.
fn fill(tool: &ToolSpec, said: &str) -> Arguments {
    let number = || said.split_whitespace().find_map(|word| word.parse::<i64>().ok());
    let value = |schema: &Value| match (schema["enum"].get(0), schema["type"].as_str()) {
        (Some(choice), _) => choice.clone(),
        (None, Some("number" | "integer")) => json!(number().unwrap_or(1)),
        (None, Some("boolean")) => json!(true),
        (None, Some("array")) => json!([]),
        (None, Some("object")) => json!({}),
        _ => json!(said),
    };
    let required = tool.parameters["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    required.map(|name| (name.into(), value(&tool.parameters["properties"][name]))).collect()
}

/// "run `git status`", "execute make", "$ ls -l", "what does `uname` print?"
pub(super) fn run(clause: &Clause, _: &Known) -> Option<Task> {
    let task = |command: &str| Some(Task::Run { command: command.trim().into() });
    let code = clause.words.iter().find(|word| word.mark == Mark::Code);
    if clause.begins("run execute exec $ >") {
        if clause.has("test tests")
            && clause.words[1..].iter().all(|word| is_key(word, "unit test tests suite all of"))
        {
            return Some(Task::RunTests);
        }
        let command = match code {
            Some(code) => code.text,
            None => {
                let end = clause.words.len();
                let from = clause.skip(1, end, "shell bash following command");
                without_manners(clause.rest(from))
            }
        };
        return match command {
            "" => Some(Task::Ask("Which command shall I run?")),
            _ => task(&with_interpreter(command)),
        };
    }
    let asked = clause.words.len() == 1 || clause.begins("what show try check");
    let typed = clause.begins("git cargo npm pwd whoami uname echo")
        && clause.words[0].text == clause.words[0].key;
    match code {
        Some(code) if asked && !is_path(code) => task(code.text),
        None if typed => task(without_manners(clause.rest(0))),
        None if clause.begins("ls") && clause.rest(0).contains(" -") => task(clause.rest(0)),
        _ => None,
    }
}

/// What politeness adds behind a command.
fn without_manners(command: &str) -> &str {
    let endings = [" please", " for me", " now", " in the shell", " in bash", " command"];
    endings.iter().fold(command.trim(), |command, ending| {
        command.strip_suffix(ending).unwrap_or(command).trim_end_matches([',', ' '])
    })
}

/// A bare script is run by what its name says.
fn with_interpreter(command: &str) -> String {
    let interpreter = match command.rsplit_once('.') {
        _ if command.contains(char::is_whitespace) || command.starts_with(['.', '/']) => None,
        Some((_, "py")) => Some("python3"),
        Some((_, "sh")) => Some("bash"),
        Some((_, "js")) => Some("node"),
        Some((_, "rb")) => Some("ruby"),
        _ => None,
    };
    match interpreter {
        Some(interpreter) => format!("{interpreter} {command}"),
        None => command.into(),
    }
}

/// What people ask, and the command that knows.
const COMMANDS: [(&str, &str); 9] = [
    ("git status", "git status/status of git/uncommitted changes/what changed"),
    ("git log --oneline -10", "git log/last commits/recent commits/git history"),
    ("git diff", "git diff"),
    ("git branch", "which branch/what branch/git branch/current branch"),
    ("date", "what time/what date/what day/is date/today's date/current time"),
    (
        "pwd",
        "where am i/where are you/where are we/is current directory/is working directory/\
         is current folder/directory am i/folder am i/current path",
    ),
    ("whoami", "who am i"),
    ("uname -a", "operating system/which system/what system/what os/which os"),
    ("df -h .", "disk space/free space"),
];

/// Questions that a well-known command answers.
pub(super) fn small_questions(clause: &Clause, _: &Known) -> Option<Task> {
    // Something that takes its time, to see how a client bears it.
    if clause.begins("sleep wait") {
        let seconds: u32 = clause.words.iter().find_map(|word| word.key.parse().ok())?;
        return Some(Task::Run { command: format!("sleep {}", seconds.min(600)) });
    }
    let asked = |(_, phrases): &&(&str, &str)| clause.phrase(phrases).is_some();
    let (command, _) = COMMANDS.iter().find(asked)?;
    Some(Task::Run { command: (*command).into() })
}
