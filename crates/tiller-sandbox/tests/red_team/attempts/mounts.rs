//! Other views of the file system.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null;

use super::{Attempt, blocked, c, call, control};

pub(super) const ATTEMPTS: &[Attempt] = &[
    blocked("mount a folder over another", |aim| {
        call!(
            libc::SYS_mount,
            c(&aim.outside("")).as_ptr(),
            c(&aim.own(".git")).as_ptr(),
            null::<u8>(),
            libc::MS_BIND,
            null::<u8>()
        )
    }),
    blocked("mount a new file system", |aim| {
        call!(
            libc::SYS_mount,
            c"tmpfs".as_ptr(),
            c(&aim.own(".git")).as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            null::<u8>()
        )
    }),
    blocked("unmount", |_| call!(libc::SYS_umount2, c"/nowhere".as_ptr(), libc::MNT_DETACH)),
    blocked("change the root", |aim| call!(libc::SYS_chroot, c(&aim.own("")).as_ptr())),
    blocked("replace the root", |aim| {
        call!(libc::SYS_pivot_root, c(&aim.own("")).as_ptr(), c(&aim.own("")).as_ptr())
    }),
    blocked("open a file system", |_| call!(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0)),
    blocked("copy a mount", |_| call!(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1)),
    blocked("move a mount", |_| call!(libc::SYS_move_mount, -1, c"".as_ptr(), -1, c"".as_ptr(), 0)),
    blocked("change a mount", |_| {
        call!(libc::SYS_mount_setattr, libc::AT_FDCWD, c"/".as_ptr(), 0, null::<u8>(), 0)
    }),
    blocked("make a namespace of mounts", |_| call!(libc::SYS_unshare, libc::CLONE_NEWNS)),
    blocked("make a namespace of users", |_| call!(libc::SYS_unshare, libc::CLONE_NEWUSER)),
    control("make a process in a namespace of users", |_| {
        // SAFETY: the child exits at once.
        #[allow(unsafe_code)]
        unsafe {
            let pid =
                libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0);
            if pid == 0 {
                libc::_exit(0);
            }
            super::done(pid)
        }
    }),
    blocked("make a process with clone3", |_| {
        // A structure that is too short is an error of its own without a filter.
        call!(libc::SYS_clone3, null::<u8>(), 0)
    }),
    blocked("enter the namespace of a process outside", |aim| {
        let namespace = File::open(aim.proc("ns/uts"))?;
        call!(libc::SYS_setns, namespace.as_raw_fd(), 0)
    }),
    blocked("open a file by its handle", |_| {
        call!(libc::SYS_open_by_handle_at, -1, null::<u8>(), 0)
    }),
    blocked("make a handle of a file", |aim| {
        call!(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c(&aim.victim()).as_ptr(),
            null::<u8>(),
            null::<u8>(),
            0
        )
    }),
];
