//! Starts a private PostgreSQL server for tests and benchmarks: a cluster in a temporary folder,
//! with a unix socket in that folder. A test that needs one is skipped where PostgreSQL is not
//! installed.
//!
//! The server never outlives the process that started it: a shell supervises it and holds the read
//! end of a pipe. When that process ends, however it does, the pipe closes, and the shell stops the
//! server and removes the folder.
//!
//! Tests and benchmarks of several crates use this file, next to `skip.rs`. The functions block.

#![allow(dead_code, reason = "not every test needs every function")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{env, fs, iter, thread};

use super::skip::skip;

/// The superuser of every cluster. It needs no password.
const USER: &str = "tiller";

/// Settings of every cluster; those of `start` come after them. A test may lose its database with
/// the machine, so the server does not wait for the disk. Shared memory is in the folder, so that
/// it goes with it.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", ""),
    ("fsync", "off"),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("dynamic_shared_memory_type", "mmap"),
    ("log_destination", "stderr"),
    ("logging_collector", "off"),
];

/// How often to look whether the server is ready or has stopped, and the pause after each look.
const TRIES: u32 = 1200;
const PAUSE: Duration = Duration::from_millis(25);

/// The supervisor. Its arguments are the folder of the programs, the folder for temporary files,
/// the data folder or nothing, the superuser, and lines for postgresql.conf. It prints the folder
/// of the cluster, then answers each line of its input, `start` or the name of a signal (`0` only
/// asks), with `running` and the server's pid, or with `ended`. It runs until its input ends.
///
/// A shell starts a background command with SIGQUIT ignored, and a server that is only just
/// starting has not changed that yet. So the signal is sent until the server has ended. `jobs`
/// makes the shell reap it. A stopped server (SIGSTOP) has to continue to end.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM PIPE
bin=$1 base=$2 data=$3 user=$4
shift 4
folder=$(mktemp -d "$base/tiller-pg.XXXXXX" 2>/dev/null ||
    mktemp -d /tmp/tiller-pg.XXXXXX) || exit
exec 2>>"$folder/log"
data=${data:-$folder/data}
"$bin/initdb" -N -A trust -U "$user" --encoding=UTF8 --locale=C.UTF-8 -D "$data" \
    </dev/null >>"$folder/log"
printf '%s\n' "$@" >>"$data/postgresql.conf"
printf '%s\n' "$folder"

server=
is_running() {
    jobs >/dev/null
    [ -n "$server" ] && kill -s 0 "$server" 2>/dev/null
}
while read -r command; do
    if is_running; then
        kill -s "$command" "$server"
        if [ "$command" != 0 ]; then kill -s CONT "$server"; fi
    elif [ "$command" = start ]; then
        "$bin/postgres" -D "$data" -k "$folder" </dev/null >>"$folder/log" &
        server=$!
    else
        server=
    fi
    if [ -n "$server" ]; then echo "running $server"; else echo ended; fi
done

while is_running; do
    kill -s QUIT "$server"
    kill -s CONT "$server"
    sleep 0.05
done
# Children of a postmaster that was killed may still write.
for try in 1 2 3 4 5; do
    rm -rf "$data" "$folder"
    if [ ! -e "$folder" ] && [ -z "$(ls -A "$data")" ]; then break; fi
    sleep 1
done
"#;

/// The cluster that the tests of this process share, started when the first of them asks. A test
/// that stops its server or needs other settings has one of its own: `start`.
pub fn cluster() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    let installation = Installation::find_or_skip()?;
    Some(SHARED.get_or_init(|| Cluster::launch(installation, &[])))
}

/// Starts a cluster for one test, with these settings of postgresql.conf in addition to or instead
/// of the default ones; a benchmark needs `fsync=on`. It is stopped and removed when it is dropped.
///
/// - `listen_addresses`: with `127.0.0.1` the server listens on TCP as well, see `tcp_url`. Without
///   `port` it gets a free one.
/// - `data_directory`: another place for the data, for example on a small tmpfs: the absolute path
///   of a folder that is empty or does not exist. It is removed as well, or emptied where it
///   cannot be, as a mount point.
pub fn start(options: &[(&str, &str)]) -> Option<Cluster> {
    Some(Cluster::launch(Installation::find_or_skip()?, options))
}

/// How to stop a server. `Fast` rolls back and disconnects the clients and writes everything;
/// `Immediate` is a crash, from which the next start recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    Fast,
    Immediate,
}

/// A PostgreSQL server with its folder.
pub struct Cluster {
    bin: PathBuf,
    owner: Option<Owner>,
    folder: PathBuf,
    data: PathBuf,
    port: u16,
    has_tcp: bool,
    databases: AtomicU32,
    supervisor: Mutex<Supervisor>,
}

