//! `cargo xtask package`: every crate as it would be published. Building a crate from its package
//! shows that it needs nothing outside its folder, and that its dependencies have versions.

use std::path::Path;

use crate::check::cargo;

/// Packages the working tree, committed or not.
const ALL: &[&str] = &["package", "--quiet", "--workspace", "--exclude", "xtask", "--allow-dirty"];

/// Creates all packages and builds each of them.
pub(crate) fn package(root: &Path) -> Result<(), String> {
    cargo(root, ALL)
}

/// Creates all packages without building them. Fast: only the manifests are checked.
pub(crate) fn list(root: &Path) -> Result<(), String> {
    cargo(root, &[ALL, &["--no-verify"]].concat())
}
