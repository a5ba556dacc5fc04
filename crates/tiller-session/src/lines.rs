//! A file taken apart into lines, a block of them at a time.

use std::io::{self, Read};
use std::ops::ControlFlow;

/// What stood after the last line end.
pub(crate) struct Tail {
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// Hands over the source in blocks of whole lines, and where each begins. A block is as long as
/// the buffer, or as its longest line.
pub(crate) fn blocks<B>(
    buffer_len: usize,
    mut source: impl Read,
    mut at: u64,
    mut take: impl FnMut(&[u8], u64) -> ControlFlow<B>,
) -> io::Result<ControlFlow<B, Tail>> {
    let mut buffer = vec![0; buffer_len];
    let mut filled = 0;
    // What was searched for a line end before, so that a long line is searched once.
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
        if let Some(found) = memchr::memrchr(b'\n', &buffer[searched..filled]) {
            let end = searched + found + 1;
            if let ControlFlow::Break(stop) = take(&buffer[..end], at) {
                return Ok(ControlFlow::Break(stop));
            }
            at += end as u64;
            buffer.copy_within(end..filled, 0);
            filled -= end;
        }
        searched = filled;
    }
    buffer.truncate(filled);
    Ok(ControlFlow::Continue(Tail { at, bytes: buffer }))
}

/// Hands over every line of the source that has an end.
pub(crate) fn lines<B>(
    buffer_len: usize,
    source: impl Read,
    mut take: impl FnMut(&[u8]) -> ControlFlow<B>,
) -> io::Result<ControlFlow<B, Tail>> {
    blocks(buffer_len, source, 0, |block, at| split(block, at).try_for_each(|(line, _)| take(line)))
}

/// The lines of a block, without blanks around them, and where each begins.
pub(crate) fn split(block: &[u8], at: u64) -> impl Iterator<Item = (&[u8], u64)> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', block).map(move |end| {
        let line = block[start..end].trim_ascii_start();
        let line_at = at + (end - line.len()) as u64;
        start = end + 1;
        (line.trim_ascii_end(), line_at)
    })
}

/// The block in about so many parts of about the same length, each of whole lines.
pub(crate) fn parts(block: &[u8], count: usize) -> Vec<&[u8]> {
    let wanted = block.len() / count + 1;
    let mut parts = Vec::new();
    let mut rest = block;
    while !rest.is_empty() {
        let from = wanted.min(rest.len()) - 1;
        let end = memchr::memchr(b'\n', &rest[from..]).map_or(rest.len(), |found| from + found + 1);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the source hands out its bytes and whatever the buffer, the lines are the same.
    #[test]
    fn lines_are_found_whatever_the_buffer() {
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
                let tail = blocks(buffer_len, Dribble(text, step), 5, |block, at| {
                    found.extend(split(block, at).map(|(line, at)| {
                        let start = at as usize - 5;
                        assert_eq!(&text[start..start + line.len()], line);
                        String::from_utf8(line.to_owned()).unwrap()
                    }));
                    ControlFlow::<()>::Continue(())
                });
                assert_eq!(found, ["one", "", "two", "a much longer line than the others", "four"]);
                let Ok(ControlFlow::Continue(tail)) = tail else { panic!("it went on to the end") };
                assert_eq!((tail.at, tail.bytes.as_slice()), (59, &b"tail"[..]));
            }
        }
    }

    #[test]
    fn parts_make_up_the_block() {
        let block = b"a\nbb\n\nccc\nd\ne\n";
        for count in 1..20 {
            let parts = parts(block, count);
            assert_eq!(parts.concat(), block);
            assert!(parts.len() <= count && parts.iter().all(|part| part.ends_with(b"\n")));
        }
        assert!(parts(b"", 3).is_empty());
    }
}
