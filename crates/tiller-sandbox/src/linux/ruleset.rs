//! The Landlock ruleset: which files can be read and changed, and that signals stay inside.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::readable::{self, Readable};
use crate::policy::Policy;

/// The version whose rights are used, as far as the kernel has them.
const USED: ABI = ABI::V6;

/// Devices that programs need, and can do no harm with.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The version of Landlock that the kernel has; 0 without Landlock.
pub(super) fn abi() -> u32 {
    const VERSION: u32 = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call only returns a number.
    #[allow(unsafe_code)]
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}

/// The ruleset, or nothing if the kernel has no Landlock.
pub(super) fn create(policy: &Policy, temp: &Path) -> io::Result<Option<OwnedFd>> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.handle_access(AccessFs::from_all(USED)).map_err(io::Error::other)?;
    let ruleset = ruleset.scope(Scope::from_all(USED)).map_err(io::Error::other)?;
    let ruleset = if policy.network {
        ruleset
    } else {
        ruleset.handle_access(AccessNet::from_all(USED)).map_err(io::Error::other)?
    };
    let mut rules = Rules(ruleset.create().map_err(io::Error::other)?);
    let reading = AccessFs::from_read(USED);
    for readable in readable::of(Path::new("/"), &policy.hidden) {
        rules = match readable {
            Readable::All(path) => rules.allow(&path, reading)?,
            Readable::Names(path) => rules.allow(&path, AccessFs::ReadDir.into())?,
        };
    }
    let all = AccessFs::from_all(USED);
    for path in DEVICES {
        rules = rules.allow(Path::new(path), all)?;
    }
    for root in policy.writable.iter().map(std::path::PathBuf::as_path).chain([temp]) {
        rules = rules.allow(root, all & !AccessFs::IoctlDev)?;
    }
    Ok(rules.0.into())
}

struct Rules(RulesetCreated);

impl Rules {
    /// A path that does not exist, or that the user may not open, needs no rule.
    fn allow(self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<Rules> {
        let Ok(open) = PathFd::new(path) else { return Ok(self) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(USED) };
        self.0.add_rule(PathBeneath::new(open, access)).map(Rules).map_err(io::Error::other)
    }
}
