//! Where a page goes, and how it gets there: beside its place first, then into it in one step.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The absolute path for a page of this session: what the user asked for, else a name made of
/// the session's own.
pub(super) fn place(session: &Path, wanted: Option<&Path>, prefix: &str, cwd: &Path) -> PathBuf {
    match wanted.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => plain(&cwd.join(path)),
        None => {
            let stem = session.file_stem().unwrap_or_default().to_string_lossy();
            cwd.join(format!("{prefix}-session-{stem}.html"))
        }
    }
}

/// Without `.`, and without `..` where that means the same whatever is a link.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Writes a file whole or not at all. Folders on the way are made; a file that is there stays as
/// it is until the new one is complete.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A file that is linked from elsewhere is changed there.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir)?;
    let temp = tempfile::Builder::new()
        .prefix(".tiller-")
        .suffix(".tmp")
        // As any program would make it; the user's umask applies.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)?;
    let mut out = BufWriter::with_capacity(256 * 1024, temp);
    write(&mut out)?;
    let temp: NamedTempFile = out.into_inner().map_err(|err| err.into_error())?;
    if let Ok(there) = fs::metadata(&path) {
        temp.as_file().set_permissions(there.permissions())?;
    }
    temp.persist(&path).map_err(|err| err.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_after_its_session() {
        let session = Path::new("/s/2026_abc.jsonl");
        let cwd = Path::new("/home/me");
        let at = |wanted: Option<&str>| {
            place(session, wanted.map(Path::new), "pi", cwd).to_string_lossy().into_owned()
        };
        assert_eq!(at(None), "/home/me/pi-session-2026_abc.html");
        assert_eq!(at(Some("")), "/home/me/pi-session-2026_abc.html");
        assert_eq!(at(Some("./deep/out.html")), "/home/me/deep/out.html");
        assert_eq!(at(Some("/tmp/x.html")), "/tmp/x.html");
        assert_eq!(at(Some("../x.html")), "/home/me/../x.html");
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
        replace(&link, |out| out.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left behind");
        let dir_in_the_way = replace(dir.path(), |_| Ok(())).unwrap_err();
        assert_eq!(dir_in_the_way.kind(), io::ErrorKind::IsADirectory);
    }
}
