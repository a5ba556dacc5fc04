//! Facts about the machine for node's `os` and `process`.

use std::rc::Rc;

use nix::unistd;
use serde_json::json;

use super::{OpError, OpInput, OpOutput, OpReply, host, unknown};
use crate::engine_state::EngineState;

pub(super) fn sync(state: &Rc<EngineState>, name: &str, input: &OpInput) -> OpReply {
    match name {
        "info" => {
            let system = nix::sys::utsname::uname().ok();
            let field = |field: Option<&std::ffi::OsStr>| {
                field.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
            };
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            Ok(OpOutput::json(&json!({
                "hostname": field(system.as_ref().map(|system| system.nodename())),
                "release": field(system.as_ref().map(|system| system.release())),
                "type": field(system.as_ref().map(|system| system.sysname())),
                "version": field(system.as_ref().map(|system| system.version())),
                "machine": field(system.as_ref().map(|system| system.machine())),
                "platform": host::platform(),
                "arch": host::arch(),
                "tmpdir": std::env::temp_dir(),
                "homedir": state.config.home_dir,
                "cpus": cpus,
                "uid": unistd::getuid().as_raw(),
                "gid": unistd::getgid().as_raw(),
            })))
        }
        "memory" => Ok(OpOutput::json(&memory())),
        "user" => {
            let user = unistd::User::from_uid(unistd::getuid()).ok().flatten();
            Ok(OpOutput::json(&json!({
                "username": user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
                "shell": user.as_ref().map(|user| user.shell.clone()),
                "uid": unistd::getuid().as_raw(),
                "gid": unistd::getgid().as_raw(),
                "homedir": state.config.home_dir,
            })))
        }
        "kill" => {
            let (pid, signal): (i32, i32) = input.read()?;
            kill(pid, signal)
        }
        _ => Err(unknown(name)),
    }
}

/// Total and free memory in bytes, and the uptime in seconds.
fn memory() -> serde_json::Value {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 =
        uptime.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    json!({
        "total": field("MemTotal:").unwrap_or(0),
        "free": field("MemAvailable:").unwrap_or(0),
        "uptime": uptime,
    })
}

/// Sends a signal. tiller's own process is refused.
fn kill(pid: i32, signal: i32) -> OpReply {
    let ours = pid == 0 || pid.unsigned_abs() == std::process::id();
    if ours && signal != 0 {
        return Err(OpError::coded(
            "EPERM",
            "kill EPERM: an extension cannot signal its own process",
        ));
    }
    let sent = match signal {
        0 => nix::sys::signal::kill(unistd::Pid::from_raw(pid), None),
        signal => nix::sys::signal::Signal::try_from(signal)
            .and_then(|signal| nix::sys::signal::kill(unistd::Pid::from_raw(pid), signal)),
    };
    match sent {
        Ok(()) => Ok(OpOutput::Nothing),
        Err(errno) => {
            let mut failed = OpError::coded(&format!("{errno:?}"), format!("kill {errno:?}"));
            failed.fields.push(("errno", (-(errno as i32)).into()));
            failed.fields.push(("syscall", "kill".into()));
            Err(failed)
        }
    }
}
