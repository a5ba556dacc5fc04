//! Writers: processes that append to sessions as fast as they can, and report on a pipe.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tiller_session::{Error, Session, Store};

use crate::host::{Host, LONG, user};
use crate::ledger::{Ledger, text};

/// Variables of a writer: its name, the URL, the ids of its sessions, and the bytes of its entries.
const NAME: &str = "TILLER_FAULTS_WRITER";
const URL: &str = "TILLER_FAULTS_URL";
const SESSIONS: &str = "TILLER_FAULTS_SESSIONS";
const PADDING: &str = "TILLER_FAULTS_PADDING";

/// What a writer reports of one of its sessions.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It has opened or planned the session, which has this many lines.
    Open {
        lines: u64,
    },
    Acknowledged {
        number: u64,
        id: String,
    },
    /// A failed append has stored this entry.
    Recovered {
        id: String,
    },
    Failed {
        number: u64,
        why: String,
    },
    /// The program of the new owner is named.
    TakenOver {
        number: u64,
        owner: String,
    },
    /// It has closed the session, which has this many lines.
    Closed {
        lines: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Open { lines } => write!(f, "open {lines}"),
            Event::Acknowledged { number, id } => write!(f, "acknowledged {number} {id}"),
            Event::Recovered { id } => write!(f, "recovered {id}"),
            Event::Failed { number, why } => write!(f, "failed {number} {why}"),
            Event::TakenOver { number, owner } => write!(f, "taken-over {number} {owner}"),
            Event::Closed { lines } => write!(f, "closed {lines}"),
        }
    }
}

impl Event {
    fn read(text: &str) -> Event {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (kind, first, rest) = (word(), word(), word());
        let number = || first.parse().unwrap();
        match kind.as_str() {
            "open" => Event::Open { lines: number() },
            "acknowledged" => Event::Acknowledged { number: number(), id: rest },
            "recovered" => Event::Recovered { id: first },
            "failed" => Event::Failed { number: number(), why: rest },
            "taken-over" => Event::TakenOver { number: number(), owner: rest },
            "closed" => Event::Closed { lines: number() },
            _ => panic!("a writer has reported {text}"),
        }
    }
}

/// The body of a writer's process. Does nothing in the process of the tests.
pub fn run() {
    let Ok(name) = std::env::var(NAME) else { return };
    let host = Host::new(&name, &std::env::var(URL).unwrap());
    let sessions = std::env::var(SESSIONS).unwrap();
    let padding: usize = std::env::var(PADDING).unwrap().parse().unwrap();
    let is_ending = AtomicBool::new(false);
    // libtest has begun a line.
    report(0, "");
    thread::scope(|scope| {
        for (index, id) in sessions.split(',').enumerate() {
            let (host, is_ending) = (&host, &is_ending);
            scope.spawn(move || write_session(host, index, id, padding, is_ending));
        }
        // The test closes the pipe when the writer is to end.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        is_ending.store(true, Ordering::Release);
    });
}

fn report(index: usize, event: impl fmt::Display) {
    std::io::stdout().write_all(format!("\n@{index} {event}\n").as_bytes()).unwrap();
}

