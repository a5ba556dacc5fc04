//! Reads small text files: settings, instructions, skills, templates.
//!
//! Anything else in their place (a folder, a pipe, a video) is refused quickly and with one
//! diagnostic.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Larger than any such file; no model could take in more either.
pub(crate) const FILE_MAX_BYTES: u64 = 8 << 20;

/// Reads the file if it exists and is a text. Otherwise adds a diagnostic.
pub fn read(path: &Path, diagnostics: &mut Vec<String>) -> Option<String> {
    match read_bytes(path) {
        Ok(None) => None,
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(err) => {
                let path = path.display();
                diagnostics.push(format!("{path} is not valid UTF-8; invalid bytes are replaced"));
                Some(String::from_utf8_lossy(err.as_bytes()).into_owned())
            }
        },
        Err(why) => {
            diagnostics.push(format!("{} is ignored: {why}", path.display()));
            None
        }
    }
}

/// The file or folder that a path leads to, through whatever links. Cheaper than a canonical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// `None` if the path leads nowhere.
    pub(crate) fn of(path: &Path) -> Option<Identity> {
        let metadata = path.metadata().ok()?;
        Some(Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// `None` if there is no file.
fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            // A dangling link is not a missing file; report it.
            return match path.symlink_metadata() {
                Ok(_) => Err("it is a dangling link".to_owned()),
                Err(_) => Ok(None),
            };
        }
        Err(err) => return Err(err.to_string()),
    };
    // Checked before opening: opening a pipe blocks until a writer opens it too.
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let too_large = || format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20);
    if metadata.len() > FILE_MAX_BYTES {
        return Err(too_large());
    }
    let file = File::open(path).map_err(|err| err.to_string())?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|err| err.to_string())?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(too_large());
    }
    if memchr::memchr(0, &bytes).is_some() {
        return Err("it is not text".to_owned());
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(make: impl FnOnce(&Path), expected: Expect) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        make(&path);
        let mut diagnostics = Vec::new();
        let text = read(&path, &mut diagnostics);
        let reported = diagnostics.join("\n").replace(&*folder.path().to_string_lossy(), "FOLDER");
        expected.assert_eq(&format!("{text:?} {reported}"));
    }

    #[test]
    fn only_regular_text_files_are_read() {
        check(|_| (), expect!["None "]);
        check(|path| std::fs::write(path, "hello\n").unwrap(), expect![[r#"Some("hello\n") "#]]);
        check(
            |path| std::fs::write(path, b"caf\xe9").unwrap(),
            expect![[r#"Some("caf�") FOLDER/file is not valid UTF-8; invalid bytes are replaced"#]],
        );
        check(
            |path| std::fs::write(path, b"\x7fELF\0\0").unwrap(),
            expect!["None FOLDER/file is ignored: it is not text"],
        );
        check(
            |path| std::fs::create_dir(path).unwrap(),
            expect!["None FOLDER/file is ignored: it is not a regular file"],
        );
        check(
            |path| File::create(path).unwrap().set_len(100 << 20).unwrap(),
            expect!["None FOLDER/file is ignored: it is larger than 8 MiB"],
        );
        check(
            |path| std::os::unix::fs::symlink(path, path).unwrap(),
            expect!["None FOLDER/file is ignored: Too many levels of symbolic links (os error 40)"],
        );
        check(
            |path| std::os::unix::fs::symlink("nowhere", path).unwrap(),
            expect!["None FOLDER/file is ignored: it is a dangling link"],
        );
    }

    /// Opening a pipe without a writer would block.
    #[test]
    fn pipe_is_refused_without_blocking() {
        let make = |path: &Path| {
            let status = std::process::Command::new("mkfifo").arg(path).status();
            assert!(status.unwrap().success());
        };
        check(make, expect!["None FOLDER/file is ignored: it is not a regular file"]);
    }
}
