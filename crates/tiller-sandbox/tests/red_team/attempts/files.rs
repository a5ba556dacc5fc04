//! Changing files outside.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use super::{Attempt, blocked, c, call, control, named};

pub(super) const ATTEMPTS: &[Attempt] = &[
    control("write to a file", |aim| write(&aim.victim())),
    control("append to a file", |aim| OpenOptions::new().append(true).open(aim.victim()).map(drop)),
    control("truncate a file by its name", |aim| {
        call!(libc::SYS_truncate, c(&aim.victim()).as_ptr(), 0)
    }),
    control("open a file with O_TRUNC", |aim| File::create(aim.victim()).map(drop)),
    control("create a file", |aim| fs::write(aim.outside("new"), "")),
    control("create a folder", |aim| fs::create_dir(aim.outside("new"))),
    control("create a link", |aim| symlink("/etc", aim.outside("new"))),
    control("create a pipe", |aim| {
        call!(
            libc::SYS_mknodat,
            libc::AT_FDCWD,
            c(&aim.outside("new")).as_ptr(),
            libc::S_IFIFO | 0o600,
            0
        )
    }),
    control("delete a file", |aim| fs::remove_file(aim.victim())),
    control("delete a folder", |aim| fs::remove_dir(aim.outside("empty"))),
    control("write through a symbolic link", |aim| write(&aim.own("link"))),
    control("create through a symbolic link to a folder", |aim| fs::write(aim.own("dir/new"), "")),
    control("write through ..", |_| write(Path::new("../outside/victim"))),
    control("write through /proc/self/cwd", |_| {
        write(Path::new("/proc/self/cwd/../outside/victim"))
    }),
    control("write through /proc/self/root", |aim| {
        write(Path::new(&format!("/proc/self/root{}", aim.victim().display())))
    }),
    control("write through the descriptor of a folder", |aim| {
        let folder = File::open(aim.outside(""))?;
        call!(libc::SYS_openat, folder.as_raw_fd(), c"victim".as_ptr(), libc::O_WRONLY)
    }),
    control("open a descriptor for reading again for writing", |aim| {
        let file = File::open(aim.victim())?;
        write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }),
    control("open a descriptor with O_PATH again for writing", |aim| {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(aim.victim())?;
        write(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())))
    }),
    control("open with openat2", |aim| {
        let how: [u64; 3] = [libc::O_WRONLY as u64, 0, 0];
        call!(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            c(&aim.victim()).as_ptr(),
            how.as_ptr(),
            size_of_val(&how)
        )
    }),
    control("make a file without a name and link it", |aim| {
        let file =
            OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(aim.outside(""))?;
        let name = c(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())));
        call!(
            libc::SYS_linkat,
            libc::AT_FDCWD,
            name.as_ptr(),
            libc::AT_FDCWD,
            c(&aim.outside("new")).as_ptr(),
            libc::AT_SYMLINK_FOLLOW
        )
    }),
    control("rename a file over one outside", |aim| {
        fs::write(aim.own("mine"), "mine")?;
        fs::rename(aim.own("mine"), aim.victim())
    }),
    control("rename a file outside into the workspace", |aim| {
        fs::rename(aim.victim(), aim.own("taken"))
    }),
    control("exchange a file with one outside", |aim| {
        fs::write(aim.own("mine"), "mine")?;
        call!(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            c(&aim.own("mine")).as_ptr(),
            libc::AT_FDCWD,
            c(&aim.victim()).as_ptr(),
            libc::RENAME_EXCHANGE
        )
    }),
    control("link a file outside into the workspace and write to it", |aim| {
        fs::hard_link(aim.victim(), aim.own("hard"))?;
        write(&aim.own("hard"))
    }),
    control("link an own file to a place outside", |aim| {
        fs::hard_link(aim.own("own"), aim.outside("new"))
    }),
    control("replace a folder by a link while a file in it is written", |aim| {
        // The name is that of the workspace when it is checked, and that of the link when it counts.
        let place = aim.own("race");
        fs::create_dir(&place).or_else(|err| if place.exists() { Ok(()) } else { Err(err) })?;
        fs::remove_dir(&place)?;
        symlink(aim.outside(""), &place)?;
        fs::write(place.join("new"), "")
    }),
    blocked("open the pattern of core files", |_| {
        write(Path::new("/proc/sys/kernel/core_pattern"))
    }),
    blocked("open what a panic does", |_| write(Path::new("/proc/sys/kernel/panic"))),
    blocked("open a setting of the kernel", |_| write(Path::new("/proc/sys/vm/overcommit_memory"))),
    blocked("change the priority for being killed", |aim| write(&aim.proc("oom_score_adj"))),
    named("write to a hook of git", "hooks in .git", |aim| {
        fs::write(aim.own(".git/hooks/pre-commit"), "")
    }),
    named("change permissions", "Permissions, owners", |aim| {
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, c(&aim.victim()).as_ptr(), 0o644)
    }),
    named("change times", "times and extended attributes", |aim| {
        let none = std::ptr::null::<libc::timespec>();
        call!(libc::SYS_utimensat, libc::AT_FDCWD, c(&aim.victim()).as_ptr(), none, 0)
    }),
];

/// Opens for writing and changes nothing: the suite looks for damage.
fn write(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}
