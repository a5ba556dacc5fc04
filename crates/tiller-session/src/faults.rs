//! A disk that fails when told to, and what a session makes of it.

use std::io;
use std::sync::{Arc, Mutex};

use tiller_agent::message::Message;

use crate::entry::Body;
use crate::error::Error;
use crate::file::{Disk, DiskState, Syncer};
use crate::lock::{Note, Owner};
use crate::log::Log;
use crate::name::SessionId;
use crate::scan::Scan;
use crate::session::{Home, NewSession, Session, Storage};

const NOW: u64 = 1_794_775_156_762;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A file in memory that the test can look at and break.
#[derive(Clone, Default)]
struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// The next writes take this many bytes, then fail like this.
    write_fails: Option<(usize, i32)>,
    truncate_fails: Option<i32>,
    read_fails: Option<i32>,
}

impl FaultyDisk {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

fn fail(code: Option<i32>) -> io::Result<()> {
    code.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
}

impl Disk for FaultyDisk {
    fn state(&self) -> io::Result<DiskState> {
        Ok(DiskState { len: self.bytes().len() as u64, linked: true })
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.0.lock().unwrap();
        fail(state.read_fails)?;
        let rest = &state.bytes[at as usize..];
        // Never all at once, as the kernel may.
        let len = rest.len().min(buffer.len()).min(7);
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let mut state = self.0.lock().unwrap();
        let at = state.bytes.len() as u64;
        let fails = state.write_fails.filter(|(taken, _)| *taken < bytes.len());
        let taken = fails.map_or(bytes.len(), |(taken, _)| taken);
        state.bytes.extend_from_slice(&bytes[..taken]);
        fail(fails.map(|(_, code)| code))?;
        Ok(at)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        fail(state.truncate_fails)?;
        state.bytes.truncate(len as usize);
        Ok(())
    }

