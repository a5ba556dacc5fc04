//! `bash`: runs a command in a shell and shows its output while it runs.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiller_agent::message::Block;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};

use crate::output::{Finished, Output};
use crate::shell::{self, End, Invocation, Listener, Shell};
use crate::{blocking, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Run a command with bash in the working directory and return what it \
        prints, stdout and stderr together. Of a long output you get the last 2000 lines or 50KB, \
        and the name of a file with all of it. There is no input and no terminal; `cd` and \
        variables do not last until the next call. Processes left in the background go on \
        running.";
    typed::spec::<BashInput>("bash", description)
});

pub fn tool() -> Tool {
    with(Shell::default())
}

/// The tool with the shell from the user's settings.
pub fn with(shell: Shell) -> Tool {
    typed::tool(&SPEC, move |input, cx| run(input, cx, shell.clone()))
        .effect(ToolEffect::RunsCommands)
        .snippet("Run a command in the shell")
        .rule("Give bash a timeout when a command might hang, and run servers in the background")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct BashInput {
    /// Command to run
    command: String,
    /// Seconds after which the command is killed (default: never)
    #[serde(default)]
    timeout: Option<f64>,
}

async fn run(input: BashInput, cx: ToolContext, shell: Shell) -> ToolResult {
    let timeout = input.timeout.map(seconds).transpose()?;
    let limits = cx.process_limits;
    let limit = limits.seconds.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    let is_limit_first = limit.is_some_and(|limit| timeout.is_none_or(|timeout| limit < timeout));
    let invocation = Invocation {
        command: input.command,
        cwd: cx.cwd.clone(),
        env: cx.env.clone(),
        shell,
        timeout: if is_limit_first { limit } else { timeout },
        memory: limits.memory_bytes,
        confinement: cx.confinement.clone(),
    };
    let allowed = cx.confinement.clone();
    cx.show(ToolOutput::default());
    let live =
        Live { cx: cx.clone(), output: Output::default(), shown: Instant::now(), news: false };
    let (end, mut live) = shell::run(invocation, live, &cx.cancel).await?;
    if live.news {
        live.tick();
    }
    let output = blocking::finish(move || live.output.finish()).await?;
    let status = match end {
        End::Exited(0) => {
            return Ok(ToolOutput { details: details(&output), ..ToolOutput::text(text(&output)) });
        }
        End::Exited(code) => format!("Command exited with code {code}"),
        End::TimedOut if is_limit_first => format!(
            "Command timed out after {} seconds, the limit for each command in this session",
            limits.seconds.unwrap_or_default()
        ),
        End::TimedOut => {
            format!("Command timed out after {} seconds", input.timeout.unwrap_or_default())
        }
        End::Cancelled => "Command aborted".to_owned(),
    };
    let silent = output.truncation.content.is_empty();
    let message = match end {
        End::TimedOut | End::Cancelled if silent => status,
        _ => format!("{}\n\n{status}", text(&output)),
    };
    let failure = Failure { details: details(&output), ..Failure::new(message) };
    Err(match allowed {
        Some(confinement) if looks_denied(&output.truncation.content) => {
            explained(failure, &confinement.allowed())
        }
        _ => failure,
    })
}

/// Says what the sandbox allows: it may be the reason of a failure.
fn explained(mut failure: Failure, allowed: &str) -> Failure {
    failure.message += &format!("\n({allowed})");
    failure.details.get_or_insert_with(|| json!({}))["sandbox"] = json!("suspected");
    failure
}

/// Whether a program may have failed because of the sandbox.
fn looks_denied(output: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "ermission denied",
        "peration not permitted",
        "EACCES",
        "EPERM",
        "ould not resolve",
        "esolution",
        "ocket",
        "ead-only file system",
    ];
    SIGNS.iter().any(|sign| output.contains(sign))
}

fn seconds(timeout: f64) -> Result<Duration, Failure> {
    // The largest value of a JavaScript timer, which pi uses: 2^31 - 1 milliseconds.
    const MAX: f64 = 2_147_483.647;
    if !timeout.is_finite() || timeout <= 0.0 {
        return Err(Failure::new("Invalid timeout: must be a finite number of seconds"));
    }
    if timeout > MAX {
        return Err(Failure::new(format!("Invalid timeout: maximum is {MAX} seconds")));
    }
    Ok(Duration::from_secs_f64(timeout))
}

