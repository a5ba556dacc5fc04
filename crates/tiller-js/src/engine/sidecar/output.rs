//! Logs what a sidecar prints, line by line.

use std::sync::Arc;

use tiller_agent::program::{ProgramEvent, ProgramSink};

use crate::host_api::{HostApi, LogLevel, LogLine};

/// Longer lines are split.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// Logs the output, and calls `ended` with the exit code or signal.
pub(super) fn sink(
    host: Arc<dyn HostApi>,
    ended: Box<dyn Fn(Option<i32>, Option<i32>) + Send>,
) -> ProgramSink {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    Box::new(move |event| match event {
        ProgramEvent::Stdout(bytes) => print(&*host, LogLevel::Info, &mut stdout, &bytes),
        ProgramEvent::Stderr(bytes) => print(&*host, LogLevel::Error, &mut stderr, &bytes),
        ProgramEvent::Exit { code, signal } => ended(code, signal),
        ProgramEvent::Closed => {
            log(&*host, LogLevel::Info, &std::mem::take(&mut stdout));
            log(&*host, LogLevel::Error, &std::mem::take(&mut stderr));
        }
    })
}

/// Logs complete lines and keeps the rest in `rest`.
fn print(host: &dyn HostApi, level: LogLevel, rest: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        rest.extend_from_slice(piece);
        if piece.ends_with(b"\n") || rest.len() > LINE_MAX_BYTES {
            log(host, level, rest);
            rest.clear();
        }
    }
}

fn log(host: &dyn HostApi, level: LogLevel, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    if !text.is_empty() {
        host.log(LogLine { extension_path: None, level, text: text.to_owned() });
    }
}
