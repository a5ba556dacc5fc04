//! Compression of whole buffers.

use std::io::Read;
use std::rc::Rc;

use flate2::Compression;
use flate2::read::{
    DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder,
};
use serde::Deserialize;

use super::waiting::{BlockingWait, in_background};
use super::{OpError, OpFuture, OpInput, OpOutput, OpReply, unknown};
use crate::engine_state::EngineState;

/// How much is read between two checks of the time limit.
const PIECE_BYTES: usize = 256 << 10;

pub(super) fn sync(state: &Rc<EngineState>, name: &str, op_input: OpInput) -> OpReply {
    state.blocking(|wait| work(name, op_input, wait))
}

pub(super) fn start(
    state: &Rc<EngineState>,
    name: &str,
    op_input: OpInput,
) -> Result<OpFuture, OpError> {
    let name = name.to_owned();
    Ok(in_background(state, move |wait| work(&name, op_input, wait)))
}

fn work(name: &str, op_input: OpInput, wait: &BlockingWait<'_>) -> OpReply {
    let Options { level } = op_input.read()?;
    let level = level.map_or(Compression::default(), |level| Compression::new(level.min(9)));
    let bytes = op_input.bytes();
    let input = bytes.as_slice();
    match name {
        "gzip" => read(GzEncoder::new(input, level), wait),
        "gunzip" => read(MultiGzDecoder::new(input), wait),
        "deflate" => read(ZlibEncoder::new(input, level), wait),
        "inflate" => read(ZlibDecoder::new(input), wait),
        "deflateRaw" => read(DeflateEncoder::new(input, level), wait),
        "inflateRaw" => read(DeflateDecoder::new(input), wait),
        // gzip or zlib, by the first bytes.
        "unzip" if input.starts_with(&[0x1f, 0x8b]) => read(MultiGzDecoder::new(input), wait),
        "unzip" => read(ZlibDecoder::new(input), wait),
        _ => Err(unknown(name)),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Options {
    level: Option<u32>,
}

fn read(mut from: impl Read, wait: &BlockingWait<'_>) -> OpReply {
    let mut hold = wait.memory.hold(0)?;
    let mut output = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if (wait.is_over)() {
            return Err(OpError::new("interrupted"));
        }
        let count = from.read(&mut piece);
        let count = count.map_err(|err| OpError::coded("Z_DATA_ERROR", err.to_string()))?;
        if count == 0 {
            return Ok(OpOutput::Bytes(output));
        }
        hold.grow(count)?;
        output.extend(&piece[..count]);
    }
}
