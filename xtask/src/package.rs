//! `cargo xtask package`: every crate as it would be published. Building one from its package
//! shows that nothing outside its folder is missing, and that the crates it needs are named with
//! their versions.

use std::path::Path;

use crate::check::cargo;

/// What is packaged is what stands in the folder, committed or not.
const ALL: &[&str] = &["package", "--quiet", "--workspace", "--exclude", "xtask", "--allow-dirty"];

/// Makes all packages and builds each of them.
pub(crate) fn package(root: &Path) -> Result<(), String> {
    cargo(root, ALL)
}

/// Makes all packages. Quick: the manifests are checked, and nothing is built.
pub(crate) fn list(root: &Path) -> Result<(), String> {
    cargo(root, &[ALL, &["--no-verify"]].concat())
}
