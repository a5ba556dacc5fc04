//! The decoders as functions for the fuzz targets in `fuzz/`: bytes in, a listing out.
//!
//! The property under test: whatever the bytes are, decoding never panics, and the events do not
//! depend on how the network split the stream.

use tiller_agent::model::{Modality, Model, Price, ThinkingLevel};
use tiller_agent::provider::Request;

#[cfg(feature = "bedrock")]
use crate::bedrock::{self, framing::framed};
use crate::listing::decode;
use crate::stream::Api;
use crate::{anthropic, google, openai_completions, openai_responses};

/// The available APIs.
pub const APIS: &[&str] = &[
    "anthropic-messages",
    "openai-completions",
    "openai-responses",
    "google-generative-ai",
    // As sent over the network, and as events that are put into frames first: almost no mutation of
    // a frame gets past its checksum.
    #[cfg(feature = "bedrock")]
    "bedrock-converse-stream",
    #[cfg(feature = "bedrock")]
    "bedrock-converse-stream events",
];

/// Decodes the bytes in chunks of several sizes. Panics if the results differ.
pub fn check(api: &str, bytes: &[u8]) {
    let whole = listing(api, bytes, bytes.len());
    let any = bytes.iter().fold(bytes.len(), |sum, &byte| sum.wrapping_mul(31) + usize::from(byte));
    for chunk_bytes in [1, 7, 1 + any % 61] {
        assert_eq!(listing(api, bytes, chunk_bytes), whole, "{chunk_bytes} at a time");
    }
}

/// Decodes the bytes in chunks of this size and prints the events.
fn listing(api: &str, bytes: &[u8], chunk_bytes: usize) -> String {
    match api {
        "anthropic-messages" => list::<anthropic::Messages>(bytes, chunk_bytes),
        "openai-completions" => list::<openai_completions::Completions>(bytes, chunk_bytes),
        "openai-responses" => list::<openai_responses::Responses>(bytes, chunk_bytes),
        "google-generative-ai" => list::<google::GenerateContent>(bytes, chunk_bytes),
        #[cfg(feature = "bedrock")]
        "bedrock-converse-stream" => list::<bedrock::ConverseStream>(bytes, chunk_bytes),
        #[cfg(feature = "bedrock")]
        "bedrock-converse-stream events" => {
            let bytes = framed(&String::from_utf8_lossy(bytes));
            list::<bedrock::ConverseStream>(&bytes, chunk_bytes)
        }
        other => panic!("unknown decoder {other}"),
    }
}

fn list<A: Api>(bytes: &[u8], chunk_bytes: usize) -> String {
    decode(A::decoder(&request()), bytes, chunk_bytes)
}

fn request() -> Request {
    let model = Model {
        id: "fuzzed".into(),
        name: "fuzzed".into(),
        api: String::new(),
        provider: "fuzzed".into(),
        base_url: String::new(),
        reasoning: true,
        thinking_level_map: None,
        input: vec![Modality::Text],
        cost: Price::default(),
        context_window: 1000,
        max_tokens: 100,
        headers: Default::default(),
        compat: None,
    };
    Request {
        model: model.into(),
        system: "".into(),
        messages: Vec::new(),
        tools: Vec::new().into(),
        forced_tool: None,
        temperature: None,
        thinking: ThinkingLevel::Off,
        session_id: "fuzzed".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A small random generator: the same mutations in every run.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % sides.max(1) as u64) as usize
        }
    }

    /// Changes, drops, duplicates or swaps a few pieces.
    fn mutated(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
        const SPICE: [&[u8]; 8] =
            [b"\n\n", b"\r", b"data: ", b"{", b"\"", b"null", b"\xff", b"\\ud800"];
        let mut bytes = bytes.to_vec();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(bytes.len());
            let end = (at + dice.roll(40)).min(bytes.len());
            match dice.roll(4) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                2 => drop(bytes.splice(at..at, SPICE[dice.roll(SPICE.len())].iter().copied())),
                _ => bytes[at..end].reverse(),
            }
        }
        bytes
    }

    /// A short version of the fuzz targets: every recording, for every API.
    #[test]
    fn mutated_recordings_do_not_panic_or_depend_on_chunks() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut dice = Dice(0x7111e5);
        for path in paths {
            let recording = std::fs::read(&path).unwrap();
            for api in APIS {
                check(api, &recording);
                for _ in 0..12 {
                    check(api, &mutated(&recording, &mut dice));
                }
            }
            #[cfg(feature = "bedrock")]
            for _ in 0..12 {
                let frames = framed(&String::from_utf8_lossy(&recording));
                check("bedrock-converse-stream", &mutated(&frames, &mut dice));
            }
        }
    }
}
