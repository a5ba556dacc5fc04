//! `tiller conform`: checks whether a server follows the protocol, and prints what holds.
//!
//! Each check starts the server anew, in its own folders and with its own scripted model, drives it
//! as a client, and judges the lines it writes. [docs/conform.md](../../../docs/conform.md)
//! describes the checks. Begin reading at `conform/check.rs`, then a file of `conform/checks`.

mod check;
mod checks;
mod bench;
mod peer;
mod line;
mod laws;
mod model;
mod reply;
mod home;
mod processes;
mod suite;
mod report;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use clap::Parser;
use tiller_protocol::Level;

use crate::args::WireLevel;
use bench::Bench;
use check::CheckResult;
use processes::Servers;
use report::SuiteReport;
use suite::SuiteEnd;

/// The suite may take this many times the limit of one wait.
const SUITE_FACTOR: u32 = 22;

/// Check whether a server follows the protocol
#[derive(Debug, Parser)]
#[command(
    name = "tiller conform",
    disable_version_flag = true,
    long_about = include_str!("../texts/conform-about.md"),
    after_help = include_str!("../texts/conform-examples.md")
)]
pub struct ConformCommand {
    /// The level whose records are expected; also set as TILLER_WIRE for the server
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        default_value = "pi",
        hide_possible_values = true
    )]
    wire: WireLevel,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Run only the checks whose group and name contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The limit of each wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    /// The program that serves the protocol on stdin and stdout, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What to print, and the exit code.
pub struct ConformOutput {
    pub text: String,
    pub code: u8,
}

impl ConformCommand {
    /// Runs the suite. Fails only if it cannot run at all.
    pub fn run(self) -> Result<ConformOutput, String> {
        // Children of a server that ends become children of this process, which ends them.
        tiller_tools::process::install();
        let folder = tempfile::Builder::new().prefix("tiller-conform-").tempdir();
        let folder = folder.map_err(|err| format!("cannot create a temporary folder: {err}"))?;
        // `/proc` has paths without links.
        let path = folder.path().canonicalize();
        let path = path.map_err(|err| format!("cannot read {}: {err}", folder.path().display()))?;
        let level = self.wire.level();
        let wait = Duration::from_secs(self.wait);
        let bench = Bench {
            command_line: absolute_program(self.command.clone())?,
            level,
            wait,
            end: Instant::now() + wait * SUITE_FACTOR,
            folder: path,
            servers: Arc::new(Servers::default()),
            homes: AtomicUsize::new(0),
            settles: true,
        };
        let mut progress = Progress::default();
        let end = suite::run(bench, self.only.as_deref(), |result, count| {
            progress.show(result, count);
        })?;
        progress.clear();
        match end {
            SuiteEnd::Interrupted(code) => Ok(ConformOutput { text: String::new(), code }),
            SuiteEnd::Done(results) => self.output(level, results),
        }
    }

    fn output(&self, level: Level, results: Vec<CheckResult>) -> Result<ConformOutput, String> {
        let code = u8::from(!suite::is_passed(&results));
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let server = words.collect::<Vec<_>>().join(" ");
        let report = SuiteReport::new(server, home::level_name(level), results);
        let text = if self.json { report.to_json()? } else { report.to_table() };
        Ok(ConformOutput { text, code })
    }
}

/// A program that is named by a relative path is found from here, not from a check's folder.
fn absolute_program(mut command_line: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if let Some(program) = command_line.first_mut()
        && Path::new(program).components().count() > 1
    {
        let path = std::path::absolute(&*program);
        let path = path.map_err(|err| format!("cannot find {}: {err}", program.display()))?;
        *program = path.into();
    }
    Ok(command_line)
}

/// The number of finished checks, on stderr if that is a terminal.
#[derive(Default)]
struct Progress {
    done: usize,
}

impl Progress {
    fn show(&mut self, result: &CheckResult, count: usize) {
        self.done += 1;
        self.print(&format!("{}/{count} {}: {}", self.done, result.group.name(), result.name));
    }

    fn clear(&self) {
        self.print("");
    }

    fn print(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        if stderr.is_terminal() {
            // A terminal that is gone needs no progress.
            write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush()).ok();
        }
    }
}