    fn syncer(&self) -> Option<Syncer> {
        None
    }
}

/// A session with two messages on a faulty disk.
fn session_on(disk: &FaultyDisk) -> Session {
    let new =
        NewSession { id: SessionId::fresh(), cwd: "/work".into(), parent_session: None, now: NOW };
    let mut begun = Session::new(new, Storage::Memory);
    begun.append(user("one"), NOW).unwrap();
    begun.append(user("two"), NOW).unwrap();
    disk.set(|state| state.bytes = begun.log().memory().unwrap().to_owned());
    reload(disk)
}

/// What a later process finds.
fn reload(disk: &FaultyDisk) -> Session {
    let bytes = disk.bytes();
    let mut scan = Scan::new(0);
    let ending = scan.read_all(bytes.as_slice(), 0, bytes.len() as u64).unwrap();
    assert!(ending.is_ok() && scan.header.is_some());
    let dir = std::env::temp_dir().join(format!("tiller-faults-{}", std::process::id()));
    let owner =
        Owner { program: "test".into(), pid: 1, host: "here".into(), started: "now".into() };
    // The note goes where no folder is, so nothing is written.
    let path = dir.join("none/session.jsonl");
    let note = Note::write(&path, &owner);
    let log = Log::on_disk(Box::new(disk.clone()), bytes.len() as u64);
    Session::of(Home::File { path, owner, note }, log, scan)
}

fn user(text: &str) -> Body {
    Body::message(Message::user(text, Vec::new(), NOW))
}

fn ids(session: &Session) -> Vec<String> {
    session.tree().all().map(|index| session.tree().id(index).to_owned()).collect()
}

/// Everything that was appended, as read back through the disk.
fn texts(session: &Session) -> Vec<String> {
    let messages = session.fork_messages().unwrap();
    messages.into_iter().map(|message| message.text).collect()
}

#[test]
fn a_full_disk_takes_nothing_and_gives_nothing_away() {
    let disk = FaultyDisk::default();
    let mut session = session_on(&disk);
    let before = (disk.bytes(), ids(&session), session.leaf().map(str::to_owned));
    // However much of the line fits: none, all but the line end, and everything between.
    for taken in 0..180 {
        disk.set(|state| state.write_fails = Some((taken, ENOSPC)));
        let refused = session.append(user("three"), NOW).unwrap_err();
        assert!(matches!(refused, Error::Write { .. }));
        assert!(refused.to_string().ends_with("No space left on device (os error 28)"));
        let after = (disk.bytes(), ids(&session), session.leaf().map(str::to_owned));
        assert_eq!(after, before, "after {taken} bytes");
        assert_eq!(session.context_len(), 2);
    }
    disk.set(|state| state.write_fails = None);
    session.append(user("three"), NOW).unwrap();
    assert_eq!(texts(&session), ["one", "two", "three"]);
    assert_eq!(ids(&reload(&disk)), ids(&session));
    assert_eq!(texts(&reload(&disk)), ["one", "two", "three"]);
}

/// The disk fails so badly that a half-written line cannot even be taken back.
#[test]
fn a_torn_line_is_taken_back_before_the_next_is_written() {
    let disk = FaultyDisk::default();
    let mut session = session_on(&disk);
    for taken in [1, 50, 170] {
        let (before, known) = (disk.bytes(), ids(&session));
        disk.set(|state| {
            state.write_fails = Some((taken, EIO));
            state.truncate_fails = Some(EIO);
        });
        for _ in 0..3 {
            session.append(user("lost"), NOW).unwrap_err();
            assert_eq!(ids(&session), known);
            // One torn line at most, however often we try.
            assert_eq!(disk.bytes().len(), before.len() + taken);
        }
        // A process that starts now finds what was announced, and a torn tail to mend.
        assert_eq!(ids(&reload(&disk)), known);
        disk.set(|state| (state.write_fails, state.truncate_fails) = (None, None));
        session.append(user("kept"), NOW).unwrap();
        assert!(disk.bytes().starts_with(&before));
        assert_eq!(ids(&reload(&disk)), ids(&session));
    }
    assert_eq!(texts(&session), ["one", "two", "kept", "kept", "kept"]);
}

#[test]
fn a_disk_that_cannot_be_read_is_an_error_and_nothing_more() {
    let disk = FaultyDisk::default();
    let mut session = session_on(&disk);
    disk.set(|state| state.read_fails = Some(EIO));
    assert!(matches!(session.context(), Err(Error::Read { .. })));
    assert!(matches!(session.write_entries(None, &mut Vec::new()), Err(Error::Read { .. })));
    // What needs no reading goes on.
    session.append(user("three"), NOW).unwrap();
    assert_eq!((session.len(), session.context_len()), (3, 3));
    disk.set(|state| state.read_fails = None);
    assert_eq!(session.context().unwrap().messages.len(), 3);
}

/// Whoever cuts the file takes lines from us that we have announced.
#[test]
fn a_file_that_was_cut_is_not_written_to() {
    let disk = FaultyDisk::default();
    let mut session = session_on(&disk);
    disk.set(|state| {
        let len = state.bytes.len() - 10;
        state.bytes.truncate(len);
    });
    let before = disk.bytes();
    assert!(matches!(session.append(user("three"), NOW), Err(Error::Replaced(_))));
    assert_eq!(disk.bytes(), before);
}

/// Random failures, again and again: what was announced is always exactly what a reload finds.
#[test]
fn announced_is_what_a_reload_finds() {
    let disk = FaultyDisk::default();
    let mut session = session_on(&disk);
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut failures = 0;
    for round in 0..2000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let code = if random & 1 == 0 { ENOSPC } else { EIO };
        disk.set(|state| {
            let is_bad = random & 6 == 0;
            state.write_fails = is_bad.then_some((random as usize >> 8 & 0xff, code));
            state.truncate_fails = (is_bad && random & 24 == 0).then_some(EIO);
        });
        let text = "x".repeat(random as usize >> 16 & 0xff);
        let body = if random & 32 == 0 { Body::SessionInfo { name: text } } else { user(&text) };
        failures += u32::from(session.append(body, NOW).is_err());
        if round % 50 == 0 {
            assert_eq!(ids(&reload(&disk)), ids(&session), "round {round}");
            assert_eq!(reload(&disk).leaf(), session.leaf(), "round {round}");
        }
    }
    assert!(failures > 50, "only {failures} failures");
}
