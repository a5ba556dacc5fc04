//! Systems other than Linux: there is no sandbox, and tools that should run in one are refused.

use std::io;
use std::path::Path;

use crate::policy::Policy;

#[derive(Debug)]
pub(crate) struct NoRestrictions;
pub(crate) use NoRestrictions as Restrictions;

impl NoRestrictions {
    pub(crate) fn new(_policy: &Policy, _temp: &Path) -> io::Result<Restrictions> {
        Ok(Restrictions)
    }

    pub(crate) fn missing() -> Option<String> {
        Some("a sandbox needs Linux".to_owned())
    }

    /// The version of Landlock that the kernel has; 0 without Landlock.
    pub(crate) fn landlock() -> u32 {
        0
    }

    pub(crate) fn restricts_signals() -> bool {
        false
    }

    pub(crate) fn enter_process(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn enter_thread(&self) -> io::Result<()> {
        Ok(())
    }
}
