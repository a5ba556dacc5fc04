//! The kernel and the machine. The arguments are wrong on purpose: without a filter these calls fail
//! with other errors, or change nothing.

use std::ptr::null;

use super::{Attempt, blocked, c, call};

pub(super) const ATTEMPTS: &[Attempt] = &[
    blocked("load a program into the kernel", |_| call!(libc::SYS_bpf, -1, null::<u8>(), 0)),
    blocked("watch the processor", |_| {
        call!(libc::SYS_perf_event_open, null::<u8>(), 0, -1, -1, 0)
    }),
    blocked("handle page faults", |_| call!(libc::SYS_userfaultfd, -1)),
    blocked("load a module", |_| call!(libc::SYS_init_module, null::<u8>(), 0, c"".as_ptr())),
    blocked("load a module from a file", |_| call!(libc::SYS_finit_module, -1, c"".as_ptr(), 0)),
    blocked("remove a module", |_| call!(libc::SYS_delete_module, c"".as_ptr(), 0)),
    blocked("load another kernel", |_| call!(libc::SYS_kexec_load, 0, 0, null::<u8>(), 0)),
    blocked("restart the machine", |_| call!(libc::SYS_reboot, 0, 0, 0, null::<u8>())),
    blocked("name the machine", |_| call!(libc::SYS_sethostname, null::<u8>(), -1)),
    blocked("set the time", |_| call!(libc::SYS_settimeofday, null::<u8>(), null::<u8>())),
    blocked("set a clock", |_| call!(libc::SYS_clock_settime, -1, null::<u8>())),
    blocked("read the messages of the kernel", |_| call!(libc::SYS_syslog, 10, null::<u8>(), 0)),
    blocked("use a swap file", |_| call!(libc::SYS_swapon, c"".as_ptr(), 0)),
    blocked("write accounts", |aim| call!(libc::SYS_acct, c(&aim.own("accounts")).as_ptr())),
    blocked("set quotas", |_| call!(libc::SYS_quotactl, -1, null::<u8>(), 0, null::<u8>())),
    blocked("watch file systems", |_| call!(libc::SYS_fanotify_init, -1, 0)),
    #[cfg(target_arch = "x86_64")]
    blocked("use ports of the processor", |_| call!(libc::SYS_iopl, 3)),
    #[cfg(target_arch = "x86_64")]
    blocked("use single ports of the processor", |_| call!(libc::SYS_ioperm, 0, 1, 1)),
];