impl Cluster {
    fn launch(installation: Installation, options: &[(&str, &str)]) -> Cluster {
        let Installation { bin, owner } = installation;
        let option = |wanted: &str| {
            options.iter().rev().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
        };
        let has_tcp = option("listen_addresses").is_some_and(|addresses| !addresses.is_empty());
        let port = match option("port") {
            Some(port) => port.parse().expect("the option port is a port"),
            None if has_tcp => free_port(),
            None => 5432,
        };
        let data = option("data_directory").map(PathBuf::from);
        if let Some(data) = &data {
            prepare(data, owner.as_ref());
        }
        let lines = SETTINGS.iter().chain(options).filter(|(name, _)| *name != "data_directory");
        let lines = lines.map(|(name, value)| format!("{name} = '{}'", value.replace('\'', "''")));
        let lines = lines.chain(iter::once(format!("port = {port}")));

        let (supervisor, folder) =
            Supervisor::spawn(&bin, owner.as_ref(), data.as_deref(), lines.collect());
        let cluster = Cluster {
            bin,
            owner,
            data: data.unwrap_or_else(|| folder.join("data")),
            folder,
            port,
            has_tcp,
            databases: AtomicU32::new(0),
            supervisor: Mutex::new(supervisor),
        };
        cluster.start_again();
        cluster
    }

    /// The URL of a database, by the unix socket. libpq and tokio-postgres read it.
    pub fn url(&self, database: &str) -> String {
        let folder = percent_encode(&self.folder.display().to_string());
        let database = percent_encode(database);
        format!("postgres://{USER}@{folder}:{}/{database}", self.port)
    }

    /// The URL of a database, by TCP.
    pub fn tcp_url(&self, database: &str) -> String {
        assert!(self.has_tcp, "the cluster was started without listen_addresses");
        format!("postgres://{USER}@127.0.0.1:{}/{}", self.port, percent_encode(database))
    }

    /// Creates an empty database with a name of its own and returns its URL.
    pub fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        self.sql("postgres", &format!("create database {name}"));
        self.url(&name)
    }

    /// Runs a statement, or several in one transaction, and returns the rows as psql prints them
    /// with `-At`: a line each, with `|` between the columns. `database` is a name or a URL.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.psql(database, statement).output().expect("psql starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "psql failed at {statement}\n{errors}");
        let rows = String::from_utf8(output.stdout).expect("psql prints UTF-8");
        rows.strip_suffix('\n').unwrap_or(&rows).to_owned()
    }

    fn psql(&self, database: &str, statement: &str) -> Command {
        let mut psql = command(&self.bin.join("psql"));
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-w", "-U", USER, "-h"])
            .arg(&self.folder)
            .args(["-p", &self.port.to_string(), "-d", database, "-c", statement])
            .stdin(Stdio::null());
        psql
    }

    /// Stops the server and waits until it has ended. The data and the folder stay.
    pub fn stop(&self, mode: StopMode) {
        let signal = match mode {
            StopMode::Fast => "INT",
            StopMode::Immediate => "QUIT",
        };
        for _ in 0..TRIES {
            if self.supervisor().request(signal).is_none() {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("the PostgreSQL server does not stop{}", self.log_tail());
    }

    /// Starts the stopped server on the same data, socket and port, and waits until it is ready.
    pub fn start_again(&self) {
        assert!(self.supervisor().request("0").is_none(), "the PostgreSQL server is running");
        self.supervisor().request("start");
        for _ in 0..TRIES {
            // psql rather than pg_isready: a server that recovers already accepts connections.
            let output = self.psql("postgres", "select 1").output().expect("psql starts");
            if output.status.success() {
                return;
            }
            let is_running = self.supervisor().request("0").is_some();
            assert!(is_running, "the PostgreSQL server did not start{}", self.log_tail());
            thread::sleep(PAUSE);
        }
        panic!("the PostgreSQL server is not ready{}", self.log_tail());
    }

    /// The pid of the postmaster. SIGSTOP makes it accept connections without an answer. For a crash
    /// use `StopMode::Immediate`: SIGKILL leaves its children and its shared memory behind.
    pub fn pid(&self) -> u32 {
        self.supervisor().request("0").expect("the PostgreSQL server is running")
    }

    /// The folder with the socket, the log and, by default, the data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file into the data folder that only the server can read, for example a private key
    /// or pg_hba.conf, and returns its path. `select pg_reload_conf()` makes the server read it.
    pub fn write_file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.data.join(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path).expect("the data folder can be written");
        file.write_all(contents).expect("the data folder can be written");
        give(&path, self.owner.as_ref());
        path
    }

    /// The end of the server's log, as a part of an error message.
    fn log_tail(&self) -> String {
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        format!(". Its log ends with:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Closes the pipe first. An error means that the supervisor is gone already.
        self.supervisor().process.wait().ok();
    }
}

/// The shell that starts, stops and removes the server. The pipe to it must not reach another
/// process: the standard library opens it with CLOEXEC.
struct Supervisor {
    process: Child,
    replies: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Creates a cluster and returns its folder, too. The server is not started yet.
    fn spawn(
        bin: &Path,
        owner: Option<&Owner>,
        data: Option<&Path>,
        lines: Vec<String>,
    ) -> (Supervisor, PathBuf) {
        // The path of a socket has at most about 100 bytes.
        let temporary = env::temp_dir();
        let is_short = temporary.as_os_str().len() <= 60;
        let temporary = if is_short { temporary } else { PathBuf::from("/tmp") };
        let mut shell = command(Path::new("sh"));
        shell
            .args(["-c", SUPERVISOR, "tiller-postgres"])
            .args([bin, &temporary, data.unwrap_or(Path::new(""))])
            .arg(USER)
            .args(lines)
            .current_dir("/")
            // Not the test's group, which Ctrl-C or a time limit may end.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(owner) = owner {
            shell.uid(owner.uid).gid(owner.gid).env("HOME", "/").env("USER", owner.name);
        }
        let mut process = shell.spawn().expect("the supervisor of PostgreSQL starts");
        let replies = process.stdout.take().expect("the supervisor's stdout is a pipe");
        let mut supervisor = Supervisor { process, replies: BufReader::new(replies) };
        let folder = PathBuf::from(supervisor.reply());
        (supervisor, folder)
    }

    /// Sends `start` or a signal's name and returns the pid of the server if it is running.
    fn request(&mut self, line: &str) -> Option<u32> {
        let input = self.process.stdin.as_mut().expect("the supervisor's stdin is a pipe");
        writeln!(input, "{line}").expect("the supervisor of PostgreSQL is running");
        let reply = self.reply();
        let pid = reply.strip_prefix("running ")?;
        Some(pid.parse().expect("the supervisor prints a pid"))
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("the supervisor prints UTF-8");
        assert!(line.ends_with('\n'), "the supervisor of PostgreSQL has ended");
        line.trim_end().to_owned()
    }
}

