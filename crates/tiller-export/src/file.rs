//! Where the page is written, and how: to a temporary file, then renamed.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::source::ExportSource;

/// The absolute path for a session's page: what the user asked for, else a name derived from the
/// session's.
pub(crate) fn output_path(
    source: &ExportSource,
    requested: Option<&Path>,
    prefix: &str,
    cwd: &Path,
) -> PathBuf {
    match requested.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => plain(&cwd.join(path)),
        None => {
            let stem = source.stem();
            cwd.join(format!("{prefix}-session-{stem}.html"))
        }
    }
}

/// Removes `.`, and `..` where no link can change its meaning.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Writes a file atomically. Missing folders are created; an existing file stays unchanged until
/// the new one is complete. Anything else, a symbolic link included, is refused: a link may have
/// come with a repository and point at any file of the user.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    check_replaceable(path)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir)?;
    let temp = tempfile::Builder::new()
        .prefix(".tiller-")
        .suffix(".tmp")
        // With the usual mode; the user's umask applies.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)?;
    let mut out = BufWriter::with_capacity(256 * 1024, temp);
    write(&mut out)?;
    let temp: NamedTempFile = out.into_inner().map_err(|err| err.into_error())?;
    if let Ok(existing) = fs::metadata(path) {
        temp.as_file().set_permissions(existing.permissions())?;
    }
    temp.persist(path).map_err(|err| err.error)?;
    Ok(())
}

/// Refuses what a rename would destroy: a link, a device, a FIFO or a socket.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(existing) => existing.file_type(),
        // There is no file; other problems with the path show when the file is created.
        Err(_) => return Ok(()),
    };
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; name the file that it points to"));
    }
    let name = if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::other(format!("it is {name}, and only regular files are replaced")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiller_session::{FileStore, Files, Owner};

    use super::*;

    #[test]
    fn only_regular_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let fifo = at("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("fifo", at("to-fifo")).unwrap();
        std::os::unix::fs::symlink("nothing", at("dangling")).unwrap();
        for (path, why) in [
            (fifo.clone(), "it is a pipe, and only regular files are replaced"),
            (at("to-fifo"), "it is a symbolic link; name the file that it points to"),
            (at("socket"), "it is a socket, and only regular files are replaced"),
            (at("dangling"), "it is a symbolic link; name the file that it points to"),
        ] {
            let before = fs::symlink_metadata(&path).unwrap().file_type();
            let refused = replace(&path, |_| Ok(())).unwrap_err();
            assert_eq!(refused.to_string(), why, "{}", path.display());
            assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), before);
        }
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 4, "nothing was written beside them");
        // Only checked, not written: a failing test run as root must not replace it.
        let device = check_replaceable(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(device, "it is a device, and only regular files are replaced");
    }

    #[test]
    fn a_page_is_named_after_its_session() {
        let source = ExportSource::File("/s/2026_abc.jsonl".into());
        let cwd = Path::new("/home/me");
        let at = |requested: Option<&str>| {
            output_path(&source, requested.map(Path::new), "pi", cwd).to_string_lossy().into_owned()
        };
        assert_eq!(at(None), "/home/me/pi-session-2026_abc.html");
        assert_eq!(at(Some("")), "/home/me/pi-session-2026_abc.html");
        assert_eq!(at(Some("./deep/out.html")), "/home/me/deep/out.html");
        assert_eq!(at(Some("/tmp/x.html")), "/tmp/x.html");
        assert_eq!(at(Some("../x.html")), "/home/me/../x.html");
    }

    #[test]
    fn a_page_of_a_session_in_a_database_is_named_after_its_id() {
        let files = FileStore {
            root: "/s".into(),
            chosen: None,
            owner: Owner {
                program: "tiller".into(),
                pid: 1,
                host: "quay".into(),
                started: "now".into(),
                address: None,
            },
            files: Files::default(),
        };
        let address = "postgres:01a1e238-0462".into();
        let source = ExportSource::Database { store: Arc::new(files), address };
        let path = output_path(&source, None, "pi", Path::new("/home/me"));
        assert_eq!(path, Path::new("/home/me/pi-session-01a1e238-0462.html"));
        assert_eq!(source.file_name(), "01a1e238-0462.jsonl");
        let exported = source.open().map(|_| ()).unwrap_err();
        assert!(exported.to_string().contains("postgres:01a1e238-0462"), "{exported}");
        assert!(!source.is_at(Path::new("postgres:01a1e238-0462")));
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/page.html");
        replace(&path, |out| out.write_all(b"one")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let failed = replace(&path, |out| {
            out.write_all(&[b'x'; 1_000_000])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let link = dir.path().join("link.html");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, |out| out.write_all(b"two")).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, |out| out.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left behind");
        let dir_in_the_way = replace(dir.path(), |_| Ok(())).unwrap_err();
        assert_eq!(dir_in_the_way.kind(), io::ErrorKind::IsADirectory);
    }
}
