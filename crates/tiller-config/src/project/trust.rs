//! Project trust: whether a project's own files may configure tiller. A freshly cloned folder may
//! not, until the user trusts it.
//!
//! Instructions (`AGENTS.md` and similar) are text for the model and need no trust.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Dirs, text_file};
use crate::credentials::change_json as change;
use crate::jsonc;
use crate::settings::DefaultProjectTrust;

/// The files in `.pi` that need trust.
const GUARDED: [&str; 13] = [
    "settings.json",
    "mcp.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "agent/prompts",
    "agent/skills",
    "agent/extensions",
    "rules",
    "agent/rules",
];

/// Trust decisions made since tiller was started.
#[derive(Clone, Copy)]
pub(super) struct TrustInputs {
    /// By a flag of the command line. Takes precedence.
    pub(super) flag: Option<bool>,
    /// By an extension. Takes precedence over stored decisions.
    pub(super) extension: Option<bool>,
    /// `--approve` was given, but for another folder.
    pub(super) approved_elsewhere: bool,
}

/// Whether there are any files that need trust.
pub(super) fn is_needed(dirs: &Dirs) -> bool {
    !files_needing_trust(dirs).is_empty()
}

/// Stores a decision in `trust.json`.
pub(super) fn remember(dirs: &Dirs, trusted: bool) -> Result<(), String> {
    let path = dirs.agent_dir.join("trust.json");
    let folder = dirs.cwd.display().to_string();
    let changed = change(&path, |decisions| {
        decisions.insert(folder, trusted.into());
        true
    });
    changed.map(|_| ())
}

/// Decides. Adds one diagnostic that names the files that are not used for lack of trust.
pub(super) fn is_trusted(
    dirs: &Dirs,
    inputs: TrustInputs,
    default: DefaultProjectTrust,
    diagnostics: &mut Vec<String>,
) -> bool {
    let decided = inputs.flag.or(inputs.extension).or_else(|| stored_decision(dirs, diagnostics));
    let is_trusted = decided.unwrap_or(default == DefaultProjectTrust::Always);
    let guarded = if is_trusted { Vec::new() } else { files_needing_trust(dirs) };
    if !guarded.is_empty() {
        let names: Vec<String> = guarded.iter().map(|path| shown(path, &dirs.cwd)).collect();
        let names = names.join(", ");
        diagnostics.push(match (inputs.flag, inputs.extension) {
            (Some(_), _) => format!("Not used because of --no-approve: {names}"),
            (None, Some(_)) => format!("Not used because an extension does not trust it: {names}"),
            (None, None) => {
                let start = if inputs.approved_elsewhere {
                    "--approve applies only to the folder tiller is started in: start it there"
                } else {
                    "Start with --approve"
                };
                format!(
                    "Not used because this project is not trusted: {names}. {start}, or add \
                     \"{}\": true to {}",
                    dirs.cwd.display(),
                    dirs.agent_dir.join("trust.json").display()
                )
            }
        });
    }
    is_trusted
}

/// The stored decision about this folder or its nearest parent.
fn stored_decision(dirs: &Dirs, diagnostics: &mut Vec<String>) -> Option<bool> {
    let path = dirs.agent_dir.join("trust.json");
    let text = text_file::read(&path, diagnostics)?;
    let decisions: HashMap<PathBuf, Option<bool>> =
        match jsonc::parse(&text).and_then(serde_json::from_value) {
            Ok(decisions) => decisions,
            Err(err) => {
                diagnostics.push(format!("{} is ignored: {err}", path.display()));
                return None;
            }
        };
    dirs.cwd.ancestors().find_map(|folder| decisions.get(folder).copied().flatten())
}

/// The existing files that need trust.
fn files_needing_trust(dirs: &Dirs) -> Vec<PathBuf> {
    let project = dirs.project_dir();
    let in_project = GUARDED.iter().map(|name| project.join(name));
    // In the user's home folder, `.pi/agent` belongs to the user.
    let in_project = in_project.filter(|path| !path.starts_with(&dirs.agent_dir));
    let skills = dirs.shared_skill_dirs();
    let xcsh_rules = dirs.cwd.join(".xcsh/rules");
    in_project.chain(skills).chain([xcsh_rules]).filter(|path| path.exists()).collect()
}

fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}
