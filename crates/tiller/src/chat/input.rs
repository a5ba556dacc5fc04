//! What a line of the user means: a message, a shell command, or a command of the chat. Pure.

use std::path::PathBuf;

use tiller_protocol::ThinkingLevel;

use super::commands::{nearest, usage_of};

/// A line of the user, as parsed.
#[derive(Debug, PartialEq)]
pub(super) enum InputLine {
    Empty,
    /// A message to the model. While the model works it is a steering message.
    Message(String),
    /// A message for the end of the run.
    FollowUp(String),
    /// A shell command of the user's own.
    Shell {
        command: String,
        /// The model does not see the command and its output.
        is_hidden: bool,
    },
    Command(ChatCommandLine),
    /// `/NAME …` that the chat does not have: a template, a skill or a command of an extension.
    Named {
        name: String,
        line: String,
    },
    /// A command with a wrong argument, and what is wrong.
    Invalid(String),
}

/// A command of the chat with its argument.
#[derive(Debug, PartialEq)]
pub(super) enum ChatCommandLine {
    Help,
    ShowModel,
    SetModel(String),
    /// Those that match the text; all if it is empty.
    ListModels(String),
    ShowThinking,
    SetThinking(ThinkingLevel),
    /// Whether the text of the model's thinking is shown.
    ThinkingText(bool),
    New,
    Resume,
    Fork,
    Compact(Option<String>),
    Name(String),
    Stats,
    Queue,
    ClearQueue,
    Tools,
    Reload,
    Export(Option<PathBuf>),
    Abort,
    Quit,
}

impl InputLine {
    /// Parses a line. A space in front of `/` or `!` makes it a message.
    pub(super) fn parse(line: &str) -> InputLine {
        // A line that ends with `\` continues on the next one.
        let line = line.replace("\\\n", "\n");
        let line = line.trim_end();
        if line.trim().is_empty() {
            return InputLine::Empty;
        }
        if let Some(command) = line.strip_prefix("!!") {
            return shell(command, true);
        }
        if let Some(command) = line.strip_prefix('!') {
            return shell(command, false);
        }
        match line.strip_prefix('/') {
            Some(rest) => named(rest, line),
            None => InputLine::Message(line.trim().to_owned()),
        }
    }
}

fn shell(command: &str, is_hidden: bool) -> InputLine {
    match command.trim() {
        "" => InputLine::Invalid("expected a shell command behind the !".to_owned()),
        command => InputLine::Shell { command: command.to_owned(), is_hidden },
    }
}

fn named(rest: &str, line: &str) -> InputLine {
    let (name, argument) = match rest.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, argument.trim()),
        None => (rest, ""),
    };
    let text = || (!argument.is_empty()).then(|| argument.to_owned());
    let missing = || InputLine::Invalid(format!("expected: {}", usage_of(name)));
    let command = match name {
        "help" => ChatCommandLine::Help,
        "model" => text().map_or(ChatCommandLine::ShowModel, ChatCommandLine::SetModel),
        "models" => ChatCommandLine::ListModels(argument.to_owned()),
        "thinking" => return thinking(argument),
        "new" => ChatCommandLine::New,
        "resume" => ChatCommandLine::Resume,
        "fork" => ChatCommandLine::Fork,
        "compact" => ChatCommandLine::Compact(text()),
        "name" => match text() {
            Some(name) => ChatCommandLine::Name(name),
            None => return missing(),
        },
        "stats" => ChatCommandLine::Stats,
        "queue" => ChatCommandLine::Queue,
        "clear-queue" => ChatCommandLine::ClearQueue,
        "tools" => ChatCommandLine::Tools,
        "reload" => ChatCommandLine::Reload,
        "export" => ChatCommandLine::Export(text().map(PathBuf::from)),
        "abort" => ChatCommandLine::Abort,
        "quit" | "exit" => ChatCommandLine::Quit,
        "follow-up" => return text().map_or_else(missing, InputLine::FollowUp),
        "bash" => match text() {
            Some(_) => return shell(argument, false),
            None => return missing(),
        },
        name => return InputLine::Named { name: name.to_owned(), line: line.to_owned() },
    };
    InputLine::Command(command)
}

