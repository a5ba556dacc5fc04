//! Measures the wire: figures to compare, not a timed test.
//!
//! A snapshot should cost no more than its bytes, so the cost of a delta must not grow with the
//! length of the message; and pipelined commands should be answered as fast as lines can be read.
//! `cargo bench --bench wire` prints a table of both.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const DELTAS: [usize; 3] = [1_000, 5_000, 20_000];
const PIPELINED: usize = 200_000;

fn main() {
    let mut table = String::new();
    table += "deltas   level      time      a delta   against 1,000   output\n";
    for wire in ["pi", "pi-delta"] {
        let mut first = None;
        for deltas in DELTAS {
            let Cost { time, bytes } = answer(wire, deltas);
            let each = time.as_secs_f64() * 1e6 / deltas as f64;
            let ratio = each / *first.get_or_insert(each);
            let megabytes = bytes as f64 / 1e6;
            table += &format!(
                "{deltas:<8} {wire:<8} {:>7.1} ms {each:>8.2} µs {ratio:>12.2} × {megabytes:>9.2} MB\n",
                time.as_secs_f64() * 1e3
            );
        }
    }
    let time = pipelined_states();
    let per_second = PIPELINED as f64 / time.as_secs_f64();
    table += &format!("\n{PIPELINED} get_state in one write: {per_second:.0} a second\n");
    // The reader of the table may be gone.
    std::io::stdout().write_all(table.as_bytes()).ok();
}

struct Cost {
    time: Duration,
    bytes: usize,
}

/// One answer of so many deltas, from the prompt to the end of the run.
fn answer(wire: &str, deltas: usize) -> Cost {
    let mut server = Server::start(wire, &format!("say Ready.\n\nrepeat {deltas} \"word{{i}} \""));
    // Warm up: the first prompt includes one-time work.
    server.write(b"{\"type\":\"prompt\",\"message\":\"Warm up\"}\n");
    server.read_until(b"{\"type\":\"agent_settled\"}");
    let start = Instant::now();
    server.write(b"{\"type\":\"prompt\",\"message\":\"Go\"}\n");
    let bytes = server.read_until(b"{\"type\":\"agent_settled\"}");
    Cost { time: start.elapsed(), bytes }
}

fn pipelined_states() -> Duration {
    let mut server = Server::start("pi", "say Ready.");
    let mut lines = b"{\"type\":\"get_state\"}\n".repeat(PIPELINED - 1);
    lines.extend_from_slice(b"{\"id\":\"last\",\"type\":\"get_state\"}\n");
    let start = Instant::now();
    let mut stdin = server.child.stdin.take().expect("it was piped");
    let writing = std::thread::spawn(move || stdin.write_all(&lines).map(|()| stdin));
    server.read_until(b"{\"id\":\"last\"");
    let time = start.elapsed();
    server.child.stdin = writing.join().expect("the writer does not panic").ok();
    time
}

struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    _folder: TempDir,
}

impl Server {
    fn start(wire: &str, script: &str) -> Server {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("talk.script");
        std::fs::write(&path, script).expect("a file can be written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiller"))
            .args(["--mode", "rpc", "--no-session", "--wire", wire, "--script"])
            .arg(&path)
            .current_dir(&folder)
            .env_clear()
            .env("HOME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tiller starts");
        let stdout = child.stdout.take().expect("it was piped");
        Server { child, stdout: BufReader::with_capacity(1 << 20, stdout), _folder: folder }
    }

    fn write(&mut self, bytes: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("it was piped");
        stdin.write_all(bytes).expect("tiller listens");
    }

    /// Reads up to the line with this beginning, and returns the number of bytes.
    fn read_until(&mut self, beginning: &[u8]) -> usize {
        let (mut line, mut bytes) = (Vec::new(), 0);
        loop {
            line.clear();
            let read = self.stdout.read_until(b'\n', &mut line).expect("tiller can be read");
            assert!(read > 0, "tiller ended too early");
            bytes += read;
            if line.starts_with(beginning) {
                return bytes;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
