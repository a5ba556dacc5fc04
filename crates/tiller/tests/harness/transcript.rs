//! Parses a transcript file: prose, `-- options --`, files for the scratch folder (`-- notes.md
//! --`), and the `-- conversation --`, where each line names its actor.
//!
//! ```text
//! client> {"type":"abort"}   the client says a line; lines directly below each other are one write
//! bytes>  {"type":\n         the client writes these bytes and no more
//! client> EOF                the client closes its end
//! client> …"id":"ui-1"…      a name that was printed for an id stands for the id here too, and
//!                            FOLDER, here and in files, for the scratch folder
//! model>  say Hello.         the model answers; see docs/script-format.md, "Line by line"
//! clock>  50ms               time passes
//! reader> stops              the reader pauses; `goes on` resumes, `leaves` closes the pipe
//! system> SIGTERM            a signal comes
//! system> disk EIO after 2   the disk fails from its third call on; `disk works` again, and with
//!                            `EIO once after 2` it fails a single time
//! system> move A B           a file of the scratch folder gets another name; `remove A` deletes it
//! tiller> …                  what came of it, written by `UPDATE_EXPECT=1`; an empty one keeps
//!                            two writes apart until then
//! ```
//!
//! Options: `wire LEVEL`, `model NAME`, `none` or `default`, `tools NAMES`, `settings JSON`, `diagnostic TEXT`,
//! `sessions kept`, `on-eof finish`, `asks-client no`, `trust no` or `unknown`, `updates all` or `count`, `show requests`,
//! `system` (the system prompt too) or `records`. `extensions FILES` are those of the command line;
//! with the word `discovered` the default folders are searched too. `flags NAME NAME=VALUE` are
//! their flags. `examples FILES` copies files of `examples/extensions` to the scratch folder.
//! `folder NAME` makes a subfolder the project. With `messages replaced` a message may end otherwise
//! than it grew, and its end is printed whole.

use std::collections::BTreeMap;

#[derive(Clone)]
pub struct Transcript {
    /// Everything before the conversation, unchanged.
    pub head: String,
    pub options: BTreeMap<String, String>,
    /// Files for the scratch folder.
    pub files: Vec<(String, String)>,
    /// The conversation in groups; the lines of a group are one write.
    pub groups: Vec<Vec<Line>>,
}

/// The known options.
const OPTIONS: [&str; 16] = [
    "wire",
    "model",
    "tools",
    "settings",
    "diagnostic",
    "sessions",
    "on-eof",
    "asks-client",
    "trust",
    "updates",
    "show",
    "extensions",
    "examples",
    "flags",
    "messages",
    "folder",
];

/// An action in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// One line from the client. Adjacent lines are one write.
    Client(String),
    /// Bytes from the client, with escapes and without a line end.
    Bytes(String),
    /// A line of script for the model.
    Model(String),
    /// Time passes.
    Clock(u64),
    Reader(Reader),
    /// The client closes its end.
    Eof,
    /// The system sends a signal.
    Signal(String),
}

/// What happens to tiller's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reader {
    Reads,
    /// Reading is paused.
    Stopped,
    /// The pipe is closed for good.
    Gone,
}

impl Line {
    pub fn text(&self) -> String {
        match self {
            Line::Client(text) => format!("client> {text}").trim_end().to_owned(),
            Line::Bytes(text) => format!("bytes>  {text}"),
            Line::Model(text) => format!("model>  {text}").trim_end().to_owned(),
            Line::Clock(ms) => format!("clock>  {ms}ms"),
            Line::Reader(Reader::Reads) => "reader> goes on".to_owned(),
            Line::Reader(Reader::Stopped) => "reader> stops".to_owned(),
            Line::Reader(Reader::Gone) => "reader> leaves".to_owned(),
            Line::Eof => "client> EOF".to_owned(),
            Line::Signal(name) => format!("system> {name}"),
        }
    }

    fn is_client(&self) -> bool {
        matches!(self, Line::Client(_) | Line::Bytes(_))
    }

    /// Whether it can be part of the same write as the line before.
    fn may_follow(&self) -> bool {
        self.is_client() || *self == Line::Eof
    }
}

impl Transcript {
    /// Whether it shows something that numbers change: how many bytes are written, or the exact
    /// times of entries.
    pub fn shows_bytes(&self) -> bool {
        let has =
            |option: &str, value: &str| self.options.get(option).is_some_and(|it| it == value);
        has("updates", "count") || has("show", "records")
    }

    /// Whether it shows how the process reads, writes or ends, and not only the session.
    pub fn is_about_the_process(&self) -> bool {
        let is_about = |line: &Line| match line {
            Line::Bytes(_) | Line::Reader(_) => true,
            Line::Signal(name) => name.starts_with("SIG"),
            // The name of the session makes records longer, and a line without one is the server's.
            Line::Client(text) => text.contains("maxFrameBytes") || !text.starts_with('{'),
            _ => false,
        };
        self.shows_bytes() || self.groups.iter().flatten().any(is_about)
    }

