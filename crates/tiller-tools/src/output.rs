//! Collects a command's output: its end in memory, and all of it in a file once it is longer than
//! the model is shown. Memory use is bounded.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tiller_agent::truncate::{
    self, MAX_BYTES, MAX_LINES, TextLimits, TextSize, TruncatedBy, Truncation, size_text,
};

/// Slightly more than is ever shown, so that cuts fall in the right place.
const TAIL_BYTES: usize = MAX_BYTES + 64;

#[derive(Default)]
pub(crate) struct Output {
    /// The end of the output, or all of it while there is no file.
    tail: Vec<u8>,
    newlines: usize,
    bytes: usize,
    /// The length of the last line, without its newline.
    last_line_bytes: usize,
    /// Whether that line is terminated.
    last_line_ended: bool,
    full: Full,
}

/// Where the full output is.
#[derive(Default)]
enum Full {
    #[default]
    InTail,
    InFile(Spill),
    /// Writing the file failed.
    Lost(io::Error),
}

/// The complete output of a command.
pub(crate) struct Finished {
    pub truncation: Truncation,
    /// Counted over the full output.
    pub newlines: usize,
    pub last_line_bytes: usize,
    /// The closed file with the full output, if it was truncated.
    pub full: Option<io::Result<PathBuf>>,
}

impl Output {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if chunk.is_empty() {
            return;
        }
        self.count(chunk);
        let size = self.size();
        if size.bytes > MAX_BYTES || size.lines > MAX_LINES {
            self.save(chunk);
        }
        if chunk.len() >= TAIL_BYTES {
            self.tail.clear();
        } else if self.tail.len() + chunk.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() + chunk.len() - TAIL_BYTES);
        }
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(TAIL_BYTES)..]);
    }

    /// The truncation of the output so far.
    pub(crate) fn so_far(&self) -> Truncation {
        truncate::tail(&self.tail_text(), self.size(), TextLimits::TEXT)
    }

    pub(crate) fn finish(mut self) -> Finished {
        let truncation = self.so_far();
        // Invalid UTF-8 grows when it is converted to text.
        if truncation.truncated && matches!(self.full, Full::InTail) {
            self.save(&[]);
        }
        let full = match self.full {
            // Dropping the file removes it.
            _ if !truncation.truncated => None,
            Full::InTail => None,
            Full::InFile(spill) => Some(spill.close()),
            Full::Lost(err) => Some(Err(err)),
        };
        let (newlines, last_line_bytes) = (self.newlines, self.last_line_bytes);
        Finished { truncation, newlines, last_line_bytes, full }
    }

    fn count(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len();
        self.newlines += memchr::memchr_iter(b'\n', chunk).count();
        // The last line is the text after the last newline, unless the output ends with one.
        let (chunk, ended) = match chunk.split_last() {
            Some((b'\n', before)) => (before, true),
            _ => (chunk, false),
        };
        match memchr::memrchr(b'\n', chunk) {
            Some(newline) => self.last_line_bytes = chunk.len() - newline - 1,
            // A lone newline after a newline is an empty line.
            None if self.last_line_ended => self.last_line_bytes = chunk.len(),
            None => self.last_line_bytes += chunk.len(),
        }
        self.last_line_ended = ended;
    }

    fn size(&self) -> TextSize {
        let unfinished = self.bytes > 0 && !self.last_line_ended;
        TextSize { lines: self.newlines + usize::from(unfinished), bytes: self.bytes }
    }

    fn tail_text(&self) -> String {
        // The tail may begin inside a character.
        let cut = if self.tail.len() < self.bytes {
            self.tail.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count()
        } else {
            0
        };
        String::from_utf8_lossy(&self.tail[cut..]).into_owned()
    }

    fn save(&mut self, chunk: &[u8]) {
        if matches!(self.full, Full::InTail) {
            // So far the tail is the full output.
            self.full = match Spill::create("bash")
                .and_then(|mut spill| spill.write(&self.tail).map(|()| spill))
            {
                Ok(spill) => Full::InFile(spill),
                Err(err) => Full::Lost(err),
            };
        }
        if let Full::InFile(spill) = &mut self.full
            && let Err(err) = spill.write(chunk)
        {
            self.full = Full::Lost(err);
        }
    }
}

impl Finished {
    /// The note below a truncated text.
    pub(crate) fn note(&self) -> Option<String> {
        let shown = &self.truncation;
        let last = shown.total_lines;
        let what = match shown.truncated_by? {
            _ if shown.last_line_partial => format!(
                "Showing last {} of line {last} (line is {})",
                size_text(shown.output_bytes),
                size_text(self.last_line_bytes)
            ),
            cut => {
                let first = last - shown.output_lines + 1;
                let why = match cut {
                    TruncatedBy::Lines => String::new(),
                    TruncatedBy::Bytes => format!(" ({} limit)", size_text(MAX_BYTES)),
                };
                format!("Showing lines {first}-{last} of {last}{why}")
            }
        };
        let full = match &self.full {
            Some(Ok(path)) => format!(". Full output: {}", path.display()),
            Some(Err(err)) => format!(". Full output could not be saved: {err}"),
            None => String::new(),
        };
        Some(format!("[{what}{full}]"))
    }

