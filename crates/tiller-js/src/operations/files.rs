//! Files an extension holds open, by the numbers node calls descriptors.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::fs::{Ask, failed, open_options, stat};
use super::{Answer, Given};
use crate::core::Core;

/// The most one read gives.
const READ_MAX_BYTES: u64 = 64 << 20;

/// Does it, if it is about an open file.
pub(super) fn sync(core: &Rc<Core>, name: &str, ask: &Ask, bytes: Option<&[u8]>) -> Option<Answer> {
    if name == "open" {
        return Some(open(core, ask));
    }
    let fd = ask.fd?;
    let mut resources = core.resources.borrow_mut();
    if name == "close" {
        let closed = resources.files.remove(&fd).is_some();
        return Some(if closed { Ok(Given::Nothing) } else { Err(bad(ask, "close")) });
    }
    let Some(file) = resources.files.get_mut(&fd) else { return Some(Err(bad(ask, "read"))) };
    let done = match name {
        "read" => read(file, ask).map(Given::Bytes),
        "readFile" => rest(file).map(Given::Bytes),
        "write" | "writeFile" => write(file, ask, bytes.unwrap_or_default()),
        "stat" => file.metadata().map(|meta| stat(&meta)),
        "fsync" => file.sync_all().map(|()| Given::Nothing),
        "truncate" => file.set_len(ask.length.unwrap_or(0)).map(|()| Given::Nothing),
        _ => return None,
    };
    let call = if name == "stat" { "fstat" } else { "read" };
    Some(done.map_err(|err| failed(&err, call, ask)))
}

fn open(core: &Rc<Core>, ask: &Ask) -> Answer {
    let options = open_options(ask.flag.as_deref().unwrap_or("r"), ask.mode.unwrap_or(0o666))?;
    let file = options.open(&ask.path).map_err(|err| failed(&err, "open", ask))?;
    let mut resources = core.resources.borrow_mut();
    let fd = resources.number() as i32;
    resources.files.insert(fd, file);
    Ok(Given::json(&fd))
}

fn bad(ask: &Ask, call: &'static str) -> super::Failed {
    failed(&io::Error::from_raw_os_error(nix::libc::EBADF), call, ask)
}

fn read(file: &mut File, ask: &Ask) -> io::Result<Vec<u8>> {
    let length = ask.length.unwrap_or(16 << 10).min(READ_MAX_BYTES) as usize;
    let mut bytes = vec![0; length];
    let count = match ask.position {
        Some(position) => file.read_at(&mut bytes, position)?,
        None => file.read(&mut bytes)?,
    };
    bytes.truncate(count);
    Ok(bytes)
}

fn rest(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(file: &mut File, ask: &Ask, bytes: &[u8]) -> io::Result<Given> {
    match ask.position {
        Some(position) => {
            let before = file.stream_position()?;
            file.seek(SeekFrom::Start(position))?;
            file.write_all(bytes)?;
            file.seek(SeekFrom::Start(before))?;
        }
        None => file.write_all(bytes)?,
    }
    Ok(Given::json(&bytes.len()))
}
