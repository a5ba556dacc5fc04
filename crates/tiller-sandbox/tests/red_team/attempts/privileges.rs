//! More rights than the sandbox has.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Aim, Attempt, blocked, c, call, control};

pub(super) const ATTEMPTS: &[Attempt] = &[
    control("make a file that runs with the rights of its owner", |aim| {
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, c(&aim.own("own")).as_ptr(), 0o4755)
    }),
    control("create such a file", |aim| {
        call!(
            libc::SYS_openat,
            libc::AT_FDCWD,
            c(&aim.own("setuid")).as_ptr(),
            libc::O_CREAT | libc::O_WRONLY,
            0o4755
        )
    }),
    control("make a file that runs with the rights of its group", |aim| {
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, c(&aim.own("own")).as_ptr(), 0o2755)
    }),
    blocked("make a device in the workspace", |aim| {
        let disk = libc::makedev(254, 0);
        call!(
            libc::SYS_mknodat,
            libc::AT_FDCWD,
            c(&aim.own("disk")).as_ptr(),
            libc::S_IFBLK | 0o600,
            disk
        )
    }),
    blocked("gain privileges by an exec", |_| {
        // SAFETY: reads an attribute.
        #[allow(unsafe_code)]
        let is_set = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
        refused_if(is_set)
    }),
    blocked("take the no-new-privileges bit back", |_| {
        // SAFETY: takes numbers. The kernel refuses every value but 1 with EINVAL.
        #[allow(unsafe_code)]
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) };
        refused_if(result != 0)
    }),
    blocked("use the rights of an administrator", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find(|line| line.starts_with("CapBnd:")).unwrap_or_default();
        let set = u64::from_str_radix(line.trim_start_matches("CapBnd:").trim(), 16).unwrap_or(0);
        let line = status.lines().find(|line| line.starts_with("CapEff:")).unwrap_or_default();
        let own = u64::from_str_radix(line.trim_start_matches("CapEff:").trim(), 16).unwrap_or(!0);
        const SYS_ADMIN: u64 = 1 << 21;
        // A user without privileges may keep the bounding set: nothing can be gained from it.
        refused_if(own & SYS_ADMIN == 0 && (own == 0 || set & SYS_ADMIN == 0))
    }),
    control("run a program in memory that writes outside", |aim| {
        // SAFETY: the name is a constant.
        #[allow(unsafe_code)]
        let memory = unsafe { libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0) };
        super::done(memory)?;
        let path = format!("/proc/self/fd/{memory}");
        fs::File::options().write(true).open(&path)?.write_all(&fs::read("/proc/self/exe")?)?;
        again(&path, aim)
    }),
    control("run a copy of a program that writes outside", |aim| {
        let copy = aim.own("copy");
        fs::copy("/proc/self/exe", &copy)?;
        again(&copy.to_string_lossy(), aim)
    }),
    control("write outside from a session of its own", |aim| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["attempt", "write to a file"]);
        // SAFETY: a system call and nothing else.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(|| super::done(libc::c_long::from(libc::setsid())));
        }
        let _ = aim;
        outcome(&command.output()?.stdout)
    }),
    control("pass a descriptor of a folder on to a program", |aim| {
        let folder = fs::File::open(aim.outside(""))?;
        // SAFETY: clears close-on-exec.
        #[allow(unsafe_code)]
        unsafe {
            libc::fcntl(folder.as_raw_fd(), libc::F_SETFD, 0);
        }
        let script = format!("echo x > /proc/self/fd/{}/new", folder.as_raw_fd());
        let status = Command::new("/bin/sh").args(["-c", &script]).status()?;
        refused_if(!status.success())
    }),
];

/// Runs a program that makes another attempt.
fn again(path: &str, _aim: &Aim) -> io::Result<()> {
    outcome(&Command::new(path).args(["attempt", "write to a file"]).output()?.stdout)
}

/// How the attempt of another program has ended.
fn outcome(output: &[u8]) -> io::Result<()> {
    match String::from_utf8_lossy(output).trim() {
        "done" => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.parse().unwrap_or(0))),
    }
}

fn refused_if(is_refused: bool) -> io::Result<()> {
    if is_refused { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { Ok(()) }
}
