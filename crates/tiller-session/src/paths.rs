//! Paths of sessions: a folder per working directory, a file per session, named as in pi.
//!
//! This crate reads no home directory and no environment. The caller passes in the folder of all
//! projects' sessions, or the folder that the user chose.

use std::path::{Path, PathBuf};

use tiller_agent::message::UnixMs;

use crate::name::SessionId;
use crate::time;

/// The folder of a project inside the folder of all sessions: `--home-me-proj--`.
pub fn project_dir(sessions: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.to_string_lossy();
    let cwd = cwd.strip_prefix(['/', '\\']).unwrap_or(&cwd);
    sessions.join(format!("--{}--", cwd.replace(['/', '\\', ':'], "-")))
}

/// `2026-11-15T20-39-16-762Z_<id>.jsonl`
pub fn file_name(id: &SessionId, now: UnixMs) -> String {
    format!("{}_{id}.jsonl", time::iso(now).replace([':', '.'], "-"))
}

/// The id in a file name that has the form of [`file_name`].
pub(crate) fn id_in_file_name(name: &str) -> Option<&str> {
    let (stamp, id) = name.strip_suffix(".jsonl")?.split_once('_')?;
    (stamp.len() == 24 && stamp.ends_with('Z') && !id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_folders_and_file_names_match_pi() {
        let dir = |cwd: &str| project_dir(Path::new("/s"), Path::new(cwd)).display().to_string();
        assert_eq!(dir("/home/me/proj"), "/s/--home-me-proj--");
        assert_eq!(dir("/home/me/my proj.x/ü"), "/s/--home-me-my proj.x-ü--");
        assert_eq!(dir(r"C:\Users\me"), "/s/--C--Users-me--");
        assert_eq!(dir("/"), "/s/----");
        let id = SessionId::read("01a1e0ef-880c-75b1-bb49-2574b66bab7c").unwrap();
        let name = file_name(&id, 1_794_775_156_762);
        assert_eq!(name, "2026-11-15T20-39-16-762Z_01a1e0ef-880c-75b1-bb49-2574b66bab7c.jsonl");
        assert_eq!(id_in_file_name(&name), Some(id.as_str()));
        assert_eq!(id_in_file_name("mine_x.jsonl"), None);
    }
}