/// PostgreSQL on this machine, and the user to run it as.
struct Installation {
    bin: PathBuf,
    /// None: the user of the tests.
    owner: Option<Owner>,
}

impl Installation {
    fn find_or_skip() -> Option<Installation> {
        let Some(bin) = find_bin() else {
            skip("POSTGRES", "there is no PostgreSQL server (initdb, postgres, psql)");
            return None;
        };
        if !is_root() {
            return Some(Installation { bin, owner: None });
        }
        let owner = Owner::find("postgres").or_else(|| Owner::find("nobody"));
        if owner.is_none() {
            skip("POSTGRES", "PostgreSQL refuses root, and there is no user postgres or nobody");
        }
        Some(Installation { bin, owner: Some(owner?) })
    }
}

/// The folder of the real programs: Debian has links to some of them, and a psql that is a script.
/// The programs in PATH come first, then the newest of Debian's versions.
fn find_bin() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path)
        .filter_map(|folder| fs::canonicalize(folder.join("postgres")).ok())
        .filter_map(|program| Some(program.parent()?.to_owned()));
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    versions.sort_by_key(|version| {
        let number = version.file_name().and_then(|name| name.to_str()?.parse::<f32>().ok());
        (number.unwrap_or_default() * 100.0) as u32
    });
    let newest_first = versions.into_iter().rev().map(|version| version.join("bin"));
    in_path.chain(newest_first).find(|bin| {
        ["initdb", "postgres", "psql"].iter().all(|program| bin.join(program).is_file())
    })
}

/// A user other than root.
struct Owner {
    name: &'static str,
    uid: u32,
    gid: u32,
}

impl Owner {
    fn find(name: &'static str) -> Option<Owner> {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let user = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = user.split(':').skip(2);
        Some(Owner { name, uid: ids.next()?.parse().ok()?, gid: ids.next()?.parse().ok()? })
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id starts");
    id.stdout.trim_ascii() == b"0"
}

/// Creates the data folder that an option names.
fn prepare(data: &Path, owner: Option<&Owner>) {
    assert!(data.is_absolute(), "data_directory is an absolute path");
    fs::create_dir_all(data).expect("the data folder can be created");
    let mut files = fs::read_dir(data).expect("the data folder can be read");
    assert!(files.next().is_none(), "the data folder {} is not empty", data.display());
    give(data, owner);
}

fn give(path: &Path, owner: Option<&Owner>) {
    if let Some(owner) = owner {
        chown(path, Some(owner.uid), Some(owner.gid)).expect("root can change an owner");
    }
}

/// A command without libpq's variables, such as PGHOST.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C.UTF-8");
    command
}

/// A port below the ones that the system gives to outgoing connections, so that none of them takes
/// it while the server is stopped. Every call and every test process begins at another one.
fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(37);
    for _ in 0..10_000 {
        let offset = first.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % 10_000;
        let port = 20_000 + offset as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("there is no free port");
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(byte as char);
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}
