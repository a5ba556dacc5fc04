//! The token that every client of a TCP address must show: a file that only its owner can read.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use uuid::Uuid;

/// A longer file holds something else.
const TOKEN_MAX_BYTES: u64 = 1024;

/// Reads the token, and creates it first if the file is missing.
pub(crate) fn read_or_create(path: &Path) -> Result<String, String> {
    if !path.exists() {
        create(path)?;
    }
    read(path)
}

/// Reads the token. A file that others can read holds no secret.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let cannot = |err: std::io::Error| format!("cannot read the token {}: {err}", path.display());
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let file = file.map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(format!("cannot read the token {}: it is no regular file", path.display()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "the token {} can be read by other users; run `chmod 600` on it, or remove it for a \
             new one",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(TOKEN_MAX_BYTES).read_to_string(&mut text).map_err(cannot)?;
    let token = text.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if token.len() < 16 || !token.bytes().all(is_plain) {
        return Err(format!(
            "the token {} is invalid: expected at least 16 letters, digits or -._~; remove it for \
             a new one",
            path.display()
        ));
    }
    Ok(token.to_owned())
}

fn create(path: &Path) -> Result<(), String> {
    let cannot = |err: std::io::Error| format!("cannot write the token {}: {err}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    let token = format!("{}{}\n", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(mut file) => file.write_all(token.as_bytes()).map_err(cannot),
        // Another server has created it at the same moment.
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(err) => Err(cannot(err)),
    }
}

/// Compares without telling by its duration how much is right.
pub(crate) fn is_same(token: &str, shown: &str) -> bool {
    let difference = token.bytes().zip(shown.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    difference == 0 && token.len() == shown.len()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_created_once_and_only_readable_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent/serve-token");
        let token = read_or_create(&path).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_or_create(&path).unwrap(), token);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(read_or_create(&path).unwrap_err().contains("can be read by other users"));
    }

    #[test]
    fn file_that_holds_no_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for text in ["", "short", "with spaces in it, so it is no token"] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            assert!(read(&path).unwrap_err().contains("is invalid"), "{text}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link).unwrap_err().contains("cannot read the token"));
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same("abc", "abc"));
        for shown in ["", "ab", "abd", "abcd"] {
            assert!(!is_same("abc", shown), "{shown}");
        }
    }
}
