//! File operations by path. Node's synchronous functions run them on the engine's thread; its
//! promises run them on another thread.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};

use super::waiting::{self, BlockingWait, WaitError, in_background};
use super::{OpError, OpFuture, OpInput, OpOutput, OpReply, files, unknown};
use crate::engine_state::EngineState;

/// The input of all of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FsArgs {
    pub path: PathBuf,
    pub to: PathBuf,
    pub fd: Option<i32>,
    pub flag: Option<String>,
    pub mode: Option<u32>,
    pub recursive: bool,
    pub force: bool,
    pub exclusive: bool,
    pub length: Option<u64>,
    pub position: Option<u64>,
    /// Seconds.
    pub atime: f64,
    pub mtime: f64,
}

pub(super) fn sync(state: &Rc<EngineState>, name: &str, input: OpInput) -> OpReply {
    let args: FsArgs = input.read()?;
    match files::sync(state, name, &args, input.bytes.as_deref()) {
        Some(answer) => answer,
        None => state.blocking(|wait| by_path(name, &args, input.bytes(), wait)),
    }
}

pub(super) fn start(
    state: &Rc<EngineState>,
    name: &str,
    input: OpInput,
) -> Result<OpFuture, OpError> {
    let args: FsArgs = input.read()?;
    if let Some((file, args)) = files::slow_read(state, name, &args) {
        return Ok(in_background(state, move |wait| files::read_blocking(file, &args, wait)));
    }
    // Open files belong to the engine's thread.
    if let Some(answer) = files::sync(state, name, &args, input.bytes.as_deref()) {
        return Ok(Box::pin(std::future::ready(answer)));
    }
    let name = name.to_owned();
    Ok(in_background(state, move |wait| by_path(&name, &args, input.bytes(), wait)))
}

fn by_path(name: &str, args: &FsArgs, bytes: Vec<u8>, wait: &BlockingWait<'_>) -> OpReply {
    let path = args.path.as_path();
    let fs_error = |call: &'static str| move |err: io::Error| failed(&err, call, args);
    match name {
        "exists" => Ok(OpOutput::json(&path.exists())),
        "stat" => fs::metadata(path).map(|meta| stat(&meta)).map_err(fs_error("stat")),
        "lstat" => fs::symlink_metadata(path).map(|meta| stat(&meta)).map_err(fs_error("lstat")),
        "readFile" => read(path, wait).map_err(|err| match err {
            WaitError::System(err) => failed(&err, "open", args),
            WaitError::Ours(err) => err,
        }),
        "writeFile" => write(args, &bytes, wait).map(nothing).map_err(fs_error("open")),
        "readdir" => list(path, args.recursive).map_err(fs_error("scandir")),
        "mkdir" => make_folder(args).map_err(fs_error("mkdir")),
        "mkdtemp" => make_scratch_folder(path).map_err(fs_error("mkdtemp")),
        "rmdir" if args.recursive => {
            fs::remove_dir_all(path).map(nothing).map_err(fs_error("rmdir"))
        }
        "rmdir" => fs::remove_dir(path).map(nothing).map_err(fs_error("rmdir")),
        "unlink" => fs::remove_file(path).map(nothing).map_err(fs_error("unlink")),
        "rm" => remove(args).map(nothing).map_err(fs_error("rm")),
        "rename" => fs::rename(path, &args.to).map(nothing).map_err(fs_error("rename")),
        "copyFile" if args.exclusive && args.to.exists() => {
            Err(failed(&io::Error::from_raw_os_error(nix::libc::EEXIST), "copyfile", args))
        }
        "copyFile" => copy_file(path, &args.to).map(nothing).map_err(fs_error("copyfile")),
        "cp" => copy(path, &args.to, args).map(nothing).map_err(fs_error("cp")),
        "symlink" => {
            std::os::unix::fs::symlink(path, &args.to).map(nothing).map_err(fs_error("symlink"))
        }
        "link" => fs::hard_link(path, &args.to).map(nothing).map_err(fs_error("link")),
        "readlink" => fs::read_link(path).map(text).map_err(fs_error("readlink")),
        "realpath" => fs::canonicalize(path).map(text).map_err(fs_error("realpath")),
        "chmod" => {
            let permissions = fs::Permissions::from_mode(args.mode.unwrap_or(0o644));
            fs::set_permissions(path, permissions).map(nothing).map_err(fs_error("chmod"))
        }
        "access" => access(args).map(nothing).map_err(fs_error("access")),
        "truncate" => {
            let file = waiting::open(OpenOptions::new().write(true), path, wait);
            let cut = file.and_then(|file| file.set_len(args.length.unwrap_or(0)));
            cut.map(nothing).map_err(fs_error("open"))
        }
        "utimes" => {
            let times = fs::FileTimes::new()
                .set_accessed(moment(args.atime))
                .set_modified(moment(args.mtime));
            let file = waiting::open(OpenOptions::new().read(true), path, wait);
            file.and_then(|file| file.set_times(times)).map(nothing).map_err(fs_error("utime"))
        }
        "statfs" => Ok(OpOutput::json(&json!({ "type": 0, "bsize": 4096, "blocks": 0, "bfree": 0,
            "bavail": 0, "files": 0, "ffree": 0 }))),
        _ => Err(unknown(name)),
    }
}

