//! The sandbox of one working directory: prepared at first use, and tried before anything else runs
//! in it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use tiller_agent::sandbox::{
    CanaryResult, Confinement, NetworkAccess, ReadAccess, SandboxMechanisms, SandboxMode,
    SandboxReport, SandboxSummary, SignalAccess, WriteAccess,
};

use crate::canary::{self, CanaryPlan, Targets};
use crate::policy::{Places, Policy, SandboxConfig};
use crate::system::Restrictions;
use crate::threads::{ToolsThread, Work};

/// Starts the canary in a sandbox like a program of a tool, and returns its output.
pub type CanaryRunner =
    Arc<dyn Fn(Arc<dyn Confinement>, &CanaryPlan) -> Result<String, String> + Send + Sync>;

/// The sandbox of one working directory.
pub struct Sandbox {
    config: SandboxConfig,
    places: Places,
    runner: CanaryRunner,
    state: OnceLock<Tried>,
}

/// A sandbox after its trial.
struct Tried {
    /// Why no tool may run, or where they run.
    inside: Result<Arc<Inside>, String>,
    report: SandboxReport,
}

/// What threads and processes enter.
#[derive(Debug)]
struct Inside {
    restrictions: Arc<Restrictions>,
    thread: ToolsThread,
    allowed: String,
    /// The folder for temporary files, which only this sandbox uses.
    temp: TempDir,
}

impl Sandbox {
    pub fn new(config: SandboxConfig, places: Places, runner: CanaryRunner) -> Sandbox {
        Sandbox { config, places, runner, state: OnceLock::new() }
    }

    /// The same for another working directory.
    pub fn in_folder(&self, cwd: PathBuf) -> Sandbox {
        let cwd = cwd.canonicalize().unwrap_or(cwd);
        let places = Places { cwd, ..self.places.clone() };
        Sandbox::new(self.config.clone(), places, self.runner.clone())
    }

    /// What was requested, and what is true. Blocks the first time.
    pub fn report(&self) -> &SandboxReport {
        &self.tried().report
    }

    /// The same in short, without a trial: what was not tried is not enforced.
    pub fn summary(&self) -> SandboxSummary {
        let enforced = self.state.get().is_some_and(|tried| tried.report.enforced);
        SandboxSummary { mode: self.config.mode, enforced }
    }

    fn policy(&self) -> Policy {
        Policy::new(&self.config, &self.places).with_links_resolved()
    }

    fn tried(&self) -> &Tried {
        self.state.get_or_init(|| self.try_out())
    }

    fn inside(&self) -> Result<&Arc<Inside>, String> {
        self.tried().inside.as_ref().map_err(Clone::clone)
    }

    fn try_out(&self) -> Tried {
        match self.enter() {
            Ok((inside, canary)) => {
                let problem = self.problem(&canary);
                let report = self.report_of(&problem, canary);
                let inside = match problem {
                    Some(problem) if !self.config.best_effort => Err(refusal(&problem)),
                    _ => Ok(inside),
                };
                Tried { inside, report }
            }
            Err(problem) => {
                let inside = Err(refusal(&problem));
                Tried { inside, report: self.report_of(&Some(problem), Vec::new()) }
            }
        }
    }

    /// Enters the sandbox and lets the canaries try to leave it.
    fn enter(&self) -> Result<(Arc<Inside>, Vec<CanaryResult>), String> {
        if let Some(missing) = Restrictions::missing().filter(|_| !self.config.best_effort) {
            return Err(missing);
        }
        let cannot = |err: io::Error| format!("it cannot be set up: {err}");
        let temp = folder("tiller-tmp-", &std::env::temp_dir()).map_err(cannot)?;
        // Beside tiller's own secrets. Elsewhere only if that is impossible: no new file can be read
        // in a folder above a hidden one.
        let agent_dir = &self.places.agent_dir;
        let hidden = fs::create_dir_all(agent_dir)
            .and_then(|()| folder(".tiller-canary-", agent_dir))
            .or_else(|_| folder(".tiller-canary-", &std::env::temp_dir()));
        let hidden = hidden.map_err(cannot)?;
        let mut policy = self.policy();
        if let Some((secret, root)) = policy.conflict()
            && !self.config.best_effort
        {
            return Err(format!(
                "{} contains {}, which must be hidden; choose another working directory",
                root.display(),
                secret.display()
            ));
        }
        policy.hidden.push(hidden.path().to_owned());
        let restrictions = Arc::new(Restrictions::new(&policy, temp.path()).map_err(cannot)?);
        let targets =
            Targets::new(hidden, temp.path().to_owned(), policy.network).map_err(cannot)?;
        let of_thread = restrictions.clone();
        let thread = ToolsThread::start(move || of_thread.enter_thread()).map_err(cannot)?;
        let allowed = self.allowed(temp.path());
        let inside = Arc::new(Inside { restrictions, thread, allowed, temp });
        let mut results = on_thread(&inside.thread, targets.for_thread());
        let output = (self.runner)(inside.clone(), &targets.for_process())?;
        let of_process = canary::read(&output)
            .ok_or_else(|| format!("the canary has not reported: {}", output.trim()))?;
        results.extend(of_process);
        Ok((inside, results))
    }

    /// What is wrong after the trial.
    fn problem(&self, canary: &[CanaryResult]) -> Option<String> {
        let escaped = canary.iter().find(|result| !result.blocked);
        let escape = escaped.map(|result| match &result.detail {
            Some(detail) => format!("the canary could {}: {detail}", result.attempt),
            None => format!("the canary could {}", result.attempt),
        });
        Restrictions::missing().or(escape)
    }

