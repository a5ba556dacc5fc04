//! Lists sessions.
//!
//! A folder can hold ten thousand of them. Their order comes from the file system alone, and only
//! the listed files are read; they are scanned line by line, reading little more than the beginning
//! of each.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tiller_agent::message::UnixMs;

use crate::entry::Header;
use crate::lines;
use crate::open;
use crate::paths;
use crate::row::{self, Row};
use crate::time;

/// Which folders to search.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// One folder; with `cwd`, only the sessions of that working directory.
    Dir { dir: &'a Path, cwd: Option<&'a Path> },
    /// Every project's folder below this one.
    All { sessions: &'a Path },
}

/// What is asked of a list of sessions. The default asks for all of them.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only those of this working directory.
    pub cwd: Option<PathBuf>,
    /// Only those whose name contains this, in whatever case.
    pub name: Option<String>,
    /// Only those with a message of the user or the model, or a name, that has, for each word of
    /// this text, a word that begins with it.
    pub text: Option<String>,
    /// Only those that were modified at this time or later.
    pub modified_since: Option<UnixMs>,
    /// Only those that were modified before this time.
    pub modified_until: Option<UnixMs>,
    /// The most sessions of a page.
    pub limit: usize,
    /// Only those behind this place in the list.
    pub before: Option<Cursor>,
}

impl ListQuery {
    /// The words that are searched for, in small letters.
    pub fn words(&self) -> Vec<String> {
        self.text.as_deref().map(row::words).unwrap_or_default()
    }

    fn has_time(&self, modified_ns: u128) -> bool {
        let ns = |ms: UnixMs| u128::from(ms) * 1_000_000;
        self.modified_since.is_none_or(|since| modified_ns >= ns(since))
            && self.modified_until.is_none_or(|until| modified_ns < ns(until))
    }

    fn has_name(&self, name: Option<&str>) -> bool {
        let Some(wanted) = &self.name else { return true };
        name.is_some_and(|name| name.to_lowercase().contains(&wanted.to_lowercase()))
    }
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub id: String,
    /// The path of its file, or its address in the database.
    pub path: PathBuf,
    pub name: Option<String>,
    pub cwd: String,
    pub parent_session: Option<String>,
    /// When it was created, as ISO time.
    pub created: String,
    /// When it was last modified, as ISO time.
    pub modified: String,
    pub message_count: u64,
    /// The beginning of the first user message.
    pub first_message: String,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Listing {
    pub sessions: Vec<SessionInfo>,
    /// The cursor for the next page; None on the last page.
    pub next: Option<Cursor>,
}

/// A position in the list: after the session with this time and name. Opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// When it was modified, in nanoseconds since 1970.
    pub modified_ns: u128,
    /// The name of its file, or its id.
    pub name: String,
}

impl Cursor {
    pub fn read(text: &str) -> Option<Cursor> {
        let (modified_ns, name) = text.split_once('/')?;
        Some(Cursor { modified_ns: modified_ns.parse().ok()?, name: name.to_owned() })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.modified_ns, self.name)
    }
}

/// Lists the sessions that match, the newest first. `scope` says which of them belong to the working
/// directory. Run it on a blocking thread.
pub fn list(scope: Scope<'_>, query: &ListQuery) -> io::Result<Listing> {
    let files = candidates(scope)?;
    let words = query.words();
    let start = match &query.before {
        Some(cursor) => {
            let sort_key = (cursor.modified_ns, cursor.name.as_str());
            files.partition_point(|file| file.sort_key() >= sort_key)
        }
        None => 0,
    };
    let mut sessions = Vec::new();
    let mut last: Option<&Candidate> = None;
    for file in files[start..].iter().filter(|file| query.has_time(file.modified_ns)) {
        if sessions.len() == query.limit {
            let next = last.map(Candidate::cursor);
            return Ok(Listing { sessions, next });
        }
        // A file that cannot be read, or has been deleted by now, is not listed.
        if let Ok(Some(info)) = summary(file, scope, query, &words) {
            sessions.push(info);
            last = Some(file);
        }
    }
    Ok(Listing { sessions, next: None })
}

/// The most recently modified session (`--continue`).
pub fn newest(scope: Scope<'_>) -> io::Result<Option<PathBuf>> {
    for file in candidates(scope)? {
        if let Ok(Some(header)) = header(&file.path)
            && scope.includes(&header)
        {
            return Ok(Some(file.path));
        }
    }
    Ok(None)
}

/// The sessions with this id or, if there is none, those whose id has this prefix. Newest first.
pub fn find(scope: Scope<'_>, id: &str) -> io::Result<Vec<PathBuf>> {
    let mut exact = Vec::new();
    let mut begins = Vec::new();
    for file in candidates(scope)? {
        // The file name contains the id; only files with other names have to be opened.
        let named = paths::id_in_file_name(&file.name).map(str::to_owned);
        if named.as_ref().is_some_and(|named| !named.starts_with(id)) {
            continue;
        }
        let Ok(Some(header)) = header(&file.path) else {
            continue;
        };
        if !scope.includes(&header) {
            continue;
        }
        if header.id == id {
            exact.push(file.path);
        } else if header.id.starts_with(id) {
            begins.push(file.path);
        }
    }
    Ok(if exact.is_empty() { begins } else { exact })
}

