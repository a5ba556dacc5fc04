//! Any events, in frames, as an answer of Bedrock's.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tiller_llm::fuzzing::check("bedrock-converse-stream events", bytes));