fn thinking(argument: &str) -> InputLine {
    InputLine::Command(match argument {
        "" => ChatCommandLine::ShowThinking,
        "show" => ChatCommandLine::ThinkingText(true),
        "hide" => ChatCommandLine::ThinkingText(false),
        level => match ThinkingLevel::read(level) {
            Some(level) => ChatCommandLine::SetThinking(level),
            None => return InputLine::Invalid(unknown_level(level)),
        },
    })
}

fn unknown_level(level: &str) -> String {
    let levels = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ");
    format!("unknown thinking level {level:?}. Choose one of {levels}, or show or hide the text")
}

/// The error for `/NAME` that neither the chat nor the session has.
pub(super) fn unknown_command(name: &str, session_commands: &[String]) -> String {
    let advice = match nearest(name, session_commands) {
        Some(near) => format!("did you mean /{near}?"),
        None => "/help lists the commands.".to_owned(),
    };
    format!("unknown command /{name}: {advice} With a space before the / it is sent as a message.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(command: ChatCommandLine) -> InputLine {
        InputLine::Command(command)
    }

    #[test]
    fn lines_are_parsed() {
        let message = |text: &str| InputLine::Message(text.to_owned());
        let shell =
            |command: &str, is_hidden| InputLine::Shell { command: command.to_owned(), is_hidden };
        for (line, expected) in [
            ("", InputLine::Empty),
            ("  \t", InputLine::Empty),
            ("Hello ", message("Hello")),
            ("two\\\nlines", message("two\nlines")),
            (" /help me", message("/help me")),
            (" !important", message("!important")),
            ("!ls -l", shell("ls -l", false)),
            ("!! env", shell("env", true)),
            ("/bash ls", shell("ls", false)),
            ("!", InputLine::Invalid("expected a shell command behind the !".to_owned())),
            ("/bash", InputLine::Invalid("expected: /bash COMMAND".to_owned())),
            ("/help", command(ChatCommandLine::Help)),
            ("/model", command(ChatCommandLine::ShowModel)),
            ("/model  sonnet ", command(ChatCommandLine::SetModel("sonnet".to_owned()))),
            ("/models", command(ChatCommandLine::ListModels(String::new()))),
            ("/thinking", command(ChatCommandLine::ShowThinking)),
            ("/thinking high", command(ChatCommandLine::SetThinking(ThinkingLevel::High))),
            ("/thinking show", command(ChatCommandLine::ThinkingText(true))),
            ("/compact", command(ChatCommandLine::Compact(None))),
            ("/compact the files", command(ChatCommandLine::Compact(Some("the files".into())))),
            ("/name", InputLine::Invalid("expected: /name NAME".to_owned())),
            ("/follow-up then test", InputLine::FollowUp("then test".to_owned())),
            ("/follow-up", InputLine::Invalid("expected: /follow-up TEXT".to_owned())),
            ("/export out.html", command(ChatCommandLine::Export(Some("out.html".into())))),
            ("/exit", command(ChatCommandLine::Quit)),
            (
                "/skill:demo now",
                InputLine::Named { name: "skill:demo".into(), line: "/skill:demo now".into() },
            ),
        ] {
            assert_eq!(InputLine::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn wrong_argument_names_the_right_ones() {
        let InputLine::Invalid(why) = InputLine::parse("/thinking a-lot") else { panic!() };
        assert!(why.starts_with("unknown thinking level \"a-lot\". Choose one of off, "), "{why}");
    }

    #[test]
    fn unknown_command_names_the_nearest_one() {
        let session = ["deploy".to_owned()];
        for (name, expected) in [
            ("modle", "did you mean /model?"),
            ("deplyo", "did you mean /deploy?"),
            ("home/me", "/help lists the commands."),
        ] {
            let why = unknown_command(name, &session);
            assert!(why.contains(expected), "{why}");
        }
    }
}