fn text(output: &Finished) -> String {
    let shown = &output.truncation.content;
    match output.note() {
        Some(note) => format!("{shown}\n\n{note}"),
        None if shown.is_empty() => "(no output)".to_owned(),
        None => shown.clone(),
    }
}

fn details(output: &Finished) -> Option<Value> {
    if !output.truncation.truncated {
        return None;
    }
    let mut details = Map::new();
    details.insert("truncation".to_owned(), json!(output.truncation));
    if let Some(path) = output.full_path() {
        details.insert("fullOutputPath".to_owned(), path.to_string_lossy().into());
    }
    Some(details.into())
}

/// Emits updates with the output so far.
struct Live {
    cx: ToolContext,
    output: Output,
    shown: Instant,
    /// Whether there is new output since the last update.
    news: bool,
}

impl Live {
    const INTERVAL: Duration = Duration::from_millis(100);
}

impl Listener for Live {
    fn on_output(&mut self, output: &[u8]) {
        self.output.push(output);
        self.news = true;
    }

    fn due(&self) -> Option<Instant> {
        self.news.then(|| self.shown + Live::INTERVAL)
    }

    fn tick(&mut self) {
        let so_far = self.output.so_far();
        let text = Block::text(so_far.content.clone());
        // The file with the full output is named only when it is complete.
        let details = if so_far.truncated { json!({ "truncation": so_far }) } else { json!({}) };
        let content = vec![text];
        self.cx.show(ToolOutput { content, details: Some(details), ..ToolOutput::default() });
        (self.shown, self.news) = (Instant::now(), false);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    use tiller_agent::message::text_of;

    use super::*;
    use crate::testing::Scratch;

    #[tokio::test]
    async fn results() {
        let scratch = Scratch::new();
        let commands = [
            "echo out; echo err 1>&2; pwd",
            "true",
            "echo before; exit 3",
            "exit 1",
            "kill -9 $$",
            "printf 'no newline'",
            "read line; echo \"read $? <$line>\"",
            "printf '\\033[31mred\\033[0m caf\\351'",
            "exec >&- 2>&-; exit 4",
        ];
        let calls = commands.map(|command| json!({ "command": command }));
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"command":"echo out; echo err 1>&2; pwd"}
            out
            err
            $CWD

            > {"command":"true"}
            (no output)
            > {"command":"echo before; exit 3"}
            error: before


            Command exited with code 3
            > {"command":"exit 1"}
            error: (no output)

            Command exited with code 1
            > {"command":"kill -9 $$"}
            error: (no output)

            Command exited with code 137
            > {"command":"printf 'no newline'"}
            no newline
            > {"command":"read line; echo \"read $? <$line>\""}
            read 1 <>

            > {"command":"printf '\\033[31mred\\033[0m caf\\351'"}
            ␛[31mred␛[0m caf�
            > {"command":"exec >&- 2>&-; exit 4"}
            error: (no output)

            Command exited with code 4
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn timeouts() {
        let scratch = Scratch::new();
        let calls = [
            json!({"command": "echo start; sleep 60", "timeout": 0.2}),
            json!({"command": "sleep 60", "timeout": 0.2}),
            json!({"command": "true", "timeout": 0}),
            json!({"command": "true", "timeout": 2_147_484}),
            json!({"command": "echo in time", "timeout": 30}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"command":"echo start; sleep 60","timeout":0.2}
            error: start


            Command timed out after 0.2 seconds
            > {"command":"sleep 60","timeout":0.2}
            error: Command timed out after 0.2 seconds
            > {"command":"true","timeout":0}
            error: Invalid timeout: must be a finite number of seconds
            > {"command":"true","timeout":2147484}
            error: Invalid timeout: maximum is 2147483.647 seconds
            > {"command":"echo in time","timeout":30}
            in time

        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn smaller_one_of_timeout_and_limit_ends_the_command() {
        let scratch = Scratch::new();
        let mut report = String::new();
        for timeout in [None, Some(60.0), Some(0.2)] {
            let mut cx = scratch.context();
            cx.process_limits.seconds = Some(0.5);
            let arguments = json!({"command": "sleep 60", "timeout": timeout});
            let mut arguments = arguments.as_object().unwrap().clone();
            arguments.retain(|_, value| !value.is_null());
            let failure = tool().run(arguments, cx).await.unwrap_err();
            report += &format!("{timeout:?}: {}\n", failure.message);
        }
        expect![[r#"
            None: Command timed out after 0.5 seconds, the limit for each command in this session
            Some(60.0): Command timed out after 0.5 seconds, the limit for each command in this session
            Some(0.2): Command timed out after 0.2 seconds
        "#]]
        .assert_eq(&report);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_limit_applies_to_the_shell_and_what_it_starts() {
        let scratch = Scratch::new();
        let mut cx = scratch.context();
        cx.process_limits.memory_bytes = Some(256 * 1024 * 1024);
        let arguments = json!({"command": "ulimit -v; ulimit -Hv; sh -c 'ulimit -v'"});
        let arguments = arguments.as_object().unwrap().clone();
        let output = tool().run(arguments, cx).await.unwrap();
        assert_eq!(text_of(&output.content), "262144\n262144\n262144\n");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn command_that_stops_its_guardian_still_ends() {
        let scratch = Scratch::new();
        let calls = [
            json!({"command": "kill -STOP $PPID; echo stopped; sleep 60", "timeout": 0.5}),
            json!({"command": "kill -STOP $PPID; exit 3"}),
        ];
        let patience = Duration::from_secs(60);
        let report = tokio::time::timeout(patience, scratch.report(tool(), &calls)).await.unwrap();
        expect![[r#"
            > {"command":"kill -STOP $PPID; echo stopped; sleep 60","timeout":0.5}
            error: stopped


            Command timed out after 0.5 seconds
            > {"command":"kill -STOP $PPID; exit 3"}
            error: (no output)

            Command exited with code 3
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn shell_path_and_prefix_are_used() {
        let scratch = Scratch::new();
        let shell = Shell {
            path: Some("/bin/sh".into()),
            prefix: Some("x=1".to_owned()),
            ..Shell::default()
        };
        let calls = [json!({"command": "echo $0 $x"})];
        let report = scratch.report(with(shell), &calls).await;
        expect![[r#"
            > {"command":"echo $0 $x"}
            /bin/sh 1

        "#]]
        .assert_eq(&report);
        let nowhere = Shell { path: Some("/no/such/shell".into()), ..Shell::default() };
        let report = scratch.report(with(nowhere), &calls).await;
        expect![[r#"
            > {"command":"echo $0 $x"}
            error: Cannot start /no/such/shell: ENOENT: no such file or directory
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn missing_working_directory_is_an_error() {
        let scratch = Scratch::new();
        let mut cx = scratch.context();
        cx.cwd = std::sync::Arc::new(scratch.path("gone"));
        let arguments = json!({"command": "true"}).as_object().unwrap().clone();
        let failure = tool().run(arguments, cx).await.unwrap_err();
        assert_eq!(
            failure.message,
            format!(
                "Working directory does not exist: {}\nCannot execute bash commands.",
                scratch.path("gone").display()
            )
        );
    }

    /// Returns the text without the output, the details without the content, and the file's
    /// content.
    async fn long(scratch: &Scratch, command: &str) -> (String, String) {
        let (text, details) = match scratch.result(tool(), json!({ "command": command })).await {
            Ok(output) => (text_of(&output.content), output.details),
            Err(failure) => (failure.message, failure.details),
        };
        let mut details = details.unwrap();
        let path = details["fullOutputPath"].as_str().unwrap().to_owned();
        let name = path.rsplit_once("/pi-bash-").unwrap().1.strip_suffix(".log").unwrap();
        assert!(name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit()), "{path}");
        let full = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let truncation = details["truncation"].as_object_mut().unwrap();
        let content = truncation.shift_remove("content").unwrap();
        let content = content.as_str().unwrap();
        assert!(full.trim_end().ends_with(content), "not the end of the output: {content}");
        let note = text.strip_prefix(content).unwrap();
        let report = format!("{}\n{details}\n", note.trim_start()).replace(&path, "$PATH");
        (report, full)
    }

    #[tokio::test]
    async fn many_lines() {
        let scratch = Scratch::new();
        let (report, full) = long(&scratch, "seq 1 2500").await;
        assert_eq!(full, (1..=2500).map(|i| format!("{i}\n")).collect::<String>());
        expect![[r#"
            [Showing lines 501-2500 of 2500. Full output: $PATH]
            {"truncation":{"truncated":true,"truncatedBy":"lines","totalLines":2500,"totalBytes":11393,"outputLines":2000,"outputBytes":9500,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200},"fullOutputPath":"$PATH"}
        "#]].assert_eq(&report);
    }

    #[tokio::test]
    async fn long_lines_and_a_failure() {
        let scratch = Scratch::new();
        let command = "for i in $(seq 700); do printf '%099d\\n' $i; done; exit 7";
        expect![[r#"
            [Showing lines 189-700 of 700 (50.0KB limit). Full output: $PATH]

            Command exited with code 7
            {"truncation":{"truncated":true,"truncatedBy":"bytes","totalLines":700,"totalBytes":70000,"outputLines":512,"outputBytes":51199,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200},"fullOutputPath":"$PATH"}
        "#]].assert_eq(&long(&scratch, command).await.0);
    }

    #[tokio::test]
    async fn one_giant_line() {
        let scratch = Scratch::new();
        let (report, full) = long(&scratch, "head -c 70000 /dev/zero | tr '\\0' x").await;
        assert_eq!(full.len(), 70_000);
        expect![[r#"
            [Showing last 50.0KB of line 1 (line is 68.4KB). Full output: $PATH]
            {"truncation":{"truncated":true,"truncatedBy":"bytes","totalLines":1,"totalBytes":70000,"outputLines":1,"outputBytes":51200,"lastLinePartial":true,"firstLineExceedsLimit":false,"maxLines":2000,"maxBytes":51200},"fullOutputPath":"$PATH"}
        "#]].assert_eq(&report);
    }

    #[tokio::test]
    async fn background_children_do_not_delay_the_result() {
        let scratch = Scratch::new();
        let started = Instant::now();
        let calls = [
            json!({"command": "sleep 60 & echo started"}),
            // Never silent.
            json!({"command": "(while echo; do sleep 0.02; done) >&2 & exec 2>&-; exit 5"}),
        ];
        for call in calls {
            scratch.result(tool(), call).await.ok();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn background_child_survives_writing_output_later() {
        let scratch = Scratch::new();
        let command = "(until test -e go; do sleep 0.01; done; head -c 3000000 /dev/zero && \
            touch survived) & echo started";
        scratch.result(tool(), json!({ "command": command })).await.unwrap();
        scratch.write("go", "");
        let started = Instant::now();
        while !scratch.path("survived").exists() {
            assert!(started.elapsed() < Duration::from_secs(20), "it did not survive");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn abort_kills_the_command_and_keeps_its_output() {
        let scratch = Scratch::new();
        let cx = scratch.context();
        let cancel = cx.cancel.clone();
        let arguments = json!({"command": "echo started; touch ready; sleep 60; echo never"});
        let call = tool().run(arguments.as_object().unwrap().clone(), cx);
        let ready = scratch.path("ready");
        let stop = async move {
            while !ready.exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            cancel.cancel();
            Instant::now()
        };
        let (result, stopped) = tokio::join!(call, stop);
        assert!(stopped.elapsed() < Duration::from_secs(5));
        let failure = result.unwrap_err();
        assert_eq!(failure.message, "started\n\n\nCommand aborted");
        assert_eq!(failure.details, None);
    }

    #[tokio::test]
    async fn output_is_emitted_while_the_command_runs() {
        let scratch = Scratch::new();
        let (cx, mut shown) = scratch.watched();
        let command = "echo one; until test -e go; do sleep 0.01; done; seq 1 3000";
        let arguments = json!({ "command": command }).as_object().unwrap().clone();
        let call = tokio::spawn(tool().run(arguments, cx));
        shown.changed().await.unwrap();
        assert_eq!(*shown.borrow_and_update(), Some(ToolOutput::default()));
        shown.changed().await.unwrap();
        let one = ToolOutput { details: Some(json!({})), ..ToolOutput::text("one\n") };
        assert_eq!(*shown.borrow_and_update(), Some(one));
        scratch.write("go", "");
        let output = call.await.unwrap().unwrap();
        let last = shown.borrow_and_update().clone().unwrap().details.unwrap();
        assert_eq!(last["truncation"]["totalLines"], 3001);
        assert_eq!(last.get("fullOutputPath"), None);
        fs::remove_file(output.details.unwrap()["fullOutputPath"].as_str().unwrap()).unwrap();
    }

    #[tokio::test]
    async fn dropped_call_leaves_no_process() {
        let scratch = Scratch::new();
        let arguments = json!({"command": "sleep 60 & echo $! > pid.new; mv pid.new pid; wait"});
        let arguments = arguments.as_object().unwrap().clone();
        let call = tokio::spawn(tool().run(arguments, scratch.context()));
        while !scratch.path("pid").exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        let pid = Pid::from_raw(scratch.read("pid").trim().parse().unwrap());
        let started = Instant::now();
        while kill(pid, None).is_ok() {
            assert!(started.elapsed() < Duration::from_secs(20), "it still runs");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
