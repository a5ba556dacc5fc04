//! Finds paths in the arguments of a call while they are streamed.
//!
//! A path is a string under a key that ends in `path`, or in a list under one that ends in `paths`.
//! It counts once its closing quote has arrived: half a path would be another one. Each byte is
//! read once, and only keys and paths are stored.

use std::path::Path;

/// A path and its spellings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    /// As given, without `./`, relative to the working directory or absolute, and the name alone.
    spellings: Vec<String>,
}

impl Candidate {
    fn new(given: &str, cwd: &Path) -> Candidate {
        let plain = given.trim_start_matches("./");
        let absolute = cwd.join(plain);
        let mut spellings = vec![given.to_owned(), plain.to_owned()];
        if let Ok(inside) = absolute.strip_prefix(cwd) {
            spellings.push(inside.to_string_lossy().into_owned());
        }
        spellings.extend(absolute.file_name().map(|name| name.to_string_lossy().into_owned()));
        spellings.push(absolute.to_string_lossy().into_owned());
        spellings.dedup();
        Candidate { spellings }
    }

    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        self.spellings.iter().map(String::as_str)
    }
}

/// Reads the text of arguments incrementally.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) found: Vec<Candidate>,
    open: Vec<OpenContainer>,
    /// The current string, unparsed.
    string: Option<Text>,
}

/// An open object or list.
struct OpenContainer {
    is_list: bool,
    /// The next string is a key.
    at_key: bool,
    kind: Key,
}

/// What a key says about its value.
#[derive(Clone, Copy, Default, PartialEq)]
enum Key {
    #[default]
    Other,
    Path,
    Paths,
}

#[derive(Default)]
struct Text {
    raw: String,
    is_escaped: bool,
    /// The string's content is not needed.
    is_skipped: bool,
}

/// The longest path or key.
const TEXT_MAX_BYTES: usize = 4096;
const PATHS_MAX: usize = 256;
const DEPTH_MAX: usize = 64;

impl Paths {
    /// Reads a delta. Returns whether a further path was found.
    pub(super) fn read(&mut self, delta: &str, cwd: &Path) -> bool {
        let before = self.found.len();
        for c in delta.chars() {
            match &mut self.string {
                Some(text) if text.is_escaped => {
                    text.is_escaped = false;
                    text.push(c);
                }
                Some(_) if c == '"' => self.end_string(cwd),
                Some(text) => {
                    text.is_escaped = c == '\\';
                    text.push(c);
                }
                None => self.between(c),
            }
        }
        self.found.len() > before
    }

    fn between(&mut self, c: char) {
        let above = self.open.last().map_or(Key::Other, |open| open.kind);
        match c {
            '"' => {
                let is_wanted = self.open.last().is_some_and(|open| {
                    if open.is_list {
                        open.kind == Key::Paths
                    } else {
                        open.at_key || open.kind == Key::Path
                    }
                });
                self.string = Some(Text { is_skipped: !is_wanted, ..Text::default() });
            }
            '{' if self.open.len() < DEPTH_MAX => {
                self.open.push(OpenContainer { is_list: false, at_key: true, kind: Key::Other });
            }
            '[' if self.open.len() < DEPTH_MAX => {
                self.open.push(OpenContainer { is_list: true, at_key: false, kind: above });
            }
            '}' | ']' => drop(self.open.pop()),
            ',' => {
                if let Some(open) = self.open.last_mut().filter(|open| !open.is_list) {
                    open.at_key = true;
                    open.kind = Key::Other;
                }
            }
            _ => {}
        }
    }

    fn end_string(&mut self, cwd: &Path) {
        let Some(text) = self.string.take() else { return };
        let Some(open) = self.open.last_mut() else { return };
        let is_key = std::mem::take(&mut open.at_key);
        if text.is_skipped {
            return;
        }
        let Ok(text) = serde_json::from_str::<String>(&format!("\"{}\"", text.raw)) else { return };
        if is_key {
            let name = text.to_ascii_lowercase();
            open.kind = match () {
                () if name.ends_with("paths") => Key::Paths,
                () if name.ends_with("path") => Key::Path,
                () => Key::Other,
            };
        } else if self.found.len() < PATHS_MAX && !text.is_empty() {
            self.found.push(Candidate::new(&text, cwd));
        }
    }
}

impl Text {
    fn push(&mut self, c: char) {
        self.is_skipped |= self.raw.len() >= TEXT_MAX_BYTES;
        if !self.is_skipped {
            self.raw.push(c);
        }
    }
}
