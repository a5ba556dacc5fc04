//! The commands of the chat: their names, their help, and what Tab completes. Pure.

use tiller_protocol::ThinkingLevel;

/// A command as `/help` shows it.
struct CommandHelp {
    name: &'static str,
    argument: &'static str,
    about: &'static str,
}

const fn row(name: &'static str, argument: &'static str, about: &'static str) -> CommandHelp {
    CommandHelp { name, argument, about }
}

const COMMANDS: &[CommandHelp] = &[
    row("help", "", "list the commands"),
    row("model", "[PATTERN]", "show or choose the model"),
    row("models", "[PATTERN]", "list the models that can be used"),
    row("thinking", "[LEVEL]", "show or choose the thinking level; show or hide its text"),
    row("new", "", "start a new session"),
    row("resume", "", "choose a stored session of this folder"),
    row("fork", "", "start a session from an earlier message of this one"),
    row("compact", "[FOCUS]", "replace the older part of the conversation with a summary"),
    row("name", "NAME", "name the session"),
    row("stats", "", "show tokens, cost and the session's file"),
    row("follow-up", "TEXT", "send a message when the model is done"),
    row("queue", "", "list the queued messages"),
    row("clear-queue", "", "remove the queued messages"),
    row("tools", "", "list the tools of the model"),
    row("reload", "", "read settings, skills, templates and extensions again"),
    row("export", "[FILE]", "write the session as an HTML page"),
    row("bash", "COMMAND", "run a shell command, like !COMMAND"),
    row("abort", "", "stop the model, like Ctrl-C"),
    row("quit", "", "end the chat, like Ctrl-D"),
];

/// What Tab can complete beyond the chat's own commands.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionNames {
    /// Templates, skills and commands of extensions.
    pub(super) commands: Vec<String>,
    /// As `provider/id`.
    pub(super) models: Vec<String>,
}

/// The lines of `/help`, with the commands of the session.
pub(super) fn help(session: &[(String, String)]) -> Vec<String> {
    let own = COMMANDS.iter().map(|command| {
        (format!("/{} {}", command.name, command.argument), command.about.to_owned())
    });
    let extra = [("!COMMAND", "run a shell command; with !! the model does not see it")];
    let extra = extra.map(|(usage, about)| (usage.to_owned(), about.to_owned()));
    let session = session.iter().map(|(name, about)| (format!("/{name}"), about.clone()));
    let rows: Vec<(String, String)> = own.chain(extra).chain(session).collect();
    let width = rows.iter().map(|(usage, _)| usage.chars().count()).max().unwrap_or_default();
    let lines = rows.iter().map(|(usage, about)| format!("  {usage:width$}  {about}"));
    let keys = "A line that is sent while the model works is a steering message. Ctrl-C stops the \
                model; when it is idle, Ctrl-C twice or Ctrl-D quits.";
    lines.map(|line| line.trim_end().to_owned()).chain([keys.to_owned()]).collect()
}

/// A command with its argument, such as `/name NAME`.
pub(super) fn usage_of(name: &str) -> String {
    let command = COMMANDS.iter().find(|command| command.name == name);
    let argument = command.map_or("", |command| command.argument);
    format!("/{name} {argument}").trim_end().to_owned()
}

/// The command whose name is most similar to a mistyped one.
pub(super) fn nearest(name: &str, session: &[String]) -> Option<String> {
    let own = COMMANDS.iter().map(|command| command.name);
    let all = own.chain(session.iter().map(String::as_str));
    let near = all.map(|command| (strsim::osa_distance(name, command), command));
    let near = near.filter(|(distance, name)| *distance <= if name.len() > 4 { 2 } else { 1 });
    near.min_by_key(|(distance, _)| *distance).map(|(_, command)| command.to_owned())
}

/// What can stand at the cursor: where the completed word begins, and the words.
pub(super) fn completions(line: &str, names: &SessionNames) -> (usize, Vec<String>) {
    let Some(rest) = line.strip_prefix('/') else { return (line.len(), Vec::new()) };
    let begins = |typed: &str, word: &str| word.starts_with(typed);
    match rest.split_once(' ') {
        None => {
            let own = COMMANDS.iter().map(|command| command.name);
            let all = own.chain(names.commands.iter().map(String::as_str));
            let mut words: Vec<String> =
                all.filter(|word| begins(rest, word)).map(|word| format!("/{word}")).collect();
            words.sort();
            words.dedup();
            (0, words)
        }
        Some((command @ ("model" | "models"), typed)) => {
            let models = names.models.iter().filter(|model| model.contains(typed));
            (command.len() + 2, models.cloned().collect())
        }
        Some(("thinking", typed)) => {
            let levels = ThinkingLevel::ALL.map(ThinkingLevel::name);
            let words = levels.into_iter().chain(["show", "hide"]);
            let words = words.filter(|word| begins(typed, word)).map(str::to_owned);
            ("/thinking ".len(), words.collect())
        }
        Some(_) => (line.len(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn tab_completes_commands_models_and_levels() {
        let names = SessionNames {
            commands: vec!["skill:demo".to_owned(), "fix-it".to_owned()],
            models: vec!["tiller/demo".to_owned(), "house/large".to_owned()],
        };
        for (line, at, words) in [
            ("Hello", 5, Vec::<&str>::new()),
            ("/mo", 0, vec!["/model", "/models"]),
            ("/fi", 0, vec!["/fix-it"]),
            ("/s", 0, vec!["/skill:demo", "/stats"]),
            ("/model ", 7, vec!["tiller/demo", "house/large"]),
            ("/model de", 7, vec!["tiller/demo"]),
            ("/models la", 8, vec!["house/large"]),
            ("/thinking h", 10, vec!["high", "hide"]),
            ("/name x", 7, vec![]),
        ] {
            let (begin, found) = completions(line, &names);
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            assert_eq!((begin, found), (at, words), "{line:?}");
        }
    }

    #[test]
    fn help_lists_commands_in_columns() {
        let session = [("fix-it".to_owned(), "Fix something".to_owned())];
        let lines = help(&session);
        let shown = [&lines[0], &lines[1], &lines[19], &lines[20]].map(|line| format!("|{line}"));
        let shown = shown.join("\n");
        expect![[r#"
            |  /help              list the commands
            |  /model [PATTERN]   show or choose the model
            |  !COMMAND           run a shell command; with !! the model does not see it
            |  /fix-it            Fix something"#]]
        .assert_eq(&shown);
    }
}
