//! The canary: a program, and a thread, that are put into the sandbox like those of tools and try to
//! leave it. What they report is what the probe says.

use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tiller_agent::sandbox::CanaryResult;

/// What a canary tries. Everything it refers to belongs to the canary.
#[derive(Clone, Debug)]
pub struct CanaryPlan {
    /// A file outside that does not exist.
    write: PathBuf,
    /// A file that is hidden.
    read: PathBuf,
    /// A file where writing is allowed: that must succeed.
    control: PathBuf,
    /// A server on this machine; none if the network is allowed.
    connect: Option<String>,
    /// A process outside, for a canary that is a process.
    signal: Option<u32>,
}

/// What the canary's attempts are aimed at, kept until it has ended.
pub(crate) struct Targets {
    plan: CanaryPlan,
    /// A folder that the sandbox hides.
    _folder: TempDir,
    _server: Option<TcpListener>,
}

/// Facts about the process, among the attempts.
pub(crate) const NO_NEW_PRIVILEGES: &str = "run without new privileges";
pub(crate) const FILTERED: &str = "run under a filter of system calls";

const SECRET: &str = "the canary has read it";

impl Targets {
    pub(crate) fn new(folder: TempDir, temp: PathBuf, network: bool) -> io::Result<Targets> {
        let read = folder.path().join("secret");
        fs::write(&read, SECRET)?;
        let server = if network { None } else { Some(TcpListener::bind("127.0.0.1:0")?) };
        let address = server.as_ref().map(TcpListener::local_addr).transpose()?;
        let plan = CanaryPlan {
            write: folder.path().join("written"),
            read,
            control: temp.join("canary"),
            connect: address.map(|address| address.to_string()),
            signal: None,
        };
        Ok(Targets { plan, _folder: folder, _server: server })
    }

    pub(crate) fn for_thread(&self) -> CanaryPlan {
        self.plan.clone()
    }

    /// A process can also try to signal the one that has started it.
    pub(crate) fn for_process(&self) -> CanaryPlan {
        CanaryPlan { signal: Some(std::process::id()), ..self.plan.clone() }
    }
}

impl CanaryPlan {
    /// As an argument of a program.
    pub fn to_text(&self) -> String {
        json!({
            "write": self.write,
            "read": self.read,
            "control": self.control,
            "connect": self.connect,
            "signal": self.signal,
        })
        .to_string()
    }

    pub fn from_text(text: &str) -> Option<CanaryPlan> {
        let fields: Value = serde_json::from_str(text).ok()?;
        let path = |name: &str| Some(PathBuf::from(fields[name].as_str()?));
        Some(CanaryPlan {
            write: path("write")?,
            read: path("read")?,
            control: path("control")?,
            connect: fields["connect"].as_str().map(str::to_owned),
            signal: fields["signal"].as_u64().and_then(|pid| u32::try_from(pid).ok()),
        })
    }

    /// Makes the attempts.
    pub fn attempt(&self) -> Vec<CanaryResult> {
        let mut results = vec![
            allowed("write in the folder for temporary files", fs::write(&self.control, "x")),
            tried("write outside", fs::write(&self.write, "x")),
            tried("read a secret", fs::read(&self.read)),
        ];
        if self.signal.is_some() {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            let has = |line: &str| {
                if status.lines().any(|it| it == line) {
                    Ok(())
                } else {
                    Err(io::ErrorKind::NotFound.into())
                }
            };
            results.push(allowed(NO_NEW_PRIVILEGES, has("NoNewPrivs:\t1")));
            results.push(allowed(FILTERED, has("Seccomp:\t2")));
        }
        if let Some(address) = &self.connect {
            let connected = address.parse().map_err(io::Error::other).and_then(|address| {
                TcpStream::connect_timeout(&address, Duration::from_secs(1)).map(drop)
            });
            results.push(tried("connect to a server", connected));
            results.push(tried("open a UDP socket", UdpSocket::bind("127.0.0.1:0")));
        }
        results.push(tried("open a Unix socket", UnixStream::connect("/nowhere")));
        results.extend(self.signal.map(|pid| tried("signal a process outside", signal(pid))));
        results
    }
}

/// What a canary process prints.
pub fn print(results: &[CanaryResult]) -> String {
    Value::from_iter(results.iter().map(|result| json!(result))).to_string()
}

/// What a canary process has printed.
pub(crate) fn read(output: &str) -> Option<Vec<CanaryResult>> {
    serde_json::from_str(output.trim()).ok()
}

/// Signal 0: only the permission is checked.
fn signal(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: sends nothing.
    #[allow(unsafe_code)]
    let result = unsafe { libc::kill(pid, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An attempt is blocked only if permission was refused: any other error says nothing about the
/// sandbox.
fn tried<T>(attempt: &str, result: io::Result<T>) -> CanaryResult {
    let (blocked, detail) = match result {
        Ok(_) => (false, None),
        Err(err) => (err.kind() == io::ErrorKind::PermissionDenied, Some(err.to_string())),
    };
    CanaryResult { attempt: attempt.to_owned(), blocked, detail }
}

/// What must succeed counts as blocked if it does, so that all attempts have the same meaning.
fn allowed<T>(attempt: &str, result: io::Result<T>) -> CanaryResult {
    let detail = result.err().map(|err| format!("must be allowed, but failed: {err}"));
    CanaryResult { attempt: attempt.to_owned(), blocked: detail.is_none(), detail }
}

/// Writes what a canary has found to stdout.
pub fn report(plan: &str, mut stdout: impl Write) -> io::Result<()> {
    let plan = CanaryPlan::from_text(plan).ok_or_else(|| io::Error::other("not a plan"))?;
    writeln!(stdout, "{}", print(&plan.attempt()))
}
