//! The parts of a transcript file.

use std::collections::BTreeMap;

pub struct Transcript {
    /// Everything up to the conversation, as it stands.
    pub head: String,
    pub options: BTreeMap<String, String>,
    /// Files for the scratch folder.
    pub files: Vec<(String, String)>,
    lines: Vec<Line>,
}

/// Something that happens to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// One line from the client. Lines that follow each other are one write.
    Client(String),
    /// A line of script for the model.
    Model(String),
    /// Time passes.
    Clock(u64),
    /// The client stops or goes on reading.
    Reader { reads: bool },
    /// The client closes its end.
    Eof,
    /// The system sends a signal.
    Signal(String),
}

impl Line {
    pub fn text(&self) -> String {
        match self {
            Line::Client(text) => format!("client> {text}").trim_end().to_owned(),
            Line::Model(text) => format!("model>  {text}").trim_end().to_owned(),
            Line::Clock(ms) => format!("clock>  {ms}ms"),
            Line::Reader { reads: true } => "reader> goes on".to_owned(),
            Line::Reader { reads: false } => "reader> stops".to_owned(),
            Line::Eof => "client> EOF".to_owned(),
            Line::Signal(name) => format!("system> {name}"),
        }
    }
}

impl Transcript {
    pub fn parse(text: &str) -> Result<Transcript, String> {
        let mut transcript = Transcript {
            head: String::new(),
            options: BTreeMap::new(),
            files: Vec::new(),
            lines: Vec::new(),
        };
        let mut section: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if section.as_deref() == Some("conversation") {
                transcript.lines.extend(conversation_line(line, number)?);
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
        // The blank line before the next title belongs to the layout, not to the file.
        for (_, content) in &mut transcript.files {
            if content.ends_with("\n\n") || content == "\n" {
                content.pop();
            }
        }
        Ok(transcript)
    }

    /// The lines in the portions in which they happen.
    pub fn groups(&self) -> impl Iterator<Item = &[Line]> {
        let together =
            |a: &Line, b: &Line| matches!((a, b), (Line::Client(_), Line::Client(_) | Line::Eof));
        self.lines.chunk_by(together)
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
        ("model", _) => Line::Model(said.to_owned()),
        ("reader", "stops") => Line::Reader { reads: false },
        ("reader", "goes on") => Line::Reader { reads: true },
        ("system", name) => Line::Signal(name.to_owned()),
        ("clock", time) => {
            let ms = time.strip_suffix("ms").and_then(|ms| ms.parse().ok());
            Line::Clock(ms.ok_or(format!("line {number}: expected a time such as 50ms"))?)
        }
        _ => return Err(format!("line {number}: {who:?} is nobody we know")),
    }))
}
