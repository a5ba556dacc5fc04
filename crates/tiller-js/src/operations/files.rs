//! Open files of an extension, by descriptor number.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::fs::{Ask, failed, open_options, stat};
use super::waiting::{self, Patience, Trouble};
use super::{OpOutput, OpReply};
use crate::engine_state::EngineState;

/// The most that one read returns.
const READ_MAX_BYTES: u64 = 64 << 20;

/// Performs the operation, if it is one on an open file.
pub(super) fn sync(
    core: &Rc<EngineState>,
    name: &str,
    ask: &Ask,
    bytes: Option<&[u8]>,
) -> Option<OpReply> {
    if name == "open" {
        return Some(open(core, ask));
    }
    let fd = ask.fd?;
    let mut resources = core.resources.borrow_mut();
    if name == "close" {
        let closed = resources.files.remove(&fd).is_some();
        return Some(if closed { Ok(OpOutput::Nothing) } else { Err(bad(ask, "close")) });
    }
    let Some(file) = resources.files.get_mut(&fd) else { return Some(Err(bad(ask, "read"))) };
    let done = match name {
        "read" => core.patiently(|patience| read(file, ask, patience)).map(OpOutput::Bytes),
        "readFile" => return Some(core.patiently(|patience| rest(file, ask, patience))),
        "write" | "writeFile" => {
            core.patiently(|patience| write(file, ask, bytes.unwrap_or_default(), patience))
        }
        "stat" => file.metadata().map(|meta| stat(&meta)),
        "fsync" => file.sync_all().map(|()| OpOutput::Nothing),
        "truncate" => file.set_len(ask.length.unwrap_or(0)).map(|()| OpOutput::Nothing),
        _ => return None,
    };
    let call = if name == "stat" { "fstat" } else { "read" };
    Some(done.map_err(|err| failed(&err, call, ask)))
}

fn open(core: &Rc<EngineState>, ask: &Ask) -> OpReply {
    let mut options = open_options(ask.flag.as_deref().unwrap_or("r"), ask.mode.unwrap_or(0o666))?;
    let file = core.patiently(|patience| waiting::open(&mut options, &ask.path, patience));
    let file = file.map_err(|err| failed(&err, "open", ask))?;
    let mut resources = core.resources.borrow_mut();
    let fd = resources.number() as i32;
    resources.files.insert(fd, file);
    Ok(OpOutput::json(&fd))
}

fn bad(ask: &Ask, call: &'static str) -> super::OpError {
    failed(&io::Error::from_raw_os_error(nix::libc::EBADF), call, ask)
}

/// Reads a file that is not regular on another thread, because it may block.
pub(super) fn slow_read(core: &Rc<EngineState>, name: &str, ask: &Ask) -> Option<(File, Ask)> {
    let resources = core.resources.borrow();
    let file = resources.files.get(&ask.fd?).filter(|_| name == "read")?;
    let is_slow = file.metadata().is_ok_and(|meta| !meta.is_file());
    let file = is_slow.then(|| file.try_clone().ok()).flatten()?;
    Some((file, ask.clone()))
}

pub(super) fn read_patiently(mut file: File, ask: &Ask, patience: &Patience<'_>) -> OpReply {
    let read = read(&mut file, ask, patience).map(OpOutput::Bytes);
    read.map_err(|err| failed(&err, "read", ask))
}

fn read(file: &mut File, ask: &Ask, patience: &Patience<'_>) -> io::Result<Vec<u8>> {
    let length = ask.length.unwrap_or(16 << 10).min(READ_MAX_BYTES) as usize;
    let mut bytes = vec![0; length];
    let count = match ask.position {
        Some(position) => file.read_at(&mut bytes, position)?,
        None => patience.read(file, &mut bytes)?,
    };
    bytes.truncate(count);
    Ok(bytes)
}

fn rest(file: &mut File, ask: &Ask, patience: &Patience<'_>) -> OpReply {
    match patience.read_all(file) {
        Ok((bytes, _hold)) => Ok(OpOutput::Bytes(bytes)),
        Err(Trouble::System(err)) => Err(failed(&err, "read", ask)),
        Err(Trouble::Ours(failed)) => Err(failed),
    }
}

fn write(
    file: &mut File,
    ask: &Ask,
    bytes: &[u8],
    patience: &Patience<'_>,
) -> io::Result<OpOutput> {
    match ask.position {
        Some(position) => {
            let before = file.stream_position()?;
            file.seek(SeekFrom::Start(position))?;
            patience.write_all(file, bytes)?;
            file.seek(SeekFrom::Start(before))?;
        }
        None => patience.write_all(file, bytes)?,
    }
    Ok(OpOutput::json(&bytes.len()))
}
