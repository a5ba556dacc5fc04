//! Which tool calls run, which need the user's approval, and which are refused.
//!
//! [`decide`] is pure: it knows the mode, the rules of the settings, what the user has granted in
//! this session, and the facts of a call. Asking the user is the caller's work.
//!
//! Approvals are for a user who reads what is asked. They do not enforce anything against a command
//! that was allowed.

mod command;
mod decide;
mod grants;
mod rules;

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use command::Shape;
pub use decide::{Decision, Refused, decide};
pub use grants::{Grant, Grants};
pub use rules::{RuleBases, Rules};

use crate::tool::ToolEffect;

/// Which tool calls need an approval, from the least strict mode to the strictest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// None.
    #[default]
    Off,
    /// All but reading, and but editing files in the working directory.
    Edits,
    /// All but reading.
    Ask,
    /// None: reading runs, everything else is refused.
    ReadOnly,
}

impl ApprovalMode {
    pub const ALL: [ApprovalMode; 4] =
        [ApprovalMode::Off, ApprovalMode::Edits, ApprovalMode::Ask, ApprovalMode::ReadOnly];

    pub fn name(self) -> &'static str {
        match self {
            ApprovalMode::Off => "off",
            ApprovalMode::Edits => "edits",
            ApprovalMode::Ask => "ask",
            ApprovalMode::ReadOnly => "read-only",
        }
    }

    pub fn read(name: &str) -> Option<ApprovalMode> {
        ApprovalMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// What the decision knows of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFacts {
    pub tool: String,
    pub effect: ToolEffect,
    pub target: CallTarget,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub enum CallTarget {
    /// Only the tool itself knows.
    Unknown,
    /// A command for the shell.
    Command(String),
    Path(PathTarget),
}

/// A file or folder that a call names.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTarget {
    /// The absolute path that the call names.
    pub named: PathBuf,
    /// The same with all links resolved, as far as the path exists.
    pub real: PathBuf,
    pub place: Place,
}

/// Where a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the working directory.
    Inside,
    /// There, but in a folder whose files decide what programs do: `.git` or `.pi`.
    Protected,
    Outside,
}

impl Place {
    /// Where `real` is, seen from the working directory. Both are without links.
    pub fn of(real: &Path, cwd: &Path) -> Place {
        let Ok(inside) = real.strip_prefix(cwd) else { return Place::Outside };
        let is_protected = |part: Component<'_>| {
            // Some file systems ignore case.
            let name = part.as_os_str().to_ascii_lowercase();
            name == ".git" || name == ".pi"
        };
        if inside.components().any(is_protected) { Place::Protected } else { Place::Inside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_paths() {
        for (path, place) in [
            ("/work/a.txt", Place::Inside),
            ("/work", Place::Inside),
            ("/work/src/deep/a.rs", Place::Inside),
            ("/work/.gitignore", Place::Inside),
            ("/work/.git/hooks/pre-commit", Place::Protected),
            ("/work/.GIT/config", Place::Protected),
            ("/work/vendor/x/.git", Place::Protected),
            ("/work/.pi/settings.json", Place::Protected),
            ("/workshop/a.txt", Place::Outside),
            ("/etc/hosts", Place::Outside),
            ("/", Place::Outside),
        ] {
            assert_eq!(Place::of(Path::new(path), Path::new("/work")), place, "{path}");
        }
    }

    #[test]
    fn modes_are_ordered_by_strictness_and_have_names() {
        assert!(ApprovalMode::ALL.is_sorted());
        for mode in ApprovalMode::ALL {
            assert_eq!(ApprovalMode::read(mode.name()), Some(mode));
            assert_eq!(serde_json::json!(mode), mode.name());
        }
        assert_eq!(ApprovalMode::read("Ask"), None);
    }
}
