//! Decodes any events, in frames, as a Bedrock answer.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tiller_llm::fuzzing::check("bedrock-converse-stream events", bytes));
