//! No descendant outlives tiller, however it hides and however tiller ends.
//!
//! Each test starts this test program again in the role of tiller, lets it run commands whose
//! children detach in every known way, ends it, and waits until no descendant is left. Descendants
//! are recognised by a unique number in their arguments.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tiller_agent::program::Program;
use tiller_tools::child;
use tiller_tools::command::{BashCommand, execute};
use tiller_tools::{Shell, process};
use tokio_util::sync::CancellationToken;

/// All known ways to detach; `SLEEP` is the process to find. The last one in a line keeps the shell
/// running.
const HIDING: [&str; 8] = [
    "SLEEP",
    "SLEEP & SLEEP",
    "nohup SLEEP > /dev/null 2>&1 & disown; SLEEP",
    "setsid SLEEP & SLEEP",
    "(setsid setsid SLEEP > /dev/null 2>&1 < /dev/null &) & SLEEP",
    "(trap '' HUP INT TERM QUIT; (SLEEP & SLEEP) & SLEEP) & SLEEP",
    "setsid bash -c 'setsid bash -c \"SLEEP & SLEEP\" & SLEEP' & SLEEP",
    // A parent that restarts its child whenever it dies.
    "setsid bash -c 'while :; do SLEEP; done' & SLEEP",
];

/// A long sleep with a duration that identifies this test.
fn sleep(mark: &str) -> String {
    format!("sleep 86400.{mark}")
}

fn sleepers(script: &str) -> usize {
    script.matches("SLEEP").count()
}

/// The role of tiller. Not a test: it does nothing unless one of the tests below starts it.
#[test]
fn actor() {
    let Ok(mark) = std::env::var("HYGIENE_MARK") else { return };
    process::install();
    if let Ok(attack) = std::env::var("HYGIENE_ATTACK") {
        println!("left: {}", attacked(&mark, &attack));
        std::process::exit(0);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cancel = CancellationToken::new();
    let as_children = std::env::var_os("HYGIENE_CHILDREN").is_some();
    for script in HIDING {
        if as_children {
            let script = script.replace("SLEEP", &sleep(&mark));
            // Dropping the handle kills nothing.
            drop(start_child(script));
            continue;
        }
        let command = BashCommand {
            command: script.replace("SLEEP", &sleep(&mark)),
            cwd: Arc::new(PathBuf::from("/")),
            env: Arc::from([]),
            shell: Shell::default(),
            confinement: None,
        };
        runtime.spawn(execute(command, drop, cancel.clone()));
    }
    // A command that has ended, but left a background child.
    let command = BashCommand {
        command: format!("{} & setsid {} &", sleep(&mark), sleep(&mark)),
        cwd: Arc::new(PathBuf::from("/")),
        env: Arc::from([]),
        shell: Shell::default(),
        confinement: None,
    };
    let over = runtime.block_on(execute(command, drop, CancellationToken::new())).unwrap();
    assert_eq!(over.exit_code, Some(0));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        stop.send(line).unwrap();
    });
    let how = runtime.block_on(stopped).unwrap();
    match how.trim() {
        "end_all" => {
            process::end_all();
            println!("left: {}", found(&mark).len());
            std::process::exit(0);
        }
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "cancel" => {
            cancel.cancel();
            let begun = Instant::now();
            // Only the command that has ended keeps its children.
            while found(&mark).len() > 2 && begun.elapsed() < PATIENCE {
                runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
            }
            println!("left: {}", found(&mark).len());
            runtime.block_on(std::future::pending::<()>());
        }
        other => panic!("{other}"),
    }
}

/// How often each actor lets a command attack its guardian, and how many actors there are.
const ATTACKS: usize = 10;
const ATTACKERS: usize = 4;

