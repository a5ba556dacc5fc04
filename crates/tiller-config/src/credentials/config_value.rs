//! A configured value: plain text, text with variables, or a command that prints it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tiller_tools::Shell;
use tiller_tools::command::{BashCommand, execute};
use tokio_util::sync::CancellationToken;

/// How long a command may take. It may have to ask the user to unlock a key store.
const COMMAND_MAX: Duration = Duration::from_secs(60);

/// Has no `Debug`, because it may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ConfigValue {
    /// May contain `$NAME` and `${NAME}`.
    Text(String),
    /// Written with a leading `!`.
    Command(String),
}

impl ConfigValue {
    pub(crate) fn read(text: &str) -> ConfigValue {
        match text.strip_prefix('!') {
            Some(command) => ConfigValue::Command(command.to_owned()),
            None => ConfigValue::Text(text.to_owned()),
        }
    }

    /// The value, if it is known without running a command. `variable` reads the environment.
    pub(crate) fn fill<'a>(
        &self,
        variable: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Result<String, String>> {
        match self {
            ConfigValue::Text(text) => Some(interpolate(text, variable)),
            ConfigValue::Command(_) => None,
        }
    }

    /// The names of the variables in it. A command may read any variable, so it names none.
    pub(crate) fn variables(&self) -> Vec<String> {
        let names = RefCell::new(Vec::new());
        let record = |name: &str| {
            names.borrow_mut().push(name.to_owned());
            Some("-")
        };
        // A text that cannot be filled in is reported where the key is needed.
        self.fill(record);
        names.into_inner()
    }

    /// The value; runs the command if it is one. The command's stderr is discarded: it may quote
    /// its arguments, which may be secrets.
    pub(crate) async fn find(&self, variables: &HashMap<String, String>) -> Result<String, String> {
        match self {
            ConfigValue::Text(text) => {
                interpolate(text, |name| variables.get(name).map(String::as_str))
            }
            ConfigValue::Command(command) => printed_by(command).await,
        }
    }
}

async fn printed_by(command: &str) -> Result<String, String> {
    let output = output_of(command).await?;
    if output.contains('\n') {
        Err(format!("{} printed more than one line", named(command)))
    } else {
        Ok(output)
    }
}

/// A command's output, trimmed.
pub(super) async fn output_of(command: &str) -> Result<String, String> {
    let name = named(command);
    let command = BashCommand {
        command: format!("{{\n{command}\n}} 2>/dev/null </dev/null"),
        // The folder that tiller works in.
        cwd: Arc::new(PathBuf::from(".")),
        env: Arc::new([]),
        shell: Shell::default(),
        confinement: None,
    };
    let running = execute(command, |_| {}, CancellationToken::new());
    let outcome = tokio::time::timeout(COMMAND_MAX, running).await;
    let outcome = outcome
        .map_err(|_| format!("{name} took longer than {} seconds", COMMAND_MAX.as_secs()))?
        .map_err(|_| format!("{name} cannot be started"))?;
    match (outcome.exit_code, outcome.output.trim()) {
        (Some(0), "") => Err(format!("{name} printed nothing")),
        (Some(0), output) => Ok(output.to_owned()),
        (Some(127), _) => Err(format!("{name} was not found (exit code 127)")),
        (Some(code), _) => Err(format!("{name} failed with exit code {code}")),
        (None, _) => Err(format!("{name} was stopped")),
    }
}

/// Names a command by its program alone: an argument may be a secret.
fn named(command: &str) -> String {
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    match (words.next(), words.next()) {
        (None, _) => "the command".to_owned(),
        (Some(program), None) => format!("the command `{program}`"),
        (Some(program), Some(_)) => format!("the command `{program} …`"),
    }
}

/// Replaces `$NAME` and `${NAME}`; `$$` is a dollar sign, `$!` an exclamation mark.
fn interpolate<'a>(
    text: &str,
    variable: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        filled.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = if let Some(braced) = rest.strip_prefix('{') {
            braced.split_once('}').ok_or("`${` without `}`")?
        } else {
            rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
        };
        if name.is_empty() {
            // `$$` and `$!` stand for their second character, a single `$` for itself.
            let literal = rest.chars().next().filter(|c| matches!(c, '$' | '!'));
            filled.push(literal.unwrap_or('$'));
            rest = &rest[literal.map_or(0, char::len_utf8)..];
            continue;
        }
        // Name the variable only: the text around it may be part of a key.
        let is_plain = name.chars().all(is_name);
        let shown = if is_plain { name } else { "between `${` and `}`" };
        let known = variable(name).filter(|value| !value.is_empty());
        filled.push_str(known.ok_or_else(|| format!("the variable {shown} is not set"))?);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(values: &[&str], expected: Expect) {
        let variable = |name: &str| match name {
            "KEY" => Some("secret"),
            "EMPTY" => Some(""),
            _ => None,
        };
        let mut report = String::new();
        for value in values {
            let filled = match ConfigValue::read(value).fill(variable) {
                Some(Ok(filled)) => filled,
                Some(Err(why)) => format!("! {why}"),
                None => "a command".to_owned(),
            };
            report += &format!("{value} → {filled}\n");
        }
        expected.assert_eq(&report);
    }

    #[test]
    fn variables_are_interpolated() {
        check(
            &[
                "plain",
                "$KEY",
                "a-${KEY}-b$KEY.",
                "$$KEY $! $",
                "$!not-a-command",
                "${KEY",
                "$NONE",
                "$EMPTY",
                "${}",
                "${sk-12 3}",
                "!echo $KEY",
                "é$KEYé",
                "",
            ],
            expect![[r#"
                plain → plain
                $KEY → secret
                a-${KEY}-b$KEY. → a-secret-bsecret.
                $$KEY $! $ → $KEY ! $
                $!not-a-command → !not-a-command
                ${KEY → ! `${` without `}`
                $NONE → ! the variable NONE is not set
                $EMPTY → ! the variable EMPTY is not set
                ${} → ${}
                ${sk-12 3} → ! the variable between `${` and `}` is not set
                !echo $KEY → a command
                é$KEYé → ésecreté
                 → 
            "#]],
        );
    }

    #[tokio::test]
    async fn command_output_is_the_value() {
        let variables = HashMap::new();
        let find = async |text: &str| ConfigValue::read(text).find(&variables).await;
        assert_eq!(find("!printf 'key\\n\\n'").await, Ok("key".into()));
        assert_eq!(find("!echo noise >&2; echo key # why").await, Ok("key".into()));
        assert_eq!(find("!cat").await, Err("the command `cat` printed nothing".into()));
        assert_eq!(
            find("!echo a; echo b").await,
            Err("the command `echo …` printed more than one line".into())
        );
        assert_eq!(
            find("!echo key; exit 3").await,
            Err("the command `echo …` failed with exit code 3".into())
        );
        assert_eq!(
            find("!TOKEN=secret no-such-program --read key").await,
            Err("the command `no-such-program …` was not found (exit code 127)".into())
        );
    }
}