impl Scope<'_> {
    fn includes(&self, header: &Header) -> bool {
        match self {
            Scope::Dir { cwd: Some(cwd), .. } => Path::new(&header.cwd) == *cwd,
            Scope::Dir { cwd: None, .. } | Scope::All { .. } => true,
        }
    }
}

struct Candidate {
    modified_ns: u128,
    name: String,
    path: PathBuf,
}

impl Candidate {
    fn sort_key(&self) -> (u128, &str) {
        (self.modified_ns, &self.name)
    }

    fn cursor(&self) -> Cursor {
        Cursor { modified_ns: self.modified_ns, name: self.name.clone() }
    }
}

/// All files that may be sessions, newest first.
fn candidates(scope: Scope<'_>) -> io::Result<Vec<Candidate>> {
    let mut files = Vec::new();
    match scope {
        Scope::Dir { dir, .. } => collect(dir, &mut files)?,
        Scope::All { sessions } => {
            for entry in entries_of(sessions)? {
                let entry = entry?;
                if entry.path().is_dir() {
                    collect(&entry.path(), &mut files)?;
                }
            }
            collect(sessions, &mut files)?;
        }
    }
    files.sort_unstable_by(|a, b| b.sort_key().cmp(&a.sort_key()));
    Ok(files)
}

fn collect(dir: &Path, files: &mut Vec<Candidate>) -> io::Result<()> {
    for entry in entries_of(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".jsonl") {
            continue;
        }
        let path = entry.path();
        // Links are left out: a session is not opened through one.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            let modified = metadata.modified().ok();
            let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            files.push(Candidate {
                modified_ns: modified.unwrap_or_default().as_nanos(),
                name,
                path,
            });
        }
    }
    Ok(())
}

/// A folder that does not exist counts as empty.
fn entries_of(dir: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(err) => Err(err),
    }
}

/// Reads only the header of the file.
fn header(path: &Path) -> io::Result<Option<Header>> {
    let file = open::plain_file(path)?;
    let first = lines::lines(4096, file, 0, |line, _| match kind_of(line) {
        Some(_) => ControlFlow::Break(Header::read(&String::from_utf8_lossy(line))),
        None => ControlFlow::Continue(()),
    })?;
    Ok(match first {
        ControlFlow::Break(header) => header,
        ControlFlow::Continue(tail) => Header::read(&String::from_utf8_lossy(&tail.bytes)),
    })
}

/// What a list shows of a session. None: it is not one, or does not match.
fn summary(
    file: &Candidate,
    scope: Scope<'_>,
    query: &ListQuery,
    words: &[String],
) -> io::Result<Option<SessionInfo>> {
    let source = open::plain_file(&file.path)?;
    let mut header: Option<Header> = None;
    let mut name: Option<String> = None;
    let mut first_message: Option<String> = None;
    let mut message_count = 0;
    let mut has_words = words.is_empty();
    let mut take = |line: &[u8]| {
        let text = || String::from_utf8_lossy(line);
        // Most lines are not parsed: they are results of tools, or the words were found before.
        if !has_words && matches!(kind_of(line), Some(b"message" | b"session_info")) {
            has_words = Row::read(text()).has_words(words);
        }
        match (kind_of(line), &header) {
            (None, _) => (),
            (Some(_), None) => match Header::read(&text()).filter(|it| scope.includes(it)) {
                Some(found) => {
                    name = found.title.clone();
                    header = Some(found);
                }
                None => return ControlFlow::Break(()),
            },
            (Some(kind), Some(_)) if kind == b"message" => {
                message_count += 1;
                if first_message.is_none() && memchr::memmem::find(line, b"\"user\"").is_some() {
                    first_message = Row::read(text()).user_text;
                }
            }
            (Some(kind), Some(_)) if kind == b"session_info" => {
                name = Row::read(text()).name.or(name.take());
            }
            (Some(_), Some(_)) => (),
        }
        ControlFlow::Continue(())
    };
    match lines::lines(64 * 1024, source, 0, |line, _| take(line))? {
        ControlFlow::Break(()) => return Ok(None),
        // The last line counts if it is complete. This cheap test may accept a torn line, which
        // then fails to parse.
        ControlFlow::Continue(tail) if tail.bytes.ends_with(b"}") => {
            if take(&tail.bytes).is_break() {
                return Ok(None);
            }
        }
        ControlFlow::Continue(_) => (),
    }
    let name = name.filter(|name| !name.is_empty());
    if !has_words || !query.has_name(name.as_deref()) {
        return Ok(None);
    }
    let modified_ms = u64::try_from(file.modified_ns / 1_000_000).unwrap_or(0);
    Ok(header.map(|header| SessionInfo {
        id: header.id,
        path: file.path.clone(),
        name,
        cwd: header.cwd,
        parent_session: header.parent_session,
        created: header.timestamp,
        modified: time::iso(modified_ms),
        message_count,
        first_message: first_message.unwrap_or_default(),
    }))
}

/// The value of `type` in a line that begins with it, as every program writes it. None for other
/// lines.
pub(crate) fn kind_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"type\"")?.trim_ascii_start();
    let rest = rest.strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    memchr::memchr(b'"', rest).map(|end| &rest[..end])
}
