//! The client's own `bash` command: runs in the same shell as the tool, but converts the output to
//! plain text and reports it chunk by chunk.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tiller_agent::sandbox::Confinement;
use tiller_agent::tool::Failure;
use tokio_util::sync::CancellationToken;

use crate::ansi::AnsiStripper;
use crate::blocking;
use crate::output::Output;
use crate::shell::{self, End, Invocation, Listener, Shell};

/// What to run and where.
#[derive(Clone, Debug)]
pub struct BashCommand {
    pub command: String,
    pub cwd: Arc<PathBuf>,
    /// Added to tiller's own environment.
    pub env: Arc<[(String, String)]>,
    pub shell: Shell,
    /// Where it runs, if there is a sandbox.
    pub confinement: Option<Arc<dyn Confinement>>,
}

/// The result, as the response carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashOutcome {
    /// The end of the output, if it was long.
    pub output: String,
    /// Absent if the command was cancelled; 128 plus the signal's number if it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub cancelled: bool,
    pub truncated: bool,
    /// A file with the complete output, if `output` is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// The size before truncation; sent only to some clients.
    #[serde(skip)]
    pub total: Option<Extent>,
}

/// The size of a text. Text after the last line end counts as a line, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub lines: usize,
    pub bytes: usize,
}

impl Extent {
    pub fn of(text: &str) -> Extent {
        Extent { lines: text.matches('\n').count() + 1, bytes: text.len() }
    }
}

/// Runs the command until it ends or `cancel` fires. `on_chunk` is called on a blocking thread for
/// every chunk of output; while it blocks, the command has to wait.
pub async fn execute(
    command: BashCommand,
    on_chunk: impl FnMut(String) + Send + 'static,
    cancel: CancellationToken,
) -> Result<BashOutcome, Failure> {
    let BashCommand { command, cwd, env, shell, confinement } = command;
    let (timeout, memory) = (None, None);
    let invocation = Invocation { command, cwd, env, shell, timeout, memory, confinement };
    let forwarder =
        OutputForwarder { plain: AnsiStripper::default(), output: Output::default(), on_chunk };
    let (end, mut forwarder) = shell::run(invocation, forwarder, &cancel).await?;
    let output = blocking::finish(move || {
        let rest = forwarder.plain.finish();
        forwarder.forward(rest);
        forwarder.output.finish()
    })
    .await?;
    Ok(BashOutcome {
        exit_code: match end {
            End::Exited(code) => Some(code),
            End::TimedOut | End::Cancelled => None,
        },
        cancelled: end == End::Cancelled,
        truncated: output.truncation.truncated,
        full_output_path: output.full_path().map(|path| path.to_string_lossy().into_owned()),
        total: Some(Extent { lines: output.newlines + 1, bytes: output.truncation.total_bytes }),
        output: output.truncation.content,
    })
}

struct OutputForwarder<F> {
    plain: AnsiStripper,
    output: Output,
    on_chunk: F,
}

impl<F: FnMut(String)> OutputForwarder<F> {
    fn forward(&mut self, text: String) {
        if !text.is_empty() {
            self.output.push(text.as_bytes());
            (self.on_chunk)(text);
        }
    }
}

impl<F: FnMut(String) + Send + 'static> Listener for OutputForwarder<F> {
    fn on_output(&mut self, output: &[u8]) {
        let text = self.plain.push(output);
        self.forward(text);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::Scratch;

    fn command(scratch: &Scratch, command: &str) -> BashCommand {
        BashCommand {
            command: command.to_owned(),
            cwd: Arc::new(scratch.path("")),
            env: Arc::from([("GREETING".to_owned(), "hello".to_owned())]),
            shell: Shell::default(),
            confinement: None,
        }
    }

    async fn check(scratch: &Scratch, commands: &[&str], expect: Expect) {
        let mut report = String::new();
        for text in commands {
            let output = Arc::new(Mutex::new(String::new()));
            let chunks = output.clone();
            let on_chunk = move |chunk: String| chunks.lock().unwrap().push_str(&chunk);
            let outcome =
                execute(command(scratch, text), on_chunk, CancellationToken::new()).await.unwrap();
            assert_eq!(*output.lock().unwrap(), outcome.output);
            report += &format!("> {text}\n{}\n", serde_json::to_string(&outcome).unwrap());
        }
        expect.assert_eq(&report);
    }

    #[tokio::test]
    async fn outcomes() {
        let scratch = Scratch::new();
        let commands = [
            "echo first; echo second >&2; printf 'no newline'",
            r"printf '\033[31mred\033[0m\r\n\xc3'; sleep 0.01; printf '\xa9'",
            "echo $GREETING; exit 3",
            "kill -TERM $$",
            "true",
        ];
        check(
            &scratch,
            &commands,
            expect![[r#"
            > echo first; echo second >&2; printf 'no newline'
            {"output":"first\nsecond\nno newline","exitCode":0,"cancelled":false,"truncated":false}
            > printf '\033[31mred\033[0m\r\n\xc3'; sleep 0.01; printf '\xa9'
            {"output":"red\né","exitCode":0,"cancelled":false,"truncated":false}
            > echo $GREETING; exit 3
            {"output":"hello\n","exitCode":3,"cancelled":false,"truncated":false}
            > kill -TERM $$
            {"output":"","exitCode":143,"cancelled":false,"truncated":false}
            > true
            {"output":"","exitCode":0,"cancelled":false,"truncated":false}
        "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn full_output_file_is_complete_when_reported() {
        let scratch = Scratch::new();
        let expected: String = (1..=6000).map(|i| format!("line {i}\n")).collect();
        for _ in 0..5 {
            let command = command(&scratch, "seq -f 'line %g' 1 6000");
            let outcome = execute(command, drop, CancellationToken::new()).await.unwrap();
            let path = outcome.full_output_path.unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
            fs::remove_file(path).unwrap();
            assert!(outcome.output.starts_with("line 4001\n"));
            assert!(outcome.output.ends_with("\nline 6000"));
        }
    }

    #[tokio::test]
    async fn cancelling_kills_all_commands_with_the_token() {
        let scratch = Scratch::new();
        let cancel = CancellationToken::new();
        let started = Instant::now();
        let run = |ready: &str| {
            let command = command(&scratch, &format!("echo running; touch {ready}; sleep 60"));
            execute(command, drop, cancel.clone())
        };
        let stop = async {
            while !(scratch.path("a").exists() && scratch.path("b").exists()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            cancel.cancel();
        };
        let (a, b, ()) = tokio::join!(run("a"), run("b"), stop);
        for outcome in [a, b] {
            assert_eq!(
                serde_json::to_string(&outcome.unwrap()).unwrap(),
                r#"{"output":"running\n","cancelled":true,"truncated":false}"#
            );
        }
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
