//! Measures how soon an editor sees something: from the start of the process to the first update of
//! a prompt, with `tiller acp` and, if it is installed in `target/ci/acp`, with the adapter pi-acp, which
//! starts tiller as its `pi`. The model is tiller/demo. `cargo bench -p tiller --bench acp` prints a
//! table; docs/benchmarks.md says what it shows. `cargo test` runs it with small numbers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The build to measure, if it is not the one of this benchmark.
const PROGRAM: &str = "TILLER_BENCH_PROGRAM";

/// How often each agent is started.
const ROUNDS: usize = 40;
/// An adapter starts two processes.
const ADAPTER_ROUNDS: usize = 15;

/// An agent to measure.
struct Agent {
    name: &'static str,
    command: Vec<String>,
    rounds: usize,
}

/// The moments of one start, each since the process was started.
struct Moments {
    /// `initialize` is answered.
    initialized: Duration,
    /// `session/new` is answered.
    opened: Duration,
    /// The first update of the prompt.
    updated: Duration,
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut table = "| agent | initialize | session/new | first update, median | p90 |\n\
                     |---|---:|---:|---:|---:|\n"
        .to_owned();
    for agent in agents(&folder) {
        let rounds = if is_bench { agent.rounds } else { 1 };
        let moments: Vec<Moments> = (0..rounds).map(|_| measure(&agent, folder.path())).collect();
        let column = |of: fn(&Moments) -> Duration, percent: usize| {
            let mut times: Vec<Duration> = moments.iter().map(of).collect();
            times.sort_unstable();
            format!("{:.1} ms", times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3)
        };
        table += &format!(
            "| {} | {} | {} | {} | {} |\n",
            agent.name,
            column(|moments| moments.initialized, 50),
            column(|moments| moments.opened, 50),
            column(|moments| moments.updated, 50),
            column(|moments| moments.updated, 90),
        );
    }
    if is_bench {
        // The reader of the table may be gone.
        std::io::stdout().write_all(table.as_bytes()).ok();
    }
}

fn agents(folder: &TempDir) -> Vec<Agent> {
    let program = std::env::var(PROGRAM);
    let tiller = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tiller").to_owned());
    let command = ["acp", "--model", "tiller/demo"].map(str::to_owned);
    let command = std::iter::once(tiller.clone()).chain(command).collect();
    let mut agents = vec![Agent { name: "`tiller acp`", command, rounds: ROUNDS }];
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ci");
    let adapter = packages.join("acp/node_modules/pi-acp/dist/index.js");
    if adapter.exists() {
        let installed = packages.join("node_modules/.bin/node");
        let node = if installed.exists() { installed } else { PathBuf::from("node") };
        let pi = folder.path().join("pi");
        let script = format!("#!/bin/sh\nexec '{tiller}' \"$@\" --model tiller/demo\n");
        std::fs::write(&pi, script).expect("a script can be written");
        std::fs::set_permissions(&pi, std::fs::Permissions::from_mode(0o755))
            .expect("a script can be made executable");
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let command = vec![text(node), text(adapter)];
        agents.push(Agent { name: "pi-acp with tiller", command, rounds: ADAPTER_ROUNDS });
    }
    agents
}

fn measure(agent: &Agent, folder: &Path) -> Moments {
    let mut command = Command::new(&agent.command[0]);
    command
        .args(&agent.command[1..])
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PI_ACP_PI_COMMAND", folder.join("pi"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().expect("the agent can be started");
    let stdout = child.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut until = |is_it: &dyn Fn(&Value) -> bool| {
        loop {
            let line = lines.next().expect("the agent goes on").expect("its output is text");
            let message: Value = serde_json::from_str(&line).expect("a line is JSON");
            if is_it(&message) {
                return (message, start.elapsed());
            }
        }
    };
    say(&mut child, 1, "initialize", &json!({"protocolVersion": 1}));
    let (_, initialized) = until(&|message| message["id"] == 1);
    say(&mut child, 2, "session/new", &json!({"cwd": folder, "mcpServers": []}));
    let (answer, opened) = until(&|message| message["id"] == 2);
    let session = &answer["result"]["sessionId"];
    let prompt = json!([{"type": "text", "text": "What is in this folder?"}]);
    say(&mut child, 3, "session/prompt", &json!({"sessionId": session, "prompt": prompt}));
    let is_of_the_prompt = |message: &Value| {
        let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
        matches!(kind, "agent_thought_chunk" | "tool_call") || kind == "agent_message_chunk"
    };
    let (_, updated) = until(&is_of_the_prompt);
    until(&|message| message["id"] == 3);
    drop(child.stdin.take());
    // The adapter does not end with its input.
    let deadline = Instant::now() + Duration::from_millis(500);
    while child.try_wait().expect("it is our child").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().ok();
    child.wait().expect("it is our child");
    Moments { initialized, opened, updated }
}

fn say(child: &mut Child, id: u64, method: &str, params: &Value) {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let stdin = child.stdin.as_mut().expect("it is open");
    stdin.write_all(format!("{message}\n").as_bytes()).expect("the agent reads");
}
