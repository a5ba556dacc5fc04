//! Open files of an extension, by descriptor number.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::fs::{FsArgs, failed, open_options, stat};
use super::waiting::{self, BlockingWait, WaitError};
use super::{OpOutput, OpReply};
use crate::engine_state::EngineState;

/// The most that one read returns.
const READ_MAX_BYTES: u64 = 64 << 20;

/// Performs the operation, if it is one on an open file.
pub(super) fn sync(
    state: &Rc<EngineState>,
    name: &str,
    args: &FsArgs,
    bytes: Option<&[u8]>,
) -> Option<OpReply> {
    if name == "open" {
        return Some(open(state, args));
    }
    let fd = args.fd?;
    let mut resources = state.resources.borrow_mut();
    if name == "close" {
        let closed = resources.files.remove(&fd).is_some();
        return Some(if closed { Ok(OpOutput::Nothing) } else { Err(bad(args, "close")) });
    }
    let Some(file) = resources.files.get_mut(&fd) else { return Some(Err(bad(args, "read"))) };
    let done = match name {
        "read" => state.blocking(|wait| read(file, args, wait)).map(OpOutput::Bytes),
        "readFile" => return Some(state.blocking(|wait| rest(file, args, wait))),
        "write" | "writeFile" => {
            state.blocking(|wait| write(file, args, bytes.unwrap_or_default(), wait))
        }
        "stat" => file.metadata().map(|meta| stat(&meta)),
        "fsync" => file.sync_all().map(|()| OpOutput::Nothing),
        "truncate" => file.set_len(args.length.unwrap_or(0)).map(|()| OpOutput::Nothing),
        _ => return None,
    };
    let call = if name == "stat" { "fstat" } else { "read" };
    Some(done.map_err(|err| failed(&err, call, args)))
}

fn open(state: &Rc<EngineState>, args: &FsArgs) -> OpReply {
    let mut options =
        open_options(args.flag.as_deref().unwrap_or("r"), args.mode.unwrap_or(0o666))?;
    let file = state.blocking(|wait| waiting::open(&mut options, &args.path, wait));
    let file = file.map_err(|err| failed(&err, "open", args))?;
    let mut resources = state.resources.borrow_mut();
    let fd = resources.number() as i32;
    resources.files.insert(fd, file);
    Ok(OpOutput::json(&fd))
}

fn bad(args: &FsArgs, call: &'static str) -> super::OpError {
    failed(&io::Error::from_raw_os_error(nix::libc::EBADF), call, args)
}

/// Reads a file that is not regular on another thread, because it may block.
pub(super) fn slow_read(
    state: &Rc<EngineState>,
    name: &str,
    args: &FsArgs,
) -> Option<(File, FsArgs)> {
    let resources = state.resources.borrow();
    let file = resources.files.get(&args.fd?).filter(|_| name == "read")?;
    let is_slow = file.metadata().is_ok_and(|meta| !meta.is_file());
    let file = is_slow.then(|| file.try_clone().ok()).flatten()?;
    Some((file, args.clone()))
}

pub(super) fn read_blocking(mut file: File, args: &FsArgs, wait: &BlockingWait<'_>) -> OpReply {
    let read = read(&mut file, args, wait).map(OpOutput::Bytes);
    read.map_err(|err| failed(&err, "read", args))
}

fn read(file: &mut File, args: &FsArgs, wait: &BlockingWait<'_>) -> io::Result<Vec<u8>> {
    let length = args.length.unwrap_or(16 << 10).min(READ_MAX_BYTES) as usize;
    let mut bytes = vec![0; length];
    let count = match args.position {
        Some(position) => file.read_at(&mut bytes, position)?,
        None => wait.read(file, &mut bytes)?,
    };
    bytes.truncate(count);
    Ok(bytes)
}

fn rest(file: &mut File, args: &FsArgs, wait: &BlockingWait<'_>) -> OpReply {
    match wait.read_all(file) {
        Ok((bytes, _hold)) => Ok(OpOutput::Bytes(bytes)),
        Err(WaitError::System(err)) => Err(failed(&err, "read", args)),
        Err(WaitError::Ours(err)) => Err(err),
    }
}

fn write(
    file: &mut File,
    args: &FsArgs,
    bytes: &[u8],
    wait: &BlockingWait<'_>,
) -> io::Result<OpOutput> {
    match args.position {
        Some(position) => {
            let before = file.stream_position()?;
            file.seek(SeekFrom::Start(position))?;
            wait.write_all(file, bytes)?;
            file.seek(SeekFrom::Start(before))?;
        }
        None => wait.write_all(file, bytes)?,
    }
    Ok(OpOutput::json(&bytes.len()))
}
