//! Reading keys.

use std::fs;
use std::io;
use std::path::Path;

use super::{Attempt, blocked, control, named};

pub(super) const ATTEMPTS: &[Attempt] = &[
    control("read a key", |aim| fs::read(aim.key()).map(drop)),
    control("read a key through a symbolic link", |aim| fs::read(aim.own("key")).map(drop)),
    control("read a key through /proc/self/root", |aim| {
        fs::read(format!("/proc/self/root{}", aim.key().display())).map(drop)
    }),
    control("read a key from its folder", |aim| {
        std::env::set_current_dir(aim.root.join("agent"))?;
        fs::read("auth.json").map(drop)
    }),
    control("read a key behind a link", |aim| fs::read(aim.root.join("home/.ssh/id")).map(drop)),
    control("read a key where a link leads", |aim| fs::read(aim.root.join("vault/id")).map(drop)),
    control("link a key into the workspace", |aim| fs::hard_link(aim.key(), aim.own("hard-key"))),
    control("move a key into the workspace", |aim| fs::rename(aim.key(), aim.own("taken-key"))),
    blocked("read the passwords of the system", |_| fs::read("/etc/shadow").map(drop)),
    blocked("read a disk", |_| {
        let disks = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda"];
        open_first(&disks)
    }),
    blocked("read the memory of the kernel", |_| open_first(&["/proc/kcore", "/dev/mem"])),
    control("read the environment of a process outside", |aim| {
        fs::read(aim.proc("environ")).map(drop)
    }),
    control("read the memory of a process outside", |aim| {
        fs::File::open(aim.proc("mem")).map(drop)
    }),
    control("list the mapped files of a process outside", |aim| {
        fs::read(aim.proc("maps")).map(drop)
    }),
    control("open a file of a process outside", |aim| fs::read_link(aim.proc("fd/0")).map(drop)),
    control("go through the root of a process outside", |aim| {
        fs::read(aim.proc("root/etc/hostname")).map(drop)
    }),
    control("go through the folder of a process outside", |aim| {
        fs::read_dir(aim.proc("cwd")).map(drop)
    }),
    named("see the size of a key", "Names, sizes and times", |aim| {
        fs::metadata(aim.key()).map(drop)
    }),
    named("see the command line of a process outside", "Other processes are visible", |aim| {
        fs::read(aim.proc("cmdline")).map(drop)
    }),
];

/// Opens the first of these that the machine has. Where it has none, there is nothing to refuse.
fn open_first(paths: &[&str]) -> io::Result<()> {
    let there = paths.iter().find(|path| Path::new(path).exists());
    match there {
        Some(path) => fs::File::open(path).map(drop),
        None => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}