fn write_session(host: &Host, index: usize, id: &str, padding: usize, is_ending: &AtomicBool) {
    let Some(mut session) = begin(host, id, is_ending) else { return };
    report(index, Event::Open { lines: session.lines_after_header() });
    let mut refusals = 0;
    let mut number = 0;
    while !is_ending.load(Ordering::Acquire) {
        number += 1;
        // Not all entries are equally long.
        let bytes = padding * (number as usize % 5) / 2;
        let appended = refresh(&mut session, index)
            .and_then(|()| session.append(user(&text(&host.name, number, bytes)), 5));
        match appended {
            Ok(id) => report(index, Event::Acknowledged { number, id }),
            Err(Error::TakenOver { owner, .. }) => {
                let owner = owner.map(|owner| owner.program).unwrap_or_default();
                report(index, Event::TakenOver { number, owner });
                refusals += 1;
                // It tries again, as a client might.
                if refusals == 3 {
                    return;
                }
            }
            Err(Error::Database { reason, .. }) => {
                report(index, Event::Failed { number, why: reason });
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    // Nothing is open any more when the writer ends.
    if refresh(&mut session, index).is_ok() {
        report(index, Event::Closed { lines: session.len() as u64 });
    }
}

/// Opens a session, or plans it if there is none. None: the writer ends.
fn begin(host: &Host, id: &str, is_ending: &AtomicBool) -> Option<Session> {
    let address = host.store.address(id);
    while !is_ending.load(Ordering::Acquire) {
        match host.store.open(&address) {
            Ok(session) => return Some(session),
            Err(Error::NotFound(_)) => return Some(host.session(id)),
            Err(Error::InUse { .. } | Error::Database { .. }) => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    None
}

fn refresh(session: &mut Session, index: usize) -> Result<(), Error> {
    for id in session.refresh()? {
        report(index, Event::Recovered { id });
    }
    Ok(())
}

/// A writer's process. It is killed when this is dropped.
pub struct Writer {
    pub name: String,
    process: Child,
    input: Option<ChildStdin>,
    reports: Arc<Reports>,
    reader: Option<JoinHandle<()>>,
}

/// The events of each session, as far as they have arrived.
#[derive(Default)]
struct Reports {
    events: Mutex<Vec<Vec<Event>>>,
    changed: Condvar,
}

impl Writer {
    /// Starts a process that writes these sessions.
    pub fn start(name: &str, url: &str, padding: usize, sessions: &mut [Ledger]) -> Writer {
        sessions.iter_mut().for_each(|ledger| ledger.expect(name));
        let sessions: Vec<&str> = sessions.iter().map(|ledger| ledger.id.as_str()).collect();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_process", "--nocapture", "--test-threads=1"])
            .env(NAME, name)
            .env(URL, url)
            .env(SESSIONS, sessions.join(","))
            .env(PADDING, padding.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let reports = Arc::new(Reports::default());
        reports.events.lock().unwrap().resize(sessions.len(), Vec::new());
        let (lines, received) = (BufReader::new(process.stdout.take().unwrap()), reports.clone());
        let reader = thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let Some((index, event)) = line.strip_prefix('@').and_then(|l| l.split_once(' '))
                else {
                    continue;
                };
                if !event.is_empty() {
                    let index: usize = index.parse().unwrap();
                    received.events.lock().unwrap()[index].push(Event::read(event));
                    received.changed.notify_all();
                }
            }
            received.changed.notify_all();
        });
        let input = process.stdin.take();
        Writer { name: name.to_owned(), process, input, reports, reader: Some(reader) }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the events of every session fulfil the condition.
    pub fn wait_until(&self, what: &str, is_fulfilled: impl Fn(&[Event]) -> bool) {
        let begin = Instant::now();
        let mut events = self.reports.events.lock().unwrap();
        while !events.iter().all(|events| is_fulfilled(events)) {
            let late = || format!("{}: {what} takes too long: {:?}", self.name, tail(&events));
            assert!(begin.elapsed() < LONG, "{}", late());
            events = self.reports.changed.wait_timeout(events, Duration::from_secs(1)).unwrap().0;
        }
    }

    /// Waits until every session has this many acknowledged entries.
    pub fn wait_for_entries(&self, count: u64) {
        self.wait_until("an entry", |events| acknowledged(events) >= count);
    }

    /// Waits until every session has more entries than now, so that none is left that a fault of
    /// before could still stop.
    pub fn wait_for_progress(&self) {
        let events = self.reports.events.lock().unwrap();
        let most = events.iter().map(|events| acknowledged(events)).max().unwrap_or_default();
        drop(events);
        self.wait_for_entries(most + 2);
    }

    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Kills the process and records what it has reported.
    pub fn kill(mut self, sessions: &mut [Ledger]) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        sessions.iter_mut().for_each(|ledger| ledger.kill(&self.name));
        self.record(sessions);
    }

    /// Lets the process end and records what it has reported.
    pub fn stop(mut self, sessions: &mut [Ledger]) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success(), "{} has failed", self.name);
        self.record(sessions);
    }

    fn record(mut self, sessions: &mut [Ledger]) {
        self.reader.take().unwrap().join().unwrap();
        let events = self.reports.events.lock().unwrap();
        for (ledger, events) in sessions.iter_mut().zip(events.iter()) {
            for event in events {
                match event {
                    Event::Open { lines } => ledger.claim(&self.name, *lines),
                    Event::Acknowledged { number, id } => {
                        ledger.acknowledge(&self.name, *number, id);
                    }
                    Event::Recovered { id } => ledger.recover(id),
                    Event::Failed { number, .. } => ledger.fail(&self.name, *number),
                    Event::TakenOver { number, .. } => ledger.refuse(&self.name, *number),
                    Event::Closed { lines } => ledger.close_at(&self.name, *lines),
                }
            }
        }
    }

    /// Fails if an append has failed.
    pub fn has_not_failed(&self) {
        self.wait_until("nothing", |events| {
            let failed = events.iter().find(|event| matches!(event, Event::Failed { .. }));
            assert_eq!(failed, None, "{}", self.name);
            true
        });
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Also ends a process that is paused. An error means that it has ended.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn acknowledged(events: &[Event]) -> u64 {
    events.iter().filter(|event| matches!(event, Event::Acknowledged { .. })).count() as u64
}

/// The last events of each session.
fn tail(events: &[Vec<Event>]) -> Vec<&[Event]> {
    events.iter().map(|events| &events[events.len().saturating_sub(3)..]).collect()
}
