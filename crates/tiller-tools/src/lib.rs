//! What the model does in the user's folder: seven tools, and the command that a client runs
//! itself.
//!
//! Start reading at `ls`, the smallest tool. A tool takes its typed input and a [`ToolContext`] and
//! returns text for the model and details for the client. Slow work runs on a blocking thread: the
//! server that awaits these futures has only one thread.
//!
//! [`ToolContext`]: tiller_agent::tool::ToolContext

pub mod ls;
mod typed;
mod path;
mod os_error;
mod blocking;
mod listing;
pub mod read;
pub mod image;
pub mod find;
pub mod grep;
mod walk;
pub mod write;
pub mod edit;
mod lock;
mod atomic_write;
pub mod bash;
pub mod command;
pub mod preview;
mod shell;
pub mod output;
pub mod ansi;
pub mod child;
pub mod process;
#[cfg(test)]
mod testing;

pub use shell::Shell;
use tiller_agent::tool::Tool;

/// The tools that a session has by default.
pub const DEFAULT: [&str; 4] = ["read", "bash", "edit", "write"];

/// All built-in tools.
pub fn builtin() -> Vec<Tool> {
    vec![
        read::tool(),
        bash::tool(),
        edit::tool(),
        write::tool(),
        grep::tool(),
        find::tool(),
        ls::tool(),
    ]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn definitions_sent_to_the_model() {
        let tools = builtin();
        assert!(DEFAULT.iter().zip(&tools).all(|(name, tool)| *name == tool.name()));
        let lines = tools.iter().map(|tool| {
            let snippet = tool.snippet.as_deref().unwrap();
            format!("{}: {snippet}\n{}\n", tool.name(), tool.spec.parameters)
        });
        expect![[r#"
            read: Read a text file or look at a picture
            {"type":"object","properties":{"path":{"type":"string","description":"File to read, relative to the working directory or absolute"},"offset":{"type":"number","description":"Line to start at, counted from 1"},"limit":{"type":"number","description":"How many lines to read"}},"required":["path"]}
            bash: Run a command in the shell
            {"type":"object","properties":{"command":{"type":"string","description":"Command to run"},"timeout":{"type":"number","description":"Seconds after which the command is killed (default: never)"}},"required":["command"]}
            edit: Replace texts in a file that must match exactly
            {"type":"object","properties":{"path":{"type":"string","description":"File to edit, relative to the working directory or absolute"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"description":"Text to replace, exactly as it stands in the file, where it must occur only once","type":"string"},"newText":{"description":"Text to put in its place","type":"string"}},"required":["oldText","newText"]},"description":"What to replace"}},"required":["path","edits"]}
            write: Create a file or replace all of it
            {"type":"object","properties":{"path":{"type":"string","description":"File to write, relative to the working directory or absolute"},"content":{"type":"string","description":"All of the file's content"}},"required":["path","content"]}
            grep: Search files for a pattern, past what git ignores
            {"type":"object","properties":{"pattern":{"type":"string","description":"Regular expression to search for, or the text itself with `literal`"},"path":{"type":"string","description":"File or directory to search (default: the working directory)"},"glob":{"type":"string","description":"Search only files whose path matches this glob, such as `*.ts` or `src/**/*.rs`"},"ignoreCase":{"type":"boolean","description":"Match upper and lower case alike (default: false)"},"literal":{"type":"boolean","description":"Take `pattern` as the text itself, not as a regular expression (default: false)"},"context":{"type":"number","description":"How many lines to show before and after each match (default: 0)"},"limit":{"type":"number","description":"How many matches to return (default: 100)"}},"required":["pattern"]}
            find: Find files by name, past what git ignores
            {"type":"object","properties":{"pattern":{"type":"string","description":"Glob to match names with, such as `*.ts`, `**/*.json` or `src/**/*.spec.ts`"},"path":{"type":"string","description":"Directory to search (default: the working directory)"},"limit":{"type":"number","description":"How many paths to return (default: 1000)"}},"required":["pattern"]}
            ls: List the names in a directory
            {"type":"object","properties":{"path":{"type":"string","description":"Directory to list (default: the working directory)"},"limit":{"type":"number","description":"How many names to return (default: 500)"}}}
        "#]].assert_eq(&lines.collect::<String>());
    }
}