fn nothing((): ()) -> OpOutput {
    OpOutput::Nothing
}

fn text(path: PathBuf) -> OpOutput {
    OpOutput::Text(path.to_string_lossy().into_owned())
}

fn moment(seconds: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.clamp(0.0, 1e11))
}

/// The options of `open` for node's flags.
pub(super) fn open_options(flag: &str, mode: u32) -> Result<OpenOptions, OpError> {
    let mut options = OpenOptions::new();
    options.mode(mode);
    let known = flag.replace('s', "");
    match known.as_str() {
        "r" => options.read(true),
        "r+" => options.read(true).write(true),
        "w" => options.write(true).create(true).truncate(true),
        "wx" | "xw" => options.write(true).create_new(true),
        "w+" => options.read(true).write(true).create(true).truncate(true),
        "wx+" | "xw+" => options.read(true).write(true).create_new(true),
        "a" => options.append(true).create(true),
        "ax" | "xa" => options.append(true).create_new(true),
        "a+" => options.read(true).append(true).create(true),
        "ax+" | "xa+" => options.read(true).append(true).create_new(true),
        _ => {
            let message = format!("The argument 'flags' is invalid. Received '{flag}'");
            return Err(OpError::coded("ERR_INVALID_ARG_VALUE", message));
        }
    };
    Ok(options)
}

fn read(path: &Path, wait: &BlockingWait<'_>) -> Result<OpOutput, WaitError> {
    let file = waiting::open(OpenOptions::new().read(true), path, wait)?;
    let (bytes, _hold) = wait.read_all(file)?;
    Ok(OpOutput::Bytes(bytes))
}

/// Copies only regular files: others may be endless, or block.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let is_other = |path: &Path| fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    if is_other(from) || is_other(to) {
        return Err(io::Error::from_raw_os_error(nix::libc::EINVAL));
    }
    fs::copy(from, to).map(drop)
}

fn write(args: &FsArgs, bytes: &[u8], wait: &BlockingWait<'_>) -> io::Result<()> {
    let flag = args.flag.as_deref().unwrap_or("w");
    let mut options = open_options(flag, args.mode.unwrap_or(0o666))
        .map_err(|failed| io::Error::new(io::ErrorKind::InvalidInput, failed.message))?;
    let mut file = waiting::open(&mut options, &args.path, wait)?;
    wait.write_all(&mut file, bytes)
}

pub(super) fn stat(meta: &Metadata) -> OpOutput {
    let ms = |seconds: i64, nanos: i64| seconds as f64 * 1000.0 + nanos as f64 / 1e6;
    OpOutput::json(&json!({
        "kind": kind_of(meta.file_type()),
        "dev": meta.dev(), "ino": meta.ino(), "mode": meta.mode(), "nlink": meta.nlink(),
        "uid": meta.uid(), "gid": meta.gid(), "rdev": meta.rdev(), "size": meta.size(),
        "blksize": meta.blksize(), "blocks": meta.blocks(),
        "atimeMs": ms(meta.atime(), meta.atime_nsec()),
        "mtimeMs": ms(meta.mtime(), meta.mtime_nsec()),
        "ctimeMs": ms(meta.ctime(), meta.ctime_nsec()),
        "birthtimeMs": meta.created().ok()
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            .map_or_else(|| ms(meta.ctime(), meta.ctime_nsec()), |since| since.as_secs_f64() * 1000.0),
    }))
}

fn kind_of(kind: fs::FileType) -> &'static str {
    if kind.is_dir() {
        "dir"
    } else if kind.is_symlink() {
        "link"
    } else if kind.is_file() {
        "file"
    } else if kind.is_fifo() {
        "fifo"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_block_device() {
        "block"
    } else {
        "char"
    }
}

