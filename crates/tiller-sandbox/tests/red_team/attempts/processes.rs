//! Other processes.

use std::io;
use std::ptr::null;

use super::{Aim, Attempt, blocked, call, control, named};

pub(super) const ATTEMPTS: &[Attempt] = &[
    control("signal a process outside", |aim| call!(libc::SYS_kill, aim.pid(), 0)),
    control("signal a thread outside", |aim| call!(libc::SYS_tgkill, aim.pid(), aim.pid(), 0)),
    control("signal a process outside by its descriptor", |aim| {
        let process = pidfd(aim)?;
        call!(libc::SYS_pidfd_send_signal, process, 0, null::<u8>(), 0)
    }),
    control("continue a process outside", |aim| call!(libc::SYS_kill, aim.pid(), libc::SIGCONT)),
    blocked("attach to a process outside", |aim| {
        call!(libc::SYS_ptrace, libc::PTRACE_ATTACH, aim.pid(), 0, 0)
    }),
    blocked("seize a process outside", |aim| {
        call!(libc::SYS_ptrace, libc::PTRACE_SEIZE, aim.pid(), 0, 0)
    }),
    blocked("read the memory of a process outside by a call", |aim| {
        call!(libc::SYS_process_vm_readv, aim.pid(), null::<u8>(), 0, null::<u8>(), 0, 0)
    }),
    blocked("write to the memory of a process outside", |aim| {
        call!(libc::SYS_process_vm_writev, aim.pid(), null::<u8>(), 0, null::<u8>(), 0, 0)
    }),
    control("take a descriptor of a process outside", |aim| {
        let process = pidfd(aim)?;
        call!(libc::SYS_pidfd_getfd, process, 0, 0)
    }),
    control("compare descriptors with a process outside", |aim| {
        call!(libc::SYS_kcmp, aim.pid(), std::process::id(), 1, 0, 0)
    }),
    control("read the limits of a process outside", |aim| {
        let mut limits = [0u64; 2];
        call!(
            libc::SYS_prlimit64,
            aim.pid(),
            libc::RLIMIT_NOFILE,
            null::<u8>(),
            limits.as_mut_ptr()
        )
    }),
    blocked("type into a terminal", |_| call!(libc::SYS_ioctl, 0, libc::TIOCSTI, c"x".as_ptr())),
    blocked("share memory by a key", |_| {
        call!(libc::SYS_shmget, 0x7465, 4096, libc::IPC_CREAT | 0o600)
    }),
    blocked("share a queue of messages by a key", |_| {
        call!(libc::SYS_msgget, 0x7465, libc::IPC_CREAT | 0o600)
    }),
    blocked("share semaphores by a key", |_| {
        call!(libc::SYS_semget, 0x7465, 1, libc::IPC_CREAT | 0o600)
    }),
    blocked("share a queue of messages by a name", |_| {
        call!(
            libc::SYS_mq_open,
            c"tiller-red-team".as_ptr(),
            libc::O_CREAT | libc::O_RDWR,
            0o600,
            null::<u8>()
        )
    }),
    blocked("share keys by the kernel", |_| {
        call!(libc::SYS_add_key, c"user".as_ptr(), c"tiller".as_ptr(), c"x".as_ptr(), 1, -4)
    }),
    named("change the priority of a process outside", "Priorities and processors", |aim| {
        call!(libc::SYS_setpriority, libc::PRIO_PROCESS, aim.pid(), 19)
    }),
];

fn pidfd(aim: &Aim) -> io::Result<libc::c_long> {
    // SAFETY: takes numbers.
    #[allow(unsafe_code)]
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, aim.pid(), 0) };
    if process < 0 { Err(io::Error::last_os_error()) } else { Ok(process) }
}
