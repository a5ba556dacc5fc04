//! Compression, whole buffers at a time.

use std::io::{self, Read};
use std::rc::Rc;

use flate2::Compression;
use flate2::read::{
    DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder,
};
use serde::Deserialize;

use super::{Answer, Asked, Failed, Given, Later, unknown};
use crate::core::Core;

/// The most that may come out of it.
const OUTPUT_MAX_BYTES: u64 = 512 << 20;

pub(super) fn sync(name: &str, asked: Asked) -> Answer {
    let Options { level } = asked.read()?;
    let level = level.map_or(Compression::default(), Compression::new);
    let bytes = asked.bytes();
    let input = bytes.as_slice();
    let output = match name {
        "gzip" => read(GzEncoder::new(input, level)),
        "gunzip" => read(MultiGzDecoder::new(input)),
        "deflate" => read(ZlibEncoder::new(input, level)),
        "inflate" => read(ZlibDecoder::new(input)),
        "deflateRaw" => read(DeflateEncoder::new(input, level)),
        "inflateRaw" => read(DeflateDecoder::new(input)),
        // Either kind, by its first bytes.
        "unzip" if input.starts_with(&[0x1f, 0x8b]) => read(MultiGzDecoder::new(input)),
        "unzip" => read(ZlibDecoder::new(input)),
        _ => return Err(unknown(name)),
    };
    output.map(Given::Bytes).map_err(|err| Failed::coded("Z_DATA_ERROR", err.to_string()))
}

pub(super) fn start(core: &Rc<Core>, name: &str, asked: Asked) -> Result<Later, Failed> {
    let name = name.to_owned();
    let work = core.config.runtime.spawn_blocking(move || sync(&name, asked));
    Ok(Box::pin(async move { work.await.unwrap_or_else(|err| Err(Failed::new(err.to_string()))) }))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    level: Option<u32>,
}

fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    from.take(OUTPUT_MAX_BYTES).read_to_end(&mut output)?;
    Ok(output)
}