    pub(crate) fn full_path(&self) -> Option<&Path> {
        self.full.as_ref()?.as_ref().ok().map(PathBuf::as_path)
    }
}

/// Stores a text that is too long for the model in a file that only the user can read. The file is
/// complete when its path is returned. Blocks.
pub fn save(program: &str, text: &str) -> io::Result<PathBuf> {
    let mut spill = Spill::create(program)?;
    spill.write(text.as_bytes())?;
    spill.close()
}

/// A file that is removed unless the result names it.
struct Spill {
    file: Option<BufWriter<File>>,
    path: PathBuf,
}

impl Spill {
    fn create(program: &str) -> io::Result<Spill> {
        loop {
            // The standard library's randomness for hash tables; the name only has to be unused.
            let name = format!("pi-{program}-{:016x}.log", RandomState::new().hash_one(0));
            let path = std::env::temp_dir().join(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    let file = Some(BufWriter::with_capacity(64 * 1024, file));
                    return Ok(Spill { file, path });
                }
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => (),
                Err(err) => return Err(err),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Flushes the file and keeps it.
    fn close(mut self) -> io::Result<PathBuf> {
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        self.file = None;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // The buffered rest is discarded together with the file.
            drop(file.into_parts());
            fs::remove_file(&self.path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    fn finish(pieces: &[&[u8]]) -> (Finished, Option<Vec<u8>>) {
        let mut output = Output::default();
        for piece in pieces {
            output.push(piece);
            assert!(output.tail.capacity() <= 8 * TAIL_BYTES, "memory grows with the output");
        }
        let finished = output.finish();
        let full = finished.full_path().map(|path| {
            let full = fs::read(path).unwrap();
            fs::remove_file(path).unwrap();
            full
        });
        (finished, full)
    }

    #[test]
    fn spill_file_has_the_full_output() {
        let piece = "0123456789abcdef é\n".repeat(5000);
        let pieces = [piece.as_bytes(); 20];
        let (finished, full) = finish(&pieces);
        assert_eq!(full.unwrap(), piece.repeat(20).as_bytes());
        assert_eq!(finished.truncation.total_lines, 100_000);
        assert_eq!(finished.truncation.total_bytes, piece.len() * 20);
    }

    #[test]
    fn short_output_creates_no_file() {
        let line = "x".repeat(MAX_BYTES);
        for text in [line.as_str(), &(line.clone() + "\n"), ""] {
            let (finished, full) = finish(&[text.as_bytes()]);
            assert_eq!((finished.truncation.content.as_str(), full), (text, None));
        }
    }

    #[test]
    fn invalid_utf8_counts_in_its_converted_length() {
        let bytes = vec![0xff; MAX_BYTES / 2];
        let (finished, full) = finish(&[&bytes]);
        assert!(finished.truncation.last_line_partial);
        assert_eq!(finished.truncation.content, "\u{fffd}".repeat(MAX_BYTES / 3));
        assert_eq!(full.unwrap(), bytes);
    }

    #[test]
    fn unreported_file_is_removed() {
        let mut output = Output::default();
        output.push(&[b'\n'; MAX_LINES + 1]);
        let Full::InFile(spill) = &output.full else { panic!("no file") };
        let path = spill.path.clone();
        assert!(path.exists());
        drop(output);
        assert!(!path.exists());
    }

    proptest! {
        #![proptest_config(cases(64))]

        /// Compares with truncating the whole text at once.
        #[test]
        fn result_does_not_depend_on_chunks(
            lines in prop::collection::vec("[a-é]{0,40}", 0..60),
            times in 1usize..90,
            newline in any::<bool>(),
            cuts in prop::collection::vec(1usize..150_000, 0..6),
        ) {
            let mut text = lines.join("\n").repeat(times);
            if newline { text.push('\n') }
            let whole = truncate::tail(&text, TextSize::of(&text), TextLimits::TEXT);
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            let (finished, full) = finish(&pieces);
            prop_assert_eq!(&finished.truncation, &whole);
            prop_assert_eq!(full, whole.truncated.then(|| text.clone().into_bytes()));
            let last = text.strip_suffix('\n').unwrap_or(&text).rsplit('\n').next().unwrap();
            prop_assert_eq!(finished.last_line_bytes, last.len());
        }
    }
}