/// Runs commands that attack their guardian, one after the other, and prints how many of their
/// descendants were left. A command that prints `ready` is aborted.
fn attacked(mark: &str, attack: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut left = 0;
    for round in 0..ATTACKS {
        let mark = format!("{mark}{round:02}");
        let command = BashCommand {
            command: attack.replace("SLEEP", &sleep(&mark)),
            cwd: Arc::new(PathBuf::from("/")),
            env: Arc::from([]),
            shell: Shell::default(),
            confinement: None,
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let aborts = attack.contains("echo ready");
        let on_chunk = move |chunk: String| {
            if aborts && chunk.contains("ready") {
                stop.cancel();
            }
        };
        let over = execute(command, on_chunk, cancel);
        let over = async { tokio::time::timeout(PATIENCE, over).await };
        if runtime.block_on(over).is_err() {
            return "the command, which does not end".to_owned();
        }
        // The last of a large tree may take a moment longer than the command.
        let begun = Instant::now();
        while !carrying(&mark).is_empty() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
        left += carrying(&mark).len();
    }
    left.to_string()
}

/// All processes whose arguments contain the mark: sleepers, and shells that are about to become
/// one.
fn carrying(mark: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&arguments).contains(mark).then_some(pid)
    });
    processes.collect()
}

/// Lets several actors run the command repeatedly, in parallel.
fn check_attack(attack: &str) {
    thread::scope(|scope| {
        for _ in 0..ATTACKERS {
            scope.spawn(|| {
                let mut actor = Actor::spawn(|command| {
                    command.env("HYGIENE_ATTACK", attack);
                });
                assert_eq!(actor.hear(), "left: 0", "{attack}");
                actor.child.wait().unwrap();
            });
        }
    });
}

/// A program with pipes whose output is ignored.
fn start_child(script: String) -> child::Handle {
    let program = Program {
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), script],
        cwd: PathBuf::from("/"),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
        stdin: true,
        argv0: None,
        inherited: Vec::new(),
    };
    child::spawn(program, Box::new(drop)).unwrap()
}

/// An upper bound for events that are certain to happen, not a pause.
const PATIENCE: Duration = Duration::from_secs(30);

struct Actor {
    child: Child,
    mark: String,
}

impl Actor {
    /// Starts tiller and waits until all children have detached.
    fn start() -> Actor {
        Actor::start_with(|_| ())
    }

    fn with_children() -> Actor {
        Actor::start_with(|command| {
            command.env("HYGIENE_CHILDREN", "1");
        })
    }

    fn start_with(more: fn(&mut Command)) -> Actor {
        let actor = Actor::spawn(more);
        let expected = HIDING.iter().map(|script| sleepers(script)).sum::<usize>() + 2;
        actor.wait_until("every process has left its group", |left| left.len() >= expected);
        actor
    }

    fn spawn(more: impl FnOnce(&mut Command)) -> Actor {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["actor", "--exact", "--nocapture"]).env("HYGIENE_MARK", &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        more(&mut command);
        let child = command.spawn().unwrap();
        Actor { child, mark }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn say(&mut self, how: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{how}").unwrap();
    }

    /// Reads its report on how many are left.
    fn hear(&mut self) -> String {
        let lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        let line = lines.map(Result::unwrap).find(|line| line.contains("left: ")).unwrap();
        line[line.find("left").unwrap()..].to_owned()
    }

    fn wait_until(&self, what: &str, done: impl Fn(&[(i32, String)]) -> bool) {
        let begun = Instant::now();
        loop {
            let left = found(&self.mark);
            if done(&left) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waiting until {what}: {left:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_until_all_gone(mut self) {
        self.child.wait().unwrap();
        self.wait_until("nobody is left", <[_]>::is_empty);
    }
}

impl Drop for Actor {
    /// A failing test leaves nothing behind either.
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        for pid in carrying(&self.mark) {
            kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
    }
}

/// The sleepers that carry the mark.
fn found(mark: &str) -> Vec<(i32, String)> {
    let sleep = sleep(mark);
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        (arguments.trim_end() == sleep).then_some((pid, arguments))
    });
    processes.collect()
}

/// The guardians below a process, by their name.
fn guardians(of: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = format!(" {of} ");
        (stat.contains("(shell-guard)") && stat.contains(&parent)).then(|| Pid::from_raw(pid))
    });
    processes.collect()
}

