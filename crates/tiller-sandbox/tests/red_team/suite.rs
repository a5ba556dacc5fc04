//! Prepares the victims, makes every attempt in a sandbox, and judges the results.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use tiller_agent::sandbox::{Confinement, SandboxMode};
use tiller_sandbox::canary::{self, CanaryPlan};
use tiller_sandbox::{Places, Sandbox, SandboxConfig};

use crate::attempts::{self, Aim, Expected};
use crate::skip;

pub fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("attempt") => attempt(&arguments[2]),
        Some("canary") => canary::report(&arguments[2], io::stdout()).unwrap(),
        _ => std::process::exit(i32::from(run() != ExitCode::SUCCESS)),
    }
}

/// Makes one attempt and prints how it ended.
fn attempt(name: &str) {
    let aim = Aim::from_environment();
    let found = attempts::all().into_iter().find(|attempt| attempt.name == name).unwrap();
    match (found.make)(&aim) {
        Ok(()) => println!("done"),
        Err(err) => println!("{}", err.raw_os_error().unwrap_or(0)),
    }
}

/// What attempts are aimed at.
struct Victims {
    folder: tempfile::TempDir,
    _tcp: TcpListener,
    _unix: UnixListener,
    _datagrams: UnixDatagram,
    _abstract: UnixListener,
    aim: Aim,
}

