//! Compressed data embedded in the page, as text that contains no markup.

use std::io::{self, Write};

use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Writes deflated base64 without a header: what a browser's `DecompressionStream("deflate-raw")`
/// takes.
pub(crate) struct Pack<W: Write> {
    deflate: DeflateEncoder<EncoderWriter<'static, GeneralPurpose, W>>,
}

impl<W: Write> Pack<W> {
    pub(crate) fn begin(out: W) -> Pack<W> {
        let base64 = EncoderWriter::new(out, &STANDARD);
        Pack { deflate: DeflateEncoder::new(base64, Compression::fast()) }
    }

    pub(crate) fn end(self) -> io::Result<W> {
        self.deflate.finish()?.finish()
    }
}

impl<W: Write> Write for Pack<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.deflate.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Flushing early would cost bytes.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use flate2::read::DeflateDecoder;

    use super::*;

    #[test]
    fn what_was_packed_can_be_unpacked() {
        let mut pack = Pack::begin(Vec::new());
        let text = "the same words, the same words, </script> ".repeat(5000);
        for piece in text.as_bytes().chunks(977) {
            pack.write_all(piece).unwrap();
        }
        let packed = pack.end().unwrap();
        assert!(packed.len() < text.len() / 20, "{}", packed.len());
        assert!(packed.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)));
        let deflated = STANDARD.decode(packed).unwrap();
        let mut unpacked = String::new();
        DeflateDecoder::new(&*deflated).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }
}
