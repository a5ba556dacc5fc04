//! Formats errors of the operating system as Node.js does, which models know well: `ENOENT: no such
//! file or directory, open '/x'`.

use std::io;
use std::path::Path;

use nix::errno::Errno;
use tiller_agent::tool::Failure;

/// `call` is the system call that failed.
pub(crate) fn failure(err: &io::Error, call: &str, path: &Path) -> Failure {
    Failure::new(format!("{}, {call} '{}'", describe(err), path.display()))
}

/// `CODE: description`.
pub(crate) fn describe(err: &io::Error) -> String {
    match known(err) {
        Some((code, description)) => format!("{code}: {description}"),
        None => err.to_string(),
    }
}

/// The symbolic name of the error, such as `ENOENT`.
pub(crate) fn code(err: &io::Error) -> String {
    match (known(err), err.raw_os_error()) {
        (Some((code, _)), _) => code.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => err.to_string(),
    }
}

fn known(err: &io::Error) -> Option<(&'static str, &'static str)> {
    use io::ErrorKind::*;
    let named = match err.kind() {
        NotFound => ("ENOENT", "no such file or directory"),
        PermissionDenied if err.raw_os_error() == Some(Errno::EPERM as i32) => {
            ("EPERM", "operation not permitted")
        }
        PermissionDenied => ("EACCES", "permission denied"),
        AlreadyExists => ("EEXIST", "file already exists"),
        NotADirectory => ("ENOTDIR", "not a directory"),
        IsADirectory => ("EISDIR", "illegal operation on a directory"),
        DirectoryNotEmpty => ("ENOTEMPTY", "directory not empty"),
        ReadOnlyFilesystem => ("EROFS", "read-only file system"),
        StorageFull => ("ENOSPC", "no space left on device"),
        QuotaExceeded => ("EDQUOT", "disk quota exceeded"),
        FileTooLarge => ("EFBIG", "file too large"),
        ResourceBusy => ("EBUSY", "resource busy or locked"),
        ExecutableFileBusy => ("ETXTBSY", "text file is busy"),
        InvalidFilename => ("ENAMETOOLONG", "name too long"),
        _ => return by_number(err.raw_os_error()?),
    };
    Some(named)
}

fn by_number(number: i32) -> Option<(&'static str, &'static str)> {
    let named = match Errno::from_raw(number) {
        Errno::ELOOP => ("ELOOP", "too many symbolic links encountered"),
        Errno::EIO => ("EIO", "i/o error"),
        Errno::EMFILE => ("EMFILE", "too many open files"),
        Errno::ENFILE => ("ENFILE", "file table overflow"),
        Errno::EINVAL => ("EINVAL", "invalid argument"),
        Errno::ENXIO => ("ENXIO", "no such device or address"),
        Errno::ENODEV => ("ENODEV", "no such device"),
        _ => return None,
    };
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_code_call_and_path() {
        let err = std::fs::read("/nowhere/at/all").unwrap_err();
        assert_eq!(
            failure(&err, "open", Path::new("/nowhere/at/all")).message,
            "ENOENT: no such file or directory, open '/nowhere/at/all'"
        );
        assert_eq!(code(&io::Error::from_raw_os_error(40)), "ELOOP");
        assert_eq!(code(&io::Error::from_raw_os_error(1)), "EPERM");
        assert_eq!(code(&io::Error::other("strange")), "strange");
    }
}
