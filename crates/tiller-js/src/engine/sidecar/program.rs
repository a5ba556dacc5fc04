//! The programs that can be sidecars, and their command lines.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::config::{Config, Runtime};

/// The script a sidecar runs first.
const BOOT: &str = include_str!("../../../js/sidecar/boot.js");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub runtime: Runtime,
    pub path: PathBuf,
}

impl Program {
    /// The first program of this kind in the PATH that extensions see.
    pub(crate) fn find(runtime: Runtime, config: &Config) -> Option<Program> {
        let (_, folders) = config.env.iter().find(|(name, _)| name == "PATH")?;
        let is_program = |path: &PathBuf| {
            let metadata = std::fs::metadata(path);
            metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        };
        // A relative folder would name a different program in every project.
        let folders = std::env::split_paths(folders).filter(|folder| folder.is_absolute());
        let path = folders.map(|folder| folder.join(runtime.name())).find(is_program)?;
        Some(Program { runtime, path })
    }

    /// Command line arguments, with the descriptors of the two sockets.
    pub(super) fn arguments(&self, memory_bytes: usize, files: [i32; 2]) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.runtime == Runtime::Node {
            arguments.push(format!("--max-old-space-size={}", memory_bytes >> 20));
            // Node's experimental warnings are for the author, not for the user.
            arguments.push("--disable-warning=ExperimentalWarning".to_owned());
        }
        if self.runtime == Runtime::Bun {
            // Bun must not download packages.
            arguments.push("--no-install".to_owned());
        }
        arguments.extend(["-e".to_owned(), BOOT.to_owned()]);
        arguments.extend(files.map(|file| file.to_string()));
        arguments
    }
}

impl Runtime {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Runtime::Node => "node",
            Runtime::Bun => "bun",
        }
    }
}