    /// Whether it is about the files in which sessions are stored.
    pub fn is_about_files(&self) -> bool {
        let is_about = |line: &Line| match line {
            Line::Signal(name) => !name.starts_with("SIG"),
            Line::Client(text) => text.contains(".jsonl") || text.contains(".sessions"),
            _ => false,
        };
        self.groups.iter().flatten().any(is_about)
    }

    /// Whether the client itself asks for numbers or results.
    pub fn asks_for_extras(&self) -> bool {
        let asks = |line: &Line| match line {
            Line::Client(text) => text.contains("promptResults") || text.contains("sequence"),
            _ => false,
        };
        self.groups.iter().flatten().any(asks)
    }

    pub fn parse(text: &str) -> Result<Transcript, String> {
        let mut transcript = Transcript {
            head: String::new(),
            options: BTreeMap::new(),
            files: Vec::new(),
            groups: Vec::new(),
        };
        let mut goes_on = false;
        let mut section: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if section.as_deref() == Some("conversation") {
                let line = conversation_line(line, number)?;
                let is_client = line.as_ref().is_some_and(Line::is_client);
                match (line, transcript.groups.last_mut()) {
                    (None, _) => {}
                    (Some(line), Some(group)) if goes_on && line.may_follow() => group.push(line),
                    (Some(line), _) => transcript.groups.push(vec![line]),
                }
                goes_on = is_client;
                continue;
            }
            transcript.head.push_str(line);
            transcript.head.push('\n');
            let title = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --"));
            match (title, &section) {
                (Some(title), _) => {
                    section = Some(title.to_owned());
                    if !matches!(title, "options" | "conversation") {
                        transcript.files.push((title.to_owned(), String::new()));
                    }
                }
                (None, Some(name)) if name == "options" => {
                    let (key, value) = line.split_once(' ').unwrap_or((line, ""));
                    if !key.is_empty() && !OPTIONS.contains(&key) {
                        return Err(format!("line {number}: {key:?} is no option"));
                    }
                    transcript.options.insert(key.to_owned(), value.trim().to_owned());
                }
                (None, Some(_)) => {
                    if let Some((_, content)) = transcript.files.last_mut() {
                        content.push_str(line);
                        content.push('\n');
                    }
                }
                (None, None) => {}
            }
        }
        // The blank line before the next title is layout, not part of the file.
        for (_, content) in &mut transcript.files {
            if content.ends_with("\n\n") || content == "\n" {
                content.pop();
            }
        }
        Ok(transcript)
    }
}

fn conversation_line(line: &str, number: usize) -> Result<Option<Line>, String> {
    let Some((who, said)) = line.split_once('>') else {
        return if line.is_empty() {
            Ok(None)
        } else {
            Err(format!("line {number}: who says this?"))
        };
    };
    let said = said.trim_start();
    Ok(Some(match (who, said) {
        ("tiller", _) => return Ok(None),
        ("client", "EOF") => Line::Eof,
        ("client", _) => Line::Client(said.to_owned()),
        ("bytes", _) => Line::Bytes(said.to_owned()),
        ("model", _) => Line::Model(said.to_owned()),
        ("reader", "goes on") => Line::Reader(Reader::Reads),
        ("reader", "stops") => Line::Reader(Reader::Stopped),
        ("reader", "leaves") => Line::Reader(Reader::Gone),
        ("system", name) => Line::Signal(name.to_owned()),
        ("clock", time) => {
            let ms = time.strip_suffix("ms").and_then(|ms| ms.parse().ok());
            Line::Clock(ms.ok_or(format!("line {number}: expected a time such as 50ms"))?)
        }
        _ => return Err(format!("line {number}: {who:?} is nobody we know")),
    }))
}

/// The bytes of an escaped text: `\n`, `\r`, `\t`, `\\`, `\xFF` and `\u{2028}`.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let wrong = || format!("an escape that nobody knows: \\{escape}");
        let kind = escape.chars().next().ok_or_else(wrong)?;
        let used = match kind {
            'n' | 'r' | 't' | '\\' => {
                bytes.push(match kind {
                    'n' => b'\n',
                    'r' => b'\r',
                    't' => b'\t',
                    _ => b'\\',
                });
                1
            }
            'x' => {
                let digits = escape.get(1..3).ok_or_else(wrong)?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
                3
            }
            'u' => {
                let end = escape.find('}').ok_or_else(wrong)?;
                let digits = escape.get(2..end).ok_or_else(wrong)?;
                let code = u32::from_str_radix(digits, 16).map_err(|_| wrong())?;
                let character = char::from_u32(code).ok_or_else(wrong)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                end + 1
            }
            _ => return Err(wrong()),
        };
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}
