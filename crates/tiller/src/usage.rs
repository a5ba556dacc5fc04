//! Error texts for an invalid command line: one sentence, in one style.

use std::error::Error;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};

pub use tiller_config::start_error::{StartError, USAGE};

use crate::args::Args;

/// The output of `tiller` without arguments.
pub const BRIEF: &str = include_str!("../texts/usage.md");

/// tiller's commands.
const COMMANDS: [&str; 14] = [
    "acp",
    "chat",
    "session",
    "store",
    "mcp",
    "auth",
    "conform",
    "serve",
    "connect",
    "sandbox",
    "schema",
    "completions",
    "man",
    "help",
];

/// Commands of similar programs, and tiller's equivalents.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["doctor", "status", "check"],
        "`tiller auth list` shows the keys, `tiller --list-models` the models, `tiller session \
         check FILE` the state of a session",
    ),
    (&["login", "authenticate", "signin"], "`tiller auth set PROVIDER` stores a key"),
    (&["logout", "signout"], "`tiller auth remove PROVIDER` removes a key"),
    (&["models", "model"], "`tiller --list-models` lists the models"),
    (&["list", "ls", "history"], "`tiller session list` lists the sessions"),
    (&["resume", "continue"], "`tiller --resume ID` and `tiller --continue` open a session"),
    (&["export", "share"], "`tiller --export FILE` writes a session as a page"),
    (&["version"], "`tiller --version` prints the version"),
    (&["rpc", "server", "daemon"], "`tiller --mode rpc` serves a client, `tiller serve` many"),
    (&["install", "uninstall", "update", "upgrade"], "tiller installs nothing"),
    (&["config", "settings", "init"], "settings are in settings.json in the agent folder"),
];

/// Refuses a message that was probably meant as a command: its first word is similar to one of
/// ours, or is a command of similar programs. With `-p` or `--mode` it is always a message.
pub fn mistaken_command(args: &Args) -> Option<String> {
    if args.print || args.mode.is_some() {
        return None;
    }
    let first = args.messages.first()?;
    let advice = near_command(first).map(|near| format!("did you mean `tiller {near}`?"));
    let advice = advice.or_else(|| elsewhere(first).map(str::to_owned))?;
    Some(format!("Unknown command: {first} ({advice}); with -p it is sent as a message"))
}

fn near_command(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let distance = |command: &str| strsim::osa_distance(&word, command);
    let is_near = |command: &&str| distance(command) <= if command.len() > 4 { 2 } else { 1 };
    COMMANDS.into_iter().filter(is_near).min_by_key(|command| distance(command))
}

fn elsewhere(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    ELSEWHERE.iter().find(|(words, _)| words.contains(&&*word)).map(|(_, advice)| *advice)
}

/// The reason in one sentence, with the most similar flag or command if there is one.
pub fn usage_error(err: &clap::Error) -> String {
    let context = |kind| match err.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let nearest = |kind| match context(kind) {
        Some(nearest) => format!(" (did you mean {nearest}?)"),
        None => String::new(),
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    let valid = context(ContextKind::ValidValue).unwrap_or_default();
    let value = context(ContextKind::InvalidValue).unwrap_or_default();
    match err.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            format!("Unknown option: {argument}{}", nearest(ContextKind::SuggestedArg))
        }
        ErrorKind::UnknownArgument => format!("Unexpected argument: {argument}"),
        ErrorKind::InvalidSubcommand => {
            let word = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("Unknown command: {word}{}", nearest(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "Missing command: --help lists them".to_owned()
        }
        ErrorKind::MissingRequiredArgument => format!("Missing argument: {argument}"),
        ErrorKind::InvalidValue if value.is_empty() => format!("Missing value: {argument}"),
        ErrorKind::InvalidValue if argument.split(' ').next() == Some("--mode") => {
            format!("Invalid mode {value:?}. Valid values: text, json, rpc, acp")
        }
        ErrorKind::InvalidValue if !valid.is_empty() => {
            let flag = argument.split(' ').next().unwrap_or_default();
            format!("Invalid value {value:?} for {flag}. Valid values: {valid}")
        }
        ErrorKind::ValueValidation => {
            // The words of the standard library say less than the name of the value.
            let why = err.source().filter(|why| !why.is::<ParseIntError>());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("Invalid value {value:?} for {argument}{why}")
        }
        _ => {
            let text = err.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_near_a_command_is_taken_for_it() {
        for (word, command) in [
            ("sesion", Some("session")),
            ("sessions", Some("session")),
            ("Session", Some("session")),
            ("atuh", Some("auth")),
            ("completion", Some("completions")),
            ("conforms", Some("conform")),
            ("halp", Some("help")),
            ("hello", None),
            ("fix", None),
            ("What is in session.rs?", None),
        ] {
            assert_eq!(near_command(word), command, "{word}");
        }
    }
}
