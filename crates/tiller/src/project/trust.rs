//! Whether a project's own files may change how tiller works. A folder that was just cloned has
//! no say in that until somebody who started tiller says so.
//!
//! Instructions (`AGENTS.md` and the like) are words for the model and need no trust.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Dirs, text_file};
use crate::credentials::change_json as change;
use crate::jsonc;
use crate::settings::DefaultProjectTrust;

/// What in `.pi` asks for trust.
const GUARDED: [&str; 12] = [
    "settings.json",
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

/// What was said about a folder since tiller was started.
#[derive(Clone, Copy)]
pub(super) struct TrustInputs {
    /// On the command line. That comes first.
    pub(super) flag: Option<bool>,
    /// By an extension. It knows better than what was decided before.
    pub(super) verdict: Option<bool>,
    /// `--approve` was given, but for another folder.
    pub(super) is_elsewhere: bool,
}

/// Whether there is anything that asks for trust.
pub(super) fn is_wanted(place: &Dirs) -> bool {
    !guarded(place).is_empty()
}

/// Keeps a decision for the next time.
pub(super) fn remember(place: &Dirs, trusted: bool) -> Result<(), String> {
    let path = place.agent_dir.join("trust.json");
    let folder = place.cwd.display().to_string();
    let changed = change(&path, |decisions| {
        decisions.insert(folder, trusted.into());
        true
    });
    changed.map(|_| ())
}

/// Decides. What is passed over for want of trust is said in `diagnostics`, in one sentence.
pub(super) fn is_trusted(
    place: &Dirs,
    said: TrustInputs,
    default: DefaultProjectTrust,
    diagnostics: &mut Vec<String>,
) -> bool {
    let decided = said.flag.or(said.verdict).or_else(|| saved(place, diagnostics));
    let is_trusted = decided.unwrap_or(default == DefaultProjectTrust::Always);
    let guarded = if is_trusted { Vec::new() } else { guarded(place) };
    if !guarded.is_empty() {
        let names: Vec<String> = guarded.iter().map(|path| shown(path, &place.cwd)).collect();
        let names = names.join(", ");
        diagnostics.push(match (said.flag, said.verdict) {
            (Some(_), _) => format!("Not used because of --no-approve: {names}"),
            (None, Some(_)) => format!("Not used because an extension does not trust it: {names}"),
            (None, None) => {
                let start = match said.is_elsewhere {
                    true => "--approve counts for the folder tiller is started in: start it there",
                    false => "Start with --approve",
                };
                format!(
                    "Not used because this project is not trusted: {names}. {start}, or add \
                     \"{}\": true to {}",
                    place.cwd.display(),
                    place.agent_dir.join("trust.json").display()
                )
            }
        });
    }
    is_trusted
}

/// What was decided about this folder, or the nearest one around it.
fn saved(place: &Dirs, diagnostics: &mut Vec<String>) -> Option<bool> {
    let path = place.agent_dir.join("trust.json");
    let text = text_file::read(&path, diagnostics)?;
    let decisions: HashMap<PathBuf, Option<bool>> =
        match jsonc::parse(&text).and_then(serde_json::from_value) {
            Ok(decisions) => decisions,
            Err(err) => {
                diagnostics.push(format!("{} is ignored: {err}", path.display()));
                return None;
            }
        };
    place.cwd.ancestors().find_map(|folder| decisions.get(folder).copied().flatten())
}

/// What is there that a trusted project would bring.
fn guarded(place: &Dirs) -> Vec<PathBuf> {
    let project = place.project_dir();
    let in_project = GUARDED.iter().map(|name| project.join(name));
    // In the user's home, `.pi/agent` is their own.
    let in_project = in_project.filter(|path| !path.starts_with(&place.agent_dir));
    let skills = place.shared_skill_dirs();
    let theirs = place.cwd.join(".xcsh/rules");
    in_project.chain(skills).chain([theirs]).filter(|path| path.exists()).collect()
}

fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}