/// `[[name, kind], …]` sorted by name; entries of nested folders have their path.
fn list(folder: &Path, recursive: bool) -> io::Result<OpOutput> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            entries.push((below.join(entry.file_name()), kind_of(entry.file_type()?)));
        }
        entries.sort();
        let inner = entries.iter().rev().filter(|(_, kind)| recursive && *kind == "dir");
        folders.extend(inner.map(|(path, _)| path.clone()));
        found.extend(entries.into_iter().map(|(path, kind)| json!([path.to_string_lossy(), kind])));
    }
    Ok(OpOutput::Json(Value::from(found).to_string()))
}

/// Returns the first folder that was created.
fn make_folder(args: &FsArgs) -> io::Result<OpOutput> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(args.mode.unwrap_or(0o777)).recursive(args.recursive);
    if !args.recursive {
        return builder.create(&args.path).map(nothing);
    }
    let first = args.path.ancestors().take_while(|path| !path.exists()).last().map(Path::to_owned);
    builder.create(&args.path)?;
    Ok(first.map_or(OpOutput::Nothing, text))
}

fn make_scratch_folder(prefix: &Path) -> io::Result<OpOutput> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        let mut chance = [0; 6];
        getrandom::fill(&mut chance).map_err(io::Error::other)?;
        let mut path = prefix.to_string_lossy().into_owned();
        path.extend(chance.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => (),
            made => return made.map(|()| OpOutput::Text(path)),
        }
    }
}

fn remove(args: &FsArgs) -> io::Result<()> {
    let meta = match fs::symlink_metadata(&args.path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound && args.force => return Ok(()),
        meta => meta?,
    };
    if !meta.is_dir() {
        fs::remove_file(&args.path)
    } else if args.recursive {
        fs::remove_dir_all(&args.path)
    } else {
        Err(io::Error::from_raw_os_error(nix::libc::EISDIR))
    }
}

fn copy(from: &Path, to: &Path, args: &FsArgs) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if !meta.is_dir() {
        if to.exists() && !args.force {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        return copy_file(from, to);
    }
    if !args.recursive {
        return Err(io::Error::from_raw_os_error(nix::libc::EISDIR));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()), args)?;
    }
    Ok(())
}

fn access(args: &FsArgs) -> io::Result<()> {
    let wanted = args.mode.unwrap_or(0) as i32;
    let flags = nix::unistd::AccessFlags::from_bits_truncate(wanted);
    nix::unistd::access(&args.path, flags).map_err(io::Error::from)
}

/// The error node would throw: `ENOENT: no such file or directory, open '/x'`.
pub(super) fn failed(err: &io::Error, call: &'static str, args: &FsArgs) -> OpError {
    let number = err.raw_os_error().unwrap_or(nix::libc::EIO);
    let errno = nix::errno::Errno::from_raw(number);
    let code = format!("{errno:?}");
    let mut message = format!("{code}: {}, {call}", node_words(errno));
    let path = args.path.to_string_lossy();
    let mut fields =
        vec![("errno", Value::from(-number)), ("code", code.into()), ("syscall", call.into())];
    if !path.is_empty() {
        message += &format!(" '{path}'");
        fields.push(("path", path.into()));
    }
    let to = args.to.to_string_lossy();
    if !to.is_empty() {
        message += &format!(" -> '{to}'");
        fields.push(("dest", to.into()));
    }
    OpError { message, name: None, fields }
}

/// libuv's text, where it differs from the system's in more than capitals.
fn node_words(errno: nix::errno::Errno) -> String {
    use nix::errno::Errno;
    match errno {
        Errno::ENOENT => "no such file or directory".into(),
        Errno::EEXIST => "file already exists".into(),
        Errno::EISDIR => "illegal operation on a directory".into(),
        Errno::ENOTDIR => "not a directory".into(),
        Errno::EACCES => "permission denied".into(),
        Errno::EPERM => "operation not permitted".into(),
        Errno::ENOTEMPTY => "directory not empty".into(),
        Errno::EBADF => "bad file descriptor".into(),
        Errno::EINVAL => "invalid argument".into(),
        Errno::ELOOP => "too many symbolic links encountered".into(),
        Errno::EXDEV => "cross-device link not permitted".into(),
        other => other.desc().to_lowercase(),
    }
}
