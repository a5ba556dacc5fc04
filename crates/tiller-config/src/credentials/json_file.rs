//! Edits `auth.json` and other JSON files: one writer at a time, unrelated content kept, and never
//! readable by other users.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};

/// How long to wait for another writer.
const WAIT_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// pi locks the file with a folder beside it and touches that folder while it runs. An older lock
/// is stale.
const STALE: Duration = Duration::from_secs(30);

pub fn set(path: &Path, provider: &str, key: &str) -> Result<(), String> {
    change(path, |entries| {
        // Keep what is stored with the key, such as an account id.
        let env = entries.get(provider).and_then(|entry| entry.get("env")).cloned();
        let mut entry = json!({"type": "api_key", "key": key});
        if let (Some(entry), Some(env)) = (entry.as_object_mut(), env) {
            entry.insert("env".to_owned(), env);
        }
        entries.insert(provider.to_owned(), entry);
        true
    })
    .map(|_| ())
}

/// Stores a refreshed sign-in.
pub(super) fn store_sign_in(path: &Path, provider: &str, sign_in: Value) -> Result<(), String> {
    change(path, |entries| {
        entries.insert(provider.to_owned(), sign_in);
        true
    })
    .map(|_| ())
}

/// Removes a key. Returns whether there was one.
pub fn remove(path: &Path, provider: &str) -> Result<bool, String> {
    change(path, |entries| entries.shift_remove(provider).is_some())
}

/// Edits the object in a JSON file. Returns whether `edit` changed it.
pub fn change(
    path: &Path,
    edit: impl FnOnce(&mut Map<String, Value>) -> bool,
) -> Result<bool, String> {
    let named = |what: &str, err: io::Error| format!("cannot {what} {}: {err}", path.display());
    // Follow a link and edit the file it points to.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|err| named("create the folder of", err))?;
    let _lock = Lock::take(&path, folder).map_err(|err| named("lock", err))?;
    let mut entries = match fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => Map::new(),
        // Comments would be lost, so a file with comments is refused.
        Ok(text) => serde_json::from_str(&text).map_err(|err| {
            format!("{} is not changed: {err}. Remove comments or fix the JSON", path.display())
        })?,
        Err(err) if err.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(err) => return Err(named("read", err)),
    };
    if !edit(&mut entries) {
        return Ok(false);
    }
    let text = serde_json::to_string_pretty(&entries).map_err(|err| named("write", err.into()))?;
    replace(&path, folder, &text).map_err(|err| named("write", err))?;
    Ok(true)
}

/// Replaces the file atomically: readers see the old text or the new one.
fn replace(path: &Path, folder: &Path, text: &str) -> io::Result<()> {
    let create =
        |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let temp =
        tempfile::Builder::new().prefix(".tiller-").suffix(".tmp").make_in(folder, create)?;
    temp.as_file().write_all(text.as_bytes())?;
    temp.as_file().sync_all()?;
    temp.persist(path).map_err(|err| err.error)?;
    Ok(())
}

/// Two locks: `flock` on the folder against other tillers, which the kernel releases when the
/// process dies, and pi's lock folder.
struct Lock {
    mark: PathBuf,
    _folder: File,
}

impl Lock {
    fn take(path: &Path, folder: &Path) -> io::Result<Lock> {
        let until = Instant::now() + WAIT_MAX;
        let folder = File::open(folder)?;
        retry(until, || match folder.try_lock() {
            Ok(()) => Ok(Some(())),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(err)) => Err(err),
        })?;
        let mut mark = path.as_os_str().to_owned();
        mark.push(".lock");
        let mark = PathBuf::from(mark);
        retry(until, || match fs::create_dir(&mark) {
            Ok(()) => Ok(Some(())),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                if is_stale(&mark) {
                    // It may be gone by now, which is fine.
                    fs::remove_dir(&mark).ok();
                }
                Ok(None)
            }
            Err(err) => Err(err),
        })?;
        Ok(Lock { mark, _folder: folder })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock folder that stays is stale after half a minute.
        fs::remove_dir(&self.mark).ok();
    }
}

fn retry(until: Instant, mut attempt: impl FnMut() -> io::Result<Option<()>>) -> io::Result<()> {
    while attempt()?.is_none() {
        if Instant::now() >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds it"));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn is_stale(mark: &Path) -> bool {
    let touched = fs::metadata(mark).and_then(|meta| meta.modified());
    let age = touched.ok().and_then(|touched| SystemTime::now().duration_since(touched).ok());
    age.is_some_and(|age| age > STALE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use expect_test::expect;

    use super::*;

    #[test]
    fn change_keeps_unrelated_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/auth.json");
        set(&path, "one", "key 1").unwrap();
        let oauth = r#"{"b":{"type":"oauth","access":"x","expires":1893456000000,"more":[1]},
            "a":{"type":"api_key","key":"old","env":{"ACCOUNT":"7"}},"odd":true}"#;
        fs::write(&path, oauth).unwrap();
        set(&path, "a", "new").unwrap();
        assert!(remove(&path, "odd").unwrap());
        assert!(!remove(&path, "odd").unwrap());
        expect![[r#"
            {
              "b": {
                "type": "oauth",
                "access": "x",
                "expires": 1893456000000,
                "more": [
                  1
                ]
              },
              "a": {
                "type": "api_key",
                "key": "new",
                "env": {
                  "ACCOUNT": "7"
                }
              }
            }"#]]
        .assert_eq(&fs::read_to_string(&path).unwrap());
        let names: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["auth.json"]);
    }

    #[test]
    fn file_is_private_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        set(&path, "one", "key").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn unparsable_file_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        for text in ["{\"a\": ", "// mine\n{}", "[]", "{\"a\":{\"key\":\"sk-secret\"} nonsense"] {
            fs::write(&path, text).unwrap();
            let why = set(&path, "one", "key").unwrap_err();
            assert!(why.contains("is not changed") && !why.contains("secret"), "{why}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_linked_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("auth.json"));
        fs::write(&real, "{}").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        set(&link, "one", "key").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("one"));
    }

    #[test]
    fn concurrent_writers_lose_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let write = |writer: usize| {
            for number in 0..5 {
                set(&path, &format!("p{writer}-{number}"), "key").unwrap();
            }
        };
        thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || write(writer));
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let entries: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(entries.len(), 20);
    }

    #[test]
    fn stale_lock_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let mark = folder.path().join("auth.json.lock");
        fs::create_dir(&mark).unwrap();
        let long_ago = SystemTime::now() - STALE * 2;
        File::open(&mark).unwrap().set_modified(long_ago).unwrap();
        set(&path, "one", "key").unwrap();
        assert!(!mark.exists());
    }
}
