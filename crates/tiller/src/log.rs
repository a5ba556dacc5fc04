//! The log of `TILLER_LOG` or `--log-file`: requests, responses, hooks and child processes with
//! their times, one JSON object per line. docs/log.md describes the records.
//!
//! If logging is off, a [`Log`] is `None` and nothing is collected. A write error is reported once
//! and otherwise ignored: the run continues.

use std::borrow::Cow;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use serde::Serialize;
use serde_json::Value;
use tiller_export::Mask;
use tiller_js::{HookObserver, HookTiming};
use tiller_llm::{ExchangeEnd, Observed, Observer};
use tiller_server::clock::Clock;
use tiller_session::time;
use tiller_tools::process::ChildEvent;

use crate::print_mode::print_stderr;

/// A handle to the log, or to none.
#[derive(Clone, Default)]
pub struct Log(Option<Arc<OpenLog>>);

struct OpenLog {
    file: File,
    mask: Mask,
    started: Instant,
    /// A write error was already reported.
    is_broken: AtomicBool,
}

/// One line of the log, without its time and process id.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum LogRecord<'a> {
    Start {
        version: &'a str,
        mode: &'a str,
        cwd: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    Request {
        request: u64,
        model: String,
        url: String,
        headers: Value,
        body: Value,
    },
    Response {
        request: u64,
        status: u16,
        headers: Value,
        ms: f64,
    },
    ResponseEnd {
        request: u64,
        ms: f64,
        bytes: u64,
        end: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        body: String,
    },
    Hook {
        hook: &'a str,
        ms: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    ChildStart {
        child: i32,
        program: String,
        arguments: Vec<String>,
    },
    ChildEnd {
        child: i32,
        ms: f64,
        exit_code: Option<i32>,
        signal: Option<i32>,
    },
    End {
        exit_code: u8,
        ms: f64,
    },
}

#[derive(Serialize)]
struct LogLine<'a> {
    time: String,
    pid: u32,
    #[serde(flatten)]
    record: &'a LogRecord<'a>,
}

impl Log {
    /// Opens the file, or returns why it cannot be used. `secrets` are masked in every record.
    pub(crate) fn open(
        path: &Path,
        secrets: impl IntoIterator<Item = String>,
    ) -> Result<Log, String> {
        let failed = |err: io::Error| format!("cannot log to {}: {err}", path.display());
        // Refuse links, which could lead to any of the user's files, and pipes, which would block.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(path)
            .map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(format!("cannot log to {}: it is not a regular file", path.display()));
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
        let mask = Mask::new(secrets);
        let is_broken = AtomicBool::new(false);
        Ok(Log(Some(Arc::new(OpenLog { file, mask, started: Instant::now(), is_broken }))))
    }

    pub(crate) fn write(&self, record: &LogRecord<'_>) {
        if let Some(log) = &self.0 {
            log.write(record);
        }
    }

    /// The last record of a process, with its exit code.
    pub fn end(&self, exit_code: u8) {
        if let Some(log) = &self.0 {
            log.write(&LogRecord::End { exit_code, ms: ms(log.started.elapsed()) });
        }
    }

    /// The observer of requests, if there is a log.
    pub(crate) fn requests(&self) -> Option<Observer> {
        let log = self.0.clone()?;
        Some(Observer::new(move |observed| log.write(&exchanged(observed))))
    }

    /// The observer of hooks, if there is a log.
    pub(crate) fn hooks(&self) -> Option<HookObserver> {
        let log = self.0.clone()?;
        Some(HookObserver(Arc::new(move |HookTiming { name, after, error }| {
            log.write(&LogRecord::Hook { hook: name, ms: ms(after), error });
        })))
    }

    /// Logs child processes from now on, if there is a log.
    pub(crate) fn watch_children(&self) {
        let Some(log) = self.0.clone() else { return };
        tiller_tools::process::observe(move |event| {
            log.write(&match event {
                ChildEvent::Started { pid: child, program, arguments } => {
                    LogRecord::ChildStart { child, program, arguments }
                }
                ChildEvent::Ended { pid: child, code: exit_code, signal, after } => {
                    LogRecord::ChildEnd { child, ms: ms(after), exit_code, signal }
                }
            });
        });
    }
}

impl OpenLog {
    fn write(&self, record: &LogRecord<'_>) {
        let line =
            LogLine { time: time::iso(Clock::System.now()), pid: std::process::id(), record };
        let Ok(mut line) = serde_json::to_string(&line) else { return };
        if let Cow::Owned(masked) = self.mask.line(&line) {
            line = masked;
        }
        line.push('\n');
        // One write per record, so that records of several threads and processes stay whole.
        if let Err(err) = (&self.file).write_all(line.as_bytes())
            && !self.is_broken.swap(true, Ordering::Relaxed)
        {
            print_stderr(&format!("Warning: cannot write to the log: {err}"));
        }
    }
}

fn exchanged<'a>(observed: Observed) -> LogRecord<'a> {
    match observed {
        Observed::Sent { id, provider, model, url, headers, body } => LogRecord::Request {
            request: id,
            model: format!("{provider}/{model}"),
            url,
            headers: object(headers),
            body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        },
        Observed::Answered { id, status, headers, after } => {
            LogRecord::Response { request: id, status, headers: object(headers), ms: ms(after) }
        }
        Observed::Ended { id, after, bytes, body, end } => {
            let (end, error) = match end {
                ExchangeEnd::Complete => ("complete", None),
                ExchangeEnd::Dropped => ("dropped", None),
                ExchangeEnd::Failed(why) => ("failed", Some(why)),
            };
            LogRecord::ResponseEnd { request: id, ms: ms(after), bytes, end, error, body }
        }
    }
}

fn object(headers: Vec<(String, String)>) -> Value {
    headers.into_iter().map(|(name, value)| (name, Value::String(value))).collect()
}

/// To a hundredth of a millisecond.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> LogRecord<'static> {
        let (version, mode, cwd) = ("0.1.0", "rpc", "/key is sk-12345678".into());
        LogRecord::Start { version, mode, cwd, model: None }
    }

    #[test]
    fn records_are_appended_and_secrets_masked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for _ in 0..2 {
            let log = Log::open(&path, ["sk-12345678".to_owned()]).unwrap();
            log.write(&start());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), text.contains("sk-12345678")), (2, false));
        let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&record["event"], &record["cwd"]),
            (&"start".into(), &"/key is [redacted]".into())
        );
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_pipes_and_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        for name in ["link", "pipe", ".", "no/such/folder"] {
            assert!(Log::open(&at(name), []).is_err(), "{name}");
        }
    }

    #[test]
    fn full_disk_does_not_disturb_the_run() {
        // Linux has a device that is always full.
        let Ok(file) = OpenOptions::new().append(true).open("/dev/full") else { return };
        let (mask, is_broken) = (Mask::new([]), AtomicBool::new(false));
        let log = OpenLog { file, mask, started: Instant::now(), is_broken };
        log.write(&start());
        log.write(&start());
        assert!(log.is_broken.load(Ordering::Relaxed));
    }
}
