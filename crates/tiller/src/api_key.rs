//! The API key of the command line: where it is read from, and how it is hidden from the process
//! list.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::args::{Args, RunMode};
use crate::auth_command::ask;
use crate::print_mode::print_stderr;
use crate::usage::StartError;

/// Longer than any key.
const KEY_MAX_BYTES: u64 = 64 << 10;

/// Resolves `--api-key` or `--api-key-file` to a key in `args`, and removes a typed key from the
/// process title, which every user of the machine can read.
pub fn take(args: &mut Args) -> Result<(), StartError> {
    let key = match (args.api_key.as_deref(), args.api_key_file.as_deref()) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            let why = "--api-key and --api-key-file cannot be used together";
            return Err(StartError::Usage(why.to_owned()));
        }
        (Some("-"), None) if args.mode() == RunMode::Rpc => {
            let why = "--api-key - reads the key from stdin, which carries the commands in RPC \
                       mode: use --api-key-file FILE";
            return Err(StartError::Usage(why.to_owned()));
        }
        (Some("-"), None) => asked()?,
        (Some(_), None) => {
            if let Err(err) = hide_from_title() {
                print_stderr(&format!(
                    "Warning: the key of --api-key stays visible in the process list ({err}): use \
                     --api-key-file FILE"
                ));
            }
            return Ok(());
        }
        (None, Some(file)) => read(file)?,
    };
    args.api_key = Some(key);
    Ok(())
}

/// The first line of stdin; the message follows it. At a terminal the user is prompted, without
/// echo.
fn asked() -> Result<String, String> {
    let what = if io::stdin().is_terminal() { "--api-key" } else { "stdin" };
    let key = ask(what).map_err(|err| format!("cannot read the key from {what}: {err}"))?;
    if key.is_empty() {
        return Err(format!("--api-key -: there is no key in the first line of {what}"));
    }
    Ok(key)
}

/// The first line of a file. A pipe works too, so that `<(pass show KEY)` can be one.
fn read(path: &Path) -> Result<String, String> {
    let failed = |why: String| format!("--api-key-file {}: {why}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|err| failed(err.to_string()))?;
    file.take(KEY_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|err| failed(err.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not text".to_owned()))?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() {
        return Err(failed("there is no key in its first line".to_owned()));
    }
    if key.len() as u64 >= KEY_MAX_BYTES {
        return Err(failed(format!("its first line is longer than {KEY_MAX_BYTES} bytes")));
    }
    Ok(key.to_owned())
}

/// Overwrites typed keys where the system shows them. The title is the memory that the arguments
/// were passed in; the kernel exposes it as a file, so no pointer is needed. The standard library
/// has copied the arguments, and reads that memory only to copy it again.
#[cfg(target_os = "linux")]
fn hide_from_title() -> io::Result<()> {
    let title = std::fs::read("/proc/self/cmdline")?;
    let start = title_address()?;
    let memory = File::options().write(true).open("/proc/self/mem")?;
    for key in keys(&title) {
        memory.write_all_at(&vec![b'*'; key.len()], start + key.start as u64)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn hide_from_title() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Where in memory the arguments begin: `arg_start`, field 48 of proc_pid_stat(5).
#[cfg(target_os = "linux")]
fn title_address() -> io::Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses, and may contain spaces.
    let address = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(45));
    let address = address.and_then(|field| field.parse().ok()).filter(|&address| address > 0);
    address.ok_or_else(|| io::Error::other("/proc/self/stat has no arg_start"))
}

/// The ranges of keys in a command line whose arguments end with NUL.
fn keys(title: &[u8]) -> Vec<Range<usize>> {
    let mut keys = Vec::new();
    let mut start = 0;
    let mut is_key = false;
    for argument in title.split(|&byte| byte == 0) {
        let end = start + argument.len();
        if is_key && argument != b"-" {
            keys.push(start..end);
        } else if argument == b"--" {
            break;
        } else if argument.starts_with(b"--api-key=") {
            keys.push(start + b"--api-key=".len()..end);
        }
        is_key = !is_key && argument == b"--api-key";
        start = end + 1;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_a_command_line() {
        for (typed, expected) in [
            ("tiller -p hello", ""),
            ("tiller --api-key sk-1 -p", "sk-1"),
            ("tiller --api-key=sk-1 --api-key sk-2", "sk-1 sk-2"),
            ("tiller --api-key - -p", ""),
            ("tiller -p -- --api-key word", ""),
            ("tiller --api-key-file key --api-key", ""),
        ] {
            let title = typed.replace(' ', "\0") + "\0";
            let found: Vec<&str> =
                keys(title.as_bytes()).into_iter().map(|at| &title[at]).collect();
            assert_eq!(found.join(" "), expected, "{typed}");
        }
    }

    #[test]
    fn the_first_line_of_a_file_is_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let check = |content: &[u8]| {
            let path = dir.path().join("key");
            std::fs::write(&path, content).unwrap();
            read(&path).map_err(|why| why.replace(&path.display().to_string(), "KEY"))
        };
        assert_eq!(check(b" sk-1 \r\nsecond\n"), Ok("sk-1".to_owned()));
        for (content, why) in [
            (&b""[..], "there is no key in its first line"),
            (b"\nsk-1\n", "there is no key in its first line"),
            (b"\xff\n", "it is not text"),
            (&[b'x'; 100_000], "its first line is longer than 65536 bytes"),
        ] {
            assert_eq!(check(content), Err(format!("--api-key-file KEY: {why}")));
        }
    }
}
