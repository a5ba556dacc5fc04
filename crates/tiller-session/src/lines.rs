//! Splits a file into lines.

use std::io::{self, Read};
use std::ops::ControlFlow;

/// The text after the last line end.
pub(crate) struct Tail {
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// Calls `each` with every terminated line of the source, trimmed, and its offset. The buffer grows
/// to the longest line.
pub(crate) fn lines<B>(
    buffer_len: usize,
    mut source: impl Read,
    mut at: u64,
    mut take: impl FnMut(&[u8], u64) -> ControlFlow<B>,
) -> io::Result<ControlFlow<B, Tail>> {
    let mut buffer = vec![0; buffer_len];
    let mut filled = 0;
    // How much of the line was already searched for a line end, so that a long line is searched
    // once.
    let mut searched = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        }
        let mut start = 0;
        for found in memchr::memchr_iter(b'\n', &buffer[searched..filled]) {
            let end = searched + found;
            let line = buffer[start..end].trim_ascii_start();
            let line_at = at + (end - line.len()) as u64;
            if let ControlFlow::Break(stop) = take(line.trim_ascii_end(), line_at) {
                return Ok(ControlFlow::Break(stop));
            }
            start = end + 1;
        }
        if start > 0 {
            at += start as u64;
            buffer.copy_within(start..filled, 0);
            filled -= start;
        }
        searched = filled;
    }
    buffer.truncate(filled);
    Ok(ControlFlow::Continue(Tail { at, bytes: buffer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines do not depend on the size of the source's chunks or of the buffer.
    #[test]
    fn lines_do_not_depend_on_chunk_or_buffer_size() {
        struct Dribble<'a>(&'a [u8], usize);
        impl Read for Dribble<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let len = self.1.min(buffer.len()).min(self.0.len());
                buffer[..len].copy_from_slice(&self.0[..len]);
                self.0 = &self.0[len..];
                Ok(len)
            }
        }
        let text = b"one\n\n  two\r\n a much longer line than the others \nfour\ntail";
        for buffer_len in [1, 2, 7, 100] {
            for step in [1, 3, 100] {
                let mut found = Vec::new();
                let tail = lines(buffer_len, Dribble(text, step), 5, |line, at| {
                    let start = at as usize - 5;
                    assert_eq!(&text[start..start + line.len()], line);
                    found.push(String::from_utf8(line.to_owned()).unwrap());
                    ControlFlow::<()>::Continue(())
                });
                assert_eq!(found, ["one", "", "two", "a much longer line than the others", "four"]);
                let Ok(ControlFlow::Continue(tail)) = tail else { panic!("it went on to the end") };
                assert_eq!((tail.at, tail.bytes.as_slice()), (59, &b"tail"[..]));
            }
        }
    }
}