    fn report_of(&self, problem: &Option<String>, canary: Vec<CanaryResult>) -> SandboxReport {
        let policy = self.policy();
        let holds = |attempts: &[&str]| {
            let mut tried =
                canary.iter().filter(|result| attempts.contains(&&*result.attempt)).peekable();
            tried.peek().is_some() && tried.all(|result| result.blocked)
        };
        SandboxReport {
            mode: self.config.mode,
            enforced: problem.is_none(),
            problem: problem.clone(),
            mechanisms: SandboxMechanisms {
                landlock: Restrictions::landlock(),
                seccomp: holds(&[canary::FILTERED]),
                no_new_privileges: holds(&[canary::NO_NEW_PRIVILEGES]),
            },
            writes: WriteAccess {
                enforced: holds(&["write outside"]),
                roots: policy.writable.clone(),
            },
            reads: ReadAccess {
                enforced: holds(&["read a secret"]),
                hidden: policy.hidden.clone(),
            },
            network: NetworkAccess {
                enforced: !policy.network && holds(&["connect to a server", "open a UDP socket"]),
                allowed: policy.network,
            },
            signals: SignalAccess {
                enforced: Restrictions::restricts_signals() && holds(&["signal a process outside"]),
            },
            not_covered: self.not_covered(&policy),
            canary,
        }
    }

    fn not_covered(&self, policy: &Policy) -> Vec<String> {
        let mut sentences = vec![
            "Names, sizes and times of files can be read everywhere, and names in folders, except \
             in hidden ones that are outside of the folders above them.",
            "Permissions, owners, times and extended attributes of files outside can be changed, as \
             far as the user may do that; their content cannot.",
            "Other processes are visible, with their command lines; their memory and environment \
             are not.",
            "Priorities and processors of other processes of the user can be changed.",
            "A hard link that was there before is the same file as the one it is linked to: it can be \
             read or changed where it lies.",
            "Time, processor, memory, disk space and the number of processes are not limited by \
             the sandbox.",
            "What tiller itself does is not in the sandbox: requests to models, session files, \
             commands in auth.json and models.json that print keys.",
        ];
        if self.config.mode == SandboxMode::WorkspaceWrite {
            sentences.push(
                "Files in the working directory can be changed that other programs execute or obey \
                 later outside of the sandbox: hooks in .git, settings in .pi, scripts.",
            );
        }
        if policy.network {
            sentences.push(
                "The network is allowed: every server can be reached, also those of this machine.",
            );
        }
        if policy.conflict().is_some() {
            sentences.push("A folder that can be changed contains files that should be hidden.");
        }
        sentences.into_iter().map(str::to_owned).collect()
    }

    fn allowed(&self, temp: &Path) -> String {
        let policy = self.policy();
        let roots = policy.writable.iter().map(|root| root.display().to_string());
        let roots: Vec<String> = roots.chain([format!("{} (TMPDIR)", temp.display())]).collect();
        let network = if policy.network { "on" } else { "off" };
        format!(
            "the sandbox is {}: files can be changed in {} only, keys of the user cannot be read, \
             the network is {network}",
            self.config.mode.name(),
            roots.join(" and ")
        )
    }
}

fn refusal(problem: &str) -> String {
    format!("Tools do not run because the sandbox is not enforced: {problem}.")
}

/// A new folder with a random name that only the user can read.
fn folder(prefix: &str, inside: &Path) -> io::Result<TempDir> {
    let inside = inside.canonicalize()?;
    tempfile::Builder::new().prefix(prefix).tempdir_in(inside)
}

/// Lets a thread of the sandbox make the attempts.
fn on_thread(thread: &ToolsThread, plan: CanaryPlan) -> Vec<CanaryResult> {
    let (sender, results) = channel();
    // The receiver waits for it.
    thread.run(Box::new(move || drop(sender.send(plan.attempt()))));
    results.recv().unwrap_or_else(|_| {
        let detail = Some("the tools thread has ended".to_owned());
        vec![CanaryResult { attempt: "run at all".to_owned(), blocked: false, detail }]
    })
}

impl Confinement for Inside {
    fn run(&self, work: Work) -> Result<(), String> {
        self.thread.run(work);
        Ok(())
    }

    fn prepare(&self) -> Result<(), String> {
        Ok(())
    }

    fn enter(&self) -> Result<(), i32> {
        self.restrictions.enter_process().map_err(|err| err.raw_os_error().unwrap_or(libc::EPERM))
    }

    fn variables(&self) -> Vec<(String, String)> {
        let temp = self.temp.path().to_string_lossy();
        ["TMPDIR", "TMP", "TEMP"].map(|name| (name.to_owned(), temp.to_string())).to_vec()
    }

    fn allowed(&self) -> String {
        self.allowed.clone()
    }
}

impl Confinement for Sandbox {
    fn run(&self, work: Work) -> Result<(), String> {
        self.inside()?.run(work)
    }

    fn prepare(&self) -> Result<(), String> {
        self.inside().map(drop)
    }

    fn enter(&self) -> Result<(), i32> {
        // Prepared before the fork: nothing is set up or allocated here.
        match self.state.get().map(|tried| &tried.inside) {
            Some(Ok(inside)) => inside.enter(),
            _ => Err(libc::EPERM),
        }
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.inside().map(|inside| inside.variables()).unwrap_or_default()
    }

    fn allowed(&self) -> String {
        match self.inside() {
            Ok(inside) => inside.allowed(),
            Err(refusal) => refusal,
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("config", &self.config).finish_non_exhaustive()
    }
}
