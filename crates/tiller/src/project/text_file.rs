//! A small text file that people keep: settings, instructions, skills, templates.
//!
//! Whatever is found in its place (a folder, a pipe, a video) costs little time and one sentence.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// No file of these kinds is larger; no model could take in more either.
pub(crate) const FILE_MAX_BYTES: u64 = 8 << 20;

/// Reads the file, if there is one and it is a text. Otherwise `diagnostics` says what is wrong.
pub(crate) fn read(path: &Path, diagnostics: &mut Vec<String>) -> Option<String> {
    match read_bytes(path) {
        Ok(None) => None,
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(err) => {
                let path = path.display();
                diagnostics.push(format!("{path} is not valid UTF-8; what is not is left out"));
                Some(String::from_utf8_lossy(err.as_bytes()).into_owned())
            }
        },
        Err(why) => {
            diagnostics.push(format!("{} is ignored: {why}", path.display()));
            None
        }
    }
}

/// Which file or folder a path leads to, by whatever links. Cheaper than to spell it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// None when the path leads nowhere.
    pub(crate) fn of(path: &Path) -> Option<Identity> {
        let metadata = path.metadata().ok()?;
        Some(Identity { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Nothing when there is nothing there.
fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            // A link to nowhere is there, and somebody meant something by it.
            return match path.symlink_metadata() {
                Ok(_) => Err("it is a link to nowhere".to_owned()),
                Err(_) => Ok(None),
            };
        }
        Err(err) => return Err(err.to_string()),
    };
    // Asked before opening: to open a pipe is to wait for somebody to write to it.
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
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
        return Err("it is not a text".to_owned());
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
        let said = diagnostics.join("\n").replace(&*folder.path().to_string_lossy(), "FOLDER");
        expected.assert_eq(&format!("{text:?} {said}"));
    }

    #[test]
    fn texts_are_read_and_everything_else_is_named() {
        check(|_| (), expect!["None "]);
        check(|path| std::fs::write(path, "hello\n").unwrap(), expect![[r#"Some("hello\n") "#]]);
        check(
            |path| std::fs::write(path, b"caf\xe9").unwrap(),
            expect![[r#"Some("caf�") FOLDER/file is not valid UTF-8; what is not is left out"#]],
        );
        check(
            |path| std::fs::write(path, b"\x7fELF\0\0").unwrap(),
            expect!["None FOLDER/file is ignored: it is not a text"],
        );
        check(
            |path| std::fs::create_dir(path).unwrap(),
            expect!["None FOLDER/file is ignored: it is not a file"],
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
            expect!["None FOLDER/file is ignored: it is a link to nowhere"],
        );
    }

    /// A pipe that nobody writes to would hold up whoever opens it.
    #[test]
    fn a_pipe_is_not_waited_for() {
        let make = |path: &Path| {
            let status = std::process::Command::new("mkfifo").arg(path).status();
            assert!(status.unwrap().success());
        };
        check(make, expect!["None FOLDER/file is ignored: it is not a file"]);
    }
}