impl Victims {
    fn new() -> Victims {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for dir in ["outside/empty", "workspace/.git/hooks", "agent/sessions"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("outside/victim"), "original").unwrap();
        fs::write(root.join("agent/auth.json"), "the key").unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        fs::create_dir_all(root.join("vault")).unwrap();
        fs::write(root.join("vault/id"), "a key behind a link").unwrap();
        symlink(root.join("vault"), root.join("home/.ssh")).unwrap();
        fs::write(root.join("workspace/own"), "own").unwrap();
        symlink(root.join("outside/victim"), root.join("workspace/link")).unwrap();
        symlink(root.join("outside"), root.join("workspace/dir")).unwrap();
        symlink(root.join("agent/auth.json"), root.join("workspace/key")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(root.join("outside/socket")).unwrap();
        let datagrams = UnixDatagram::bind(root.join("outside/datagrams")).unwrap();
        let name = format!("tiller-red-team-{}", root.display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixListener::bind_addr(&address).unwrap();
        let aim = Aim {
            port: tcp.local_addr().unwrap().port(),
            victim_pid: std::process::id(),
            abstract_name: name,
            root,
        };
        Victims { folder, _tcp: tcp, _unix: unix, _datagrams: datagrams, _abstract: by_name, aim }
    }

    /// What is wrong outside after an attempt.
    fn damage(&self) -> Option<String> {
        let root = &self.aim.root;
        if fs::read_to_string(root.join("outside/victim")).ok().as_deref() != Some("original") {
            return Some("the file outside has changed".to_owned());
        }
        let mut names = names_in(&root.join("outside"));
        names.sort();
        if names != ["datagrams", "empty", "socket", "victim"] {
            return Some(format!("outside there are now: {names:?}"));
        }
        (fs::read_to_string(root.join("agent/auth.json")).ok().as_deref() != Some("the key"))
            .then(|| "the key has changed".to_owned())
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn run() -> ExitCode {
    let victims = Victims::new();
    let sandbox = Arc::new(sandbox(&victims.aim.root, SandboxMode::WorkspaceWrite));
    let report = sandbox.report().clone();
    let landlock = report.mechanisms.landlock;
    if landlock < 6 {
        skip::skip("SANDBOX", &format!("the kernel has version {landlock} of Landlock, not 6"));
        return ExitCode::SUCCESS;
    }
    assert!(report.enforced, "{:?} {:?}", report.problem, report.canary);
    let (mut blocked, mut named, mut failures) = (0, 0, Vec::new());
    let all = attempts::all();
    for attempt in &all {
        let output = inside(&sandbox, &victims.aim, attempt.name);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let damage = victims.damage();
        let outcome = match (attempt.expected, said.as_str()) {
            (Expected::Blocked, "done") => Err("it succeeded".to_owned()),
            (Expected::NotCovered(words), "done") => {
                let is_named = report.not_covered.iter().any(|said| said.contains(words));
                is_named.then(|| named += 1).ok_or(format!("no sentence says {words:?}"))
            }
            // For this user more may be refused than is promised.
            (_, errno) if is_refusal(errno) => {
                blocked += 1;
                Ok(())
            }
            // A mistake of the attempt.
            (_, errno) => Err(format!("it ended with {errno:?}, which is no refusal: {output:?}")),
        };
        if let Some(what) = outcome.err().or(damage.clone()) {
            failures.push(format!("{}: {what}", attempt.name));
        }
    }
    // The same attempts succeed, or fail otherwise, without the sandbox: else they prove nothing.
    let controls = all.iter().filter(|attempt| attempt.is_control).count();
    for attempt in all.iter().filter(|attempt| attempt.is_control) {
        let fresh = Victims::new();
        let output = outside(&fresh.aim, attempt.name);
        if String::from_utf8_lossy(&output.stdout).trim() != "done" {
            failures.push(format!("{} fails without a sandbox, too: {output:?}", attempt.name));
        }
    }
    drop(victims.folder);
    eprintln!(
        "{} attempts: {blocked} blocked, {named} named as not covered; {controls} succeed without \
         a sandbox",
        all.len()
    );
    for failure in &failures {
        eprintln!("FAILED {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_refusal(errno: &str) -> bool {
    matches!(errno.parse(), Ok(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EXDEV))
}

fn sandbox(root: &Path, mode: SandboxMode) -> Sandbox {
    let places = Places {
        cwd: root.join("workspace"),
        home: Some(root.join("home")),
        agent_dir: root.join("agent"),
        session_dir: None,
        is_root: true,
    };
    let config = SandboxConfig { mode, ..SandboxConfig::default() };
    Sandbox::new(config, places, Arc::new(run_canary))
}

fn run_canary(confinement: Arc<dyn Confinement>, plan: &CanaryPlan) -> Result<String, String> {
    let mut command = this_program();
    command.arg("canary").arg(plan.to_text());
    let output = confined(command, confinement).output().map_err(|err| err.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn confined(mut command: Command, confinement: Arc<dyn Confinement>) -> Command {
    // SAFETY: the trait demands that it makes system calls only.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || confinement.enter().map_err(io::Error::from_raw_os_error));
    }
    command
}

/// Makes an attempt in the sandbox.
fn inside(sandbox: &Arc<Sandbox>, aim: &Aim, name: &str) -> Output {
    let mut command = this_program();
    command.args(["attempt", name]).current_dir(aim.root.join("workspace"));
    aim.put_into(&mut command);
    sandbox.prepare().unwrap();
    confined(command, sandbox.clone()).output().unwrap()
}

fn outside(aim: &Aim, name: &str) -> Output {
    let mut command = this_program();
    command.args(["attempt", name]).current_dir(aim.root.join("workspace"));
    aim.put_into(&mut command);
    command.output().unwrap()
}

impl Aim {
    fn put_into(&self, command: &mut Command) {
        command.env("ROOT", &self.root).env("PORT", self.port.to_string());
        command.env("VICTIM", self.victim_pid.to_string()).env("ABSTRACT", &self.abstract_name);
    }

    pub fn from_environment() -> Aim {
        let variable = |name: &str| std::env::var(name).unwrap();
        Aim {
            root: PathBuf::from(variable("ROOT")),
            port: variable("PORT").parse().unwrap(),
            victim_pid: variable("VICTIM").parse().unwrap(),
            abstract_name: variable("ABSTRACT"),
        }
    }
}