#[test]
fn sigkill_leaves_no_process() {
    let actor = Actor::start();
    kill(actor.pid(), Signal::SIGKILL).unwrap();
    actor.wait_until_all_gone();
}

#[test]
fn sigterm_leaves_no_process() {
    let actor = Actor::start();
    kill(actor.pid(), Signal::SIGTERM).unwrap();
    actor.wait_until_all_gone();
}

#[test]
fn end_all_leaves_no_process() {
    let mut actor = Actor::start();
    actor.say("end_all");
    // No process is left when it returns, not only some time later.
    assert_eq!(actor.hear(), "left: 0");
    actor.wait_until_all_gone();
}

#[test]
fn end_all_kills_programs_with_pipes() {
    let mut actor = Actor::with_children();
    actor.say("end_all");
    assert_eq!(actor.hear(), "left: 0");
    actor.wait_until_all_gone();
}

#[test]
fn programs_with_pipes_die_when_tiller_is_killed() {
    let actor = Actor::with_children();
    kill(actor.pid(), Signal::SIGKILL).unwrap();
    actor.wait_until_all_gone();
}

#[test]
fn exit_without_end_all_leaves_no_process() {
    let mut actor = Actor::start();
    actor.say("exit");
    actor.wait_until_all_gone();
}

#[test]
fn abort_leaves_no_process() {
    let mut actor = Actor::start();
    actor.say("abort");
    actor.wait_until_all_gone();
}

#[test]
fn cancelled_commands_leave_no_process() {
    let mut actor = Actor::start();
    actor.say("cancel");
    assert_eq!(actor.hear(), "left: 2");
    kill(actor.pid(), Signal::SIGKILL).unwrap();
    actor.wait_until_all_gone();
}

#[test]
fn tiller_cleans_up_after_a_killed_guardian() {
    let mut actor = Actor::start();
    let guardians = guardians(actor.pid());
    assert_eq!(guardians.len(), HIDING.len() + 1);
    for guardian in guardians {
        kill(guardian, Signal::SIGKILL).unwrap();
    }
    // The background child of the command that had ended dies only with tiller.
    actor.wait_until("only the background is left", |left| left.len() <= 2);
    actor.say("end_all");
    assert_eq!(actor.hear(), "left: 0");
    actor.wait_until_all_gone();
}

#[test]
fn guardian_is_not_found_by_tillers_name() {
    let actor = Actor::start();
    let ours = fs::read(format!("/proc/{}/cmdline", actor.pid())).unwrap();
    for guardian in guardians(actor.pid()) {
        let theirs = fs::read(format!("/proc/{guardian}/cmdline")).unwrap();
        let theirs = theirs.split(|&byte| byte == 0).next().unwrap();
        assert_eq!(theirs, b"shell-guard");
        assert!(!ours.starts_with(theirs));
        // Signals to tiller's group, or SIGTERM to all, do not reach guardians.
        kill(guardian, Signal::SIGTERM).unwrap();
    }
    killpg(actor.pid(), Signal::SIGKILL).unwrap();
    actor.wait_until_all_gone();
}

#[test]
fn command_that_kills_its_guardian_leaves_no_process() {
    check_attack("kill -KILL $PPID; SLEEP");
    check_attack(
        "setsid SLEEP & (setsid setsid SLEEP > /dev/null 2>&1 < /dev/null &) & nohup SLEEP & \
         setsid bash -c 'setsid SLEEP & SLEEP' & kill -KILL $PPID; SLEEP",
    );
}

#[test]
fn background_child_that_kills_the_guardian_leaves_no_process() {
    // By then the command is over and its output is no longer read.
    check_attack("guardian=$PPID; (setsid SLEEP & sleep 0.05; kill -KILL $guardian; SLEEP) &");
}

#[test]
fn command_that_stops_its_guardian_can_be_aborted() {
    check_attack("setsid SLEEP & kill -STOP $PPID; echo ready; SLEEP");
    check_attack("setsid SLEEP & (while :; do kill -STOP $PPID || exit; done) & echo ready; SLEEP");
}
