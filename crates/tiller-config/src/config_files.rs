//! `auth.json` and `models.json` as the sessions of a process share them. Each is read once, and
//! again when it has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use tiller_agent::mutex;

use crate::catalogue::Catalogue;
use crate::credentials::AuthFile;
use crate::models::file::ModelsFile;

/// The files of an agent folder.
pub struct ConfigFiles {
    auth_path: PathBuf,
    models_path: PathBuf,
    auth: OnceLock<Arc<Mutex<AuthFile>>>,
    models: Mutex<Option<CachedModels>>,
}

/// `models.json` as it was read last.
struct CachedModels {
    stamp: Option<Stamp>,
    file: Arc<ModelsFile>,
    problems: Vec<String>,
}

/// Tells whether a file has changed since it was read.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Stamp {
    /// None if there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let metadata = fs::metadata(path).ok()?;
        Some(Stamp {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

impl ConfigFiles {
    /// Reads nothing yet.
    pub fn in_folder(agent_dir: &Path) -> ConfigFiles {
        ConfigFiles {
            auth_path: agent_dir.join("auth.json"),
            models_path: agent_dir.join("models.json"),
            auth: OnceLock::new(),
            models: Mutex::new(None),
        }
    }

    /// The keys of `auth.json`, which is read again whenever it has changed.
    pub(crate) fn auth(&self) -> Arc<Mutex<AuthFile>> {
        let file = self.auth.get_or_init(|| Arc::new(Mutex::new(AuthFile::at(&self.auth_path))));
        mutex::lock(file).refresh();
        file.clone()
    }

    /// `models.json` as it is now. Its problems become diagnostics.
    pub(crate) fn models(
        &self,
        catalogue: &Catalogue,
        diagnostics: &mut Vec<String>,
    ) -> Arc<ModelsFile> {
        let stamp = Stamp::of(&self.models_path);
        let mut cached = mutex::lock(&self.models);
        let current = match cached.take() {
            Some(cached) if cached.stamp == stamp => cached,
            _ => {
                let mut problems = Vec::new();
                let file = ModelsFile::load(&self.models_path, catalogue, &mut problems);
                CachedModels { stamp, file: Arc::new(file), problems }
            }
        };
        diagnostics.extend_from_slice(&current.problems);
        cached.insert(current).file.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_again_only_after_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let files = ConfigFiles::in_folder(folder.path());
        let read = || {
            let mut problems = Vec::new();
            let file = files.models(&Catalogue::default(), &mut problems);
            (file, problems.len())
        };
        let (missing, _) = read();
        assert!(missing.providers.is_empty());
        let text = r#"{"providers": {"house": {"baseUrl": "http://house", "surprise": 1}}}"#;
        fs::write(folder.path().join("models.json"), text).unwrap();
        let (first, problems) = read();
        assert_eq!((first.providers.len(), problems), (1, 1));
        let (same, problems) = read();
        assert!(Arc::ptr_eq(&first, &same));
        assert_eq!(problems, 1);
        fs::write(folder.path().join("models.json"), "{}").unwrap();
        assert!(read().0.providers.is_empty());
    }

    #[test]
    fn keys_are_shared_and_current() {
        let folder = tempfile::tempdir().unwrap();
        let files = ConfigFiles::in_folder(folder.path());
        assert_eq!(mutex::lock(&files.auth()).providers().count(), 0);
        crate::credentials::set(&folder.path().join("auth.json"), "house", "key").unwrap();
        let auth = files.auth();
        assert_eq!(mutex::lock(&auth).providers().count(), 1);
        assert!(Arc::ptr_eq(&auth, &files.auth()));
    }
}
